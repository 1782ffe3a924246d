"""Colours and lettering of pictures: two colour maps as tables of 256, and text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

# Near black, violet, red, orange, pale yellow, with equal steps of lightness (in Oklab), for every
# 17th level. The page in the browser has the same.
_EMBER = (
    (5, 3, 24), (22, 4, 47), (46, 3, 68), (74, 0, 84), (106, 0, 93),
    (137, 0, 93), (163, 0, 89), (187, 31, 83), (210, 56, 75), (231, 80, 64),
    (246, 109, 58), (255, 138, 52), (255, 168, 55), (255, 199, 82), (255, 228, 133),
    (254, 254, 183),
)  # fmt: skip


def _ember() -> NDArray[np.uint8]:
    levels = np.arange(256)
    return _bytes(
        np.stack([np.interp(levels, levels[::17], c) for c in np.transpose(_EMBER)], 1) / 255
    )


def _jet() -> NDArray[np.uint8]:
    """Blue, cyan, yellow, red: the map of the published pictures."""
    level = np.linspace(0, 1, 256)[:, None]
    rgb = (1.5 - np.abs(4 * level - np.array([3, 2, 1]))).clip(0, 1)
    return _bytes(rgb)


def _bytes(rgb: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.asarray((255 * rgb).round(), np.uint8)


COLOURS: dict[str, NDArray[np.uint8]] = {"ember": _ember(), "jet": _jet()}
"""Tables (256, 3) of RGB by name."""


def colour(values: NDArray[np.floating[Any]], name: str = "ember") -> NDArray[np.uint8]:
    """Map values of any shape linearly to a colour map: that shape and three channels."""
    low, high = float(values.min()), float(values.max())
    level = (values - low) * (255 / (high - low)) if high > low else np.zeros_like(values)
    coloured: NDArray[np.uint8] = COLOURS[name][level.round().astype(np.uint8)]
    return coloured


FOR, AGAINST = (255, 138, 0), (38, 110, 255)
"""The colours of evidence for and against a match."""


def signed(values: NDArray[np.floating[Any]], most: float) -> NDArray[np.uint8]:
    """Colour values: `FOR` above zero, `AGAINST` below, and their opacity, full at `most`."""
    colours = np.where(values[..., None] > 0, FOR, AGAINST)
    opacity = 255 * (np.abs(values) / max(most, 1e-30)).clip(0, 1)[..., None]
    return np.concatenate([colours, opacity.round()], axis=-1).astype(np.uint8)


Colour = tuple[int, int, int]

INK: Colour = (32, 32, 36)
SOFT: Colour = (104, 104, 112)
PAPER: Colour = (255, 255, 255)


def wide(text: str, size: int) -> int:
    """Width of a text in pixels."""
    return round(_font(size).getlength(text))


def short(text: str, room: int, size: int) -> str:
    """Shorten a text in its middle if it is wider than `room` pixels."""
    if wide(text, size) <= room:
        return text
    for cut in range(len(text) - 1, 1, -1):
        cropped = f"{text[: cut // 2]}…{text[-(cut - cut // 2) :]}"
        if wide(cropped, size) <= room:
            return cropped
    return "…"


def write(
    picture: Image.Image,
    at: tuple[int, int],
    text: str,
    size: int,
    colour: Colour = INK,
    edge: int = 0,
) -> None:
    """Write a text into a picture, its upper left corner at `at`, with a dark edge so wide."""
    draw = ImageDraw.Draw(picture)
    draw.text(at, text, colour, _font(size), stroke_width=edge, stroke_fill=INK)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
