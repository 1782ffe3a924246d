"""Words in pictures, in the one font that is always there."""

from PIL import Image, ImageDraw, ImageFont

Colour = tuple[int, int, int]

INK: Colour = (32, 32, 36)
SOFT: Colour = (104, 104, 112)
PAPER: Colour = (255, 255, 255)


def wide(text: str, size: int) -> int:
    """Width of a text in pixels."""
    return round(_font(size).getlength(text))


def short(text: str, room: int, size: int) -> str:
    """The text, its middle left out where it is wider than `room`."""
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
