"""Decoding of photos into rows of a file; free of torch, so that worker processes start fast."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.errors import SolarError
from solar.images import Photos, load


def square(photos: Photos, number: int, side: int) -> tuple[npt.NDArray[np.uint8], float]:
    """Decode a photo, upright and squashed into (side, side, 3) bytes, with its aspect ratio."""
    photo = load(photos.read(number), 2 * side, mode="fast")
    pixels = photo.pixels
    if pixels.shape[:2] != (side, side):
        image = Image.fromarray(pixels)
        pixels = np.asarray(image.resize((side, side), Image.Resampling.BICUBIC))
    return pixels, photo.width / photo.height


def fill(file: Path, start: int, photos: Photos) -> tuple[list[float], list[str | None]]:
    """Decode photos into the rows of a `.npy` file, (n, side, side, 3) bytes, from `start` on.

    Returns the aspect ratio of each photo, and why it could not be read, if so.
    """
    rows = np.load(file, mmap_mode="r+")
    aspects = [1.0] * len(photos)
    reasons: list[str | None] = [None] * len(photos)
    for number in range(len(photos)):
        try:
            rows[start + number], aspects[number] = square(photos, number, rows.shape[1])
        except SolarError as error:
            reasons[number] = str(error)
    return aspects, reasons
