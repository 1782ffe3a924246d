"""Changes of the index while it is served: updates, removals, and other processes."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field

from solar.describe.pipeline import Throughput
from solar.describe.progress import Progress
from solar.errors import PassingError, SolarError
from solar.images import Roots
from solar.images.known_roots import confirm
from solar.index import PhotoIndex
from solar.index.sync import relocate, sync
from solar.storage.types import Amendment
from solar.web.api.jobs import Jobs
from solar.web.api.schemas import Asked, Failed, Job, PhotoId
from solar.web.guard.thread_pools import Threads
from solar.web.photos import Collection
from solar.web.problems import WebError
from solar.web.settings import WebSettings

# Small batches: visitors see the progress, and a server that is stopped need not wait for many.
PACE = Throughput(batch=4)
_ATTEMPTS = 4
_CHANGES = ("new", "changed", "moved", "deleted", "skipped")  # that visitors are told of
MOST = 1000
"""Photos in one request to remove some."""

_ABSOLUTE = re.compile(r"(?<![^\s'\"(`])/(?:[^\s/'\"`]+/)+(?=[^\s/])")
T = TypeVar("T")


def without_places(sentence: str, places: Iterable[str]) -> str:
    """A sentence without folders of this machine; of `places` the last parts stay."""
    for place in sorted(places, key=len, reverse=True):
        sentence = sentence.replace(place, Path(place).name) if Path(place).name else sentence
    return _ABSOLUTE.sub("", sentence)


async def retried(threads: Threads, change: Callable[[], T]) -> T:
    """Change an index in a thread; a WebError if another process is writing to it for long."""
    for attempt in range(_ATTEMPTS):
        with suppress(PassingError):
            return await threads.run(change)
        await asyncio.sleep(0.2 * 2**attempt)
    raise WebError(503, "Another process is writing to the index", wait=10)


class Updater:
    """One update at a time; `changed` is called at its end."""

    def __init__(
        self,
        collection: Collection,
        settings: WebSettings,
        jobs: Jobs,
        changed: Callable[[], None],
    ) -> None:
        self._collection, self._settings = collection, settings
        self._jobs, self._changed = jobs, changed
        self._latest = ""

    @property
    def running(self) -> bool:
        """Whether an update waits or is under way."""
        job = self._jobs.get(self._latest)
        return job is not None and job.state == "running"

    def start(self) -> str:
        """Start an update, or join the running one; returns the job's id."""
        if not self.running:
            self._latest = self._jobs.start(self._sync)
        return self._latest

    def _sync(self, job: Job, progress: Progress) -> None:
        index, moved = self._collection.index, dict[str, str]()
        try:
            _settle(index, self._collection.roots)
            changes = sync(index, progress=progress, device=self._settings.device, throughput=PACE)
            moved = dict(changes.moved)
            job.changes = {what: len(getattr(changes, what)) for what in _CHANGES}
            job.done = job.total
        finally:  # some changes came true even if not all did
            self._collection.update(moved)
            self._changed()


def _settle(index: PhotoIndex, roots: Roots) -> None:
    """Record in the index where its photos are now; a SolarError if they are not there."""
    before = index.roots.roots
    if len({root.path for root in roots.roots}) < len(roots.roots):
        raise SolarError(
            "`photos=` names one folder, but the index has photos from several: use `solar index "
            "relocate` for each folder that has moved."
        )
    if not before:
        index.engine.amend(Amendment(roots=roots))
        confirm(index.place, roots)
    for old, new in zip(before, roots.roots, strict=False):
        if old.path != new.path:
            relocate(index, new.path, old.path)


class RemoveRequest(Asked):
    """Photos to remove from the index."""

    photos: list[PhotoId] = Field(min_length=1, max_length=MOST)


class RemoveAnswer(BaseModel):
    """How many photos were removed; their files stay."""

    removed: int
    photos: int = Field(description="How many are indexed now.")


class RemovedPhotos(BaseModel):
    """Photos that were removed by hand."""

    names: list[str]


class RestoreRequest(Asked):
    """Removed photos to index again."""

    names: list[str] = Field(min_length=1)


class RestoreAnswer(BaseModel):
    """How many photos are back, and which are not."""

    restored: int
    failed: list[Failed]
    photos: int = Field(description="How many are indexed now.")


async def remove(
    collection: Collection,
    photos: Sequence[str],
    threads: Threads,
    changed: Callable[[], None],
) -> RemoveAnswer:
    """Remove photos from the index, all or none; those that are gone already are skipped."""
    for identity in photos:
        if not identity.isdecimal():
            raise WebError(422, f"{identity} is not a photo of the index.")
    paths = [path for one in dict.fromkeys(photos) if (path := collection.path(int(one)))]

    def change() -> int:
        index = collection.index
        there = list(index.engine.find(paths))
        removed = index.remove(there) if there else 0
        collection.forget(paths)
        changed()
        return removed

    removed = await retried(threads, change)
    return RemoveAnswer(removed=removed, photos=len(collection))


class Follower:
    """Notices changes of indexes by other processes, unless a job of the app changes them."""

    def __init__(
        self,
        collection: Collection,
        indexes: Sequence[PhotoIndex],
        forget: Callable[[], None],
        jobs: Jobs,
    ) -> None:
        self._collection, self._indexes = collection, indexes
        self._forget, self._jobs = forget, jobs
        self._reading = threading.Lock()
        self._seen = self._versions()

    def follow(self) -> None:
        """Look for changes: a fraction of a millisecond if there are none."""
        with suppress(SolarError):  # searches report the damage
            now = self._versions()
            # Asked after the versions, which a job may be changing right now.
            if now == self._seen or self._jobs.waiting:
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

    def changed(self) -> None:
        """Note a change by the app itself, which the collection knows already."""
        with suppress(SolarError):
            now = self._versions()
            if now == [self._seen[0] + 1, *self._seen[1:]]:  # and no other process changed it
                self._seen = now

    def _versions(self) -> list[int]:
        return [index.engine.version for index in self._indexes]
