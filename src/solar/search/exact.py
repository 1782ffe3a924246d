"""The best rows of a large array of vectors, exactly, reading it once from front to back.

Nearly all of the time should go into the products. On 100,000 rows of 512 numbers, 70 queries and
k = 100, one thread of an AMD EPYC takes 110 ms for the products alone and 126 ms for `scan`;
partitioning all products at the end instead takes another 170 ms, and their memory.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.search.engine import RowNumbers, Vectors

Stored: TypeAlias = npt.NDArray[np.floating[Any]]
Selection: TypeAlias = Callable[[int, int], RowNumbers | None]
"""Which rows of first..last may be found, in order; None for all of them."""
_Conversion: TypeAlias = Callable[[Stored], Vectors]

# Scores of so many rows stay in the cache while the best are picked: 16,384 rows take 144 ms in
# place of 126, 65,536 take 170. Fewer give nothing.
_CHUNK = 4096
# Measured: products of 8 MiB of 2048 numbers, and of a multiple of 8 queries, run a tenth faster.
_PIECE = 1024
_MULTIPLE = 8
_QUERIES = 256
# NumPy converts float16 number by number, PyTorch 20 times as fast. Of so many numbers on that is
# worth an import of PyTorch: 50 ms of conversion a query.
_LARGE = 1 << 25
# Products in single precision may swap rows that are equal in truth. So many more are kept until
# they are ranked in double precision.
_MARGIN = 16


def scan(
    queries: Vectors,
    vectors: Stored,
    k: int,
    selection: Selection = lambda first, last: None,
    start: int = 0,
) -> list[RowNumbers]:
    """Find the rows with the largest inner products, and a few more than asked for.

    Args:
        queries: (n, dim).
        vectors: (rows, dim), in float32 or float16; memory-mapped is fine.
        k: How many rows are wanted of each query: `rank` makes exactly these of the answer, which
            is in no useful order.
        selection: The rows that may be found.
        start: The first row that may be found.
    """
    found: list[RowNumbers] = []
    single = _conversion(vectors)
    for at in range(0, len(queries), _QUERIES):
        some = queries[at : at + _QUERIES]
        width = -(-len(some) // _MULTIPLE) * _MULTIPLE if len(some) > _MULTIPLE else len(some)
        best = _Best(len(some), width, k + _MARGIN)
        columns = np.zeros((some.shape[1], width), np.float32)
        columns[:, : len(some)] = some.T
        for first in range(start, len(vectors), _CHUNK):
            last = min(first + _CHUNK, len(vectors))
            rows = selection(first, last)
            if rows is None:
                best.offer(np.arange(first, last), _product(vectors[first:last], columns, single))
            elif len(rows) > (last - first) // 2:
                best.offer(rows, _product(vectors[first:last], columns, single)[rows - first])
            elif len(rows):
                best.offer(rows, _product(vectors[rows], columns, single))
        found += best.rows()
    return found


def rank(query: Vectors, vectors: Stored, rows: RowNumbers, k: int) -> list[tuple[int, float]]:
    """The k best rows and scores by their inner product with a query (dim,), equal ones by row.

    The products are summed in double precision, so a row has the same score however it was found.
    """
    rows = np.unique(rows)
    if len(rows) > k + _MARGIN:
        rows = _likely(rows, _products_with(query[None], vectors, rows[None])[0], k)
    return _ranked(query, vectors, rows, k)


def rank_all(
    queries: Vectors, vectors: Stored, rows: RowNumbers, k: int
) -> list[list[tuple[int, float]]]:
    """What `rank` gives for each of the queries (n, dim), among rows (n, m) of its own.

    No row may come twice for a query; -1 is none.
    """
    if rows.shape[1] > k + _MARGIN:
        triples = zip(queries, rows, _products_with(queries, vectors, rows), strict=True)
        likely = ((query, _likely(own, products, k)) for query, own, products in triples)
    else:
        likely = ((query, np.sort(own)) for query, own in zip(queries, rows, strict=True))
    return [_ranked(query, vectors, own[own.searchsorted(0) :], k) for query, own in likely]


def _likely(rows: RowNumbers, products: Vectors, k: int) -> RowNumbers:
    """The rows, ascending, that can be among the k best by their products in single precision."""
    likely = rows[np.negative(products).argpartition(k + _MARGIN)[: k + _MARGIN]]
    likely.sort()
    return likely


def _ranked(query: Vectors, vectors: Stored, rows: RowNumbers, k: int) -> list[tuple[int, float]]:
    """The k best of rows that ascend."""
    scores = (vectors[rows].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    order = np.negative(scores).argsort(kind="stable")[:k]
    return list(zip(rows[order].tolist(), scores[order].tolist(), strict=True))


def _products_with(queries: Vectors, vectors: Stored, rows: RowNumbers) -> Vectors:
    """The products (n, m) of queries (n, dim) with rows (n, m) of their own; less than any for -1.

    Faiss reads the rows where they lie; NumPy would copy them first, in half as much time again.
    """
    if vectors.dtype != np.float32 or not vectors.flags.c_contiguous:
        pairs = zip(queries, rows, strict=True)
        products: Vectors = np.stack([np.asarray(vectors[own], np.float32) @ q for q, own in pairs])
        return np.where(rows < 0, -np.inf, products).astype(np.float32)
    if rows.max(initial=-1) >= len(vectors):  # Faiss does not look
        raise IndexError(f"row {rows.max()} of {len(vectors)}")
    faiss = import_module("faiss")
    queries, rows = np.ascontiguousarray(queries), np.ascontiguousarray(rows, np.int64)
    products = np.empty(rows.shape, np.float32)
    faiss.fvec_inner_products_by_idx(
        *map(faiss.swig_ptr, (products, queries, vectors, rows)), vectors.shape[1], *rows.shape
    )
    return products


def _product(vectors: Stored, columns: Vectors, single: _Conversion) -> Vectors:
    scores = np.empty((len(vectors), columns.shape[1]), np.float32)
    for at in range(0, len(vectors), _PIECE):
        np.matmul(single(vectors[at : at + _PIECE]), columns, out=scores[at : at + _PIECE])
    return scores


def _conversion(vectors: Stored) -> _Conversion:
    """What makes float32 of pieces of these vectors."""
    if vectors.dtype == np.float16 and vectors.size >= _LARGE:
        torch = import_module("torch")
        return lambda piece: torch.from_numpy(np.array(piece)).float().numpy()
    return _single


def _single(vectors: Stored) -> Vectors:
    return np.asarray(vectors, np.float32)


class _Best:
    """The `keep` largest scores of each query among all rows offered, in ascending order of rows.

    What beats the worst score kept so far waits until enough has come together to be sorted in:
    sorting after every chunk takes 152 ms in place of 126.
    """

    def __init__(self, queries: int, width: int, keep: int) -> None:
        self._queries, self._width, self._keep = queries, width, keep
        self._floor = np.full(width, np.inf, np.float32)  # which the columns that only fill up keep
        self._floor[:queries] = -np.inf
        nothing = np.empty(0, np.int64)
        self._waiting = [(nothing, nothing, np.empty(0, np.float32))]

    def offer(self, rows: RowNumbers, scores: Vectors) -> None:
        """Take in rows (m,) with their scores (m, width), the queries' columns first."""
        # What does not beat the worst score kept is most of all after the first chunks.
        good = scores > self._floor
        spare = len(rows) - self._keep
        # In the first chunks nearly all does. Then a partition is cheaper than sorting them in (176
        # ms without), and later it would cost more than it saves (168 ms if always).
        if spare > 0 and np.count_nonzero(good) > 4 * self._keep * self._queries:
            good &= scores >= np.partition(scores, spare, axis=0)[spare]
        flat = np.flatnonzero(good)
        at, query = np.divmod(flat, self._width)
        self._waiting.append((query, rows[at], scores.ravel()[flat]))
        if sum(len(part[0]) for part in self._waiting) > 2 * self._keep * self._queries:
            self._settle()

    def rows(self) -> list[RowNumbers]:
        """The rows kept for each query."""
        self._settle()
        [(query, rows, _)] = self._waiting
        return np.split(rows, np.searchsorted(query, np.arange(1, self._queries)))

    def _settle(self) -> None:
        columns = zip(*self._waiting, strict=True)
        query, rows, scores = (np.concatenate(column) for column in columns)
        # One sort for all queries; equal scores go to the lower row, however the rows were cut up.
        order = np.lexsort((rows, -scores, query))
        query, rows, scores = query[order], rows[order], scores[order]
        place = np.arange(len(query)) - np.searchsorted(query, query)
        kept = place < self._keep
        worst = place == self._keep - 1
        self._floor[query[worst]] = scores[worst]
        self._waiting = [(query[kept], rows[kept], scores[kept])]
