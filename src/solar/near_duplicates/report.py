"""Groups of related photos, how each pair is related, and their report."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from solar.index.report_file import Report

KINDS = ("exact", "copy", "crop", "burst", "place")
"""Kinds of relations, the closest first."""

COPIES = KINDS[:3]
"""Kinds in which one photo is made from another, so that one of the two is enough."""

Mapping3x3: TypeAlias = tuple[tuple[float, ...], ...]
"""A homography between two upright photos, whose sides count as 1: (0, 0) is the upper left."""

WHOLE = 0.95
"""The share of a photo's area that counts as all of it."""


@dataclass(frozen=True)
class DuplicatePhoto:
    """A photo of a group.

    Attributes:
        name: Its name in the collection.
        width: In pixels, upright.
        height: In pixels, upright.
        bytes: Size of its file.
        taken: Capture time by the camera's clock, as `2019-07-14T18:30:00`; None if unknown.
        modified: When its file was last written, like `taken` in UTC; None if unknown.
        keep: Whether it is one to keep; None where nothing tells which one of several.
        why: The reason, in words.
    """

    name: str
    width: int
    height: int
    bytes: int
    taken: str | None = None
    modified: str | None = None
    keep: bool | None = True
    why: str = ""


@dataclass(frozen=True)
class Relation:
    """How two photos are related.

    Attributes:
        a: One photo: its row in a collection, its place in a group.
        b: The other; of a crop, the part.
        kind: One of `KINDS`.
        how: What was visibly done: `mirrored, re-encoded`.
        score: Cosine similarity of the embeddings; None if not compared.
        mapping: From relative coordinates of a to those of b; None if unknown.
        covers: The share of a, and of b, that the other shows.
        difference: Mean difference of pixels where both show the same, 0 to 1, after matching
            brightness and contrast.
        inliers: Number of keypoints that agree; None if not needed.
        why: All of that in words.
        better: Which one to keep, `a` or `b`; empty where too little tells.
        because: Why that one.
    """

    a: int
    b: int
    kind: str
    how: str = ""
    score: float | None = None
    mapping: Mapping3x3 | None = None
    covers: tuple[float, ...] = (1.0, 1.0)
    difference: float | None = None
    inliers: int | None = None
    why: str = ""
    better: str = ""
    because: str = ""

    @property
    def within(self) -> tuple[bool, bool]:
        """Of photos made from one: whether b shows all of a, and a all of b; copies always do."""
        a_in_b, b_in_a = (self.kind != "crop" or share >= WHOLE for share in self.covers)
        return a_in_b, b_in_a

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Relation:
        """Read from JSON; a ValueError, TypeError or LookupError if it is no relation."""
        pair = cls(**stored)
        mapping = None
        if pair.mapping is not None:
            mapping = tuple((row[0], row[1], row[2]) for row in pair.mapping)
            _check(len(mapping) == 3 and _numbers(*(cell for row in mapping for cell in row)))
        covers = (pair.covers[0], pair.covers[1])
        _check(all(isinstance(one, str) for one in (pair.how, pair.why, pair.because)))
        _check(pair.kind in KINDS and pair.better in ("", "a", "b"))
        known = (one for one in (pair.score, pair.difference, pair.inliers) if one is not None)
        _check(_numbers(*covers, *known))
        _check(all(isinstance(one, int) for one in (pair.a, pair.b)))
        return replace(pair, mapping=mapping, covers=covers)


@dataclass(frozen=True)
class DuplicateGroup:
    """Photos that are related by one kind, or more closely.

    Attributes:
        kind: The loosest kind among the pairs that hold the group together.
        photos: Those to keep first.
        pairs: How they are related; every photo is in at least one.
    """

    kind: str
    photos: tuple[DuplicatePhoto, ...]
    pairs: tuple[Relation, ...]

    @property
    def keep(self) -> list[str]:
        """The names of the photos to keep; none where it is open which ones."""
        if any(photo.keep is None for photo in self.photos):
            return []
        return [photo.name for photo in self.photos if photo.keep]

    @property
    def rest(self) -> list[str]:
        """The names of those that may be removed."""
        return [photo.name for photo in self.photos if photo.keep is False]

    @property
    def id(self) -> str:
        """A hash of the photos and pairs in order, which decisions name by their numbers."""
        pairs = " ".join(f"{pair.a}-{pair.b}" for pair in self.pairs)
        text = "\0".join([self.kind, *(photo.name for photo in self.photos), pairs])
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:12]

    def to_dict(self) -> dict[str, Any]:
        """As it is in a report."""
        return asdict(self)

    def rows(self) -> Iterator[list[str]]:
        """A row per photo, as it is in a table."""
        for place, photo in enumerate(self.photos):
            own = [pair for pair in self.pairs if place in (pair.a, pair.b)]
            how = min(own, key=lambda pair: KINDS.index(pair.kind)).how
            keep = {True: "yes", False: "no", None: "either"}[photo.keep]
            yield [self.kind, photo.name, keep, how, photo.why]

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> DuplicateGroup:
        """Read from JSON; a ValueError, TypeError or LookupError if it is no group."""
        photos = tuple(map(_photo, stored["photos"]))
        pairs = tuple(map(Relation.from_dict, stored["pairs"]))
        _check(len(photos) > 1 and len(pairs) > 0 and stored["kind"] in KINDS)
        _check(all(0 <= row < len(photos) for pair in pairs for row in (pair.a, pair.b)))
        return cls(stored["kind"], photos, pairs)


class DuplicateReport(Report[DuplicateGroup]):
    """What `solar.duplicates` found."""

    form = "solar-duplicates-1"
    made_by = "report of solar duplicates"
    known_kinds = KINDS
    columns = ("kind", "name", "keep", "how", "why")
    group = DuplicateGroup.from_dict


def _photo(stored: Mapping[str, Any]) -> DuplicatePhoto:
    photo = DuplicatePhoto(**stored)
    texts = (photo.name, photo.why, photo.taken or "", photo.modified or "")
    _check(all(isinstance(text, str) for text in texts))
    _check(_numbers(photo.width, photo.height, photo.bytes) and photo.keep in (True, False, None))
    return photo


def _numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and math.isfinite(value) for value in values)


def _check(sound: bool) -> None:
    if not sound:
        raise ValueError("a value of the wrong kind")
