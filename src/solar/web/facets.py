"""What there is to filter by: folders, tags, roots, and from when to when photos were taken."""

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from solar.images.roots import MARK
from solar.web.photos import Collection

MOST = 200
"""Folders and tags in one answer."""

# A count takes about a second for a million photos. While photos are being added, no more than this
# part of the time goes into counting.
_SHARE = 0.05


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
    with_time: int = Field(description="Photos whose capture time is known.")
    with_position: int


@dataclass(frozen=True)
class _Counts:
    """What was counted, of which state of the collection, and until when that will do."""

    revision: int
    until: float
    photos: int
    folders: Mapping[str, int]
    tags: Mapping[str, int]
    roots: Mapping[str, int]
    times: tuple[str, str] | None
    with_time: int
    with_position: int


class Facets:
    """Counts the photos of a collection once for every state of it, or less often."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._counts: _Counts | None = None

    def answer(self, search: str | None = None, limit: int = MOST) -> FacetsAnswer:
        """What there is to filter by; only folders and tags that have a text in their names."""
        with self._lock:  # one visitor counts, others wait for it
            kept = self._counts
            revision = self._collection.revision
            if kept is None or (kept.revision != revision and time.monotonic() >= kept.until):
                kept = self._counts = _count(self._collection)
        wanted = (search or "").casefold()
        (folders, folders_total), (tags, tags_total) = (
            _largest(counts, wanted, limit) for counts in (kept.folders, kept.tags)
        )
        return FacetsAnswer(
            photos=kept.photos,
            folders=folders,
            folders_total=folders_total,
            tags=tags,
            tags_total=tags_total,
            roots=[
                RootFacet(
                    name=root.name,
                    photos=kept.roots.get(root.name, 0),
                    shown=root.name or Path(root.path).name or "photos",
                )
                for root in self._collection.index.roots.roots[:MOST]
            ],
            taken=None if kept.times is None else list(kept.times),
            with_time=kept.with_time,
            with_position=kept.with_position,
        )


def _count(collection: Collection) -> _Counts:
    started, revision = time.monotonic(), collection.revision
    inner: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    first, last, with_time, with_position = "", "", 0, 0
    for photo in collection.known():
        inner[photo.path.rpartition("/")[0]] += 1
        tags.update(photo.tags)
        if photo.taken:
            with_time += 1
            first = min(first or photo.taken, photo.taken)
            last = max(last, photo.taken)
        with_position += photo.position is not None
    folders: Counter[str] = Counter()
    roots: Counter[str] = Counter()
    for folder, count in inner.items():
        roots[collection.root(f"{folder}/")] += count
        for outer in _outwards(folder):
            folders[outer] += count
    now = time.monotonic()
    return _Counts(
        revision=revision,
        until=now + (now - started) / _SHARE,
        photos=inner.total(),
        folders=folders,
        tags=tags,
        roots=roots,
        times=(first, last) if with_time else None,
        with_time=with_time,
        with_position=with_position,
    )


def _outwards(folder: str) -> list[str]:
    """A folder and those around it, below its root, each with a slash at its end."""
    root, mark, below = folder.partition(MARK)
    if not mark:
        # `camera//1.jpg` lies right below its root, and its folder is `camera/`.
        root, below = "", "" if folder.endswith("/") else folder
    parts = below.split("/") if below else []
    start = f"{root}{mark}"
    return [f"{start}{'/'.join(parts[:depth])}/" for depth in range(len(parts), 0, -1)]


def _largest(counts: Mapping[str, int], wanted: str, limit: int) -> tuple[list[Facet], int]:
    """Those with most photos, by name, and how many there are in all."""
    found = [(name, n) for name, n in counts.items() if not wanted or wanted in name.casefold()]
    found.sort(key=lambda one: (-one[1], one[0]))
    chosen = sorted(found[:limit])
    return [Facet(name=name, photos=n) for name, n in chosen], len(found)
