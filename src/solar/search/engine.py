"""What every engine of an index does, and the few words that they share.

An engine keeps unit vectors under the paths of their photos. `solar.search.index` chooses one by
its address and does everything else: reading photos, describing queries, expanding them.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from solar.arrays import Vectors
from solar.describe.settings import comparable
from solar.errors import SolarError
from solar.images import Roots, Stamp
from solar.images.exif import ExifFacts, Position
from solar.images.scan import is_text
from solar.search.near import Area, parse_area

_TIME = re.compile(r"\d{4}(-\d{2}(-\d{2}([T ]\d{2}(:\d{2}(:\d{2})?)?)?)?)?")
_CONDITION = re.compile(r"\s*(\w+)\s*(>=|<|=)\s*(.*?)\s*")


class NoIndexError(SolarError):
    """There is no index at an address, so that one can be made there."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A photo found, by its path in the index, and its cosine similarity to the query.

    Attributes:
        inliers: Number of its keypoints that match the query; None if not verified.
        probability: Probability that it shows the same place; None if the model is not calibrated
            (`solar.search.calibration`), or scores are not similarities.
        absolute: Path of its file on this machine; None if unknown.
        threshold: With at least this many inliers, it shows the same scene as the query; None if
            not verified.
    """

    path: str
    score: float
    inliers: int | None = None
    absolute: str | None = field(default=None, compare=False)
    probability: float | None = None
    threshold: int | None = None

    @property
    def same_scene(self) -> bool | None:
        """Whether enough keypoints match; None if not verified."""
        if self.inliers is None or self.threshold is None:
            return None
        return self.inliers >= self.threshold


@dataclass(frozen=True, slots=True)
class Photo:
    """What is known of an indexed photo.

    Attributes:
        path: Its name and key: relative to the folder that was indexed, see `solar.images.roots`.
        width: In pixels, upright; 0 if unknown.
        height: In pixels, upright; 0 if unknown.
        tags: Any words.
        taken: Capture time, as `2019-07-14T18:30:00`; None if unknown.
        stamp: State of its file when it was described; None if unknown.
        position: Latitude and longitude in degrees; None if unknown.
        camera: The camera; None if unknown.
    """

    path: str
    width: int = 0
    height: int = 0
    tags: tuple[str, ...] = ()
    taken: str | None = None
    stamp: Stamp | None = field(default=None, compare=False, repr=False)
    position: Position | None = None
    camera: str | None = None


@dataclass(frozen=True)
class Amendment:
    """Changes to an index for which no photo has to be described; all at once, in this order.

    Attributes:
        removed: Photos that are gone.
        renamed: Photos that have another path now: old to new.
        stamps: What files are now, by the new path.
        skipped: All files that are left out, by name, why, and how they look; None for no change.
        roots: Where photos are; None for no change.
        facts: Times, positions and cameras of photos, by the new path; what is None stays.
    """

    removed: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    stamps: Mapping[str, Stamp] = field(default_factory=dict)
    skipped: Mapping[str, "Skipped"] | None = None
    roots: Roots | None = None
    facts: Mapping[str, ExifFacts] = field(default_factory=dict)

    def __bool__(self) -> bool:
        changes = (self.removed, self.renamed, self.stamps, self.skipped is not None, self.roots)
        return any((*changes, self.facts))


class Skipped(NamedTuple):
    """A file that is left out of an index."""

    reason: str
    bytes: int = -1
    modified: int = 0


@dataclass(frozen=True)
class DescriptorSpec:
    """How the vectors of an index were made: vectors made otherwise cannot be compared to them.

    Attributes:
        dim: Length of a vector.
        model: Name or file of the model; empty if the vectors came from elsewhere.
        fingerprint: `solar.models.fingerprint` of it; empty if the vectors came from elsewhere.
        settings: How photos were described: what `Settings.recorded` gives, or those of ASMK.
    """

    dim: int
    model: str = ""
    fingerprint: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def comparable(self) -> dict[str, Any]:
        """The settings in which vectors must agree to be compared."""
        # A file makes lists of tuples.
        plain: dict[str, Any] = json.loads(json.dumps(comparable(self.settings)))
        return plain


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that a photo must satisfy to be found.

    `tag = x`: it has this tag. `path = x`: its path starts so. `width`, `height` and `taken` are
    compared; a photo without a capture time satisfies nothing about it. `near = x`: it was taken
    in this area, and its position is known.
    """

    field: Literal["tag", "path", "width", "height", "taken", "near"]
    relation: Literal["=", ">=", "<"]
    value: str | int | Area

    def holds(self, photo: Photo) -> bool:
        """Whether a photo satisfies it: what engines must agree with."""
        if self.field == "tag":
            return self.value in photo.tags
        if self.field == "path":
            return photo.path.startswith(str(self.value))
        if isinstance(self.value, Area):
            return photo.position is not None and bool(self.value.holds(photo.position)[0])
        known = getattr(photo, self.field)
        if known is None:
            return False
        return bool(known >= self.value if self.relation == ">=" else known < self.value)


Where: TypeAlias = tuple[Condition, ...]
"""Conditions that must all hold; none at all lets every photo through."""


def parse_where(conditions: str | Iterable[str | Condition] | None) -> Where:
    """Read conditions: `tag=night`, `path=rome/`, `width>=1024`, `taken<2019-07`, or a distance.

    That is `near=48.858,2.294,500m`: degrees north, degrees east, and metres or kilometres (`2km`).
    """
    if isinstance(conditions, str):
        conditions = [conditions]
    return tuple(c if isinstance(c, Condition) else _parse(c) for c in conditions or ())


def _parse(text: str) -> Condition:
    found = _CONDITION.fullmatch(text) if is_text(text) else None
    match found.groups() if found else ():
        case ("tag" | "path" as name, "=", str(value)) if value:
            return Condition(name, "=", value)
        case ("width" | "height" as name, ">=" | "<" as relation, str(value)) if _is_count(value):
            return Condition(name, relation, int(value))
        case ("taken", ">=" | "<" as relation, str(value)) if _is_time(value):
            return Condition("taken", relation, value.replace(" ", "T"))
        case ("near", "=", str(value)):
            return Condition("near", "=", parse_area(value))
        case ("taken", ">=" | "<", str(value)):
            raise SolarError(
                f"The condition {text!r} is not understood: write a time as 2019, 2019-07, "
                "2019-07-14 or 2019-07-14T18:30."
            )
    raise SolarError(
        f"The condition {text!r} is not understood: write tag=night, path=rome/, width>=1024, "
        "height<2000, taken>=2019-07-14, taken<2020 or near=48.858,2.294,500m."
    )


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text + "0001-01-01T00:00:00"[len(text) :])
    except ValueError:
        return False
    return bool(_TIME.fullmatch(text))


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 19  # as far as databases count


class Storage(Protocol):
    """Where an index of any kind keeps its photos, under their paths, which are unique.

    It may be used from several threads, and by many readers while one writer changes it: a search
    sees one committed state.
    """

    spec: DescriptorSpec

    def __len__(self) -> int: ...

    @property
    def roots(self) -> Roots:
        """Where the photos are."""

    @property
    def roots_seen(self) -> Roots:
        """Where they were when they were last searched, without looking again."""

    def stamps(self) -> dict[str, Stamp | None]:
        """What the file of every photo was when it was described, by path."""

    def skipped(self) -> dict[str, Skipped]:
        """Files that the latest look at the roots left out, as far as the engine remembers."""

    def amend(self, change: Amendment) -> None:
        """Make changes for which nothing has to be described; paths must be indexed."""

    def find(self, paths: Sequence[str]) -> dict[str, Photo]:
        """What is known of photos, by path; unknown paths are left out."""

    def photos(self, rows: int = 4096) -> Iterator[list[Photo]]:
        """What is known of every photo, in a fixed order and pieces of at most `rows`."""

    def remove(self, paths: Sequence[str]) -> int:
        """Remove photos, all at once; a SolarError names the first that is not indexed."""

    def info(self) -> dict[str, Any]:
        """Facts to print: at least `engine`, `photos` and `bytes`."""

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence a problem."""

    def compact(self) -> None:
        """Give back the room of removed photos, and rebuild what speeds searches up."""

    def close(self) -> None:
        """Let go of files and connections."""


class Engine(Storage, Protocol):
    """Unit vectors under the paths of photos; `solar.search.index.Index` is built on one.

    Scores are inner products, best first. A module that offers one has `create(address, spec,
    batches, roots, **options)`, `open_index(address, **options)` and `index_name(address)`, and a
    line in `ENGINES` of `solar.search.addresses`.
    """

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim)."""

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """What is known of photos and their vectors (dim,), by path; unknown paths are left out."""

    def batches(self, rows: int = 4096) -> Iterator[tuple[list[Photo], Vectors]]:
        """Everything, in the order of `photos`, from one committed state."""

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path, all at once or none, and say how many.

        A SolarError if another writer is at work, the disk is full, or vectors do not fit.
        """


def fitting(
    photos: Sequence[Photo], vectors: Vectors, dim: int, where: object
) -> tuple[Sequence[Photo], Vectors]:
    """Photos and vectors that an engine can take: of two photos with one path, the later.

    A SolarError if they do not go together or into `where`, or a vector is not finite.
    """
    if vectors.shape != (len(photos), dim):
        raise SolarError(
            f"{where} holds vectors of length {dim}: {len(photos)} photos need an array of shape "
            f"({len(photos)}, {dim}), not {vectors.shape}."
        )
    sound = np.isfinite(vectors).all(axis=1)
    if not sound.all():
        path = photos[int(sound.argmin())].path
        raise SolarError(f"The vector of {path} is not finite: describe the photo again.")
    last = {photo.path: number for number, photo in enumerate(photos)}
    if len(last) == len(photos):  # and no copy is needed
        return photos, vectors
    kept = sorted(last.values())
    return [photos[number] for number in kept], vectors[kept]
