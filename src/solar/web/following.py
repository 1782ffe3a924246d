"""Notices that another process has changed an index, and has the app learn what it holds now."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from solar.errors import SolarError
from solar.search import PhotoIndex
from solar.search.folder_storage import FolderStorage
from solar.web.photos import Collection

_COUNTED = 5.0  # seconds between two looks at an engine that has no versions


class Follower:
    """Compares the versions of indexes with those last seen.

    `forget` is called where one has changed, before the collection is read again. Nothing is done
    while `busy` says that the app itself is changing it.
    """

    def __init__(
        self,
        collection: Collection,
        indexes: Sequence[PhotoIndex],
        forget: Callable[[], None],
        busy: Callable[[], bool],
    ) -> None:
        self._collection, self._indexes = collection, indexes
        self._forget, self._busy = forget, busy
        self._reading = threading.Lock()
        self._counted: dict[int, tuple[float, int]] = {}
        self._seen = self._versions()

    def follow(self) -> None:
        """Look whether something has changed: a fraction of a millisecond where nothing has."""
        with suppress(SolarError):  # damage is told to those who search
            now = self._versions()
            # Asked after the versions, which the app itself may be changing right now.
            if now == self._seen or self._busy():
                return
            # While one visitor's request reads a large collection, others go on with the old one.
            if not self._reading.acquire(blocking=False):
                return
            try:
                self._forget()
                self._collection.update()
                self._seen = now
            finally:
                self._reading.release()

    def added(self) -> None:
        """Take note of a change by the app itself, which the collection knows already."""
        with suppress(SolarError):
            now = self._versions()
            if now == [self._seen[0] + 1, *self._seen[1:]]:  # and nobody else did anything
                self._seen = now

    def _versions(self) -> list[int]:
        return [self._version(number, index) for number, index in enumerate(self._indexes)]

    def _version(self, number: int, index: PhotoIndex) -> int:
        if isinstance(index.engine, FolderStorage):
            return index.engine.version
        since, count = self._counted.get(number, (-_COUNTED, 0))
        if time.monotonic() - since >= _COUNTED:
            self._counted[number] = time.monotonic(), count  # also if the engine does not answer
            count = len(index)
            self._counted[number] = time.monotonic(), count
        return count
