"""The collection page by page, filtered and sorted."""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from solar.web.cache import Cache
from solar.web.filter_types import Conditions, KnownOrder, RootName
from solar.web.filtering import PhotoFilter, sorted_photos
from solar.web.photos import Collection
from solar.web.schemas import Asked

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
