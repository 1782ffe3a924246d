"""Brings the collection up to date with its folders while visitors go on searching."""

import asyncio
import threading
import time
from collections.abc import Callable

from solar.describe.known_roots import confirm
from solar.describe.pipeline import Throughput
from solar.errors import SolarError
from solar.images import Roots
from solar.search import PhotoIndex
from solar.search.engine import Amendment
from solar.search.sync import Changes, relocate, sync
from solar.web.jobs import Jobs, without_places
from solar.web.photos import Collection
from solar.web.problems import WebError
from solar.web.schemas import ChangeCounts, Job
from solar.web.settings import WebSettings

_ATTEMPTS = 3
# Few at a time: visitors see how far it is, and a server that is stopped need not wait for many.
_PACE = Throughput(batch=4)


class Updater:
    """One update at a time, in a thread of its own; `changed` is called at its end."""

    def __init__(
        self,
        collection: Collection,
        settings: WebSettings,
        jobs: Jobs,
        changed: Callable[[], None],
    ) -> None:
        self._collection, self._settings = collection, settings
        self._jobs, self._changed = jobs, changed
        self._latest: tuple[str, Job, threading.Thread] | None = None
        self._closed = False

    @property
    def allowed(self) -> bool:
        """Whether visitors may have the collection brought up to date."""
        return self._settings.writable and bool(self._collection.roots)

    @property
    def running(self) -> bool:
        """Whether an update is under way."""
        return self._latest is not None and self._latest[1].state == "running"

    def start(self) -> str:
        """Begin an update, or join the one that runs; gives the job's id.

        A WebError where nothing may be changed.
        """
        if not self.allowed:
            raise WebError(
                403, "The collection cannot be updated here: start the server with --writable."
            )
        if self._latest is None or not self.running:
            job = Job(state="running", done=0, total=0, added=[], failed=[])
            thread = threading.Thread(target=self._run, args=(job,), name="update")
            self._latest = self._jobs.add(job), job, thread
            thread.start()
        return self._latest[0]

    async def close(self) -> None:
        """Break off an update: what was described until now is not described again."""
        self._closed = True
        if self._latest is not None:
            await asyncio.to_thread(self._latest[2].join)

    def _run(self, job: Job) -> None:
        moved = {}
        try:
            changes = self._sync(job)
            moved = dict(changes.moved)
            job.changes = ChangeCounts.of(changes)
            job.done = job.total
        except SolarError as error:
            job.error = without_places(str(error), self._collection.places)
        except Exception:
            job.error = "The update failed: the server's log says why."
            raise
        finally:
            try:  # some changes came true even if not all did
                self._collection.update(moved)
                self._changed()
            finally:
                job.state = "done"

    def _sync(self, job: Job) -> Changes:
        index, told = self._collection.index, _Told(job, lambda: self._closed)
        _settle(index, self._collection.roots)
        for attempt in range(_ATTEMPTS):
            try:
                return sync(index, progress=told, device=self._settings.device, throughput=_PACE)
            except SolarError:  # a visitor may be adding photos at this moment
                if attempt == _ATTEMPTS - 1 or self._closed:
                    raise
                time.sleep(0.2 * 2**attempt)
        raise AssertionError  # the last attempt raises


def _settle(index: PhotoIndex, roots: Roots) -> None:
    """Have an index remember where its photos are now; a SolarError if they are not there."""
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


class _Told:
    """Tells a job how many photos are described; breaks off where the server stops."""

    def __init__(self, job: Job, closed: Callable[[], bool]) -> None:
        self._job, self._closed = job, closed

    def expect(self, photos: int) -> None:
        self._job.done, self._job.total = 0, photos

    def __call__(self, described: int, failed: int) -> None:
        if self._closed():
            raise SolarError("The server was stopped: update the collection again.")
        self._job.done += described + failed
