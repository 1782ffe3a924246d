"""Where and when a photo was taken and with what, as its EXIF says; no pixel is decoded.

Cameras and programs write much that makes no sense. What does not is not known: nothing here
raises an error.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from PIL import ExifTags

from solar.images.opening import Source, opened
from solar.images.orientation import exif_of

Position: TypeAlias = tuple[float, float]
"""Latitude and longitude in degrees (WGS 84), north and east positive."""

_NAME_LENGTH = 100
_CENTIMETRE = 7  # decimals of a degree


class ExifFacts(NamedTuple):
    """What a photo says of itself; None where it does not."""

    taken: str | None = None  # local time, as 2019-07-14T18:30:00
    position: Position | None = None
    camera: str | None = None


def exif_facts(photo: Source) -> ExifFacts:
    """All that is known of a photo: a path, the bytes of a file, …; nothing if it is damaged."""
    try:
        with opened(photo) as image:
            exif = exif_of(image)
            details = _folder(exif, ExifTags.IFD.Exif)
            place = _folder(exif, ExifTags.IFD.GPSInfo)
            facts = dict(exif)
    except Exception:  # damaged EXIF raises anything, and is no reason to refuse the photo
        return ExifFacts()
    return ExifFacts(_taken(details), _position(place), _camera(facts))


def taken(photo: Source) -> str | None:
    """When a photo was taken, by the clock of its camera, as `2019-07-14T18:30:00`."""
    return exif_facts(photo).taken


def position(photo: Source) -> Position | None:
    """Latitude and longitude of where a photo was taken, in degrees."""
    return exif_facts(photo).position


def camera(photo: Source) -> str | None:
    """What a photo was taken with, as `Canon EOS 5D`."""
    return exif_facts(photo).camera


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
    # Cameras that have not found a satellite yet write zeros.
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
