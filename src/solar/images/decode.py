"""Photo files to RGB pixels, exactly as the published code reads them or faster.

The published code opens a photo with Pillow and calls ``convert("RGB")``. Colours, dropped alpha
and ignored colour profiles are the same here; three things differ:

- EXIF orientation is applied; ``orient=False`` restores the published behaviour.
- 16-bit grey is scaled to 8 bits, where Pillow clips all but the darkest 256 levels to white.
- A truncated file is refused. The published code sets Pillow's global ``LOAD_TRUNCATED_IMAGES`` and
  describes the grey that fills the missing part.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from solar.errors import SolarError
from solar.images.boxes import Box, crop
from solar.images.exif import orientation_of, stored_box, turned, upright_size
from solar.images.raw import FORMAT as RAW
from solar.images.readable import ImageError, Source, eight_bits, name_of, opened, path_name
from solar.images.resize import REDUCING_GAP, Square, query_size, reduced, thumbnail

MAX_PIXELS = 178_956_970
"""Largest photo decoded by default: half a gigabyte of RGB, and where Pillow itself refuses."""

Mode = Literal["exact", "auto", "fast"]

GAPS: Mapping[Mode, float] = {"auto": 2.0, "fast": 1.5}
"""At no less than this multiple of the target size a JPEG is decoded, unless exactly.

1.5 is measured by ``benchmarks/decode.py`` on tiled photos, the hardest texture: 45 dB against
exact mode just above 1.5, and 40 dB just above 1.0. A gap of 2 leaves 12-megapixel photos, at 3.9
times the 1024 pixels of published models, without any gain.
"""

LEAST_SIDE = 8
"""Pixels that the shorter side of a photo must have to be described, after it was reduced."""


@dataclass(frozen=True, eq=False, slots=True)
class DecodedImage:
    """A photo ready to be described; its pixels are writable and not shared."""

    pixels: NDArray[np.uint8]  # (h, w, 3) RGB after box and thumbnail
    width: int  # of the whole (oriented) photo, like its height
    height: int


def read_image(
    source: Source, *, orient: bool = True, max_pixels: int | None = None
) -> Image.Image:
    """Read a whole photo as RGB; ``source`` itself if it is an upright RGB image already.

    JPEG, PNG, WebP, TIFF, GIF (first frame), HEIC, AVIF and others that Pillow decodes; of a
    camera's RAW file the JPEG preview in it. Alpha is dropped, not blended, as in the published
    code.

    Args:
        source: See `Source`.
        orient: Turn the photo upright by its EXIF orientation. The published code does not. (TIFF
            and HEIC are upright either way, because their decoders turn them.)
        max_pixels: Refuse larger photos before their pixels are decoded; default: MAX_PIXELS.

    Raises:
        ImageError: There is no such file, it is no photo, is damaged or cut short,
            larger than ``max_pixels``, stores 32-bit samples, or a tensor has values out of range.
    """
    with opened(source) as image:
        _check_pixels(image, source, max_pixels)
        return _decoded(image, source, orient)


def image_size(source: Source, *, orient: bool = True) -> tuple[int, int]:
    """Width and height of ``read_image(source, orient=orient)``, from the header alone."""
    with opened(source) as image:
        return upright_size(image, orientation_of(image) if orient else 1)


def load(
    source: Source,
    size: int | None,
    *,
    box: Box | None = None,
    orient: bool = True,
    mode: Mode = "exact",
    max_pixels: int | None = None,
    square: Square | None = None,
) -> DecodedImage:
    """Read a photo, turn it upright, cut out a box and shrink the rest, in this order.

    Args:
        source: As for ``read_image``, like ``orient`` and ``max_pixels``.
        size: Limit for the longer side of the whole photo, or None to keep every pixel. A box is
            shrunk by the same factor as its photo.
        box: In pixels of the upright photo (of the stored photo where ``orient`` is off).
        orient: See ``read_image``.
        mode: ``"exact"`` gives the pixels of the published code. ``"auto"`` lets the JPEG decoder
            do part of the shrinking for photos at least four times too large, with the same shape
            and nearly the same pixels, ``"fast"`` for those at least three times too large; every
            other photo is read exactly.
        max_pixels: See ``read_image``.
        square: Make a square of ``size`` pixels of the rest, always exactly.

    Raises:
        ImageError: As for ``read_image``; or too little is left to make a square of.
        SolarError: If the box misses the photo, or ``mode`` or ``size`` makes no sense.
    """
    if mode not in get_args(Mode):
        raise SolarError(
            f"Decoding mode {mode!r} is unknown: choose {' or '.join(get_args(Mode))}."
        )
    with opened(source) as image:
        _check_pixels(image, source, max_pixels)
        # Scaling reconfigures the opened file, so never one that belongs to the caller.
        scalable = image.format in ("JPEG", "MPO", RAW) and not isinstance(source, Image.Image)
        if mode != "exact" and size is not None and square is None and scalable:
            photo = _load_scaled(image, source, size, box, orient, GAPS[mode])
            if photo is not None:
                return photo
        image = _decoded(image, source, orient)
    width, height = image.size
    limit: float | None = size
    if box is not None:
        image = crop(image, box)
    if square is not None and size is not None:
        check_visible(*image.size, source)
        return DecodedImage(np.array(square.cut(image, size)), width, height)
    if box is not None:
        limit = size and query_size((width, height), image.size, size)
    if limit is not None:
        image = thumbnail(image, limit)
    return DecodedImage(np.array(image), width, height)


def check_visible(
    width: int,
    height: int,
    source: Source | None = None,
    *,
    scales: Iterable[float] = (),
    least: int = 1,
) -> None:
    """Refuse a photo that is too small, after box and thumbnail, to be described at all scales."""
    side = min(width, height)
    if side < LEAST_SIDE or int(side * min(scales, default=1)) < least:
        raise ImageError(
            f"{path_name(source) or 'The photo'} has {width} × {height} pixels to describe, and "
            f"needs at least {max(LEAST_SIDE, ceil(least / min(scales, default=1)))} per side."
        )


def _load_scaled(
    image: Image.Image, source: Source, size: int, box: Box | None, orient: bool, gap: float
) -> DecodedImage | None:
    """Decode at 1/2, 1/4 or 1/8 and finish with Lanczos; None where that would lose detail."""
    orientation = orientation_of(image) if orient else 1
    width, height = upright_size(image, orientation)
    (x1, y1, x2, y2), target = reduced((width, height), size, box)
    spare = min((x2 - x1) / target[0], (y2 - y1) / target[1]) / gap
    factor = next((f for f in (8, 4, 2) if f <= spare), None)
    if factor is None:
        return None
    # Resize before turning, which is cheaper for the small result. The box also leaves out the
    # fraction of a pixel by which the decoder rounds the scaled size up.
    stored = stored_box((x1, y1, x2, y2), orientation, image.size)
    image.draft(None, (image.width // factor, image.height // factor))
    small = _rgb(image, source).resize(
        target if orientation < 5 else target[::-1],
        Image.Resampling.LANCZOS,
        box=(stored[0] / factor, stored[1] / factor, stored[2] / factor, stored[3] / factor),
        reducing_gap=REDUCING_GAP,
    )
    return DecodedImage(np.array(turned(small, orientation)), width, height)


def _decoded(image: Image.Image, source: Source, orient: bool) -> Image.Image:
    orientation = orientation_of(image) if orient else 1
    image.load()
    return turned(_rgb(image, source), orientation)


def _rgb(image: Image.Image, source: Source) -> Image.Image:
    if image.mode == "RGB":  # convert() would copy it: a fifth of the time of a large photo
        return image
    # Older Pillow opens 16-bit PNG in the 32-bit mode, as every Pillow does 16-bit PGM.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return Image.fromarray(eight_bits(np.asarray(image))).convert("RGB")
    if image.mode in ("I", "F"):
        raise ImageError(
            f"{name_of(source)} stores 32-bit samples, whose white level is not defined: "
            "convert it to 8 or 16 bits first."
        )
    if isinstance(image.info.get("transparency"), bytes):
        # Dropped like every alpha, without Pillow's warning.
        image = image.copy()
        del image.info["transparency"]
    return image.convert("RGB")


def _check_pixels(image: Image.Image, source: Source, max_pixels: int | None) -> None:
    width, height = image.size
    limit = MAX_PIXELS if max_pixels is None else max_pixels
    if width * height > limit:
        raise ImageError(
            f"{name_of(source)} claims {width:,} x {height:,} pixels, more than the limit of "
            f"{limit:,}: downscale it, or raise the limit if you trust it "
            "(`max_pixels=`)."
        )
