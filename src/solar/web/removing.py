"""Photos that visitors take out of the index. Their files stay: nothing here touches one."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from pydantic import BaseModel, Field

from solar.errors import PassingError
from solar.web.field_types import PhotoId
from solar.web.photos import Collection
from solar.web.problems import WebError
from solar.web.schemas import Asked
from solar.web.settings import WebSettings
from solar.web.thread_pools import Threads

MOST = 1000
_ATTEMPTS = 5


class RemoveRequest(Asked):
    """Photos to remove from the index."""

    photos: list[PhotoId] = Field(min_length=1, max_length=MOST)


class RemoveAnswer(BaseModel):
    """How many photos were removed; their files stay."""

    removed: int
    photos: int = Field(description="How many are indexed now.")


class Remover:
    """Takes photos out; `changing` is held while the index changes."""

    def __init__(
        self,
        collection: Collection,
        settings: WebSettings,
        threads: Threads,
        changing: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._collection, self._settings = collection, settings
        self._threads, self._changing = threads, changing

    async def remove(self, photos: Sequence[str]) -> RemoveAnswer:
        """Take photos out, all or none; those that are gone already are passed over.

        A WebError where that is not allowed, one is no photo, or another process writes for long.
        """
        if not self._settings.writable:
            raise WebError(403, "No photos can be removed here: start the server with --writable.")
        for identity in photos:
            if not identity.isdecimal():
                raise WebError(422, f"{identity} is not a photo of the index.")
        paths = [self._collection.path(int(one)) for one in dict.fromkeys(photos)]
        there = [path for path in paths if path is not None]
        with self._changing():
            removed = await self._take_out(there)
        return RemoveAnswer(removed=removed, photos=len(self._collection))

    async def _take_out(self, paths: Sequence[str]) -> int:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._threads.run(self._remove, paths)
            except PassingError:  # another process may be writing for a moment
                await asyncio.sleep(0.2 * 2**attempt)
        raise WebError(
            503,
            "Another process is writing to the index: try again in 10 s.",
            {"Retry-After": "10"},
        )

    def _remove(self, paths: Sequence[str]) -> int:
        index = self._collection.index
        there = list(index.engine.find(paths))
        removed = index.remove(there) if there else 0
        self._collection.forget(paths)
        return removed
