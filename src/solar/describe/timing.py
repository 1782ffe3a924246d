"""Where the time of describing goes, for the end of a build."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from operator import itemgetter
from threading import Lock
from time import perf_counter

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
