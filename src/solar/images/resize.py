"""The published rule for shrinking photos, and squares for models trained on them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from solar.errors import SolarError
from solar.images.boxes import Box, pixel_box

REDUCING_GAP = 2.0
"""Pillow shrinks by whole factors first and leaves at least this factor to Lanczos."""


@dataclass(frozen=True)
class Square:
    """How a photo becomes a square, for models that were trained on squares alone."""

    # The shorter side before the middle is cut out, as a multiple of the square's, at least 1;
    # None squeezes the photo into the square instead.
    shorter: float | None = None
    resample: int = 3  # Pillow's filter: 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic

    def cut(self, image: Image.Image, size: int) -> Image.Image:
        """A photo as ``size`` × ``size`` pixels: enlarged where it is smaller."""
        if size < 1:
            raise SolarError(f"A photo cannot be resized to a square of {size} pixels.")
        if self.shorter is None:
            return image.resize((size, size), self.resample)
        least = round(self.shorter * size)
        # Cut the ends off a long strip, which would fill the memory and are not in the middle.
        image = _middle(image, *(min(side, 16 * min(image.size)) for side in image.size))
        width, height = (int(least * side / min(image.size)) for side in image.size)
        return _middle(image.resize((width, height), self.resample), size, size)


def thumbnail(image: Image.Image, size: float) -> Image.Image:
    """Shrink a photo until its longer side is at most ``size``; a small one is returned itself.

    Equal, bit for bit, to the published ``image.thumbnail((size, size), LANCZOS)``. A SolarError if
    ``size`` is below one pixel or not finite.
    """
    target = thumbnail_size(*image.size, size)
    if target == image.size:
        return image
    return image.resize(target, Image.Resampling.LANCZOS, reducing_gap=REDUCING_GAP)


def thumbnail_size(width: int, height: int, size: float) -> tuple[int, int]:
    """Width and height of what ``thumbnail`` will give, each at least 1; errors are the same."""
    if not math.isfinite(size) or size < 1:
        raise SolarError(
            f"A photo or box cannot be shrunk to {size:g} pixels: "
            "choose a larger size, or a larger box."
        )
    limit = math.floor(size)
    if max(width, height) <= limit:
        return width, height
    aspect = width / height
    if aspect <= 1:
        return _better(limit * aspect, lambda n: abs(aspect - n / limit)), limit
    return limit, _better(limit / aspect, lambda n: abs(aspect - limit / n) if n else 0.0)


def reduced(
    upright: tuple[int, int], size: float, box: Box | None
) -> tuple[tuple[int, int, int, int], tuple[int, int]]:
    """The box of a photo in whole pixels, all of it by default, and the size it is shrunk to."""
    if box is None:
        return (0, 0, *upright), thumbnail_size(*upright, size)
    left, top, right, bottom = pixel_box(box, *upright)
    cut = right - left, bottom - top
    return (left, top, right, bottom), thumbnail_size(*cut, query_size(upright, cut, size))


def query_size(full: tuple[int, int], crop: tuple[int, int], size: float) -> float:
    """The thumbnail limit that gives a box of size ``crop`` its photo's scale, not rounded."""
    return size * max(crop) / max(full)


def _middle(image: Image.Image, width: int, height: int) -> Image.Image:
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def _better(side: float, error: Callable[[int], float]) -> int:
    return max(min(math.floor(side), math.ceil(side), key=error), 1)
