"""Progress callbacks."""

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Progress callback: (step, done, total)."""


def counted(
    progress: Progress | None, step: str, total: int, done: int = 0
) -> Callable[[int], None]:
    """A function to call with how much more of a step is done; reports the total at once."""

    def advance(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(step, done, total)

    if total and not done:
        advance(0)
    return advance
