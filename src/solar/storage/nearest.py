"""Exact k nearest rows of many memory-mapped vectors, read once from front to back.

On 100,000 rows of 512 numbers, 70 queries and k = 100, one thread of an AMD EPYC takes 110 ms for
the products alone and 126 ms for `scan`; partitioning all products at the end instead takes another
170 ms, and their memory. On 200,000 rows one query takes Faiss 22 ms and NumPy 40, and Faiss 9 ms
where they are float16: NumPy alone needs 130 ms to convert these to float32, PyTorch 14.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TypeAlias

import numpy as np

from solar.arrays import AnyFloats, RowNumbers, Vectors
from solar.storage.rows import Matrix, Rows, as_rows

Multiply: TypeAlias = Callable[[AnyFloats, Vectors], object]
"""Multiplies rows (rows, dim) with fixed columns (dim, n), into (rows, n)."""

LARGE = 1 << 25
"""From this many numbers on, an import of Faiss or PyTorch is worth its time."""

# With fewer rows per array, looking each of them up takes longer than copying the rows together;
# for a single query, with fewer numbers.
_OWN, _OWN_NUMBERS = 256, 1 << 13

# Sums of float16 products may differ by this much in another order than NumPy's.
_UNSURE = 1e-5


def with_own_rows(queries: Vectors, vectors: Matrix, rows: RowNumbers) -> Vectors:
    """The products (n, m) of each query (n, dim) with its own rows (n, m); -inf for row -1."""
    if rows.max(initial=-1) >= len(vectors):  # Faiss does not check
        raise IndexError(f"row {rows.max()} of {len(vectors)}")
    held = as_rows(vectors)
    whole = held.whole
    if whole is None and held.dtype == np.float32:
        if len(rows) == 1 and rows.size * queries.shape[1] > _OWN_NUMBERS * len(held.parts):
            return _part_by_part_alone(queries, held, rows)
        if rows.size > _OWN * len(held.parts):
            return _part_by_part(queries, held, rows)
    if whole is None or whole.dtype != np.float32 or not whole.flags.c_contiguous:
        pairs = zip(queries, rows, strict=True)
        products: Vectors = np.stack([np.asarray(vectors[own], np.float32) @ q for q, own in pairs])
        return np.where(rows < 0, -np.inf, products).astype(np.float32)
    return _by_numbers(queries, whole, rows)


def _by_numbers(queries: Vectors, vectors: AnyFloats, rows: RowNumbers) -> Vectors:
    """`with_own_rows` of one contiguous array of float32."""
    faiss = import_module("faiss")
    queries, rows = np.ascontiguousarray(queries), np.ascontiguousarray(rows, np.int64)
    products = np.empty(rows.shape, np.float32)
    faiss.fvec_inner_products_by_idx(
        *map(faiss.swig_ptr, (products, queries, vectors, rows)), vectors.shape[1], *rows.shape
    )
    return products


def _part_by_part(queries: Vectors, vectors: Rows, rows: RowNumbers) -> Vectors:
    """`with_own_rows` of several arrays, in each of which the rows of all queries are looked up."""
    order = np.argsort(rows, axis=1)
    ascending = np.take_along_axis(rows, order, axis=1)
    products = np.full(rows.shape, -np.inf, np.float32)
    queue = np.arange(len(rows))[:, None]
    for part, start, end in zip(vectors.parts, vectors.starts, vectors.starts[1:], strict=False):
        first = (ascending < start).sum(axis=1)
        count = (ascending < end).sum(axis=1) - first
        places = first[:, None] + np.arange(count.max())
        inside = np.arange(count.max()) < count[:, None]
        places = np.where(inside, places, 0)
        own = np.where(inside, ascending[queue, places] - start, -1)
        found = _by_numbers(queries, part, own)
        at = np.broadcast_to(queue, inside.shape)[inside], order[queue, places][inside]
        products[at] = found[inside]
    return products


def _part_by_part_alone(query: Vectors, vectors: Rows, rows: RowNumbers) -> Vectors:
    """The same for a single query (1, dim), which needs no table of places."""
    faiss = import_module("faiss")
    order = np.argsort(rows[0])
    own = rows[0, order]
    bounds = own.searchsorted(vectors.starts)
    own[bounds[0] :] -= vectors.starts[:-1].repeat(np.diff(bounds))
    found = np.full(len(own), -np.inf, np.float32)
    query, ends = faiss.swig_ptr(np.ascontiguousarray(query)), bounds.tolist()
    for part, first, last in zip(vectors.parts, ends, ends[1:], strict=False):
        if first < last:
            arrays = part, own[first:last]
            faiss.fvec_inner_products_by_idx(
                faiss.swig_ptr(found[first:last]), query, *map(faiss.swig_ptr, arrays),
                vectors.shape[1], 1, last - first,
            )  # fmt: skip
    products = np.empty(rows.shape, np.float32)
    products[0, order] = found
    return products


def best_of(query: Vectors, vectors: Matrix, k: int) -> tuple[RowNumbers, Vectors]:
    """The rows with the k + `MARGIN` largest products with a query (dim,), ascending, and these.

    Rows that equal the last one may be added, or left out if float16.
    """
    keep, vectors = k + MARGIN, as_rows(vectors)
    query = np.ascontiguousarray(query)
    half = vectors.dtype == np.float16
    if half and (found := _best_of_halves(query, vectors, k, keep)):
        return found
    products = np.empty(len(vectors), np.float32)
    for at, piece in vectors.pieces():
        own = products[at : at + len(piece)]
        if half or not piece.flags.c_contiguous:
            multiplication(piece, query[:, None])(piece, own[:, None])
        else:
            faiss = import_module("faiss")
            faiss.fvec_inner_products_ny(
                *map(faiss.swig_ptr, (own, query, piece)), piece.shape[1], len(piece)
            )
    spare = len(products) - keep
    if spare > 0:
        rows = np.flatnonzero(products >= np.partition(products, spare)[spare])
        return rows, products[rows]
    return np.arange(len(products)), products


def multiplication(vectors: Matrix, columns: Vectors) -> Multiply:
    """A function that multiplies rows of these vectors with columns (dim, n)."""
    if vectors.dtype != np.float16 or vectors.size < LARGE:
        return lambda piece, out: np.matmul(np.asarray(piece, np.float32), columns, out=out)
    torch = import_module("torch")
    right = torch.from_numpy(np.array(columns))

    # NumPy's product after PyTorch's conversion takes 8 times as long: each library's threads wait
    # by spinning, and block the cores for the other's.
    def multiply(piece: AnyFloats, out: Vectors) -> None:
        single = torch.from_numpy(np.array(piece)).float()
        torch.mm(single, right, out=torch.from_numpy(out))

    return multiply


def _best_of_halves(
    query: Vectors, vectors: Rows, k: int, keep: int
) -> tuple[RowNumbers, Vectors] | None:
    """`best_of` of float16 rows by Faiss, piece by piece; None if it cannot tell."""
    rows, products = list[RowNumbers](), list[Vectors]()
    for at, piece in vectors.pieces():
        found = _best_of_half(query, piece, k, keep) if piece.flags.c_contiguous else None
        if found is None:
            return None
        rows.append(found[0] + at)
        products.append(found[1])
    return (np.concatenate(rows), np.concatenate(products)) if rows else None


def _best_of_half(
    query: Vectors, vectors: AnyFloats, k: int, keep: int
) -> tuple[RowNumbers, Vectors] | None:
    """`best_of` by Faiss's scanner of float16 codes; None if it cannot tell.

    The scanner keeps a heap and drops any of several equal rows, so the last one kept must be
    clearly below the k best.
    """
    faiss = import_module("faiss")
    rows, products = np.full(keep, -1, np.int64), np.full(keep, -np.inf, np.float32)
    codes = faiss.ScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16)
    scanner = codes.select_InvertedListScanner(faiss.METRIC_INNER_PRODUCT, None, False, None, False)
    scanner.set_query(faiss.swig_ptr(query))
    scanner.set_list(0, 0.0)
    numbers = np.arange(len(vectors), dtype=np.int64)
    arrays = vectors.view(np.uint8), numbers, products, rows
    scanner.scan_codes(len(vectors), *map(faiss.swig_ptr, arrays), keep)
    type(scanner).__swig_destroy__(scanner)  # SWIG does not own this pointer: free it explicitly
    worst = np.partition(products, (0, keep - k))[[0, keep - k]]  # of those kept, of the k best
    if len(vectors) > keep and worst[1] - worst[0] < _UNSURE:
        return None
    order = np.argsort(rows)[np.count_nonzero(rows < 0) :]
    return rows[order], products[order]


Selection: TypeAlias = Callable[[int, int], RowNumbers | None]
"""Which rows from first to last may be found, in order; None for all of them."""

# The scores of this many rows stay in the cache while the best are picked: with 16,384 rows it
# takes 144 ms instead of 126, with 65,536 170. Fewer gain nothing.
_CHUNK = 4096
# Measured: products of 8 MiB of 2048 numbers, and of a multiple of 8 queries, run a tenth faster.
_PIECE = 1024
_MULTIPLE = 8
_QUERIES = 256
# Rows that a thread compares with a single query at a time.
_ALONE = 16384
MARGIN = 16
"""Rows kept beyond k until all are ranked in double precision, because products in single precision
may swap nearly equal rows."""


def scan(
    queries: Vectors,
    vectors: Matrix,
    k: int,
    selection: Selection = lambda first, last: None,
    start: int = 0,
) -> RowNumbers:
    """Rows (n, m) with the k largest inner products per query, and a few more, unordered.

    Each row comes once per query; -1 is none.

    Args:
        queries: (n, dim).
        vectors: (rows, dim), in float32 or float16.
        k: Rows wanted per query; `rank_all` picks them from the answer.
        selection: The rows that may be found.
        start: The first row that may be found.
    """
    vectors = as_rows(vectors)
    if len(queries) == 1 and vectors.size >= LARGE:
        return _scan_for_one(queries[0], vectors, k, selection, start)[None]
    found: list[RowNumbers] = []
    for at in range(0, len(queries), _QUERIES):
        some = queries[at : at + _QUERIES]
        width = -(-len(some) // _MULTIPLE) * _MULTIPLE if len(some) > _MULTIPLE else len(some)
        best = _Best(len(some), width, k + MARGIN)
        columns = np.zeros((some.shape[1], width), np.float32)
        columns[:, : len(some)] = some.T
        multiply = multiplication(vectors, columns)
        for first in range(start, len(vectors), _CHUNK):
            last = min(first + _CHUNK, len(vectors))
            rows = selection(first, last)
            if rows is None:
                best.offer(np.arange(first, last), _product(vectors[first:last], width, multiply))
            elif len(rows) > (last - first) // 2:
                best.offer(rows, _product(vectors[first:last], width, multiply)[rows - first])
            elif len(rows):
                best.offer(rows, _product(as_rows(vectors[rows]), width, multiply))
        found += best.rows()
    matrix = np.full((len(found), max(map(len, found), default=0)), -1, np.int64)
    for number, rows in enumerate(found):
        matrix[number, : len(rows)] = rows
    return matrix


def _scan_for_one(
    query: Vectors, vectors: Rows, k: int, selection: Selection, start: int
) -> RowNumbers:
    """`scan` for one query (dim,), by several threads."""

    def stretch(first: int) -> tuple[RowNumbers, Vectors]:
        last = min(first + _ALONE, len(vectors))
        allowed = selection(first, last)
        if allowed is None:
            rows, products = best_of(query, vectors[first:last], k)
            return rows + first, products
        return allowed, with_own_rows(query[None], vectors, allowed[None])[0]

    firsts = range(start, len(vectors), _ALONE)
    threads = min(max(len(firsts), 1), import_module("faiss").omp_get_max_threads())
    with ThreadPoolExecutor(threads) as pool:
        pairs = list(pool.map(stretch, firsts) if threads > 1 else map(stretch, firsts))
    if not pairs:
        return np.empty(0, np.int64)
    rows, products = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return rows[np.lexsort((rows, -products))[: k + MARGIN]]


def rank_all(
    queries: Vectors, vectors: Matrix, rows: RowNumbers, k: int
) -> list[list[tuple[int, float]]]:
    """The k best rows and scores for each query (n, dim) among its own rows (n, m), equal by row.

    Rows are distinct; -1 is none. Products are summed in double precision, so that a row has the
    same score however it was found.
    """
    spare = rows.shape[1] - (k + MARGIN)
    if spare > 0:
        places = with_own_rows(queries, vectors, rows).argpartition(spare, axis=1)[:, spare:]
        rows = np.take_along_axis(rows, places, axis=1)
    rows = np.sort(rows, axis=1)
    pairs = zip(queries, rows, strict=True)
    return [ranked(query, vectors, own[own.searchsorted(0) :], k) for query, own in pairs]


def ranked(query: Vectors, vectors: Matrix, rows: RowNumbers, k: int) -> list[tuple[int, float]]:
    """The k best of ascending rows, by products in double precision, rounded to at most 1."""
    scores = (vectors[rows].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    order = np.negative(scores).argsort(kind="stable")[:k]
    return list(zip(rows[order].tolist(), np.minimum(scores[order], 1).tolist(), strict=True))


def _product(vectors: Rows, width: int, multiply: Multiply) -> Vectors:
    scores = np.empty((len(vectors), width), np.float32)
    for first, part in vectors.pieces():
        for at in range(0, len(part), _PIECE):
            piece = part[at : at + _PIECE]
            multiply(piece, scores[first + at : first + at + len(piece)])
    return scores


class _Best:
    """The `keep` largest scores of each query among all rows offered, in ascending order of rows.

    Rows that beat the worst score kept so far wait, and are sorted in together: sorting after every
    chunk takes 152 ms instead of 126.
    """

    def __init__(self, queries: int, width: int, keep: int) -> None:
        self._queries, self._width, self._keep = queries, width, keep
        self._floor = np.full(width, np.inf, np.float32)  # stays in the columns that only pad
        self._floor[:queries] = -np.inf
        nothing = np.empty(0, np.int64)
        self._waiting = [(nothing, nothing, np.empty(0, np.float32))]

    def offer(self, rows: RowNumbers, scores: Vectors) -> None:
        """Offer rows (m,) with their scores (m, width), the queries' columns first."""
        good = scores > self._floor  # few, after the first chunks
        spare = len(rows) - self._keep
        # In the first chunks nearly all are. Then a partition is cheaper than sorting them in (176
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
