"""Colours and lettering of pictures: two colour maps as tables of 256, and text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

# Björn Ottosson's Oklab, in which equal steps of lightness look equal: to cone responses, and on
# to linear sRGB.
_OKLAB_TO_CONES = np.array([
    [1, 0.3963377774, 0.2158037573],
    [1, -0.1055613458, -0.0638541728],
    [1, -0.0894841775, -1.2914855480],
])  # fmt: skip
_CONES_TO_RGB = np.array([
    [4.0767416621, -3.3077115913, 0.2309699292],
    [-1.2684380046, 2.6097574011, -0.3413193965],
    [-0.0041960863, -0.7034186147, 1.7076147010],
])  # fmt: skip


def _ember() -> NDArray[np.uint8]:
    """Near black, violet, red, orange, pale yellow, with equal steps of lightness."""
    level = np.linspace(0, 1, 256)
    lightness = 0.12 + 0.86 * level
    hue = np.radians(np.interp(level, [0, 0.35, 0.7, 1], [285, 350, 405, 468]))
    chroma = np.interp(level, [0, 0.3, 0.6, 0.85, 1], [0.05, 0.19, 0.19, 0.155, 0.09])
    lab = np.stack([lightness, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)
    linear = ((lab @ _OKLAB_TO_CONES.T) ** 3 @ _CONES_TO_RGB.T).clip(0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return _bytes(encoded)


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
    picture: Image.Image, at: tuple[int, int], text: str, size: int, colour: Colour = INK
) -> None:
    """Write a text into a picture, its upper left corner at `at`."""
    ImageDraw.Draw(picture).text(at, text, colour, _font(size))


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
