"""Positions on earth: how far apart they are, and which lie within a distance of one."""

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles, Flags
from solar.errors import SolarError
from solar.files import is_text
from solar.images.exif import Position, valid_position

_EARTH = 6_371_008.8  # mean radius in metres: the ellipsoid differs by half a percent at most
_NUMBER = r"[+-]?\d{1,3}(?:\.\d*)?"
_AREA = re.compile(rf"\s*({_NUMBER})\s*,\s*({_NUMBER})\s*,\s*(\d{{1,8}}(?:\.\d*)?)\s*(m|km)\s*")


def distances(position: Position, others: npt.ArrayLike) -> Doubles:
    """Metres from a position to others (n, 2), along the ground: (n,)."""
    there = np.radians(np.asarray(others, np.float64).reshape(-1, 2))
    latitude, longitude = np.radians(position)
    across = np.sin((there[:, 0] - latitude) / 2) ** 2
    along = np.sin((there[:, 1] - longitude) / 2) ** 2
    inside = across + np.cos(latitude) * np.cos(there[:, 0]) * along
    metres: Doubles = 2 * _EARTH * np.arcsin(np.sqrt(np.clip(inside, 0, 1)))
    return metres


def in_space(positions: npt.ArrayLike) -> Doubles:
    """Positions (n, 2) as points (n, 3) in metres from the centre of the earth; NaN stays NaN."""
    latitude, longitude = np.radians(np.asarray(positions, np.float64).reshape(-1, 2)).T
    across = np.cos(latitude)
    points = [across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)]
    return _EARTH * np.stack(points, axis=1)


def on_ground(point: npt.ArrayLike) -> Position:
    """The position below or above a point (3,) in space; the inverse of `in_space`."""
    x, y, z = np.asarray(point, np.float64)
    north, east = np.degrees([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)])
    return float(north), float(east)


def straight(metres: float) -> float:
    """The straight distance in space of two points that are `metres` apart along the ground."""
    return 2 * _EARTH * math.sin(min(metres / (2 * _EARTH), math.pi / 2))


@dataclass(frozen=True, slots=True)
class Area:
    """Everything within a distance of a position."""

    latitude: float
    longitude: float
    metres: float

    @property
    def latitudes(self) -> tuple[float, float]:
        """Its southern and northern end, with a little to spare."""
        reach = math.degrees(self.metres / _EARTH) * 1.001 + 1e-7
        return self.latitude - reach, self.latitude + reach

    def holds(self, positions: npt.ArrayLike) -> Flags:
        """Which of the positions (n, 2) lie in it: (n,)."""
        return distances((self.latitude, self.longitude), positions) <= self.metres

    def __str__(self) -> str:
        return f"{self.latitude:g},{self.longitude:g},{self.metres:g}m"


def parse_area(text: str) -> Area:
    """Read an area such as `48.858,2.294,500m` or `48.858,2.294,2km`."""
    found = _AREA.fullmatch(text) if is_text(text) else None
    if found:
        latitude, longitude, reach = map(float, found.groups()[:3])
        if valid_position(latitude, longitude):
            return Area(latitude, longitude, reach * (1000 if found[4] == "km" else 1))
    raise SolarError(
        f"near={text} is not understood: write latitude, longitude and a distance in metres or "
        "kilometres, as in near=48.858,2.294,500m."
    )
