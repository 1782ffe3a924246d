"""What a run tells while it describes: its progress, and in the end where the time went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from threading import Lock
from time import perf_counter
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Progress callback: (step, done, total)."""


def counted(
    progress: Progress | None, step: str, total: int, done: int = 0
) -> Callable[[int], None]:
    """A function to call with how much more of a step is done; reports the total at once."""

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(step, done, total)

    if total and not done:
        advance(0)
    return advance


_spent: dict[str, float] = defaultdict(float)
_lock = Lock()


@contextmanager
def spent(what: str) -> Iterator[None]:
    """Count the seconds of the block; blocks in several threads add up."""
    started = perf_counter()
    try:
        yield
    finally:
        with _lock:
            _spent[what] += perf_counter() - started


def taken() -> dict[str, float]:
    """The seconds by what they were spent on, longest first; counting starts anew."""
    with _lock:
        found = dict(sorted(_spent.items(), key=itemgetter(1), reverse=True))
        _spent.clear()
    return found
