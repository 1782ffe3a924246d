"""Damage to the files of an index in a folder, told by checksums.

A small index is checked whole before its first search; of a large one, each segment when an answer
first comes from it. `solar index check` reads everything. The catalogue has a sum for every row,
compared when it is read (`solar.storage.catalogue_view`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from solar.errors import SolarError
from solar.files import file_digest
from solar.storage.catalogue_view import Segment
from solar.storage.rows import Rows

# Bytes of vectors that are checked before the first search: 0.03 to 0.1 s.
_CHECKED_AT_ONCE = 64 << 20


@dataclass(frozen=True)
class Mapped:
    """The segments of a version, their files, and what these hold.

    Files are text, which is looked up faster than a path, and every search does so.
    """

    segments: Sequence[Segment]
    files: Sequence[str]
    vectors: Rows


def check_segments(state: Mapped, rows: Iterable[int], sound: set[str]) -> None:
    """Check the segments of some rows, or all of a small index; a SolarError if damaged.

    `sound` are the digests of those checked before, to which these are added.
    """
    small = state.vectors.nbytes <= _CHECKED_AT_ONCE
    numbers = range(len(state.segments)) if small else holding(state, rows)
    fresh = [number for number in numbers if state.segments[number].sha256 not in sound]
    with contextlib.suppress(FileNotFoundError):  # replaced: the old one stays mapped
        refuse_short(state, fresh)
    for number in fresh:
        if problem := damage(state, number):
            raise SolarError(problem)
        sound.add(state.segments[number].sha256)


def holding(state: Mapped, rows: Iterable[int]) -> list[int]:
    """The numbers of the segments that some rows are in, ascending."""
    firsts = [one.first for one in state.segments]
    return sorted({bisect_right(firsts, row) - 1 for row in rows})


def refuse_short(state: Mapped, numbers: Iterable[int]) -> None:
    """A SolarError if a file was cut short since: reading the map would end the process."""
    width = state.vectors.shape[1] * state.vectors.itemsize
    for number in numbers:
        if os.stat(state.files[number]).st_size < state.segments[number].rows * width:  # noqa: PTH116 (every search)
            raise SolarError(f"{state.files[number]} is cut short: restore it or build it again.")


def damage(state: Mapped, number: int) -> str | None:
    """A sentence if a segment is not what was written."""
    part = state.vectors.parts[number]
    if hashlib.sha256(part.data).hexdigest() == state.segments[number].sha256:
        return None
    return f"{state.files[number]} is damaged: restore it or build the index again."


def damaged_files(folder: Path, files: Mapping[str, str], remedy: str) -> list[str]:
    """One sentence per file of a folder that does not have its checksum."""
    return [
        f"{folder / name} is missing or damaged: {remedy}."
        for name, digest in files.items()
        if not (folder / name).exists() or file_digest(folder / name) != digest
    ]
