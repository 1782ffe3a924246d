"""EXIF: which way up a photo is, and where, when and with what it was taken.

No pixel is decoded. Cameras and programs write much that makes no sense: it is ignored, and nothing
here raises an error.
"""

import io
import math
import struct
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from solar.images.boxes import Box
from solar.images.readable import Source, opened

N = TypeVar("N", int, float)

Position: TypeAlias = tuple[float, float]
"""Latitude and longitude in degrees (WGS 84), north and east positive."""

_NAME_LENGTH = 100
_CENTIMETRE = 7  # decimals of a degree

# From stored pixels to the upright photo; 1 and anything unknown need nothing.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_PNG_METADATA = {b"IHDR", b"eXIf", b"iTXt", b"tEXt", b"zTXt", b"IEND"}


def orientation_of(image: Image.Image) -> int:
    """The orientation to be applied, 1 to 8."""
    if image.format == "TIFF":  # Pillow turns it on loading, and tells the turned size before
        return 1
    try:
        value = exif_of(image).get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF raises anything, and is no reason to refuse the photo
        return 1
    return value if value in _TURNS else 1


def exif_of(image: Image.Image) -> Image.Exif:
    """The EXIF of an image, without decoding pixels; damaged EXIF raises anything."""
    return _png_exif(image) if image.format == "PNG" else image.getexif()


def upright_size(image: Image.Image, orientation: int) -> tuple[int, int]:
    """Width and height of the upright photo."""
    return image.size if orientation < 5 else (image.height, image.width)


def turned(image: Image.Image, orientation: int) -> Image.Image:
    """Stored pixels made upright."""
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


def upright_box(photo: Source, box: Box) -> Box:
    """Take a box of a photo's pixels as they are stored to the upright photo."""
    with opened(photo) as image:
        orientation = orientation_of(image)
        upright = upright_size(image, orientation)
    # The way back is that of the opposite turn.
    return stored_box(box, {6: 8, 8: 6}.get(orientation, orientation), upright)


def stored_box(
    box: tuple[N, N, N, N], orientation: int, stored: tuple[int, int]
) -> tuple[N, N, N, N]:
    """Take a box of the upright photo to the pixels as they are stored."""
    corners = stored_points(np.reshape(box, (2, 2)), orientation, stored)
    (x1, x2), (y1, y2) = np.sort(corners, axis=0).T.tolist()
    return x1, y1, x2, y2


def stored_points(
    points: NDArray[np.floating[Any]], orientation: int, stored: tuple[int, int]
) -> NDArray[np.floating[Any]]:
    """Take points (n, 2) of the upright photo to the pixels as they are stored: `stored_box`."""
    x, y = points.T if orientation < 5 else points.T[::-1]
    width, height = stored
    if orientation in (2, 3, 7, 8):
        x = width - x
    if orientation in (3, 4, 6, 7):
        y = height - y
    return np.stack([x, y], axis=1)


def _png_exif(image: Image.Image) -> Image.Exif:
    """Read the EXIF of a PNG without its pixels, all of which Pillow would decode."""
    stream = getattr(image, "fp", None)
    if stream is None or stream.closed or "exif" in image.info:
        return Image.Image.getexif(image)
    position = stream.tell()
    stream.seek(0)
    metadata = bytearray(stream.read(8))
    while len(start := stream.read(8)) == 8:
        length, kind = struct.unpack(">I4s", start)
        if kind in _PNG_METADATA:
            metadata += start + stream.read(length + 4)
        else:
            stream.seek(length + 4, io.SEEK_CUR)
    stream.seek(position)
    with Image.open(io.BytesIO(metadata)) as pixelless:
        return Image.Image.getexif(pixelless)


class ExifFacts(NamedTuple):
    """Facts from a photo's EXIF; None where unknown."""

    taken: str | None = None  # local time, as 2019-07-14T18:30:00
    position: Position | None = None
    camera: str | None = None


def exif_facts(photo: Source) -> ExifFacts:
    """Time, place and camera of a photo, as far as it is readable."""
    try:
        with opened(photo) as image:
            exif = exif_of(image)
            details = _folder(exif, ExifTags.IFD.Exif)
            place = _folder(exif, ExifTags.IFD.GPSInfo)
            facts = dict(exif)
    except Exception:  # damaged EXIF raises anything, and is no reason to refuse the photo
        return ExifFacts()
    return ExifFacts(_taken(details), _position(place), _camera(facts))


def exposure_facts(photo: Source) -> dict[str, str]:
    """Lens, focal length, aperture, exposure time and ISO in words, as far as they are readable."""
    tags = ExifTags.Base
    try:
        with opened(photo) as image:
            details = _folder(exif_of(image), ExifTags.IFD.Exif)
    except Exception:  # as above
        return {}
    length, f, time = (
        _positive(details.get(tag)) for tag in (tags.FocalLength, tags.FNumber, tags.ExposureTime)
    )
    iso = details.get(tags.ISOSpeedRatings)
    speed = _positive(iso[0] if isinstance(iso, tuple) and iso else iso)
    facts = {
        "lens": _text(details.get(tags.LensModel)),
        "focal_length": f"{length:.3g} mm" if length else "",
        "aperture": f"f/{f:.2g}" if f else "",
        "exposure": (f"1/{1 / time:.0f} s" if time < 0.4 else f"{time:.2g} s") if time else "",
        "iso": f"{speed:.0f}" if speed else "",
    }
    return {name: value for name, value in facts.items() if value}


def _positive(value: Any) -> float:
    """A number, or 0 where there is no sensible one."""
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return 0.0
    return number if 0 < number < 1e7 else 0.0


def valid_position(latitude: float, longitude: float) -> bool:
    """Whether these are degrees of a place on earth."""
    return abs(latitude) <= 90 and abs(longitude) <= 180  # which is false for nan


def _folder(exif: Any, name: int) -> Mapping[int, Any]:
    try:
        return dict(exif.get_ifd(name))
    except Exception:
        return {}


def _taken(details: Mapping[int, Any]) -> str | None:
    text = str(details.get(ExifTags.Base.DateTimeOriginal)).strip("\0 ")
    try:
        return datetime.strptime(text, "%Y:%m:%d %H:%M:%S").isoformat()
    except ValueError:
        return None


def _position(place: Mapping[int, Any]) -> Position | None:
    gps = ExifTags.GPS
    latitude = _degrees(place.get(gps.GPSLatitude), place.get(gps.GPSLatitudeRef), "NS")
    longitude = _degrees(place.get(gps.GPSLongitude), place.get(gps.GPSLongitudeRef), "EW")
    # Cameras write zeros before they have found a satellite.
    if not valid_position(latitude, longitude) or (latitude, longitude) == (0, 0):
        return None
    return latitude, longitude


def _degrees(parts: Any, side: Any, sides: str) -> float:
    letter = (side.decode("latin-1") if isinstance(side, bytes) else str(side)).strip("\0 ").upper()
    try:
        degrees, minutes, seconds = (*map(float, parts), 0.0, 0.0)[:3]
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return math.nan
    sensible = min(degrees, minutes, seconds) >= 0 and minutes < 60 and seconds <= 60
    if not sensible or len(letter) != 1 or letter not in sides:
        return math.nan
    sign = 1 if letter == sides[0] else -1
    return round(sign * (degrees + minutes / 60 + seconds / 3600), _CENTIMETRE)


def _camera(facts: Mapping[int, Any]) -> str | None:
    maker, model = (_text(facts.get(tag)) for tag in (ExifTags.Base.Make, ExifTags.Base.Model))
    if not model or not maker or model.lower().startswith(maker.lower().split()[0]):
        return model or maker or None  # most models name their maker, too
    return f"{maker} {model}"[:_NAME_LENGTH]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return " ".join("".join(c if c.isprintable() else " " for c in value).split())[:_NAME_LENGTH]
