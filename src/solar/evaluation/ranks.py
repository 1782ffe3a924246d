"""The exact rank of a few rows among millions, by counting: no sort of the whole, little memory.

The rank of a row for a query is the number of rows that come before it: those with a higher score,
and those with an equal score and a lower number. That is its place in a stable descending sort.

The score is the dot product in float64, summed in an order that depends only on the length of a row
(`_dots`), so equal rows have equal scores wherever they stand, and the ranks do not depend on the
size of the chunks, the number of threads or the device. It is costly, and rarely needed: a fast
matrix product settles on which side of a row of interest every other row falls, except for the few
within `_slack` of it. For a product in float64 the slack is a proven bound of its error. For
float32 that bound is uselessly wide; the slack is several times the largest error observed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from solar.arrays import AnyFloats, Doubles, Ints
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.evaluation.embeddings import NAMES, RowBlocks, check_rows
from solar.storage.rows import Matrix

MEMORY = 128 * 2**20
_GPU_MEMORY = 2**30  # measured on an H200: chunks of 128 MiB take twice as long in all
# Up to this many rows a float64 product takes a few seconds at most, and its bound is proven.
FEW_ROWS = 2**16
PRECISIONS = ("float32", "float64")

# Scored at once. Labelled photos all ask: without a limit, the scores of a chunk would grow with
# the collection and leave no room for its rows.
_MOST_QUERIES = 1024


class RankOptions(TypedDict, total=False):
    """Options of `ranks` and `best`, see there."""

    distractors: Matrix | None
    precision: str | None
    device: str | None
    progress: Progress | None
    names: tuple[str, str, str]


def ranks(
    queries: AnyFloats,
    database: Matrix,
    items: Sequence[npt.ArrayLike],
    *,
    memory: int | None = None,
    **ranking: Unpack[RankOptions],
) -> list[Ints]:
    """Find the 0-based ranks of some rows of a database, for each query its own.

    Args:
        queries: (nq, dim), unit rows.
        database: (n, dim), unit rows: an array, or those of an index.
        items: For each query the numbers of the database's rows to rank, each once.
        memory: Bytes for chunks of rows and their scores; default: 128 MiB, 1 GiB with a GPU.
        ranking: `distractors`, more rows, numbered after the database's; `precision` of the fast
            product, `float64` (the default up to 65,536 rows) or `float32`; `device`, `cuda` to
            compute the product there; `progress`; `names` of the three for messages.

    Returns:
        For each query an array of ranks, in the order of its items.

    Raises:
        SolarError: Shapes do not fit, an item is no row, or a row is not finite or not of length
            one. (A row of zeros stands for a photo without an embedding, and comes last.)
    """
    return [one.answer() for one in _counted(queries, database, items, memory, ranking)]


def tied_ranks(
    queries: AnyFloats,
    database: Matrix,
    items: Sequence[npt.ArrayLike],
    *,
    memory: int | None = None,
    **ranking: Unpack[RankOptions],
) -> list[tuple[Ints, Ints]]:
    """The same ranks, and the rank of the last row with the same score (or its own)."""
    found = _counted(queries, database, items, memory, ranking)
    return [(ranked := one.answer(), ranked + one.tied()) for one in found]


def _counted(
    queries: AnyFloats,
    database: Matrix,
    items: Sequence[npt.ArrayLike],
    memory: int | None,
    ranking: RankOptions,
) -> list[_Asked]:
    device = ranking.get("device")
    memory = memory or (MEMORY if device in (None, "cpu") else _GPU_MEMORY)
    rows, queries = _prepared(queries, database, ranking)
    asked = [_Asked(query, wanted) for query, wanted in zip(queries, items, strict=True)]
    ends = [int(end) for one in asked if len(one.rows) for end in (one.rows[0], one.rows[-1])]
    last = max(ends, default=-1)
    for end in ends:
        if not 0 <= end < len(database):
            name = ranking.get("names", NAMES)[1]
            raise SolarError(f"There is no row {end} in {name}, which has {len(database)} rows.")

    dtype = queries.dtype
    chunk = _rows_per_chunk(rows, min(len(queries), _MOST_QUERIES), dtype, memory)
    with ThreadPoolExecutor(_threads()) as counters:
        product = _fast_product(queries, device)
        # The scores of the rows asked about must be known before anything can be counted against
        # them. They all lie in the database, so the million distractors are read only once.
        for start, block in rows.read(chunk, dtype, last + 1):
            list(counters.map(partial(_Asked.score, start=start, block=block), asked))
        for one in asked:
            one.settle()
        advance = counted(ranking.get("progress"), "Ranking", rows.total)
        for start, block in rows.read(chunk, dtype, rows.total):
            for first in range(0, len(asked), _MOST_QUERIES):
                some = slice(first, first + _MOST_QUERIES)
                count = partial(_Asked.count, start=start, block=block)
                list(counters.map(count, asked[some], product(block, some)))
            advance(len(block))
    return asked


def _prepared(
    queries: AnyFloats, database: Matrix, ranking: RankOptions
) -> tuple[RowBlocks, AnyFloats]:
    """The rows to search in, and the checked queries in the precision of the fast product."""
    precision, names = ranking.get("precision"), ranking.get("names", NAMES)
    if precision not in (None, *PRECISIONS):
        raise SolarError(f"There is no precision {precision!r}: choose float32 or float64.")
    rows = RowBlocks(queries, database, ranking.get("distractors"), names)
    dtype = np.dtype(precision or ("float64" if rows.total <= FEW_ROWS else "float32"))
    queries = np.ascontiguousarray(queries, dtype)
    check_rows(names[0], queries)
    return rows, queries


def best(
    queries: AnyFloats,
    database: Matrix,
    count: int,
    *,
    memory: int = MEMORY,
    **ranking: Unpack[RankOptions],
) -> list[tuple[Ints, Doubles]]:
    """List the rows that come first for each query, in the order that `ranks` counts.

    Returns their numbers, those of distractors after the database's, and their scores. Arguments
    and errors are as for `ranks`.
    """
    rows, queries = _prepared(queries, database, ranking)
    product = _fast_product(queries, ranking.get("device"))
    found = [(np.empty(0, np.int64), np.empty(0)) for _ in queries]
    chunk = _rows_per_chunk(rows, min(len(queries), _MOST_QUERIES), queries.dtype, memory)
    advance = counted(ranking.get("progress"), "Ranking", rows.total)
    for start, block in rows.read(chunk, queries.dtype, rows.total):
        for first in range(0, len(queries), _MOST_QUERIES):
            some = slice(first, first + _MOST_QUERIES)
            for number, scores in enumerate(product(block, some), first):
                _zeros_last(scores, block)
                least = np.partition(scores, -count)[-count] if count < len(scores) else -2
                doubt = 2 * _slack(np.float64(least), rows.dim, queries.dtype)
                near = np.flatnonzero(scores >= least - doubt)
                exact = np.concatenate([found[number][1], _scores(block[near], queries[number])])
                places = np.concatenate([found[number][0], near + start])
                # Stable, and what was found before stands first: of equal rows the earlier wins.
                top = np.argsort(-exact, kind="stable")[:count]
                found[number] = places[top], exact[top]
        advance(len(block))
    return found


class _Asked:
    """One query, the rows it asks about in ascending order, and the counts so far.

    By the fast product, a row surely comes after one asked about if it scores below `low`, before
    it if above `high`. Between the two only `_dots` can tell.
    """

    def __init__(self, query: AnyFloats, rows: npt.ArrayLike) -> None:
        rows = np.asarray(rows, np.int64).reshape(-1)
        self.query = query
        # In ascending order, those in a block are neighbours: two binary searches find them.
        self.order = np.argsort(rows, kind="stable")
        self.rows = rows[self.order]
        self.scores = np.zeros(len(rows))
        self.ranks = np.zeros(len(rows), np.int64)
        self.ties = np.zeros(len(rows), np.int64)  # rows after it with exactly its score

    def score(self, start: int, block: AnyFloats) -> None:
        inside = self._inside(start, block)
        if inside.start < inside.stop:
            self.scores[inside] = _scores(block[self.rows[inside] - start], self.query)

    def settle(self) -> None:
        """Lay out the ranges in doubt, once all scores are known."""
        slack = _slack(self.scores, len(self.query), self.query.dtype)
        self.low = (self.scores - slack).astype(self.query.dtype)
        self.high = (self.scores + slack).astype(self.query.dtype)

    def _inside(self, start: int, block: AnyFloats) -> slice:
        return slice(*self.rows.searchsorted((start, start + len(block))).tolist())

    def count(self, scores: AnyFloats, start: int, block: AnyFloats) -> None:
        """Count the rows of a block, numbered from `start`, that come before each row asked about.

        The scores are by the fast product, and changed here.
        """
        if not len(self.rows):
            return
        inside = self._inside(start, block)
        _zeros_last(scores, block)
        # A row asked about is near its own score by definition, and not before itself.
        scores[self.rows[inside] - start] = self.scores[inside]
        ordered = np.sort(scores)
        last = ordered.searchsorted(self.high, "right")
        self.ranks += len(scores) - last
        near = last - ordered.searchsorted(self.low)
        near[inside] -= 1  # the row itself
        unsure = np.flatnonzero(near)
        if len(unsure):
            # Where copies of a photo are many, ranges overlap: each row in any of them is scored
            # with care once, and compared with all.
            doubtful = np.zeros(len(scores), np.bool_)
            for low, high in zip(self.low[unsure], self.high[unsure], strict=True):
                doubtful |= (scores >= low) & (scores <= high)
            rows = np.flatnonzero(doubtful)
            exact = _scores(block[rows], self.query)
            before, ties = _beside(exact, rows + start, self.scores[unsure], self.rows[unsure])
            self.ties[unsure] += ties
            # Of these, the ones above an item's own range have been counted already.
            above = np.sort(scores[rows]).searchsorted(self.high[unsure], "right")
            self.ranks[unsure] += before - (len(rows) - above)

    def answer(self) -> Ints:
        """The ranks, in the order in which the rows were asked for."""
        out = np.empty_like(self.ranks)
        out[self.order] = self.ranks
        return out

    def tied(self) -> Ints:
        """How many rows have exactly the same score and come later, in the same order."""
        out = np.empty_like(self.ties)
        out[self.order] = self.ties
        return out


def _beside(scores: Doubles, rows: Ints, item_scores: Doubles, items: Ints) -> tuple[Ints, Ints]:
    """For each item how many rows come before it, and how many of equal score after it."""
    # Equal scores must be equal numbers here: `np.unique` gives each score its place among them.
    _, level = np.unique(np.concatenate([scores, item_scores]), return_inverse=True)
    # One whole number that orders by score first, and then by row, backwards.
    base = level.astype(np.int64) << 32
    keys = np.sort(base[: len(scores)] - rows)
    own = base[len(scores) :] - items
    lower = keys.searchsorted(base[len(scores) :] - (2**32 - 1))
    return len(scores) - keys.searchsorted(own, "right"), keys.searchsorted(own) - lower


def _dots(rows: AnyFloats, query: AnyFloats) -> Doubles:
    """The scores that decide: one pairwise sum per row, the same wherever the row stands."""
    # Not a matrix product: BLAS adds in an order that depends on a row's place in the matrix and on
    # the number of threads, so that copies of a row get scores that differ in their last bits.
    return np.asarray(np.multiply(rows, query, dtype=np.float64).sum(axis=1))


def _scores(rows: AnyFloats, query: AnyFloats) -> Doubles:
    found = _dots(rows, query)
    _zeros_last(found, rows)
    return found


def _zeros_last(scores: AnyFloats, rows: AnyFloats) -> None:
    """Put rows of zeros below all others: the published code ranks what is not finite last."""
    candidates = np.flatnonzero(scores == 0)
    scores[candidates[~rows[candidates].any(axis=1)]] = -2


def _slack(scores: Doubles | np.float64, dim: int, dtype: np.dtype[Any]) -> Doubles:
    """How far the fast product may be from `_dots`, for rows and queries of length one."""
    if dtype == np.float64:
        # Both sums are within dim × 2⁻⁵³ of the truth, times the lengths (at most 1 + _UNIT each).
        return np.full_like(scores, 2.1 * (dim + 2) * 2.0**-53)
    # Rounding errors follow the partial sums, which grow towards the score. On gaussian and
    # heavy-tailed rows of 32 to 2,048 numbers the largest error was half of this, on a processor
    # (OpenBLAS) and on a GPU (cuBLAS).
    return np.asarray(2.0**-24 * (6 + 2 * np.sqrt(dim) * np.abs(scores)))


def _fast_product(
    queries: AnyFloats, device: str | None
) -> Callable[[AnyFloats, slice], AnyFloats]:
    """The fast product: (n, dim) rows and a slice of the queries to (queries, n) scores."""
    if device in (None, "cpu"):
        # Rows by queries is the faster product, queries by rows what counting needs.
        return lambda block, some: np.ascontiguousarray((block @ queries[some].T).T)
    import torch

    if not torch.cuda.is_available():
        raise SolarError(f"There is no device {device} here: leave out `device=` to use the CPU.")
    held = torch.tensor(queries, device=device)

    def on_device(block: AnyFloats, some: slice) -> AnyFloats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a mapped file is read-only
            rows = torch.from_numpy(block)
        # TF32 would lose half of the digits.
        before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, False
        try:
            scores: AnyFloats = (held[some] @ rows.to(device).T).cpu().numpy()
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
        return scores

    return on_device


def _rows_per_chunk(rows: RowBlocks, scores: int, dtype: np.dtype[Any], memory: int) -> int:
    """Rows to read at once, with `scores` scores for each, in `memory` bytes."""
    # Two blocks are held, the one in use and the next, and some scores for each row of one.
    each = (2 * rows.dim + scores) * dtype.itemsize
    return int(np.clip(memory // each, 64, max(rows.total, 64)))


def _threads() -> int:
    available = getattr(os, "sched_getaffinity", None)
    return min(8, len(available(0)) if available else os.cpu_count() or 1)
