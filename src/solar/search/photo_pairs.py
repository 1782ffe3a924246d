"""Which photos of a collection are worth matching: pairs for structure from motion.

Each photo is paired with the k that are most similar by their descriptors, and, for the frames of a
video, with those before and after it. A pair counts once, whichever of the two found the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.errors import SolarError
from solar.search.described_collection import Described, DescribedCollection, walk_described
from solar.search.engine import RowNumbers
from solar.search.near import in_space, straight
from solar.search.neighbour_lists import NeighbourLists, neighbour_lists
from solar.search.pair_files import Pair, read_names
from solar.search.pair_verification import verified
from solar.search.verify import VerifySettings

Told: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and of how much."""

_CELLS = 1 << 21  # of a table that is looked at at a time: some tens of MB


@dataclass(frozen=True)
class PairSettings:
    """Which pairs to choose; see `pairs`."""

    k: int = 20
    min_score: float | None = None
    verify: bool | VerifySettings = False
    query: str | Path | Sequence[str] | None = None
    window: int = 0
    within: float | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        refuse_score(self.min_score)
        if self.within is not None and not self.within > 0:
            raise SolarError(f"within must be a distance in metres, not {self.within:g}.")
        if self.k < 0 or self.window < 0 or self.k + self.window < 1:
            raise SolarError(
                "Pairs need neighbours: k or window must be 1 or more, and neither negative."
            )


def refuse_score(min_score: float | None) -> None:
    """A SolarError if no two photos could ever be that similar, or all are."""
    if min_score is not None and not -1 <= min_score <= 1:
        raise SolarError(
            f"`min_score=` is a cosine similarity: give a number from -1 to 1, not {min_score:g}."
        )


def pairs(
    source: Described,
    *,
    k: int = 20,
    min_score: float | None = None,
    verify: bool | VerifySettings = False,
    query: str | Path | Sequence[str] | None = None,
    window: int = 0,
    within: float | None = None,
    work: str | Path | None = None,
    watch: Told | None = None,
    **describing: Any,
) -> Iterator[Pair]:
    """Choose the pairs of photos that are worth matching, each once.

    Memory holds a few blocks of descriptors, never a matrix of all similarities.

    Example:
        >>> for a, b in pairs("photos.solar", k=20):  # doctest: +SKIP
        ...     print(a, b)

    Args:
        source: An index or its address, a store, an `.h5` file of hloc's, or photos: a folder, a
            list or a tar shard.
        k: Number of nearest neighbours to pair each photo with; 0 for `window` alone.
        min_score: Minimum cosine similarity of neighbours found by `k`.
        verify: Keep only pairs that pass geometric verification (`solar.search.verify`).
        query: Pair only these photos with others: names, or a file with one name per line.
        window: Also pair each photo with this many before and after it in its folder, by name.
        within: If both photos have a GPS position, only pair them within this many metres.
        work: A folder for unfinished work, from which another run can resume. Default: temporary.
        watch: Told of the progress.
        **describing: How to describe photos, as for `solar.extract`: `model`, `device`, `size`, ….
            Descriptors are compared on the device as well if it is `cuda`.

    Returns:
        Names relative to the image folder, in the order of the collection, the most similar first.

    Raises:
        SolarError: There is no such collection, photo or model, or the disk is full.
    """
    device = describing.get("device")
    settings = PairSettings(k, min_score, verify, query, window, within, device)
    return walk_described(
        source, work, lambda photos, folder: choose(photos, settings, folder, watch), **describing
    )


def choose(
    photos: DescribedCollection, settings: PairSettings, folder: Path, watch: Told | None = None
) -> Iterable[Pair]:
    """The same for a collection that is at hand, with unfinished work in a folder."""
    verifier = None
    if settings.verify:
        wanted = VerifySettings() if settings.verify is True else settings.verify
        verifier = photos.verifier(wanted)  # what would go wrong is told before any work
    chosen = chosen_pairs(photos, settings, folder, watch)
    if verifier is None:
        return chosen
    told = partial(watch, "Verifying") if watch is not None else None
    return verified(chosen, verifier, len(chosen), told)


def chosen_pairs(
    photos: DescribedCollection, settings: PairSettings, folder: Path, watch: Told | None = None
) -> ChosenPairs:
    """The pairs before any verification."""
    asked = np.arange(len(photos))
    if (query := settings.query) is not None:
        names = read_names(query, photos) if isinstance(query, str | Path) else query
        asked = np.array([photos.row(name, "The query") for name in dict.fromkeys(names)], np.int64)
    limit = None
    if settings.within is not None:
        limit = Limit(in_space(photos.positions()), straight(settings.within))
    told = partial(watch, "Comparing") if watch is not None else None
    lists = neighbour_lists(photos, asked, settings.k, folder, told, settings.device)
    order = NameOrder.of(photos.names) if settings.window else None
    return ChosenPairs(photos, asked, lists, settings.min_score, order, settings.window, limit)


@dataclass(frozen=True, eq=False)
class NameOrder:
    """Photos by name within their folders; numbers count as such: 9.jpg comes before 10.jpg."""

    rows: RowNumbers  # (n,) in that order
    places: RowNumbers  # (n,) where each row is in it
    folders: RowNumbers  # (n,) which folder each row is in

    @classmethod
    def of(cls, names: Sequence[str]) -> NameOrder:
        """The order of these names."""
        keys = [(name.rpartition("/")[0], _with_numbers(name)) for name in names]
        rows = np.array(sorted(range(len(names)), key=keys.__getitem__), np.int64)
        _, folders = np.unique([folder for folder, _ in keys], return_inverse=True)
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows))
        return cls(rows, places, folders.astype(np.int64))

    def around(self, rows: RowNumbers, window: int) -> RowNumbers:
        """The rows (m, 2 window) next to some rows (m,), nearest first; -1 where there is none."""
        steps = np.repeat(np.arange(1, window + 1), 2) * np.tile([1, -1], window)
        places = self.places[rows][:, None] + steps
        inside = (places >= 0) & (places < len(self.rows))
        near = self.rows[np.where(inside, places, 0)]
        inside &= self.folders[near] == self.folders[rows][:, None]
        return np.where(inside, near, -1)


def _with_numbers(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if part[:1].isdecimal() else (-1, part) for part in parts if part]


@dataclass(frozen=True, eq=False)
class Limit:
    """How far apart photos may be taken."""

    points: npt.NDArray[np.float64]  # (n, 3) in space; NaN where nobody knows
    metres: float

    def passed(self, rows: RowNumbers, others: RowNumbers) -> npt.NDArray[np.bool_]:
        """Which of some photos (m, k) are known to be too far from others (m,): (m, k)."""
        apart = self.points[others] - self.points[rows][:, None]
        far: npt.NDArray[np.bool_] = np.linalg.norm(apart, axis=2) > self.metres
        return far


@dataclass(frozen=True, eq=False)
class ChosenPairs:
    """Pairs of photos, found when they are asked for; it can be walked through again.

    Attributes:
        photos: The collection.
        asked: (m,) rows of the photos that are paired.
        lists: The neighbours of each of them.
        min_score: Neighbours below do not count.
        order: By which neighbours in time are found.
        window: So many before and after.
        limit: Those too far away do not count.
    """

    photos: DescribedCollection
    asked: RowNumbers
    lists: NeighbourLists
    min_score: float | None = None
    order: NameOrder | None = None
    window: int = 0
    limit: Limit | None = None
    numbers: RowNumbers = field(init=False, repr=False)  # (n,) a row's place in `asked`, or -1

    def __post_init__(self) -> None:
        numbers = np.full(len(self.photos), -1)
        numbers[self.asked] = np.arange(len(self.asked))
        object.__setattr__(self, "numbers", numbers)

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.pieces())

    def __iter__(self) -> Iterator[Pair]:
        names = self.photos.names
        for rows in self.pieces():
            yield from ((names[a], names[b]) for a, b in rows.tolist())

    def pieces(self) -> Iterable[RowNumbers]:
        """Pairs of rows (p, 2), in pieces."""
        width = max(self.lists["rows"].shape[1] + 2 * self.window, 1)
        step = min(max(_CELLS // width**2, 1), 4096)
        for first in range(0, len(self.asked), step):
            numbers = np.arange(first, min(first + step, len(self.asked)))
            found = self._partners(numbers)
            theirs = np.where(found >= 0, self.numbers[found], -1)
            # A pair that an earlier photo has found is there already.
            mine, column = np.nonzero((theirs >= 0) & (theirs < numbers[:, None]))
            others = self._partners(theirs[mine, column])
            known = (others == self.asked[numbers[mine]][:, None]).any(axis=1)
            found[mine[known], column[known]] = -1
            mine, column = np.nonzero(found >= 0)
            yield np.stack([self.asked[numbers[mine]], found[mine, column]], axis=1)

    def _partners(self, numbers: RowNumbers) -> RowNumbers:
        """What each of the photos is paired with, (m, k + 2 window), -1 for none."""
        lists = self.lists[numbers]
        rows = lists["rows"].astype(np.int64)
        if self.min_score is not None:
            rows = np.where(lists["scores"] >= self.min_score, rows, -1)
        if self.order is not None:
            near = self.order.around(self.asked[numbers], self.window)
            twice = (near[:, :, None] == rows[:, None]).any(axis=2)
            rows = np.concatenate([rows, np.where(twice, -1, near)], axis=1)
        if self.limit is not None:
            rows = np.where(self.limit.passed(self.asked[numbers], rows), -1, rows)
        return rows
