"""How progress is told, by everything that takes longer than a second."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the name of a step, how much of it is done, and of how much."""


def counted(
    progress: Progress | None, step: str, total: int, done: int = 0
) -> Callable[[int], None]:
    """A function to call with how much more of a step is done; the total is told at once."""

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(step, done, total)

    if total and not done:
        advance(0)
    return advance
