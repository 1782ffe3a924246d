"""The part of a photo that a query asks for: a box in pixels, its text form and its crop."""

import math

from PIL import Image

from solar.errors import SolarError

Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels of the oriented photo; right and bottom are exclusive."""


def parse_box(text: str) -> Box:
    """Read a box written as ``x1,y1,x2,y2``; a SolarError if it is malformed or empty."""
    try:
        box = tuple(float(part) for part in text.split(","))
    except ValueError:
        box = ()
    if len(box) != 4 or not all(map(math.isfinite, box)):
        raise SolarError(
            f"Box {text!r} is not four numbers: write x1,y1,x2,y2 in pixels, as in 41,30,280,201."
        )
    x1, y1, x2, y2 = box
    if x1 >= x2 or y1 >= y2:
        raise SolarError(
            f"Box {text!r} encloses nothing: x1 must be less than x2, and y1 less than y2."
        )
    return x1, y1, x2, y2


def pixel_box(box: Box, width: int, height: int) -> tuple[int, int, int, int]:
    """Round a box to whole pixels as Pillow does, inside a photo; a SolarError if none is left."""
    if len(box) != 4 or not all(map(math.isfinite, box)):
        raise SolarError(f"Box {_written(box)} is not four finite numbers x1,y1,x2,y2.")
    # Halves go to the even neighbour, as in the crop of the published code.
    x1, y1, x2, y2 = (round(float(edge)) for edge in box)
    if x1 >= x2 or y1 >= y2:
        raise SolarError(f"Box {_written(box)} is empty: it encloses no whole pixel.")
    x1, y1, x2, y2 = max(x1, 0), max(y1, 0), min(x2, width), min(y2, height)
    if x1 >= x2 or y1 >= y2:
        raise SolarError(
            f"Box {_written(box)} lies outside the photo, which is {width} x {height} pixels."
        )
    return x1, y1, x2, y2


def crop(image: Image.Image, box: Box) -> Image.Image:
    """Cut a box out of a photo; a SolarError as for ``pixel_box``.

    Inside the photo this is the published crop, bit for bit. Beyond the border the published code
    pads with black, which would be described as part of the object; here the box is clipped.
    """
    return image.crop(pixel_box(box, *image.size))


def _written(box: Box) -> str:
    return ",".join(f"{edge:g}" for edge in box)
