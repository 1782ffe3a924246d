"""The table of the metadata that says where photos were taken, and with which camera.

A photo of which neither is known has no row in it.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from solar.arrays import RowNumbers
from solar.images.exif import ExifFacts
from solar.storage.geo import Area, NoPositionsError

Execute: TypeAlias = Callable[..., Any]
"""A connection's `execute` or `executemany`."""


def within(execute: Execute, area: Area) -> RowNumbers:
    """The rows of the photos taken in an area; a SolarError if no photo has a position."""
    found = execute(
        "SELECT row, latitude, longitude FROM places WHERE latitude BETWEEN ? AND ?", area.latitudes
    ).fetchall()
    known = "SELECT row FROM places WHERE latitude IS NOT NULL LIMIT 1"
    if not found and execute(known).fetchone() is None:
        raise NoPositionsError
    rows = np.array([row for row, *_ in found], np.int64)
    return rows[area.holds([position for _, *position in found])]


def where_and_when(execute: Execute) -> dict[str, Any]:
    """How many photos have a time, a position or a camera, and from where to where."""
    count, *times = execute("SELECT count(taken), min(taken), max(taken) FROM photos").fetchone()
    positions, cameras, south, north, west, east = execute(
        "SELECT count(latitude), count(camera), min(latitude), max(latitude), "
        "min(longitude), max(longitude) FROM places"
    ).fetchone()
    facts: dict[str, Any] = {"with_time": count, "with_position": positions, "with_camera": cameras}
    facts |= {"taken": times} if count else {}
    facts |= {"latitude": [south, north], "longitude": [west, east]} if positions else {}
    return facts


def tell(executemany: Execute, facts: Iterable[tuple[int, ExifFacts]]) -> None:
    """Note what is known of photos, by row; of what is not, what was known before stays."""
    known = [(row, *(f.position or (None, None)), f.camera, f.taken) for row, f in facts]
    executemany(
        "INSERT INTO places VALUES (?, ?, ?, ?) ON CONFLICT (row) DO UPDATE SET "
        "latitude = ifnull(excluded.latitude, latitude), "
        "longitude = ifnull(excluded.longitude, longitude), "
        "camera = ifnull(excluded.camera, camera)",
        [one[:4] for one in known if any(fact is not None for fact in one[1:4])],
    )
    executemany(
        "UPDATE photos SET taken = ? WHERE row = ?",
        [(one[4], one[0]) for one in known if one[4] is not None],
    )


def place_of(
    latitude: float | None, longitude: float | None, camera: str | None
) -> tuple[Any, ...]:
    """Position and camera of a photo; None for what is not known."""
    return None if latitude is None or longitude is None else (latitude, longitude), camera
