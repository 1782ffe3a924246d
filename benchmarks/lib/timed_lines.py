"""Lines that say how far a long benchmark is."""

import sys
import time
from typing import TextIO

_START = time.perf_counter()


def elapsed() -> float:
    """Seconds since the benchmark began."""
    return time.perf_counter() - _START


def say(text: str, file: TextIO | None = None) -> None:
    """Print at once, with the time."""
    print(f"[{elapsed():7.1f} s] {text}", file=file or sys.stdout, flush=True)
