"""Progress of commands: bars on a terminal, elsewhere a line every few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
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

from solar.cli.printing import errors, print_summary, say
from solar.errors import printable

if TYPE_CHECKING:
    from solar.index.embeddings import DescribedCollection

# Seconds between two lines without a terminal.
_EVERY = 5
# Seconds that a speed is averaged over: photos arrive in batches, large and small ones in turn.
_PERIOD = 300


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit")
        return Text(f"{task.speed:.1f} {unit}/s" if unit and task.speed else "")


class StepBars(Progress):
    """A bar for each step, gone when done; elsewhere than on a terminal a line every few seconds.

    Itself a `solar.describe.progress.Progress`.
    """

    def __init__(self) -> None:
        console = errors()
        super().__init__(
            TextColumn("{task.description}", style="progress.description", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=_PERIOD,
            disable=not console.is_terminal,
        )
        self.done = 0  # photos described since the start
        self._steps: dict[str, TaskID] = {}
        self._said: dict[TaskID, tuple[float, str]] = {}  # when, and what count

    def __str__(self) -> str:
        return _count(self._tasks[self._latest]) if self._steps else "0 photos"

    def __call__(self, step: str, done: int, total: int) -> None:
        """Move the bar of a step."""
        if step not in self._steps:
            unit = "photos" if step == "Describing" else ""
            self._steps[step] = self.add_task(printable(step), unit=unit)
        self._latest = self._steps[step]
        task = self._tasks[self._latest]
        self.done += max(0, int(done - task.completed)) if step == "Describing" else 0
        self.update(task.id, completed=done, total=total)
        before, _ = self._said.get(task.id, (task.start_time or self.get_time(), ""))
        if self.disable and self.get_time() - before >= _EVERY:
            self._tell(task)

    def named(self, step: str) -> Callable[[str, int, int], None]:
        """A progress callback that shows every step under this name."""
        return lambda _, done, total: self(step, done, total)

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        super().__exit__(kind, *error)
        for task_id in list(self._said) if kind is None else ():
            self._tell(self._tasks[task_id])

    def _tell(self, task: Task) -> None:
        """Print a line about a task, unless the last one said the same."""
        _, told = self._said.get(task.id, (0.0, ""))
        self._said[task.id] = (self.get_time(), _count(task))
        if told != _count(task):
            say(_line(task))


steps = StepBars
"""Bars over the steps of a command, to enter as a context."""


@contextmanager
def photo_progress() -> Iterator[StepBars]:
    """Show bars over resumable work: Ctrl-C ends the command with a sentence that says so."""
    with StepBars() as shown:
        try:
            yield shown
        except KeyboardInterrupt:
            shown.stop()
            say(f"Stopped after {shown}; run the same command again to continue.")
            raise typer.Exit(130) from None


def described_photos(source: str, work: Path, **describing: Any) -> "DescribedCollection":
    """The photos of a collection with their embeddings; prints how many there are, and skipped."""
    from solar.index.embeddings import described

    with photo_progress() as shown:
        found = described(source, work, progress=shown, **describing)
    if shown.done or found.skipped:
        print_summary("Described", len(found), found.skipped, report="`solar index build --report`")
    return found


def _line(task: Task) -> str:
    """The state of a task: "Describing: 120 of 338 photos, 3.2 photos/s, 0:01:08 left"."""
    unit, parts = task.fields.get("unit"), [f"{task.description}: {_count(task)}"]
    if unit and task.speed:
        parts.append(f"{task.speed:.1f} {unit}/s")
    if task.time_remaining:
        parts.append(f"{timedelta(seconds=int(task.time_remaining))} left")
    return ", ".join(parts)


def _count(task: Task) -> str:
    of = "" if task.total is None else f" of {task.total:,.0f}"
    return f"{task.completed:,.0f}{of} {task.fields.get('unit', '')}".rstrip()
