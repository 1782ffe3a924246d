"""Progress of a run: a bar, and mean figures since the last reading."""

import os
import sys
from time import monotonic
from typing import Any

import torch

from solar.training.objective import Terms

_PAUSE = 30.0
"""Seconds between lines without a terminal."""


class Bar:
    """Steps and time left on standard error: a bar, or lines without a terminal.

    Unless it is shown, it only prints warnings.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self.total, self.shown = total, shown
        self._bar: Any = None
        self._task: Any = None
        self._lines = False  # instead of a bar
        self._printed = monotonic()

    def __enter__(self) -> "Bar":
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

            console = Console(stderr=True, highlight=False)
            words = "[progress.description]{task.description}"
            columns = words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            self._lines = not console.is_terminal
            self._bar = Progress(*columns, console=console, transient=True, disable=self._lines)
            self._bar.start()
            self._task = self._bar.add_task("Starting", total=self.total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, done: int, what: str) -> None:
        """Update the number of steps and the description."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=what)
        if self._lines and monotonic() - self._printed >= _PAUSE:
            self._printed = monotonic()
            sys.stderr.write(f"{what}: {done:,} of {self.total:,} steps\n")

    def say(self, what: str) -> None:
        """Update the description."""
        if self._bar is not None:
            self._bar.update(self._task, description=what)

    def tell(self, sentence: str) -> None:
        """Print a sentence after the bar has gone."""
        if self.shown:
            sys.stderr.write(f"{sentence}\n")

    def warn(self, sentence: str) -> None:
        """Print a warning above the bar, if any, else to standard error by rank 0 only."""
        if self._bar is not None:
            self._bar.console.print(f"Warning: {sentence}", style="yellow", markup=False)
        elif os.environ.get("RANK", "0") == "0":
            sys.stderr.write(f"Warning: {sentence}\n")


class Meter:
    """Mean figures since the last reading; only reading waits for the GPU."""

    def __init__(self) -> None:
        self._seen: list[Terms] = []
        self._since = monotonic()
        self.speed = 0.0  # steps per second between the last two readings

    def add(self, terms: Terms) -> None:
        """Add the figures of a step."""
        self._seen.append({name: value.detach().float() for name, value in terms.items()})

    def read(self) -> dict[str, float]:
        """Means of all figures, in one transfer from the device."""
        rows = torch.stack([torch.stack(list(terms.values())) for terms in self._seen])
        means = dict(zip(self._seen[0], rows.mean(0).tolist(), strict=True))
        now = monotonic()
        self.speed = len(self._seen) / max(now - self._since, 1e-9)
        self._seen, self._since = [], now
        return means
