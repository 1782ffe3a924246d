"""What `solar duplicates` found, as a file: groups of photos, and how each pair is related.

A report is plain JSON with a group a line, see `solar.search.lined_report`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from solar import __version__
from solar.images import Roots
from solar.search.lined_report import read_head, read_lines, understood, write_lined, write_table

FORMAT = "solar-duplicates-1"

KINDS = ("exact", "copy", "crop", "burst", "place")
"""How two photos may be related, the closest first."""

COPIES = KINDS[:3]
"""The kinds in which one photo is made from another, so that one of the two is enough."""

Mapping3x3: TypeAlias = tuple[tuple[float, float, float], ...]
"""A homography between two upright photos, whose sides count as 1: (0, 0) is the upper left."""

_WRONG = "is not a report of solar duplicates, or is damaged: write it again"


@dataclass(frozen=True)
class DuplicatePhoto:
    """A photo of a group.

    Attributes:
        name: Its name in the collection.
        width: Pixels of the upright photo, like its height.
        height: See width.
        bytes: Size of its file.
        taken: When, by the clock of its camera, as `2019-07-14T18:30:00`; None if nobody knows.
        sharpness: How fine its details are: the mean step between neighbouring pixels where they
            are strongest, in grey levels, once the photo has a fixed size.
        keep: Whether it is one to keep.
        why: The reason, in words.
    """

    name: str
    width: int
    height: int
    bytes: int
    taken: str | None = None
    sharpness: float = 0.0
    keep: bool = True
    why: str = ""


@dataclass(frozen=True)
class DuplicatePair:
    """How two photos of a group are related.

    Attributes:
        a: The number of one photo in its group.
        b: That of the other; of a crop, the part.
        kind: One of `KINDS`.
        how: What was done, as far as it shows: `mirrored, re-encoded`.
        score: Cosine similarity of the descriptors; None where they were not compared.
        mapping: Takes relative coordinates of a to those of b; None where it is not known.
        covers: The share of a, and of b, that the other shows.
        difference: How much the pixels differ where both show the same, 0 to 1, after brightness
            and contrast were made alike.
        inliers: How many keypoints agree; None where none were needed.
        why: All of that in words.
    """

    a: int
    b: int
    kind: str
    how: str
    score: float | None = None
    mapping: Mapping3x3 | None = None
    covers: tuple[float, float] = (1.0, 1.0)
    difference: float | None = None
    inliers: int | None = None
    why: str = ""


@dataclass(frozen=True)
class DuplicateGroup:
    """Photos that are related by one kind, or more closely.

    Attributes:
        kind: The loosest kind among the pairs that hold the group together.
        photos: Those to keep first.
        pairs: How they are related; every photo is in one at least.
    """

    kind: str
    photos: tuple[DuplicatePhoto, ...]
    pairs: tuple[DuplicatePair, ...]

    @property
    def keep(self) -> list[str]:
        """The names of the photos to keep."""
        return [photo.name for photo in self.photos if photo.keep]

    @property
    def rest(self) -> list[str]:
        """The names of the others, which somebody may want to remove."""
        return [photo.name for photo in self.photos if not photo.keep]

    def to_dict(self) -> dict[str, Any]:
        """As it is in a report."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> DuplicateGroup:
        """What `to_dict` made; a ValueError, TypeError or KeyError if it is nothing of the kind."""
        photos = tuple(_photo(one) for one in stored["photos"])
        pairs = tuple(_pair(one, len(photos)) for one in stored["pairs"])
        return cls(_kind(stored["kind"]), photos, pairs)


@dataclass(frozen=True)
class ReportFacts:
    """What a report says of itself: how many photos were compared, and which kinds looked for."""

    photos: int
    kinds: tuple[str, ...] = KINDS
    roots: Roots = field(default_factory=Roots)
    solar: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """As it is in a report."""
        facts = {"solar": self.solar, "photos": self.photos, "kinds": list(self.kinds)}
        return {"format": FORMAT, **facts, "roots": self.roots.stored()}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> ReportFacts:
        """What `to_dict` made; a ValueError, TypeError or KeyError if it is nothing of the kind."""
        if stored["format"] != FORMAT:
            raise ValueError(stored["format"])
        kinds = tuple(_kind(kind) for kind in stored["kinds"])
        return cls(int(stored["photos"]), kinds, Roots.read(stored["roots"]), str(stored["solar"]))


def write_report(path: str | Path, facts: ReportFacts, groups: Iterable[DuplicateGroup]) -> int:
    """Write a report, whole or not at all, and say how many groups it has.

    A SolarError if the disk is full or read-only.
    """
    return write_lined(path, facts.to_dict(), (group.to_dict() for group in groups))


def read_facts(path: str | Path) -> ReportFacts:
    """What a report says of itself; a SolarError if it cannot be read."""
    with understood(path, _WRONG):
        return ReportFacts.from_dict(read_head(path))


def read_groups(path: str | Path) -> Iterator[DuplicateGroup]:
    """The groups of a report, one after the other, in bounded memory.

    A SolarError if it cannot be read.
    """
    with understood(path, _WRONG):
        ReportFacts.from_dict(read_head(path))
        yield from map(DuplicateGroup.from_dict, read_lines(path))


def write_csv(path: str | Path, groups: Iterable[DuplicateGroup]) -> None:
    """Write a table with one row per photo: group, kind, name, keep, how, why.

    A SolarError if the disk is full or read-only.
    """
    rows = (
        [
            number,
            group.kind,
            photo.name,
            "yes" if photo.keep else "no",
            next((pair.how for pair in group.pairs if place in (pair.a, pair.b)), ""),
            photo.why,
        ]
        for number, group in enumerate(groups, 1)
        for place, photo in enumerate(group.photos)
    )
    write_table(path, ["group", "kind", "name", "keep", "how", "why"], rows)


def _kind(kind: Any) -> str:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind")
    return str(kind)


def _photo(stored: Mapping[str, Any]) -> DuplicatePhoto:
    photo = DuplicatePhoto(**stored)
    texts = (photo.name, photo.why, photo.taken or "")
    numbers = (photo.width, photo.height, photo.bytes, photo.sharpness)
    _check(all(isinstance(text, str) for text in texts) and _numbers(*numbers))
    return photo


def _pair(stored: Mapping[str, Any], photos: int) -> DuplicatePair:
    pair = DuplicatePair(**stored)
    if pair.mapping is not None:
        mapping = tuple((row[0], row[1], row[2]) for row in pair.mapping)
        _check(len(mapping) == 3 and _numbers(*(cell for row in mapping for cell in row)))
    else:
        mapping = None
    covers = (pair.covers[0], pair.covers[1])
    _check(isinstance(pair.how, str) and isinstance(pair.why, str))
    known = (one for one in (pair.score, pair.difference, pair.inliers) if one is not None)
    _check(_numbers(*covers, *known))
    _check(all(isinstance(one, int) and 0 <= one < photos for one in (pair.a, pair.b)))
    return replace(pair, kind=_kind(pair.kind), mapping=mapping, covers=covers)


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def _check(sound: bool) -> None:
    if not sound:
        raise ValueError("a value of the wrong kind")
