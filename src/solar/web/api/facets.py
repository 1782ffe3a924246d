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
class _Counted:
    """An answer without its folders and tags, these, and until when they will do."""

    revision: int
    until: float
    answer: FacetsAnswer
    folders: Mapping[str, int]
    tags: Mapping[str, int]


class Facets:
    """Counts the photos of a collection once for every state of it, or less often."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._counted: _Counted | None = None

    def answer(self, search: str | None = None, limit: int = MOST) -> FacetsAnswer:
        """What there is to filter by; only folders and tags that have a text in their names."""
        with self._lock:  # one visitor counts, others wait for it
            kept = self._counted
            revision = self._collection.revision
            if kept is None or (kept.revision != revision and time.monotonic() >= kept.until):
                kept = self._counted = _count(self._collection)
        wanted = (search or "").casefold()
        folders, folders_total = _largest(kept.folders, wanted, limit)
        tags, tags_total = _largest(kept.tags, wanted, limit)
        found = {"folders": folders, "folders_total": folders_total}
        return kept.answer.model_copy(update={**found, "tags": tags, "tags_total": tags_total})


def _count(collection: Collection) -> _Counted:
    started, revision = time.monotonic(), collection.revision
    inner: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    first, last, with_time, with_position = "", "", 0, 0
    for _, photo in collection.numbered():
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
        with_time=with_time,
        with_position=with_position,
    )
    now = time.monotonic()
    return _Counted(revision, now + (now - started) / _SHARE, answer, folders, tags)


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
