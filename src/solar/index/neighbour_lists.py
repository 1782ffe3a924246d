"""Exact k nearest neighbours of every photo, in a resumable file.

Rows are compared block by block with all others (`nearest_rows`), so that memory holds a few blocks
whatever the size of the collection, and never a matrix of all similarities. Finished blocks are
appended to a file, and another run goes on after them.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.arrays import RowNumbers
from solar.describe.progress import Progress, counted
from solar.files import unwritable
from solar.index.embeddings import DescribedCollection
from solar.ranking.neighbours import Neighbours, nearest_rows

BLOCK = 1024
"""Photos whose neighbours are written at a time: some seconds of work."""

Records: TypeAlias = npt.NDArray[np.void]

NeighbourLists: TypeAlias = Records
"""A record per photo asked for: its neighbours in `rows` (k,), best first, and their `scores`."""


def neighbour_lists(
    photos: DescribedCollection,
    asked: RowNumbers,
    k: int,
    folder: Path,
    progress: Progress | None = None,
    device: str | None = None,
    step: str = "Comparing",
) -> NeighbourLists:
    """Find the k photos most similar to each of some photos; of equal ones the first.

    Args:
        photos: The collection.
        asked: (m,) rows of the photos whose neighbours are wanted, who are none of their own.
        k: How many; all others of a smaller collection.
        folder: Where the file is kept; what an earlier run wrote into it counts, if it asked the
            same of the same collection.
        progress: Called after every block.
        step: Its name for `progress`.
        device: Where photos are compared, `cuda` for example; the same lists, sooner.

    Returns:
        m records, mapped.

    Raises:
        SolarError: The disk is full or read-only.
    """
    k = max(min(k, len(photos) - 1), 0)
    record = np.dtype([("rows", "<i4", (k,)), ("scores", "<f4", (k,))])
    if k == 0 or len(asked) == 0:
        return np.zeros(len(asked), record)
    key = hashlib.sha256(f"{photos.digest} {k} ".encode() + asked.astype("<i8").tobytes())
    file = folder / f"neighbours-{key.hexdigest()[:16]}.bin"
    nearest = nearest_rows(photos.vectors, device)

    def more(begin: int) -> Iterator[NeighbourLists]:
        for first in range(begin, len(asked), BLOCK):
            yield _others(photos, asked[first : first + BLOCK], k, record, nearest)

    return grown_records(file, record, len(asked), BLOCK, more, step, progress)


def _others(
    photos: DescribedCollection,
    asked: RowNumbers,
    k: int,
    record: np.dtype[Any],
    nearest: Neighbours,
) -> NeighbourLists:
    """The nearest of each row asked for, but for the row itself."""
    found = np.zeros(len(asked), record)
    rows, scores = nearest(np.asarray(photos.vectors[asked], np.float32), k + 1)
    for number, own in enumerate(asked):
        others = np.flatnonzero(rows[number] != own)[:k]
        found["rows"][number] = rows[number, others]
        found["scores"][number] = scores[number, others]
    return found


def grown_records(
    file: Path,
    record: np.dtype[Any],
    total: int,
    block: int,
    more: Callable[[int], Iterable[Records]],
    step: str,
    progress: Progress | None = None,
) -> Records:
    """Finish a file of equal records that grows block by block; a stop costs the last of them.

    Args:
        file: Its name says what it holds: other contents need another name.
        record: The layout of one.
        total: How many there are to be.
        block: How many are written at a time.
        more: Given how many are done, gives the others in blocks.
        step: Its name for `progress`.
        progress: Called after every block.

    Returns:
        (total,) records, mapped.

    Raises:
        SolarError: The disk is full or read-only.
    """
    try:
        with file.open("r+b" if file.exists() else "w+b") as out:
            # The last block may be torn where the power failed.
            blocks = out.seek(0, os.SEEK_END) // (record.itemsize * block)
            done = max(blocks - 1, 0) * block
            out.truncate(done * record.itemsize)
            out.seek(done * record.itemsize)
            advance = counted(progress, step, total, done)
            for some in more(done):
                out.write(some.tobytes())
                out.flush()
                os.fsync(out.fileno())
                advance(len(some))
    except OSError as error:
        raise unwritable(file, error) from error
    return np.memmap(file, record, "r", shape=(total,))
