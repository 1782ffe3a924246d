"""Diffusion computed beforehand: a search only adds up a few rows.

After Yang et al., "Efficient Image Retrieval via Decoupling Diffusion into Online and Offline
Processing", AAAI 2019. The scores f of `solar.search.diffuse` solve (I - alpha S) f = y, which is
linear in y, and y is zero but for the seeds:

    f = Σ y(i) · f(i),   (I - alpha S) f(i) = e(i),   i over the seeds,

with e(i) one for row i and zero elsewhere. So f(i) is computed once for every row, among the rows
most similar to it (the paper's truncation), and kept: 8 bytes for each, 8 kB per photo with
1,000. A query costs a plain search for its seeds and a sum of ten short rows, and may reach any row
that its seeds do. What it costs is the building, one small system of equations a photo, and that a
collection that has changed is built anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Floats, RowNumbers
from solar.errors import SolarError
from solar.files import replacing
from solar.search.diffuse import TRUNCATE, Graph, mutual_graph, solve_among
from solar.search.neighbours import Neighbours, VectorsOf, distinct_places

_RECORD = "rows", "scores"


@dataclass(frozen=True, eq=False)
class OfflineDiffusion:
    """What each of n photos sends to those near it: the rows f(i), truncated."""

    rows: NDArray[np.int32]  # (n, m), -1 where there are no more
    scores: NDArray[np.float32]  # (n, m)

    def __len__(self) -> int:
        return len(self.rows)

    def save(self, path: str | Path) -> None:
        """Write it to a .npy file."""
        record = np.dtype([(name, array.dtype, array.shape[1:]) for name, array in self._arrays])
        table = np.empty(len(self), record)
        for name, array in self._arrays:
            table[name] = array
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, table, allow_pickle=False)

    @classmethod
    def read(cls, path: str | Path) -> OfflineDiffusion:
        """Open what `save` wrote, mapped: a search reads the rows of its seeds only.

        A SolarError if there is no such file, or it is none of ours.
        """
        try:
            table = np.lib.format.open_memmap(path, mode="r")
            if table.ndim != 1 or table.dtype.names != _RECORD:
                raise ValueError("another table")
            found = cls(table["rows"], table["scores"])
            if found.rows.dtype != np.int32 or found.scores.dtype != np.float32:
                raise ValueError("other numbers")
            if found.rows.ndim != 2 or found.rows.shape != found.scores.shape:
                raise ValueError("another shape")
        except FileNotFoundError as error:
            raise SolarError(f"There is no file {path}: build the diffusion first.") from error
        except (OSError, ValueError) as error:
            raise SolarError(f"{path} is not a precomputed diffusion: build it again.") from error
        return found

    @property
    def _arrays(self) -> tuple[tuple[str, NDArray[np.int32] | NDArray[np.float32]], ...]:
        return tuple(zip(_RECORD, (self.rows, self.scores), strict=True))


def build_offline(
    count: int,
    neighbours: Neighbours,
    vectors_of: VectorsOf,
    *,
    k: int = 50,
    gamma: float = 3.0,
    alpha: float = 0.99,
    truncate: int = TRUNCATE,
    chunk: int = 1024,
) -> OfflineDiffusion:
    """Solve the diffusion of every row of an index of `count` rows.

    Arguments are those of `solar.search.diffuse.build_graph` and `diffuse`; `truncate` is how many
    rows a row can send to, itself among them. Some milliseconds of a core per row.
    """
    if k < 1 or truncate < 1:
        raise SolarError(f"Diffusion needs k and truncate of 1 or more, not {k} and {truncate}.")
    width = min(max(truncate, k + 1), count)
    rows = np.full((count, width), -1, np.int32)
    scores = np.zeros((count, width), np.float32)
    for start in range(0, count, chunk):
        part = np.arange(start, min(start + chunk, count), dtype=np.int64)
        found, similar = neighbours(vectors_of(part), width)
        rows[part, : found.shape[1]], scores[part, : found.shape[1]] = found, similar
    graph = mutual_graph(rows[:, : k + 1], scores[:, : k + 1], k=k, gamma=gamma)
    rows, scores = rows[:, :truncate], scores[:, :truncate]
    for row in range(count):
        _solve_row(row, rows[row], scores[row], graph, alpha)
    return OfflineDiffusion(np.ascontiguousarray(rows), np.ascontiguousarray(scores))


def diffuse_offline(
    rows: RowNumbers,
    scores: Floats,
    offline: OfflineDiffusion,
    *,
    seeds: int = 10,
    gamma: float = 3.0,
) -> tuple[RowNumbers, Floats]:
    """Rank by diffusion, from the best results of a plain search.

    Args:
        rows: (m,) found for one query, best first, of which the first `seeds` are used; without the
            query, where that is in the index.
        scores: (m,), inner products with the query.
        offline: Of the whole index.
        seeds: How many of the best rows the query is joined with.
        gamma: Power of their similarity to the query.

    Returns:
        All rows that the seeds reach, best first, of equal ones the lower, with their diffused
        scores.

    Raises:
        SolarError: A row is not in the index that was diffused.
    """
    kept = distinct_places(rows)[:seeds]
    rows, given = rows[kept], np.maximum(scores[kept], 0).astype(np.float64) ** gamma
    if len(rows) and rows.max() >= len(offline):
        raise SolarError(
            f"Row {rows.max()} is not among the {len(offline)} that were diffused: build it again."
        )
    sent = offline.scores[rows] * given[:, None]
    to = offline.rows[rows]
    real = (to >= 0) & (sent > 0)
    reached, places = np.unique(to[real], return_inverse=True)
    total = np.bincount(places, sent[real], minlength=len(reached))
    order = np.argsort(-total, kind="stable")
    return reached[order].astype(np.int64), total[order].astype(np.float32)


def _solve_row(
    own: int, rows: NDArray[np.int32], scores: Floats, graph: Graph, alpha: float
) -> None:
    """Put f(own) in place of a row's neighbours and their similarities, best first."""
    near = rows[distinct_places(rows.astype(np.int64))].astype(np.int64)
    near = np.append(own, near[near != own])[: len(rows)]
    start = np.zeros(len(near))
    start[0] = 1.0
    solved = solve_among(graph, near, start, alpha)
    order = np.argsort(-solved, kind="stable")
    rows[:], scores[:] = -1, 0
    rows[: len(near)], scores[: len(near)] = near[order], solved[order]
