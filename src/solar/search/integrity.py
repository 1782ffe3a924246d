"""The vectors that a search reads are those that were written.

Every stretch that was written at once has a checksum in the metadata. A small file is checked whole
before its first search. Of a large one the stretches are checked that answers come from, and all
others behind the searches, once in a process: a core of a server is busy for half a second a
gigabyte, and from then on a search does not pay anything.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from solar.arrays import AnyFloats, RowNumbers
from solar.errors import SolarError

AT_ONCE = 64 << 20
"""Bytes that are checked before the first search: 0.03 to 0.1 s."""

Block = tuple[int, int, str]
"""First row, rows and SHA-256 of what was written at once."""


class CheckedVectors:
    """Remembers which stretches of a vectors file were seen to be sound."""

    def __init__(self) -> None:
        self._sound: set[tuple[Path, Block]] = set()
        self._done: Sequence[Block] = ()  # all of these are sound: nothing to look up any more
        self._damage: str | None = None
        self._scrubbing: threading.Thread | None = None
        self._closed = threading.Event()

    def check(
        self, file: Path, vectors: AnyFloats, blocks: Sequence[Block], rows: Iterable[int] = ()
    ) -> None:
        """Make sure of some rows, or of all of a small file; a SolarError if it is damaged."""
        if self._damage is not None:
            raise SolarError(self._damage)
        if blocks is self._done:
            return
        whole_if_there(file, vectors)
        todo = [block for block in blocks if (file, block) not in self._sound]
        if not todo:
            self._done = blocks
            return
        if vectors.nbytes > AT_ONCE:
            self._scrub(file, vectors, todo)
            firsts = np.array([first for first, _, _ in blocks])
            touched = {blocks[n] for n in np.searchsorted(firsts, sorted(rows), "right") - 1}
            todo = [block for block in todo if block in touched]
        for block in todo:
            if problem := self._problem(file, vectors, block):
                raise SolarError(problem)

    def close(self) -> None:
        """Stop what goes on behind the searches."""
        self._closed.set()
        if self._scrubbing is not None:
            self._scrubbing.join()
        self._scrubbing = None
        self._closed.clear()

    def _scrub(self, file: Path, vectors: AnyFloats, blocks: Sequence[Block]) -> None:
        if self._scrubbing is not None and self._scrubbing.is_alive():
            return

        def work() -> None:
            for block in blocks:
                if self._closed.is_set():
                    return
                try:
                    whole_if_there(file, vectors)
                except SolarError:  # every search says so, until the file is restored
                    return
                if problem := self._problem(file, vectors, block):
                    self._damage = problem
                    return

        self._scrubbing = threading.Thread(target=work, name="solar-scrub", daemon=True)
        self._scrubbing.start()

    def _problem(self, file: Path, vectors: AnyFloats, block: Block) -> str | None:
        first, rows, digest = block
        if hashlib.sha256(vectors[first : first + rows].data).hexdigest() != digest:
            return (
                f"{file} is damaged in rows {first} to {first + rows - 1}: restore it or build the "
                "index again."
            )
        self._sound.add((file, block))
        return None


def whole(file: Path, vectors: AnyFloats) -> None:
    """Make sure that a mapped file was not cut short since: reading it would end the process.

    FileNotFoundError if it is gone, a SolarError if it is too short.
    """
    if len(vectors) and file.stat().st_size < vectors.nbytes:
        raise SolarError(f"{file} is cut short: restore it or build it again.")


def whole_if_there(file: Path, vectors: AnyFloats) -> None:
    """The same, of a file that a writer may have replaced."""
    with suppress(FileNotFoundError):  # a writer has replaced it: what is mapped stays
        whole(file, vectors)


def rows_of(ranked: Iterable[Iterable[tuple[int, float]]]) -> set[int]:
    """The rows of several rankings."""
    return {row for best in ranked for row, _ in best}


def gaps(blocks: Sequence[Block], rows: int) -> bool:
    """Whether stretches do not follow one another from the first row to the last."""
    ends: RowNumbers = np.array([0, *(first + count for first, count, _ in blocks)])
    return [first for first, _, _ in blocks] != ends[:-1].tolist() or int(ends[-1]) != rows
