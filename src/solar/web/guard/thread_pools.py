"""One thread for the network, a few for everything else; the event loop only passes things on.

The network's thread batches queries of one size. All queues are bounded and refuse work.
"""

import asyncio
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from solar.web.problems import BusyError

_TIDY = 5.0  # seconds between two times that memory is given back
_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(eq=False)
class _Task:
    key: Hashable
    item: Any
    run: Callable[[list[Any]], Sequence[Any]]
    future: "Future[Any]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class NetworkThread:
    """One thread that runs tasks in order, those of one key together.

    Args:
        queue: Maximum number of waiting tasks.
        batch: Maximum number of tasks run together.
        gather: Seconds that a task waits for others of its key.
        watch: Called with the number of tasks and the seconds of every run.
    """

    def __init__(
        self,
        queue: int = 64,
        batch: int = 16,
        gather: float = 0.004,
        watch: Callable[[int, float], None] = lambda tasks, seconds: None,
    ) -> None:
        self._queue, self._batch, self._gather, self._watch = queue, batch, gather, watch
        self._tasks: deque[_Task] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._pace = 0.1  # recent seconds per task
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return len(self._tasks)

    async def together(
        self, key: Hashable, item: Any, run: Callable[[list[Any]], Sequence[Any]]
    ) -> Any:
        """Have `run` process an item together with others of the same key.

        A BusyError if too many tasks wait.
        """
        task = _Task(key, item, run)
        with self._changed:
            if len(self._tasks) >= self._queue:
                raise BusyError(self._pace * len(self._tasks))
            self._tasks.append(task)
            self._changed.notify()
        return await asyncio.wrap_future(task.future)

    async def alone(self, run: Callable[[], T]) -> T:
        """Run a function in the network's thread."""
        result: T = await self.together(object(), None, lambda _: [run()])
        return result

    def close(self) -> None:
        """Finish the current task, and cancel the others."""
        with self._changed:
            self._closed = True
            for task in self._tasks:
                task.future.cancel()
            self._tasks.clear()
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while tasks := self._next():
            started = time.monotonic()
            live = [task for task in tasks if task.future.set_running_or_notify_cancel()]
            if not live:
                continue
            try:
                results = live[0].run([task.item for task in live])
                for task, result in zip(live, results, strict=True):
                    task.future.set_result(result)
            except BaseException as error:  # the thread must go on for the others
                for task in live:
                    if not task.future.done():
                        task.future.set_exception(error)
            seconds = time.monotonic() - started
            self._pace += 0.2 * (seconds / len(live) - self._pace)
            self._watch(len(live), seconds)

    def _next(self) -> list[_Task]:
        """The oldest task and others of its key; none when the thread is to end."""
        with self._changed:
            while not self._tasks and not self._closed:
                self._changed.wait()
            while not self._closed and self._tasks:
                first = self._tasks[0]
                alike = [task for task in self._tasks if task.key == first.key][: self._batch]
                left = first.since + self._gather - time.monotonic()
                if len(alike) >= self._batch or left <= 0:
                    for task in alike:
                        self._tasks.remove(task)
                    return alike
                self._changed.wait(left)
            return []


class Threads:
    """A few threads for decoding, searching and matching, and a bounded queue before them."""

    def __init__(self, threads: int, queue: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="work")
        self._threads, self._queue = threads, queue
        self._pace = 0.05
        self.waiting = 0
        """Tasks that wait or run."""

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in one of the threads; a BusyError if too many calls wait."""
        if self.waiting >= self._queue + self._threads:
            raise BusyError(self._pace * self.waiting / self._threads)
        self.waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, self._timed, work, args, kwargs)
        finally:
            self.waiting -= 1

    def _timed(self, work: Callable[..., T], args: Any, kwargs: Any) -> T:
        started = time.monotonic()
        try:
            return work(*args, **kwargs)
        finally:
            self._pace += 0.2 * (time.monotonic() - started - self._pace)

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
