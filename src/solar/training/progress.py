"""A bar with the time left, for whoever is watching."""

import os
import sys
from typing import Any


def warn(sentence: str) -> None:
    """Print a warning to standard error; of several processes only the first speaks."""
    if os.environ.get("RANK", "0") == "0":
        sys.stderr.write(f"Warning: {sentence}\n")


class Bar:
    """Steps done and the time left, on standard error if that is a terminal.

    Unless it is shown, there is only `warn`.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self.total, self.shown = total, shown
        self._bar: Any = None
        self._task: Any = None
        self._done = 0

    def __enter__(self) -> "Bar":
        if self.shown:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

            console = Console(stderr=True, highlight=False)
            words = "[progress.description]{task.description}"
            columns = words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            hidden = not console.is_terminal
            self._bar = Progress(*columns, console=console, transient=True, disable=hidden)
            self._bar.start()
            self._task = self._bar.add_task("Starting", total=self.total, completed=self._done)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, done: int, what: str) -> None:
        """Say how many steps are done, and what is going on."""
        self._done = done
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=what)

    def say(self, what: str) -> None:
        """Say what is going on between steps."""
        if self._bar is not None:
            self._bar.update(self._task, description=what)

    def warn(self, sentence: str) -> None:
        """Print a warning above the bar, or to standard error where there is none."""
        if self._bar is not None:
            self._bar.console.print(f"Warning: {sentence}", style="yellow", markup=False)
        else:
            warn(sentence)
