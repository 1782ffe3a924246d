"""Exact search with the vectors in the memory of GPUs.

Vectors x are held as float16 h, which matrix units multiply as fast as memory gives them, and,
where there is room, also as they are. A search takes three steps:

1. Products of all h with the queries, and the largest of these for each query.
2. How far a product can be from the score that it stands for is known: |q·x - q·h| ≤ |q||x - h|,
   likewise for the rounding of the query, and a bound for the sum (`_slack`). So every row that can
   be among the k best has a product within twice that of the k-th largest.
3. These few rows are scored in double precision from the vectors as they are, and ranked as
   `solar.search.exact` does it: the same rows, scores and order.

Where more rows than usual lie that near to the k-th, because many photos are equal, all of them are
looked up. On a CPU the same runs with products in float32, which is how it is tested.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from solar.arrays import AnyFloats, Flags, RowNumbers, Vectors
from solar.search.device_shard import (
    GROUP,
    NOWHERE,
    DeviceMemoryError,
    Shard,
    devices_called,
    free_memory,
)

Found: TypeAlias = tuple[RowNumbers, Vectors]
"""Rows and their scores, best first."""

# Numbers and rows of a block: each costs some launches, and the products of its rows with the
# queries of a turn take half a gibibyte.
_BLOCK, _ROWS = 1 << 30, 1 << 20
_QUERIES = 256
_ON_HOST = 4096  # rows
_RESERVE = 3 << 30  # bytes of a GPU that stay free: a search takes up to 2 GiB beside the vectors


class ResidentVectors:
    """Vectors in the memory of devices, each row on one of them; searched exactly.

    Several threads may use it; they take turns.

    Args:
        devices: Where to keep vectors. More than one block of them is spread over all.
    """

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._shards = [Shard(device) for device in devices]
        self._filling: Shard | None = None  # whose last block has the last rows
        self._whole = True
        self._vectors: AnyFloats | None = None
        self._stamp: tuple[Hashable, ...] = ()
        self._present: Flags | None = None  # what the shards know of it
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return sum(shard.rows for shard in self._shards)

    @property
    def bytes(self) -> int:
        """What the vectors take on all devices."""
        return sum(shard.bytes for shard in self._shards)

    @property
    def whole(self) -> bool:
        """Whether vectors are held as they are, so that ranking reads none from a file."""
        return self._whole

    def search(
        self,
        queries: Vectors,
        vectors: AnyFloats,
        k: int,
        *,
        present: Flags | None = None,
        stamp: Sequence[Hashable] = (),
    ) -> Found:
        """The rows with the largest inner products, exactly; of equal ones the first.

        Args:
            queries: (n, dim).
            vectors: (rows, dim) float32 or float16. They are loaded if they are new; the array is
                kept, and read again where there is room for float16 alone.
            k: How many rows are wanted of each query.
            present: (rows,) which may be found; all if not given. One array is copied once.
            stamp: What the vectors are known by. If it begins as that of the vectors held, only
                rows that are missing are loaded.

        Returns:
            Rows (n, k), -1 where there are no more, and scores (n, k).

        Raises:
            DeviceMemoryError: There is no room for the vectors, or they are not of unit length.
        """
        with self._lock:
            try:
                self._follow(vectors, tuple(stamp))
                masked = self._allow(present, len(vectors))
                return self._search(np.ascontiguousarray(queries, np.float32), k, masked)
            except DeviceMemoryError:
                self._release()
                raise
            except torch.OutOfMemoryError as error:
                self._release()
                raise self._too_small(vectors) from error

    def close(self) -> None:
        """Give the memory back."""
        with self._lock:
            self._release()

    # Loading

    def _follow(self, vectors: AnyFloats, stamp: tuple[Hashable, ...]) -> None:
        """Hold these vectors, or more of which they are the first."""
        both = min(len(stamp), len(self._stamp))
        same_start = both > 0 and stamp[:both] == self._stamp[:both]
        if vectors is self._vectors or (same_start and len(vectors) <= len(self)):
            return
        if same_start:
            whole = self._room(len(vectors) - len(self), vectors)
            if whole or (whole is not None and not self._whole):
                self._append(vectors, stamp)
                return
        self._release()
        whole = self._room(len(vectors), vectors)
        if whole is None:
            raise self._too_small(vectors)
        self._whole = whole
        self._append(vectors, stamp)

    def _room(self, rows: int, vectors: AnyFloats) -> bool | None:
        """Whether so many more rows fit as they are; None if not even their float16 does."""
        numbers = (rows + GROUP) * vectors.shape[1]
        as_they_are = numbers * (2 if vectors.dtype == np.float16 else 6)
        free = self._free()
        return True if as_they_are <= free else False if numbers * 2 <= free else None

    def _free(self) -> int:
        return sum(max(free_memory(shard.device) - _RESERVE, 0) for shard in self._shards)

    def _append(self, vectors: AnyFloats, stamp: tuple[Hashable, ...]) -> None:
        done, dim = len(self), vectors.shape[1]
        most = max(min(_BLOCK // dim, _ROWS), GROUP)
        least = min(done // 8, most)  # many small additions must not make many small blocks
        while done < len(vectors):
            left = len(vectors) - done
            shard = self._filling
            if shard is None or not shard.spare:
                shard = self._filling = max(
                    self._shards, key=lambda one: (free_memory(one.device), -one.rows)
                )
                rows = min(max(left, least), most)
                shard.grow(rows, done, dim, vectors.dtype, whole=self._whole)
            taken = min(left, shard.spare)
            shard.fill(vectors[done : done + taken])
            done += taken
        self._vectors, self._stamp, self._present = vectors, stamp, None

    def _release(self) -> None:
        for shard in self._shards:
            shard.clear()
        self._filling, self._whole = None, True
        self._vectors, self._stamp, self._present = None, (), None

    def _too_small(self, vectors: AnyFloats) -> DeviceMemoryError:
        need, free = vectors.size * 2 / 1e9, self._free() / 1e9
        return DeviceMemoryError(
            f"The vectors take {need:.1f} GB of GPU memory, and {free:.1f} GB are free."
        )

    def _allow(self, present: Flags | None, rows: int) -> bool:
        """Tell the shards which rows may be found; False if all may."""
        if rows < len(self):  # somebody searches an earlier state
            first = np.zeros(len(self), np.bool_)
            first[:rows] = True if present is None else present
            present = first
        if present is None:
            return False
        if present is not self._present:
            for shard in self._shards:
                shard.allow(present)
            self._present = present
        return True

    # Searching

    def _search(self, queries: Vectors, k: int, masked: bool) -> Found:
        rows = np.full((len(queries), k), -1, np.int64)
        scores = np.zeros((len(queries), k), np.float32)
        shards = [shard for shard in self._shards if shard.rows]
        for at in range(0, len(queries) if shards else 0, _QUERIES):
            asked = _HalfQueries.of(queries[at : at + _QUERIES], shards)
            with _full_sums():
                found = self._nearest(asked, shards, k, masked)
            for number, (mine, own) in enumerate(found, at):
                rows[number, : len(mine)], scores[number, : len(mine)] = mine, own
        return rows, scores

    def _nearest(
        self, asked: _HalfQueries, shards: Sequence[Shard], k: int, masked: bool
    ) -> list[Found]:
        """Rows and scores for each query."""
        count = 4 * k + GROUP  # more than enough, as a rule
        found = [shard.largest(asked.halves, count, masked=masked) for shard in shards]
        home = asked.halves.device
        together = torch.cat([values.to(home) for values, _ in found], dim=1)
        floor = torch.full_like(asked.slack, -torch.inf)
        if together.shape[1] >= k:
            floor = together.topk(k).values[:, -1] - asked.slack
        near, crowded = [], np.zeros(len(floor), np.bool_)
        for values, places in found:
            reached = (values >= floor.to(values.device)[:, None]) & (values > -torch.inf)
            counts = reached.sum(dim=1).cpu().numpy()
            # The products that are not among the largest may reach the floor, too.
            crowded |= counts == count
            near.append(torch.where(reached, places, NOWHERE)[:, : max(int(counts.max()), 1)])
        lists = self._ranked(asked.queries, shards, near, k)
        for number in np.flatnonzero(crowded).tolist():
            some = slice(number, number + 1)
            every = [s.above(asked.halves[some], floor[number], masked=masked) for s in shards]
            [lists[number]] = self._ranked(
                asked.queries[some], shards, [places[None] for places in every], k
            )
        return lists

    def _ranked(
        self, queries: Vectors, shards: Sequence[Shard], places: Sequence[Tensor], k: int
    ) -> list[Found]:
        """The best of some places (n, m) of every shard, by their exact scores."""
        pairs = list(zip(shards, places, strict=True))
        if not self._whole:
            assert self._vectors is not None
            several = np.concatenate([shard.numbers(mine) for shard, mine in pairs], axis=1)
            own = zip(queries, several, strict=True)
            return [_ranked_on_host(query, self._vectors, rows, k) for query, rows in own]
        parts = [shard.rank(queries, mine, k) for shard, mine in pairs]
        rows, scores = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        if len(parts) > 1:
            order = np.lexsort((rows, -scores), axis=1)[:, :k]
            rows, scores = (np.take_along_axis(x, order, axis=1) for x in (rows, scores))
        lengths = (rows >= 0).sum(axis=1)
        return [(r[:n], s[:n]) for r, s, n in zip(rows, scores, lengths, strict=True)]


@dataclass(frozen=True)
class _HalfQueries:
    """Queries, and what products know them by, on the first device."""

    queries: Vectors  # (n, dim)
    halves: Tensor  # (n, dim) float16, of unit length
    slack: Tensor  # (n,) see `_slack`

    @classmethod
    def of(cls, queries: Vectors, shards: Sequence[Shard]) -> _HalfQueries:
        """Queries of any length: the order of scores does not depend on it."""
        double = torch.from_numpy(queries).to(shards[0].device).double()
        lengths = double.norm(dim=1, keepdim=True)
        units = torch.where(lengths > 0, double / lengths, 0.0)
        halves = units.half()
        rounding = (units - halves.double()).norm(dim=1)
        longest = max(shard.longest for shard in shards)
        slack = _slack(rounding, longest, max(s.rounding for s in shards), queries.shape[1])
        return cls(queries, halves, slack.float())


def _slack(query_rounding: Tensor, longest: float, rounding: float, dim: int) -> Tensor:
    """How far below the k-th largest product that of a row may be which is among the k best.

    Args:
        query_rounding: (n,) lengths of what float16 takes from queries of unit length.
        longest: The length of the longest row in float16.
        rounding: The length of the most that float16 takes from a row.
        dim: Numbers of a row.
    """
    # Products of two float16 are exact in float32. In adding them, matrix units may cut off where
    # others round, so that each of at most dim sums loses up to 2⁻²³ of what it comes to.
    summed = (dim + 2) * 2.0**-23 * longest
    written = 2.0**-11 * longest + 2.0**-25  # as float16
    # The order is that of float32, in which scores may be equal that differ by 2⁻²³.
    compared = 2.0**-23 * (longest + rounding)
    one = rounding + query_rounding * longest + summed + written + compared
    # Either of two rows may be off by that much; the rest is for the rounding of these numbers.
    return 2.002 * one + 1e-6 * (longest + rounding)


def _ranked_on_host(query: Vectors, vectors: AnyFloats, rows: RowNumbers, k: int) -> Found:
    """The best of some rows, -1 for none, by vectors that no device holds as they are."""
    rows = np.sort(rows[rows >= 0])
    scores = np.empty(len(rows), np.float32)
    double = query.astype(np.float64)
    for at in range(0, len(rows), _ON_HOST):
        some = slice(at, at + _ON_HOST)
        scores[some] = vectors[rows[some]].astype(np.float64) @ double
    order = np.argsort(-scores, kind="stable")[:k]
    return rows[order], scores[order]


@contextmanager
def _full_sums() -> Iterator[None]:
    """Sums of products in float32 throughout, as `_slack` supposes."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_reduced_precision_reduction
    settings.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        settings.allow_fp16_reduced_precision_reduction = before


def resident_on(device: str) -> ResidentVectors | None:
    """Room for vectors on a device, or on every GPU for `cuda`; None and a warning without one."""
    try:
        return ResidentVectors(devices_called(device))
    except DeviceMemoryError as error:
        tell_fallback(error)
        return None


def tell_fallback(error: DeviceMemoryError) -> None:
    """Warn that a search takes place on the CPU."""
    warnings.warn(f"{str(error).rstrip('.')}: searching on the CPU.", stacklevel=3)
