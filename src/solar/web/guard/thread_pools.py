"""One thread for the network, a few for everything else; the event loop only passes things on.

The network's thread batches queries of one size. All queues are bounded and refuse work.
"""

import asyncio
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeAlias, TypeVar

from solar.web.problems import WebError

_BUSY = "Too many searches are waiting"
_WAIT = 2  # seconds after which those who are refused may try again
_TIDY = 5.0  # seconds between two times that memory is given back
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h

T = TypeVar("T")
P = ParamSpec("P")


_Batch: TypeAlias = "list[tuple[Any, Future[Any]]]"  # items, and what becomes of them


class NetworkThread:
    """One thread that runs tasks in order, those of one key together."""

    def __init__(
        self,
        queue: int = 64,  # tasks that wait, at most
        batch: int = 16,  # tasks that run together, at most
        gather: float = 0.004,  # seconds that a task waits for others of its key
        watch: Callable[[int, float], None] = lambda tasks, seconds: None,  # of every run
    ) -> None:
        self._queue, self._batch, self._gather, self._watch = queue, batch, gather, watch
        self._thread = ThreadPoolExecutor(1, "network")
        self._growing: dict[Hashable, _Batch] = {}  # that tasks may still join
        self._lock = threading.Lock()
        self._closed = False
        self.waiting = 0
        """Number of waiting tasks."""

    async def together(
        self, key: Hashable, item: Any, run: Callable[[list[Any]], Sequence[Any]]
    ) -> Any:
        """Have `run` process an item with others of the same key; a 503 if too many wait."""
        future: Future[Any] = Future()
        with self._lock:
            if self.waiting >= self._queue:
                raise WebError(503, _BUSY, wait=_WAIT)
            self.waiting += 1
            batch = self._growing.get(key)
            if batch is None or len(batch) >= self._batch:
                batch = self._growing[key] = []
                self._thread.submit(self._work, key, batch, run, time.monotonic() + self._gather)
            batch.append((item, future))
        return await asyncio.wrap_future(future)

    async def alone(self, run: Callable[[], T]) -> T:
        """Run a function in the network's thread."""
        result: T = await self.together(object(), None, lambda _: [run()])
        return result

    def close(self) -> None:
        """Finish the current task, and cancel the others."""
        self._closed = True
        self._thread.shutdown()

    def _work(
        self, key: Hashable, batch: _Batch, run: Callable[[list[Any]], Sequence[Any]], begin: float
    ) -> None:
        if len(batch) < self._batch and not self._closed:
            time.sleep(max(0, begin - time.monotonic()))
        started = time.monotonic()
        with self._lock:
            if self._growing.get(key) is batch:
                del self._growing[key]
            self.waiting -= len(batch)
        if self._closed:
            for _, future in batch:
                future.cancel()
        live = [(item, future) for item, future in batch if future.set_running_or_notify_cancel()]
        if not live:
            return
        try:
            results = run([item for item, _ in live])
            for (_, future), result in zip(live, results, strict=True):
                future.set_result(result)
        except BaseException as error:  # the thread must go on for the others
            for _, future in live:
                if not future.done():
                    future.set_exception(error)
        self._watch(len(live), time.monotonic() - started)


class Threads:
    """A few threads for decoding, searching and matching, and a bounded queue before them."""

    def __init__(self, threads: int, queue: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._most = threads + queue
        self.waiting = 0
        """Tasks that wait or run."""

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in one of the threads; a 503 if too many calls wait."""
        if self.waiting >= self._most:
            raise WebError(503, _BUSY, wait=_WAIT)
        self.waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, partial(work, *args, **kwargs))
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Wait for what runs, and drop what waits."""
        self._pool.shutdown(wait=True, cancel_futures=True)


async def keep_tidy() -> None:
    """Return freed memory to the system every few seconds.

    The C library keeps what each thread freed for that thread's next use: hundreds of megabytes
    after a few searches. It also gives every thread a heap of its own, in which long-lived uploads
    lie scattered: with two heaps in all, memory stops growing once the caches are full.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    limit, trim = (getattr(library, name, None) for name in ("mallopt", "malloc_trim"))
    if limit is not None:
        limit(_ARENA_MAX, 2)
    while trim is not None:
        await asyncio.sleep(_TIDY)
        await asyncio.to_thread(trim, 0)
