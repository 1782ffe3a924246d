"""Where a photo was taken, from verified matches whose position is known.

An estimate is made only if photos close together match well, and hardly any match lies elsewhere: a
wrong one is worse than none. `benchmarks/locate.py` measures both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.images.exif import Position
from solar.matching.match import inliers_needed
from solar.ranking.verify import VerifySettings
from solar.storage.conditions import Condition
from solar.storage.geo import Area, distances, in_space, on_ground

if TYPE_CHECKING:
    from solar.index.search import Searchable, SearchSettings

TOGETHER = 250.0
"""Photos of one place were taken within this many metres."""

LEAST_RADIUS = 100.0
"""Metres: satellites and the distance to what a photo shows allow for no less."""

_TWO = inliers_needed("numbers", wrong=1e-6)
_ONE = 2 * _TWO  # of a photo that no other confirms
_ANYWHERE = Condition("near", "=", Area(0.0, 0.0, 2.1e7))  # known positions, wherever they are


@dataclass(frozen=True)
class Witness:
    """A matching photo with a position."""

    path: str
    position: Position
    inliers: int  # keypoints that match
    absolute: str | None = None


@dataclass(frozen=True)
class Location:
    """Where a photo was taken, or why that is unknown.

    Attributes:
        position: Latitude and longitude in degrees; None if there is not enough evidence.
        radius: Distance in metres within which the matching photos were taken.
        photos: Those photos, the best match first; without a position, all that match.
        reason: Why there is no position.
    """

    position: Position | None
    radius: float | None
    photos: tuple[Witness, ...] = ()
    reason: str = ""

    def __bool__(self) -> bool:
        return self.position is not None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"located": bool(self), **asdict(self)}


def find_location(index: Searchable, query: Any, settings: SearchSettings) -> Location:
    """Estimate where a photo was taken; see `solar.locate`."""
    verify = settings.verify or VerifySettings()
    settings = replace(settings, k=verify.top, verify=verify, where=[_ANYWHERE])
    *_, last = index.stages(query, settings)
    hits = last.hits
    matching = [hit for hit in hits if hit.same_scene]
    known = index.engine.find([hit.path for hit in matching])
    witnesses = [
        Witness(hit.path, position, hit.inliers or 0, hit.absolute)
        for hit in matching
        if hit.path in known and (position := known[hit.path].position) is not None
    ]
    return judged(sorted(witnesses, key=lambda one: -one.inliers))


def judged(witnesses: Sequence[Witness]) -> Location:
    """The place that photos with matching keypoints agree on; the best match comes first."""
    if not witnesses:
        return _unknown("no photo with a position matches this one")
    positions = np.array([one.position for one in witnesses])
    points = np.array([one.inliers for one in witnesses])
    close = np.array([distances(one.position, positions) <= TOGETHER for one in witnesses])
    group = close[int((close @ points).argmax())]
    mine = [one for one, inside in zip(witnesses, group, strict=True) if inside]
    if mine[0].inliers < _ONE and (len(mine) < 2 or mine[1].inliers < _TWO):
        return _unknown("photos with a position match this one in too few points", witnesses)
    if points[~group].sum() > points[group].sum() / 2:
        return _unknown("photos of different places match this one", witnesses)
    # In space, so that ±180° is no border.
    north, east = on_ground(points[group] @ in_space(positions[group]))
    position = round(north, 7), round(east, 7)
    radius = max(float(distances(position, positions[group]).max()), LEAST_RADIUS)
    return Location(position, round(radius), tuple(mine))


def _unknown(reason: str, witnesses: Sequence[Witness] = ()) -> Location:
    return Location(None, None, tuple(witnesses), f"not enough evidence: {reason}")
