"""The vectors that a search reads are those that were written.

Every stretch that was written at once has a checksum in the metadata. A small file is checked whole
before its first search; of a large one, every stretch when an answer first comes from it.
`solar index check` reads everything.
"""

from __future__ import annotations

import hashlib
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

    def check(
        self, file: Path, vectors: AnyFloats, blocks: Sequence[Block], rows: Iterable[int]
    ) -> None:
        """Make sure of some rows, or of all of a small file; a SolarError if it is damaged."""
        whole_if_there(file, vectors)
        if vectors.nbytes > AT_ONCE:
            firsts = np.array([first for first, _, _ in blocks])
            touched = np.unique(np.searchsorted(firsts, list(rows), "right") - 1)
            blocks = [blocks[number] for number in touched]
        for block in blocks:
            if (file, block) not in self._sound:
                if problem := damage(file, vectors, block):
                    raise SolarError(problem)
                self._sound.add((file, block))


def damage(file: Path, vectors: AnyFloats, block: Block) -> str | None:
    """A sentence if a stretch is not what was written."""
    first, rows, digest = block
    if hashlib.sha256(vectors[first : first + rows].data).hexdigest() == digest:
        return None
    return (
        f"{file} is damaged in rows {first} to {first + rows - 1}: restore it or build the "
        "index again."
    )


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
