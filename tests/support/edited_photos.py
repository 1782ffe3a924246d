"""A small collection with every relation that `solar duplicates` tells apart, and its index."""

from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageDraw, ImageOps
from support.unit_rows import unit_rows
from support.warped import toy_photo, turned

from solar.images import Roots
from solar.index import Index

SIZE = (320, 240)
EXPECTED = {
    "exact": "exact",
    "quality": "copy",
    "half": "copy",
    "crop": "crop",
    "mirror": "copy",
    "turn": "copy",
    "colour": "copy",
    "text": "copy",
    "frame": "copy",
    "moment": "burst",
    "later": "place",
}
"""What became of the photo of that number, and how the two are related."""


QUALITY = {"quality": 30}
TIMES = {"moment": "10:00:02", "later": "11:00:00"}
"""When those were taken; the photos they belong to at 10."""


def edited_photos(folder: Path) -> Path:
    """Ten photos, and beside each what was done to it, in `edited/`; two more are alone."""
    (folder / "edited").mkdir(parents=True)
    for number in range(len(EXPECTED) + 2):
        photo = Image.fromarray(toy_photo(number, SIZE))
        photo.save(folder / f"{number:02}.png", exif=_taken("10:00:00"))
    for number, edit in enumerate(EXPECTED):
        photo = Image.open(folder / f"{number:02}.png")
        made, suffix = _edited(photo, edit)
        file, time = folder / "edited" / f"{number:02}{suffix}", TIMES.get(edit)
        made.save(
            file, quality=QUALITY.get(edit, 90), **({} if time is None else {"exif": _taken(time)})
        )
    return folder


def _taken(time: str) -> bytes:
    exif = Image.Exif()
    exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = f"2020:05:01 {time}"
    return exif.tobytes()


def _edited(photo: Image.Image, edit: str) -> tuple[Image.Image, str]:
    width, height = photo.size
    match edit:
        case "exact":
            return photo, ".tiff"
        case "half":
            return photo.resize((width // 2, height // 2), Image.Resampling.LANCZOS), ".jpg"
        case "crop":
            return photo.crop((40, 30, 280, 210)), ".jpg"
        case "mirror":
            return ImageOps.mirror(photo), ".jpg"
        case "turn":
            return photo.transpose(Image.Transpose.ROTATE_90), ".jpg"
        case "colour":
            return ImageOps.autocontrast(photo.point(lambda level: level * 0.7)), ".jpg"
        case "text":
            made = photo.copy()
            ImageDraw.Draw(made).text((20, 100), "sunny morning", "white", font_size=30)
            return made, ".jpg"
        case "frame":
            return ImageOps.expand(photo, 30, "white"), ".jpg"
        case "moment" | "later":
            return Image.fromarray(turned(np.array(photo))[0]), ".jpg"
    return photo, ".jpg"


def edited_index(photos: Path, place: Path, names: list[str] | None = None) -> Path:
    """An index whose vectors say which photos are alike, so that no network is needed."""
    names = names or sorted(file.relative_to(photos).as_posix() for file in photos.rglob("*.*"))
    own = unit_rows(0, 20, 32).numpy()
    noise = 0.2 * unit_rows(1, len(names), 32).numpy()
    numbers = [int(Path(name).stem) for name in names]
    vectors = own[numbers] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    Index.create(place, vectors.astype(np.float32), names, roots=Roots.at(photos)).close()
    return place
