"""A photo as a small grey square, to rule out duplicates quickly."""

import numpy as np
from PIL import Image

from solar.arrays import Pixels
from solar.images.decode import DecodedImage, load
from solar.images.opening import Source

SIDE = 32
"""Pixels of a side."""


def small_picture(photo: Source) -> tuple[Pixels, int, int]:
    """The whole upright photo squeezed into (32, 32) grey pixels, and its width and height.

    An ImageError if it cannot be read.
    """
    image = load(photo, 2 * SIDE, mode="fast")
    return squeezed(image), image.width, image.height


def squeezed(image: DecodedImage) -> Pixels:
    """The same from a photo that is decoded already."""
    grey = Image.fromarray(image.pixels).convert("L")
    return np.asarray(grey.resize((SIDE, SIDE), Image.Resampling.BOX))
