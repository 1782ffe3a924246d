"""What the commands print with."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
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
    from solar.evaluation.table_text import Table

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
    from solar.evaluation.table_text import RENDERERS

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


class StepBars:
    """A bar for each step, with the time left; itself a `solar.describe.progress.Progress`.

    Attributes:
        done: How much was done since the start, of all steps together.
    """

    def __init__(self, bars: Progress) -> None:
        self.done = 0
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._last = ""

    def __str__(self) -> str:
        return _count(self._bars.tasks[self._tasks[self._last]]) if self._tasks else "0 photos"

    def __call__(self, step: str, done: int, total: int) -> None:
        """Move the bar of a step."""
        if step not in self._tasks:
            unit = "photos" if step == "Describing" else ""
            self._tasks[step] = self._bars.add_task(printable(step), unit=unit)
        self._last, task = step, self._tasks[step]
        before = self._bars.tasks[task].completed
        self.done += done - int(before) if done > before else 0
        self._bars.update(task, completed=done, total=total)


@contextmanager
def steps() -> Iterator[StepBars]:
    """Show bars over the steps of a command."""
    with _Bars(_Rate(), TimeRemainingColumn()) as bars:
        yield StepBars(bars)


@contextmanager
def photo_progress(*, resumable: bool = True) -> Iterator[StepBars]:
    """Show a bar over photos that are described.

    Where the work is resumable, Ctrl-C ends the command with a sentence that says so.
    """
    with _Bars(_Rate(), TimeRemainingColumn()) as bars:
        shown = StepBars(bars)
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
