"""What the commands print with."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from rich.console import Console

T = TypeVar("T")

# Where no terminal tells its width, a table must not be cut at 80 columns.
_PIPE_WIDTH = 160


def output() -> Console:
    """Results, on standard output."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def errors() -> Console:
    """Progress and complaints, on standard error."""
    return Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """Print for a program to read."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Show a bar with time left on a terminal, nothing elsewhere; it is gone when done."""
    from rich.progress import track

    console = errors()
    yield from track(
        items, what, total=total, console=console, transient=True, disable=not console.is_terminal
    )
