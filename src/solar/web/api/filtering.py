"""Which photos are found or listed, in which order, and the values to filter by."""

import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field

from solar.images.roots import MARK
from solar.storage.conditions import Condition, Where
from solar.storage.types import Hit, Photo
from solar.web.api.schemas import HitOrder, KnownOrder, PhotoConditions
from solar.web.photos import Collection
from solar.web.problems import WebError

SORTED = 1000
"""Number of the best hits that are sorted."""

# int() rejects very long numbers.
_MARKS = re.compile(r"[-_.,+()\s]+")
_DIGITS = re.compile(r"([0-9]{1,300})")
T = TypeVar("T")


@dataclass(frozen=True)
class PhotoFilter:
    """Conditions on photos."""

    words: tuple[str, ...] = ()  # of the path or the capture time, by `plain`; all must occur
    label: str | None = None  # if folders are labels
    where: Where = ()  # as for `solar search --where`
    root: str | None = None  # the name of its root, empty for the one without a name

    def passes(self, collection: Collection, path: str) -> bool:
        """Whether a photo passes by its path alone; `where` is not checked."""
        if self.words:
            text = plain(f"{path} {collection.taken(path)}")
            if not all(word in text for word in self.words):
                return False
        known = self.label is None or collection.label(path) == self.label
        return known and (self.root is None or collection.root(path) == self.root)

    def holds(self, collection: Collection, photo: Photo) -> bool:
        """Whether a photo passes."""
        by_path = self.passes(collection, photo.path)
        return by_path and all(condition.holds(photo) for condition in self.where)

    def conditions(self, collection: Collection) -> Where:
        """Conditions that the index itself can check: `where`, and path prefixes."""
        starts = [f"{self.label}/"] if self.label is not None and collection.label_is_prefix else []
        starts += [f"{self.root}{MARK}"] if self.root else []
        return (*self.where, *(Condition("path", "=", start) for start in starts))


def photo_filter(collection: Collection, asked: PhotoConditions) -> PhotoFilter:
    """The filter of a request; a SolarError or WebError if a value is invalid."""
    known = [one.name for one in collection.index.roots.roots]
    if asked.root is not None and asked.root not in known:
        named = ", ".join(repr(one) for one in known) or "none, as there are no roots"
        raise WebError(422, f"No root of this collection is called {asked.root!r}: choose {named}.")
    words, conditions = (asked.search or "").split(), collection.index.conditions(asked.where)
    return PhotoFilter(tuple(map(plain, words)), asked.label, conditions, asked.root)


def plain(text: str) -> str:
    """Text without cases, accents and marks: "sydney opera" is in "Sydney_Opera-House"."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return _MARKS.sub(" ", "".join(one for one in letters if not unicodedata.combining(one)))


def sorted_hits(
    hits: Iterable[tuple[int, Hit]], order: HitOrder | None, photo: Callable[[str], Photo]
) -> list[tuple[int, Hit]]:
    """Ranks and hits in another order; ties stay by rank."""
    if order is None:
        return list(hits)
    if order == "similarity":
        return sorted(hits, key=lambda one: -one[1].score)
    if order == "probability":
        return sorted(hits, key=lambda one: -(one[1].probability or 0.0))
    return sorted_photos(hits, order, lambda one: photo(one[1].path))


def sorted_photos(items: Iterable[T], order: KnownOrder, photo: Callable[[T], Photo]) -> list[T]:
    """Items in the order of their photos; those without a capture time last."""
    if order == "name":
        return sorted(items, key=lambda item: _numbered(photo(item).path))

    def taken(item: T) -> tuple[bool, str]:
        time = photo(item).taken
        return (time is None) == (order == "oldest"), time or ""

    return sorted(items, key=taken, reverse=order == "newest")


def _numbered(path: str) -> list[str | int]:
    """A key that sorts `2.jpg` before `10.jpg`."""
    parts = _DIGITS.split(path.casefold())
    return [int(part) if at % 2 else part for at, part in enumerate(parts)]


class BrowseRequest(PhotoConditions):
    """Which photos of the collection to list."""

    offset: int = Field(0, ge=0, le=10**9)
    limit: int = Field(50, ge=1, le=200)
    sort: KnownOrder | None = None
    name: list[Annotated[str, Field(max_length=4000)]] = Field(
        [], max_length=200, description="Only these photos, by their full names."
    )


def selected(
    collection: Collection, only: PhotoFilter, order: KnownOrder | None
) -> npt.NDArray[np.int32]:
    """The numbers of photos that pass, in an order."""
    found = [
        (number, photo) for number, photo in collection.numbered() if only.holds(collection, photo)
    ]
    if order is not None:
        found = sorted_photos(found, order, lambda one: one[1])
    return np.array([number for number, _ in found], np.int32)


MOST = 200
"""Folders and tags in one answer."""


class Facet(BaseModel):
    """A folder or a tag, and how many photos it has."""

    name: str
    photos: int


class RootFacet(Facet):
    """A root; photos of one without a name have no root in their own names."""

    shown: str = Field(description="The name to show: its own, or that of its folder.")


class FacetsAnswer(BaseModel):
    """Values to filter by; of folders and tags, those with the most photos."""

    photos: int
    folders: list[Facet] = Field(description="Paths of folders; counts include subfolders.")
    folders_total: int
    tags: list[Facet]
    tags_total: int
    roots: list[RootFacet]
    taken: list[str] | None = Field(
        None, min_length=2, max_length=2, description="The earliest and the latest capture time."
    )
    months: list[Facet] = Field(description="Months with photos, as `2019-07`, in order.")
    fields: list[str] = Field(description="Names of own fields, for conditions.")
    with_time: int = Field(description="Photos whose capture time is known.")
    with_position: int


class Facets:
    """Counts the photos of a collection, once per revision: a second for a million."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._revision = -1

    def answer(self, search: str | None = None, limit: int = MOST) -> FacetsAnswer:
        """The values to filter by; only folders and tags whose names contain a text."""
        with self._lock:  # one visitor counts, others wait for it
            if (revision := self._collection.revision) != self._revision:
                self._answer, self._folders, self._tags = _count(self._collection)
                self._revision = revision
            answer = self._answer
            folders, folders_total = _largest(self._folders, search or "", limit)
            tags, tags_total = _largest(self._tags, search or "", limit)
        found = {"folders": folders, "folders_total": folders_total}
        return answer.model_copy(update={**found, "tags": tags, "tags_total": tags_total})


def _count(collection: Collection) -> tuple[FacetsAnswer, Counter[str], Counter[str]]:
    """An answer without folders and tags, and these."""
    inner: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    months: Counter[str] = Counter()
    fields = set[str]()
    first, last, with_time, with_position = "", "", 0, 0
    for _, photo in collection.numbered():
        inner[photo.path.rpartition("/")[0]] += 1
        tags.update(photo.tags)
        fields.update(photo.fields)
        if photo.taken:
            with_time += 1
            months[photo.taken[:7]] += 1
            first = min(first or photo.taken, photo.taken)
            last = max(last, photo.taken)
        with_position += photo.position is not None
    folders: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    for folder, count in inner.items():
        roots[collection.root(f"{folder}/")] += count
        for outer in _outwards(folder):
            folders[outer] += count
    answer = FacetsAnswer(
        photos=inner.total(),
        folders=[],
        folders_total=0,
        tags=[],
        tags_total=0,
        roots=[
            RootFacet(
                name=root.name,
                photos=roots[root.name],
                shown=root.name or Path(root.path).name or "photos",
            )
            for root in collection.index.roots.roots[:MOST]
        ],
        taken=[first, last] if with_time else None,
        months=[Facet(name=month, photos=months[month]) for month in sorted(months)],
        fields=sorted(fields)[:MOST],
        with_time=with_time,
        with_position=with_position,
    )
    return answer, folders, tags


def _outwards(folder: str) -> list[str]:
    """A folder and its parents below its root, each with a slash at the end."""
    root, mark, below = folder.partition(MARK)
    if not mark:
        # `camera//1.jpg` lies right below its root, and its folder is `camera/`.
        root, below = "", "" if folder.endswith("/") else folder
    parts = below.split("/") if below else []
    start = f"{root}{mark}"
    return [f"{start}{'/'.join(parts[:depth])}/" for depth in range(len(parts), 0, -1)]


def _largest(counts: Mapping[str, int], wanted: str, limit: int) -> tuple[list[Facet], int]:
    """Those with most photos, ordered by name, and the total number."""
    wanted = wanted.casefold()
    found = [(name, n) for name, n in counts.items() if not wanted or wanted in name.casefold()]
    found.sort(key=lambda one: (-one[1], one[0]))
    chosen = sorted(found[:limit])
    return [Facet(name=name, photos=n) for name, n in chosen], len(found)
