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


class StepBars:
    """A bar for each step, with the time left; itself a `solar.describe.progress.Progress`."""

    def __init__(self, bars: Progress) -> None:
        self.done = 0  # photos described since the start
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
        self.done += int(done - before) if step == "Describing" and done > before else 0
        self._bars.update(task, completed=done, total=total)

    def named(self, step: str) -> Callable[[str, int, int], None]:
        """A progress callback that shows every step under this name."""
        return lambda _, done, total: self(step, done, total)


@contextmanager
def steps() -> Iterator[StepBars]:
    """Show bars over the steps of a command."""
    with _Bars() as bars:
        yield StepBars(bars)


@contextmanager
def photo_progress() -> Iterator[StepBars]:
    """Show bars over resumable work: Ctrl-C ends the command with a sentence that says so."""
    with _Bars() as bars:
        shown = StepBars(bars)
        try:
            yield shown
        except KeyboardInterrupt:
            bars.stop()
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


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        unit = task.fields.get("unit")
        return Text(f"{task.speed:.1f} {unit}/s" if unit and task.speed else "")


class _Bars(Progress):
    """Bars on a terminal, gone when done; elsewhere a line every few seconds."""

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
        self._said: dict[TaskID, tuple[float, str]] = {}  # when, and what count

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        task, now = self._tasks[task_id], self.get_time()
        before, _ = self._said.get(task_id, (task.start_time or now, ""))
        if self.disable and now - before >= _EVERY:
            self._tell(task)

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
