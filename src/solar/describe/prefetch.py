"""Bounded prefetching in threads."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


def ahead(function: Callable[[S], T], items: Iterable[S], threads: int, most: int) -> Iterator[T]:
    """Call a function for each item in other threads, at most `most` ahead, keeping the order."""
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[T]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > most:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # a run that stops early must not wait for what it no longer needs
            for future in waiting:
                future.cancel()


def prefetched(items: Iterator[T], ahead: int) -> Iterator[T]:
    """Run an iterator in a thread of its own, `ahead` items ahead."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, items, None) for _ in range(ahead))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item
