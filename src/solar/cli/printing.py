"""What the commands print with."""

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from solar.cli.help import with_options
from solar.errors import printable

if TYPE_CHECKING:
    from solar.evaluation.layout import Table

T = TypeVar("T")

# Where no terminal tells its width, a table must not be cut at 80 columns.
_PIPE_WIDTH = 160
# Seconds between two lines about progress, where there is no terminal to draw bars on.
_EVERY = 5


def output() -> Console:
    """Results, on standard output."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return Console(width=width, highlight=False, emoji=False)


def errors() -> Console:
    """Progress and complaints, on standard error."""
    return Console(stderr=True, highlight=False, emoji=False)


def say(text: str, style: str | None = None, *, to: Console | None = None) -> None:
    """Print one line as it is, on standard error if not told otherwise.

    Brackets in it are no markup, and what a file name may hold does nothing to the terminal.
    """
    (to or errors()).print(printable(with_options(text)), style=style, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print for a program to read."""
    sys.stdout.write(json_text(value, sys.stdout.encoding))


def json_text(value: Any, encoding: str = "utf-8") -> str:
    """A value as indented JSON, in escapes where the encoding has no character for something.

    So has none for a file name that is not UTF-8, and a program gets that name back nevertheless.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(value, indent=2) + "\n"
    return text


@contextmanager
def warnings_as_sentences() -> Iterator[None]:
    """Print what the package warns of at the end of the block, without the place in its code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(warning.message) for warning in caught):
                say(text, "yellow")


def print_report(style: str, data: Any, table: "Table") -> None:
    """Print a result as text, JSON, Markdown or LaTeX."""
    from solar.evaluation.layout import RENDERERS

    if style == "json":
        print_json(data)
    else:
        sys.stdout.write(RENDERERS[style](table) + "\n")


class _Bars(Progress):
    """Bars on a terminal, gone when done; elsewhere a line every few seconds."""

    def __init__(self, *more: ProgressColumn) -> None:
        console = errors()
        super().__init__(
            TextColumn("{task.description}", style="progress.description", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            *more,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._said: dict[TaskID, tuple[float, str]] = {}  # when each was last told of, and how far

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a task, and tell of it where it is time."""
        super().update(task_id, **changes)
        task, now = self._tasks[task_id], self.get_time()
        before, _ = self._said.get(task_id, (task.start_time or now, ""))
        if self.disable and now - before >= _EVERY:
            self._tell(task)

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        """Tell how much was done in the end, of what was told before."""
        super().__exit__(kind, *error)
        for task_id in list(self._said) if kind is None else ():
            self._tell(self._tasks[task_id])

    def _tell(self, task: Task) -> None:
        """Print a line about a task, unless the last one said the same."""
        _, told = self._said.get(task.id, (0.0, ""))
        self._said[task.id] = (self.get_time(), _count(task))
        if told != _count(task):
            say(_line(task))


def _line(task: Task) -> str:
    """How far a task is: "Describing: 120 of 338 photos, 3.2 photos/s, 1:08 left"."""
    unit, parts = task.fields.get("unit"), [f"{task.description}: {_count(task)}"]
    if unit and task.speed:
        parts.append(f"{task.speed:.1f} {unit}/s")
    if task.time_remaining:
        minutes, seconds = divmod(int(task.time_remaining), 60)
        hours, minutes = divmod(minutes, 60)
        parts.append(
            f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"
        )
    return ", ".join(parts)


def _count(task: Task) -> str:
    of = "" if task.total is None else f" of {task.total:,.0f}"
    return f"{task.completed:,.0f}{of} {task.fields.get('unit', '')}".rstrip()


def progress(items: Iterable[T], total: int, what: str) -> Iterator[T]:
    """Show a bar with time left while items are taken."""
    with _Bars(TimeRemainingColumn()) as bars:
        task = bars.add_task(printable(what), total=total)
        for item in items:
            yield item
            bars.update(task, advance=1)


@contextmanager
def steps() -> Iterator[Callable[[str, int, int], None]]:
    """Bars with time left: a function to tell what is being done, how much is, and of how much."""
    with _Bars(TimeRemainingColumn()) as bars:
        known: dict[str, TaskID] = {}

        def watch(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(printable(what))
            bars.update(known[what], completed=done, total=total)

        yield watch


class PhotoProgress:
    """Counts described photos and draws them, with photos per second and the time left.

    It is itself what `solar.extract` takes as `progress`.
    """

    def __init__(self, bars: Progress, total: int | None, *, visible: bool = True) -> None:
        self.described = self.failed = 0
        self._bars = bars
        self._task = bars.add_task("Describing", total=total, visible=visible, unit="photos")

    def __str__(self) -> str:
        return _count(next(task for task in self._bars.tasks if task.id == self._task))

    def expect(self, photos: int) -> None:
        """So many are to come, beside those that were counted already."""
        self._bars.update(self._task, total=self.described + self.failed + photos)

    def advance(self, described: int, failed: int) -> None:
        """Some more were described, or could not be read."""
        self.described += described
        self.failed += failed
        self._bars.update(self._task, advance=described + failed, visible=True)

    __call__ = advance


@contextmanager
def photo_progress(total: int | None = None, *, resumable: bool = True) -> Iterator[PhotoProgress]:
    """Show a bar over photos that are described.

    Where the work is resumable, Ctrl-C ends the command with a sentence that says so.
    """
    with _Bars(_Rate(), TimeRemainingColumn()) as bars:
        shown = PhotoProgress(bars, total)
        try:
            yield shown
        except KeyboardInterrupt:
            if not resumable:
                raise
            bars.stop()
            say(f"Stopped after {shown}; run the same command again to continue.")
            raise typer.Exit(130) from None


class _Rate(ProgressColumn):
    """Photos per second."""

    def render(self, task: Task) -> Text:
        """Draw it once it is known."""
        unit = task.fields.get("unit")
        return Text(f"{task.speed:.1f} {unit}/s" if unit and task.speed else "")


@contextmanager
def describing_and_ranking() -> Iterator[dict[str, Any]]:
    """Bars over photos described and rows ranked: `progress` and `watch` for `solar.evaluate`."""
    with _Bars(_Rate()) as bars:
        photos = PhotoProgress(bars, None, visible=False)
        rows = bars.add_task("Ranking", total=None, visible=False)
        yield {
            "progress": photos,
            "watch": lambda done, total: bars.update(
                rows, completed=done, total=total, visible=True
            ),
        }
