"""What the commands print with."""

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from solar.evaluation.layout import Table

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


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Print what the package warns of at the end of the block, without the place in its code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                errors().print(text, style="yellow", markup=False, soft_wrap=True)


def print_report(style: str, data: Any, table: "Table") -> None:
    """Print a result as text, JSON, Markdown or LaTeX."""
    from solar.evaluation.layout import RENDERERS

    if style == "json":
        print_json(data)
    else:
        sys.stdout.write(RENDERERS[style](table) + "\n")


def _bars(*more: ProgressColumn) -> Progress:
    """Bars on a terminal, nothing elsewhere; they are gone when done."""
    console = errors()
    return Progress(
        "[progress.description]{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        *more,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Show a bar with time left while items are taken."""
    with _bars(TimeRemainingColumn()) as bars:
        yield from bars.track(items, total, description=what)


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Bars with time left: a function to tell what is being done, how much is, and of how much."""
    with _bars(TimeRemainingColumn()) as bars:
        known: dict[str, TaskID] = {}

        def watch(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what)
            bars.update(known[what], completed=done, total=total)

        yield watch


class PhotoProgress:
    """Counts described photos and draws them, with photos per second and the time left."""

    def __init__(self, bars: Progress, total: int | None) -> None:
        self.described = self.failed = 0
        self._bars = bars
        self._task = bars.add_task("Describing", total=total)

    def advance(self, described: int, failed: int) -> None:
        """Some more were described, or could not be read."""
        self.described += described
        self.failed += failed
        self._bars.advance(self._task, described + failed)


@contextmanager
def photo_progress(total: int | None = None) -> Iterator[PhotoProgress]:
    """Show a bar over photos that are described."""
    with _bars(_Rate(), TimeRemainingColumn()) as bars:
        yield PhotoProgress(bars, total)


class _Rate(ProgressColumn):
    """Photos per second."""

    def render(self, task: Task) -> Text:
        """Draw it once it is known."""
        known = task.speed and task.description == "Describing"
        return Text(f"{task.speed:.1f} photos/s" if known else "")


@contextmanager
def describing_and_ranking() -> Iterator[dict[str, Any]]:
    """Bars over photos described and rows ranked: `progress` and `watch` for `solar.evaluate`."""
    with _bars(_Rate()) as bars:
        photos = bars.add_task("Describing", total=None, visible=False)
        rows = bars.add_task("Ranking", total=None, visible=False)
        yield {
            "progress": lambda described, failed: bars.update(
                photos, advance=described + failed, visible=True
            ),
            "watch": lambda done, total: bars.update(
                rows, completed=done, total=total, visible=True
            ),
        }
