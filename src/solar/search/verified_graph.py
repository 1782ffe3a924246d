"""Which photos of a collection show the same place: pairs that keypoints confirm.

Descriptors choose the pairs (`solar.search.photo_pairs`), keypoints decide. What is found of each
pair is appended to a file, so that a run that was stopped goes on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from solar import __version__
from solar.arrays import RowNumbers
from solar.describe.counting import Progress
from solar.files import unwritable
from solar.search.calibration import Evidence
from solar.search.described_collection import DescribedCollection
from solar.search.pair_files import Pair
from solar.search.pair_verification import PAIRS, matched
from solar.search.photo_pairs import ChosenPairs
from solar.search.record_file import Records, grown_records
from solar.search.verify import Verifier

_RECORD = np.dtype([("inliers", "<i4")])


@dataclass(frozen=True, eq=False)
class VerifiedGraph:
    """Photos, and pairs of them that were compared.

    Attributes:
        photos: How many photos there are.
        pairs: (m, 2) rows of the pairs that show the same place, the smaller first.
        inliers: (m,) keypoints that agree.
        compared: How many pairs were compared.
    """

    photos: int
    pairs: RowNumbers
    inliers: npt.NDArray[np.int32]
    compared: int


def verified_graph(
    photos: DescribedCollection,
    chosen: ChosenPairs,
    verifier: Verifier,
    inliers: int,
    folder: Path,
    progress: Progress | None = None,
) -> VerifiedGraph:
    """Compare chosen pairs; in memory are those alone that show the same place.

    Args:
        photos: The collection.
        chosen: The pairs.
        verifier: It matches their keypoints.
        inliers: From so many on, a pair shows the same place.
        folder: Where unfinished work is kept.
        progress: Called after every few pairs.

    Raises:
        SolarError: The disk is full or read-only.
    """
    count = len(chosen)
    found = _compared(photos, chosen, verifier, folder, count, progress)
    kept, first = [(np.empty((0, 2), np.int64), np.empty(0, np.int32))], 0
    for rows in chosen.pieces():
        counts = found["inliers"][first : first + len(rows)]
        good = np.flatnonzero(counts >= inliers)
        kept.append((np.sort(rows[good], axis=1), counts[good]))
        first += len(rows)
    pairs, strengths = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return VerifiedGraph(len(photos), pairs, strengths, count)


def _compared(
    photos: DescribedCollection,
    chosen: ChosenPairs,
    verifier: Verifier,
    folder: Path,
    count: int,
    progress: Progress | None,
) -> Records:
    """The inliers of each pair; -1 where a photo cannot be read."""
    if not count:  # of which nothing can be mapped
        return np.empty(0, _RECORD)
    known = f"{__version__} {photos.digest} {photos.roots.stored()} {verifier.settings} {count}"
    digest = hashlib.sha256(known.encode("utf-8", "surrogateescape"))
    for rows in chosen.pieces():
        digest.update(rows.astype("<i8").tobytes())

    def more(done: int) -> Iterator[Records]:
        for some in matched(islice(chosen, done, None), verifier):
            yield _records(some)

    file = folder / f"matched-{digest.hexdigest()[:16]}.bin"
    _match_again(file, chosen, verifier)
    return grown_records(file, _RECORD, count, PAIRS, more, "Verifying", progress)


def _records(some: Sequence[tuple[Pair, Evidence | None]]) -> Records:
    inliers = (-1 if evidence is None else evidence.inliers for _, evidence in some)
    return np.array([(number,) for number in inliers], _RECORD)


def _match_again(file: Path, chosen: ChosenPairs, verifier: Verifier) -> None:
    """Match the pairs of which an earlier run could not read a photo: it may be back."""
    known = file.stat().st_size // _RECORD.itemsize if file.exists() else 0
    if not known:
        return
    try:
        records = np.memmap(file, _RECORD, "r+", shape=(known,))
        unread = records["inliers"] < 0
        rows, done = np.flatnonzero(unread), 0
        for some in matched(compress(chosen, unread), verifier):
            records[rows[done : done + len(some)]] = _records(some)
            done += len(some)
        records.flush()
    except OSError as error:
        raise unwritable(file, error) from error
