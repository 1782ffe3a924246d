"""Edits of photos as people and programs make them, drawn from a seed."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from PIL import ExifTags, Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

Edit = Callable[[Image.Image, Random], Image.Image]

WORDS = ("sunny", "market", "morning", "harbour", "offer", "tomorrow", "family", "garden", "visit")


def _crop(share: float) -> Edit:
    """Part of a photo: this share of its area."""

    def edit(photo: Image.Image, random: Random) -> Image.Image:
        width, height = (round(side * share**0.5) for side in photo.size)
        left, top = random.randint(0, photo.width - width), random.randint(0, photo.height - height)
        return photo.crop((left, top, left + width, top + height))

    return edit


def _half(photo: Image.Image, random: Random) -> Image.Image:
    return photo.resize((photo.width // 2, photo.height // 2), Image.Resampling.LANCZOS)


def _turned(photo: Image.Image, random: Random) -> Image.Image:
    way = random.choice([Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270])
    return photo.transpose(way)


def _recoloured(photo: Image.Image, random: Random) -> Image.Image:
    for kind in (ImageEnhance.Brightness, ImageEnhance.Color, ImageEnhance.Contrast):
        photo = kind(photo).enhance(
            random.choice([random.uniform(0.6, 0.8), random.uniform(1.2, 1.5)])
        )
    return photo


def _text(photo: Image.Image, random: Random) -> Image.Image:
    photo = photo.copy()
    draw = ImageDraw.Draw(photo)
    height = photo.height
    font = ImageFont.load_default(size=height / random.uniform(8, 12))
    for _ in range(random.randint(1, 3)):
        place = random.uniform(0, 0.4) * photo.width, random.uniform(0, 0.85) * height
        text = " ".join(random.sample(WORDS, 3))
        colour = random.choice(["white", "yellow", "red"])
        draw.text(
            place, text, colour, font, stroke_width=max(height // 128, 1), stroke_fill="black"
        )
    return photo


def _border(photo: Image.Image, random: Random) -> Image.Image:
    wide = round(max(photo.size) * random.uniform(0.05, 0.12))
    return ImageOps.expand(photo, wide, random.choice(["white", "black", "#774411"]))


def _screenshot(photo: Image.Image, random: Random) -> Image.Image:
    """A photo inside the window of a program, with bars, buttons and a margin."""
    side, bar = round(photo.width * random.uniform(0.05, 0.25)), photo.height // 8
    screen = Image.new("RGB", (photo.width + 2 * side, photo.height + 3 * bar), "#e8e8ea")
    draw = ImageDraw.Draw(screen)
    draw.rectangle((0, 0, screen.width, bar), "#30343c")
    font = ImageFont.load_default(size=bar / 2)
    draw.text((bar * 2, bar / 4), " ".join(random.sample(WORDS, 3)), "white", font)
    for number in range(3):
        left = bar / 4 + number * bar / 2
        draw.ellipse(
            (left, bar / 3, left + bar / 3, bar * 2 / 3), ("red", "orange", "green")[number]
        )
    for number in range(4):
        left = side + number * photo.width / 4
        low = screen.height - bar * 0.8
        draw.rectangle((left, low, left + photo.width / 6, low + bar / 2), "#b8bcc8")
    screen.paste(photo, (side, round(bar * 1.5)))
    return screen


def _scaled(factor: float) -> Edit:
    def edit(photo: Image.Image, random: Random) -> Image.Image:
        width, height = (round(side * factor) for side in photo.size)
        return photo.resize((width, height), Image.Resampling.BICUBIC)

    return edit


def _same(photo: Image.Image, random: Random) -> Image.Image:
    return photo


EDITS: dict[str, Edit] = {
    "JPEG quality 30": _same,
    "half size": _half,
    "crop to 70 %": _crop(0.7),
    "crop to 40 %": _crop(0.4),
    "mirror": lambda photo, random: ImageOps.mirror(photo),
    "turn by 90°": _turned,
    "brightness and colour": _recoloured,
    "text overlay": _text,
    "border": _border,
    "screenshot with frame": _screenshot,
}
"""What is done to a photo; the result is saved as JPEG. Crops leave that share of the area."""

SAVED: dict[str, Edit] = {
    "enlarged by half": _scaled(1.5),
    "GIF": _same,
    "CMYK": lambda photo, random: photo.convert("CMYK"),
    "PNG": _same,
    "turned by EXIF": _same,
    "JPEG quality 95": _same,
    "blurred": lambda photo, random: photo.filter(ImageFilter.GaussianBlur(1.2)),
    "sharpened": lambda photo, random: photo.filter(ImageFilter.SHARPEN),
    "WebP": _same,
}
"""More that programs do to files when they save them."""

TOLD = (
    *("JPEG quality 30", "half size", "enlarged by half", "crop to 70 %", "crop to 40 %", "mirror"),
    *("turned by EXIF", "GIF", "CMYK", "PNG", "border", "screenshot with frame"),
)
"""Edits of which a file or its pixels tell which was first."""

DEEPER: dict[str, Edit] = {"crop to 40 % of each side": _crop(0.16)}
"""Beyond what is asked for: the other way to read it, 16 % of the area."""

_QUALITY = {"JPEG quality 30": 30, "JPEG quality 95": 95, "WebP": 80}
_SUFFIX = {"GIF": ".gif", "PNG": ".png", "WebP": ".webp"}
_LYING = {6: Image.Transpose.ROTATE_90, 8: Image.Transpose.ROTATE_270}


def write_edit(photo: Image.Image, edit: str, seed: str, folder: Path, stem: str) -> Path:
    """Write the edited photo into a folder, unless it is there, and return its file."""
    file = folder / (stem + _SUFFIX.get(edit, ".jpg"))
    if not file.exists():
        random, exif = Random(seed), Image.Exif()
        made = (EDITS | SAVED | DEEPER)[edit](photo, random)
        if edit == "turned by EXIF":
            exif[ExifTags.Base.Orientation] = random.choice(list(_LYING))
            made = made.transpose(_LYING[exif[ExifTags.Base.Orientation]])
        made.save(file, quality=_QUALITY.get(edit, 90), exif=exif.tobytes() if exif else b"")
    return file
