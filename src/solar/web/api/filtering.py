"""Which photos may be found or listed, and in which order, by what the index knows of them."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from solar.images.roots import MARK
from solar.storage.conditions import Condition, Where, parse_where
from solar.storage.types import Hit, Photo
from solar.web.api.schemas import Asked, Conditions, HitOrder, KnownOrder, RootName
from solar.web.cache import Cache
from solar.web.photos import Collection
from solar.web.problems import WebError

SORTED = 1000
"""How many of the best hits are put into another order."""

# As many as Python reads as a number without complaint.
_DIGITS = re.compile(r"([0-9]{1,300})")
T = TypeVar("T")


@dataclass(frozen=True)
class PhotoFilter:
    """What alone may be found.

    Attributes:
        name: Part of the path, in either case.
        label: What the photo shows, where folders say so.
        where: Conditions, as of `solar search --where`.
        root: The name of the root that it is below, empty for the one without.
    """

    name: str = ""
    label: str | None = None
    where: Where = ()
    root: str | None = None

    def passes(self, collection: Collection, path: str) -> bool:
        """Whether a photo may be found by its path alone; `where` is not looked at."""
        return (
            self.name in path.casefold()
            and (self.label is None or collection.label(path) == self.label)
            and (self.root is None or collection.root(path) == self.root)
        )

    def holds(self, collection: Collection, photo: Photo) -> bool:
        """Whether a photo may be found."""
        by_path = self.passes(collection, photo.path)
        return by_path and all(condition.holds(photo) for condition in self.where)

    def conditions(self, collection: Collection) -> Where:
        """What the index itself can look at: `where`, and how paths start."""
        starts = [f"{self.label}/"] if self.label is not None and collection.flat else []
        starts += [f"{self.root}{MARK}"] if self.root else []
        return (*self.where, *(Condition("path", "=", start) for start in starts))


def photo_filter(
    collection: Collection,
    name: str | None,
    label: str | None,
    where: Sequence[str],
    root: str | None,
) -> PhotoFilter:
    """What a visitor asked for; a SolarError or WebError says what is not understood."""
    known = [one.name for one in collection.index.roots.roots]
    if root is not None and root not in known:
        named = ", ".join(repr(one) for one in known) or "none, as there are no roots"
        raise WebError(422, f"No root of this collection is called {root!r}: choose {named}.")
    return PhotoFilter((name or "").casefold(), label, parse_where(where), root)


def sorted_hits(
    hits: Iterable[tuple[int, Hit]], order: HitOrder | None, photo: Callable[[str], Photo]
) -> list[tuple[int, Hit]]:
    """Ranks and hits in another order; equal ones stay by rank."""
    if order is None:
        return list(hits)
    if order == "similarity":
        return sorted(hits, key=lambda one: -one[1].score)
    if order == "probability":
        return sorted(hits, key=lambda one: -(one[1].probability or 0.0))
    return sorted_photos(hits, order, lambda one: photo(one[1].path))


def sorted_photos(items: Iterable[T], order: KnownOrder, photo: Callable[[T], Photo]) -> list[T]:
    """Items in the order of their photos; those without a capture time last, where that counts."""
    if order == "name":
        return sorted(items, key=lambda item: _numbered(photo(item).path))

    def taken(item: T) -> tuple[bool, str]:
        time = photo(item).taken
        return (time is None) == (order == "oldest"), time or ""

    return sorted(items, key=taken, reverse=order == "newest")


def _numbered(path: str) -> list[str | int]:
    """What puts `2.jpg` before `10.jpg`: texts and numbers in turn."""
    parts = _DIGITS.split(path.casefold())
    return [int(part) if at % 2 else part for at, part in enumerate(parts)]


_KEPT = 16 * 2**20


class BrowseRequest(Asked):
    """Which photos of the collection to list."""

    offset: int = Field(0, ge=0, le=10**9)
    limit: int = Field(50, ge=1, le=200)
    label: str | None = Field(None, max_length=500)
    search: str | None = Field(None, max_length=200, description="Part of a name.")
    where: Conditions = Field([])
    root: RootName = None
    sort: KnownOrder | None = None
    name: list[Annotated[str, Field(max_length=4000)]] = Field(
        [], max_length=200, description="Only these photos, by their full names."
    )


class Browser:
    """Selects photos, and keeps what was selected for those who scroll on."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._selected: Cache[object, npt.NDArray[np.int32]] = Cache(
            _KEPT, lambda numbers: numbers.nbytes + 200
        )

    def select(
        self, only: PhotoFilter, order: KnownOrder | None, offset: int, limit: int
    ) -> tuple[int, list[int]]:
        """How many photos pass, and the numbers of some, which another visitor may just remove."""
        collection = self._collection
        if only == PhotoFilter() and order is None and collection.gapless:
            total = len(collection)
            return total, list(range(total)[offset : offset + limit])
        key = (only, order, collection.revision)
        numbers = self._selected.get(key)
        if numbers is None:
            numbers = np.array(self._numbers(only, order), np.int32)
            self._selected.put(key, numbers)
        return len(numbers), numbers[offset : offset + limit].tolist()

    def _numbers(self, only: PhotoFilter, order: KnownOrder | None) -> list[int]:
        found = [
            (number, photo)
            for number, photo in self._collection.numbered()
            if only.holds(self._collection, photo)
        ]
        if order is not None:
            found = sorted_photos(found, order, lambda one: one[1])
        return [number for number, _ in found]
