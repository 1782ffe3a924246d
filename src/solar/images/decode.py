"""A photo file becomes RGB pixels: exactly as the published code reads it, or faster.

The published code opens a photo with Pillow and calls ``convert("RGB")``. That is kept, so colours,
dropped alpha and ignored colour profiles are the same, except where it would silently describe
something else than the photo:

- EXIF orientation is applied; ``orient=False`` restores the published behaviour.
- 16-bit grey is scaled to 8 bits, where Pillow clips all but the darkest 256 levels to white.
- A truncated file is refused. The published code sets Pillow's global ``LOAD_TRUNCATED_IMAGES`` and
  describes the grey that fills the missing part. This package does not touch that switch.
"""

import contextlib
import importlib
import io
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError, features

from solar.errors import SolarError
from solar.images.boxes import Box, crop, pixel_box
from solar.images.orientation import orientation_of, stored_box, turned, upright_size
from solar.images.resize import REDUCING_GAP, query_size, thumbnail, thumbnail_size

Source = str | Path | bytes | Image.Image | NDArray[np.generic]
"""A path, the bytes of a file, an opened image, or an array (h, w), (h, w, 3) or (h, w, 4)."""

MAX_PIXELS = 178_956_970
"""Largest photo decoded by default: half a gigabyte of RGB, and where Pillow itself refuses."""

FAST_GAP = 1.5
"""Fast mode decodes a JPEG at no less than this multiple of the size it is asked for.

Measured by ``benchmarks/decode.py`` on tiled photos, the hardest texture: 45 dB against exact mode
just above 1.5, and 40 dB just above 1.0. A gap of 2 would leave 12-megapixel photos, at 3.9 times
the usual 1024 pixels, without any gain. Pillow's own decoder does the scaling: simplejpeg takes as
long at equal scale, and a fifth less with its finer scales, too little for a second JPEG decoder.
"""

_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_pillow_limit = threading.Lock()


class ImageError(SolarError):
    """A photo that cannot be read, told in one sentence that names it."""


@dataclass(frozen=True, eq=False, slots=True)
class DecodedImage:
    """A photo ready to be described; its pixels are writable and owned by nobody else."""

    pixels: NDArray[np.uint8]  # (h, w, 3) RGB after box and thumbnail
    width: int  # of the whole (oriented) photo, like its height
    height: int


def read_image(source: Source, *, orient: bool = True, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Read a whole photo.

    JPEG, PNG, WebP, TIFF, GIF (first frame), AVIF and what else Pillow decodes; HEIC where
    pillow-heif is installed. Alpha is dropped, not blended, because the published code does so.

    Args:
        source: A path, the bytes of a file, an image (not changed), or a uint8 or uint16 array.
        orient: Turn the photo upright by its EXIF orientation. The published code does not. (TIFF
            and HEIC are upright either way, because their decoders turn them.)
        max_pixels: Refuse larger photos before their pixels are decoded.

    Returns:
        An RGB image; ``source`` itself if it is an upright RGB image already.

    Raises:
        ImageError: If there is no such file, it is no photo, is damaged or cut short, is larger
            than ``max_pixels``, or stores 32-bit samples, whose white is not defined.
    """
    with _opened(source) as image:
        _check_pixels(image, source, max_pixels)
        return _decoded(image, source, orient)


def image_size(source: Source, *, orient: bool = True) -> tuple[int, int]:
    """Width and height of ``read_image(source, orient=orient)``, from the header alone.

    An ImageError if there is no such file, or it is no photo.
    """
    with _opened(source) as image:
        return upright_size(image, orientation_of(image) if orient else 1)


def load(
    source: Source,
    size: int | None,
    *,
    box: Box | None = None,
    orient: bool = True,
    mode: Literal["exact", "fast"] = "exact",
    max_pixels: int = MAX_PIXELS,
) -> DecodedImage:
    """Read a photo, turn it upright, cut out a box and shrink the rest, in this order.

    Args:
        source: As for ``read_image``.
        size: Limit for the longer side of the whole photo, or None to keep every pixel. A box is
            shrunk by the same factor as its photo.
        box: Left, top, right, bottom in pixels of the upright photo (of the stored photo where
            ``orient`` is off).
        orient: Turn the photo upright by its EXIF orientation.
        mode: ``"exact"`` gives the pixels of the published code. ``"fast"`` lets the JPEG decoder
            do part of the shrinking for photos at least three times too large, with the same shape
            and nearly the same pixels; every other photo is read exactly.
        max_pixels: Refuse larger photos before their pixels are decoded.

    Raises:
        ImageError: As for ``read_image``.
        SolarError: If the box misses the photo, or ``mode`` or ``size`` makes no sense.
    """
    if mode not in ("exact", "fast"):
        raise SolarError(f"Decoding mode {mode!r} is unknown: choose 'exact' or 'fast'.")
    with _opened(source) as image:
        _check_pixels(image, source, max_pixels)
        # Scaling reconfigures the opened file, so never one that belongs to the caller.
        scalable = image.format in ("JPEG", "MPO") and not isinstance(source, Image.Image)
        if mode == "fast" and size is not None and scalable:
            photo = _load_scaled(image, source, size, box, orient)
            if photo is not None:
                return photo
        image = _decoded(image, source, orient)
    width, height = image.size
    limit: float | None = size
    if box is not None:
        image = crop(image, box)
        limit = size and query_size((width, height), image.size, size)
    if limit is not None:
        image = thumbnail(image, limit)
    return DecodedImage(np.array(image), width, height)


# Fast mode


def _load_scaled(
    image: Image.Image, source: Source, size: int, box: Box | None, orient: bool
) -> DecodedImage | None:
    """Decode at 1/2, 1/4 or 1/8 and finish with Lanczos; None where that would lose detail."""
    orientation = orientation_of(image) if orient else 1
    width, height = upright_size(image, orientation)
    x1, y1, x2, y2 = (0, 0, width, height) if box is None else pixel_box(box, width, height)
    limit = size if box is None else query_size((width, height), (x2 - x1, y2 - y1), size)
    target = thumbnail_size(x2 - x1, y2 - y1, limit)
    spare = min((x2 - x1) / target[0], (y2 - y1) / target[1]) / FAST_GAP
    factor = next((f for f in (8, 4, 2) if f <= spare), None)
    if factor is None:
        return None
    # Resize what is stored and turn the small result: turning is exact, and cheaper there. The box
    # also leaves out the fraction of a pixel by which the decoder rounds the scaled size up.
    stored = stored_box((x1, y1, x2, y2), orientation, image.size)
    image.draft(None, (image.width // factor, image.height // factor))
    small = _rgb(image, source).resize(
        target if orientation < 5 else target[::-1],
        Image.Resampling.LANCZOS,
        box=(stored[0] / factor, stored[1] / factor, stored[2] / factor, stored[3] / factor),
        reducing_gap=REDUCING_GAP,
    )
    return DecodedImage(np.array(turned(small, orientation)), width, height)


# Pixels


def _decoded(image: Image.Image, source: Source, orient: bool) -> Image.Image:
    orientation = orientation_of(image) if orient else 1
    image.load()
    return turned(_rgb(image, source), orientation)


def _rgb(image: Image.Image, source: Source) -> Image.Image:
    if image.mode == "RGB":  # convert() would copy it: a fifth of the time of a large photo
        return image
    # Older Pillow opens 16-bit PNG in the 32-bit mode, as every Pillow does 16-bit PGM.
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return Image.fromarray(_eight_bits(np.asarray(image))).convert("RGB")
    if image.mode in ("I", "F"):
        raise ImageError(
            f"{_name(source)} stores 32-bit samples, whose white level is not defined: "
            "convert it to 8 or 16 bits first."
        )
    if isinstance(image.info.get("transparency"), bytes):
        # Dropped like every alpha; without this Pillow warns that it was.
        image = image.copy()
        del image.info["transparency"]
    return image.convert("RGB")


def _eight_bits(samples: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Scale 0..65535 to 0..255, rounding to nearest."""
    return ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _check_pixels(image: Image.Image, source: Source, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels:
        raise ImageError(
            f"{_name(source)} claims {width:,} x {height:,} pixels, more than the limit of "
            f"{max_pixels:,}: shrink it, or raise max_pixels if you trust it."
        )


# Opening


@contextlib.contextmanager
def _opened(source: Source) -> Iterator[Image.Image]:
    """Open a photo with its header read; what Pillow raises inside becomes an ImageError."""
    with contextlib.ExitStack() as closing:
        try:
            if isinstance(source, Image.Image):
                image = source
            elif isinstance(source, np.ndarray):
                image = _from_array(source)
            else:
                image = _identified(closing.enter_context(_stream(source)), source)
            yield image
        except SolarError:
            raise
        except MemoryError as error:
            raise ImageError(f"{_name(source)} does not fit into memory: shrink it.") from error
        except Exception as error:
            # Pillow's plugins meet damaged files with OSError, SyntaxError, ValueError, KeyError,
            # struct.error and more, so no shorter list would be complete.
            raise ImageError(
                f"{_name(source)} is damaged or cut short ({str(error).rstrip('.')}): "
                "get a complete copy of it."
            ) from error


def _stream(source: str | Path | bytes) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    if not isinstance(source, str | os.PathLike):
        raise ImageError(
            f"A photo is a path, bytes, a PIL image or an array, not {type(source).__name__}."
        )
    path = Path(source)
    try:
        if path.is_dir():
            raise ImageError(f"{path} is a folder: name a photo in it.")
        return path.open("rb")
    except FileNotFoundError as error:
        raise ImageError(f"There is no photo {path}: check the path.") from error
    except PermissionError as error:
        raise ImageError(f"{path} may not be read: check its permissions.") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path} cannot be opened: {error}.") from error


def _identified(stream: BinaryIO, source: Source) -> Image.Image:
    head = stream.read(1024)
    if not head:
        raise ImageError(f"{_name(source)} is empty: get a complete copy of it.")
    image = _pillow_open(stream)
    if image is None and head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS:
        try:
            importlib.import_module("pillow_heif").register_heif_opener()
        except ImportError as error:
            raise ImageError(
                f'{_name(source)} is HEIC: pip install "solar-retrieval[heic]" to read it.'
            ) from error
        image = _pillow_open(stream)
    # EPS is refused because Pillow would hand it to an interpreter, Ghostscript.
    drawing = "SVG" if image is None and b"<svg" in head.lower() else image and image.format
    if drawing in ("SVG", "EPS", "WMF"):
        raise ImageError(
            f"{_name(source)} is a drawing ({drawing}), not a photo: export it as PNG."
        )
    if image is None and head[4:12] == b"ftypavif" and not features.check("avif"):
        raise ImageError(f'{_name(source)} is AVIF: pip install "pillow>=11.3" to read it.')
    if image is None:
        raise ImageError(
            f"{_name(source)} is not a photo that can be read: its content is not JPEG, PNG, WebP, "
            "TIFF, GIF, AVIF or HEIC, or is damaged from the start."
        )
    return image


def _pillow_open(stream: BinaryIO) -> Image.Image | None:
    """Read the header of a photo; None where Pillow does not know this kind of file."""
    try:
        stream.seek(0)
        return Image.open(stream)
    except UnidentifiedImageError:
        return None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        # Pillow's limit belongs to the whole process, ours to the call. It is lifted only for the
        # moment in which the header of a photo it refuses is read again; then ours decides.
        with _pillow_limit:
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                stream.seek(0)
                return Image.open(stream)
            finally:
                Image.MAX_IMAGE_PIXELS = limit


def _from_array(array: NDArray[np.generic]) -> Image.Image:
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if not shaped or 0 in array.shape or array.dtype not in (np.uint8, np.uint16):
        raise ImageError(
            f"An array of shape {array.shape} and type {array.dtype} is not a photo: "
            "give uint8 or uint16 as (h, w), (h, w, 3) or (h, w, 4)."
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return Image.fromarray(array if array.dtype == np.uint8 else _eight_bits(array))


def _name(source: Source) -> str:
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "The photo given as bytes" if isinstance(source, bytes) else "The photo in memory"
