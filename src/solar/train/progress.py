"""Bars for what takes long, drawn on a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Watch = Callable[[str, int, int], None]
"""Told what is going on, how much of it is done, and of how much."""


@contextmanager
def stages(draw: bool = True) -> Iterator[Watch]:
    """Draw a bar with the time left for whatever is going on; gone when done.

    Args:
        draw: If off, or where standard error is no terminal, nothing is drawn.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeRemainingColumn

    console = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not (draw and console.is_terminal)
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def watch(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield watch
