"""Who is told how far describing is."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many photos were just described and how many could not be read."""


@runtime_checkable
class Expecting(Protocol):
    """A `Progress` that also wants to know how many photos there are to describe."""

    def expect(self, photos: int) -> None:
        """So many will come."""


def expect(progress: Progress | None, photos: int) -> None:
    """Tell somebody who wants to know how many photos there are to describe."""
    if isinstance(progress, Expecting):
        progress.expect(photos)
