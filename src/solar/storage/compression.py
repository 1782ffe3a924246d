"""Small codes of vectors that find candidates quickly: Faiss indexes, searched and then re-ranked.

`pq` spends one bit per number: 16 centroids for every four of them (for eight where rows have 2048
numbers). `ivf` has the same codes in lists, of which it reads an eighth. Rejected, on 100,000 to
200,000 descriptors of photos: `sq8` took 20 times as long and eight times the bytes; `hnsw` was as
fast as `ivf` at a recall of 0.991 instead of 0.995, with eleven times the bytes, and took eight
times as long to build.

Codes consist of parts, each for a range of rows. Parts never change: new rows get a new one.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from math import isqrt
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
from solar.files import file_digest, regular
from solar.storage.rows import Matrix

Codes: TypeAlias = Any
"""A Faiss index."""

KINDS = ("pq", "ivf")
LEAST = 1024
"""Fewer rows are too few to train codes: they are searched exactly."""

# Codes of a row, which Faiss sums in 16 bits. Among 200,000 clustered vectors of 2048 numbers, 512
# codes left a recall of 0.31 where 256, of eight numbers each, keep 1.0.
_CODES = 256
_TRAINING = 16384
_PIECE = 8192
# One query is searched by as many threads as there are parts, so large codes have several.
_PARTS = 16
_PART = 262_144
# With fewer rows, threads cost a query more than they save: 200,000 take 0.6 ms in all.
_THREADED = 500_000


class CompressedCodes:
    """The parts of codes, read into memory and searched together."""

    def __init__(self, parts: Sequence[Codes]) -> None:
        self._parts = list(parts)
        self._firsts = np.cumsum([0, *(part.ntotal for part in parts)])[:-1]
        rows = sum(part.ntotal for part in parts)
        self._workers = min(len(parts), os.cpu_count() or 1) if rows >= _THREADED else 1
        self._threads = ThreadPoolExecutor(self._workers)

    def candidates(self, queries: Vectors, count: int) -> RowNumbers:
        """The best rows for each of the queries (n, dim): (n, `count` at most); -1 is no row."""
        if len(self._parts) == 1:
            return cast("RowNumbers", self._search(queries, count, slice(1))[0][1])
        # Faiss itself uses every core, but only for several queries.
        workers = self._workers if len(queries) == 1 else 1
        shares = [slice(i, None, workers) for i in range(workers)]
        found: list[Any] = [None] * len(self._parts)
        each = self._threads.map if workers > 1 else map
        answers = each(partial(self._search, queries, count), shares)
        for share, pairs in zip(shares, answers, strict=True):
            found[share] = pairs
        scores = np.concatenate([scores for scores, _ in found], axis=1)
        numbers = zip((ids for _, ids in found), self._firsts, strict=True)
        rows = np.concatenate([np.where(ids < 0, -1, ids + at) for ids, at in numbers], axis=1)
        if rows.shape[1] > count:
            best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
            rows = np.take_along_axis(rows, best, axis=1)
        return rows

    def _search(self, queries: Vectors, count: int, share: slice) -> list[Any]:
        return [part.search(queries, min(count, part.ntotal)) for part in self._parts[share]]


def stretches(kind: str, first: int, last: int) -> list[tuple[int, int]]:
    """How to cut rows from first to last into parts."""
    # Lists are faster whole.
    parts = min(_PARTS, -(-(last - first) // _PART)) if kind == "pq" else 1
    size = -(-(last - first) // parts)
    return [(start, min(start + size, last)) for start in range(first, last, size)]


def train(kind: str, vectors: Matrix) -> Codes:
    """Make empty codes for vectors (n, dim), n ≥ `LEAST`, from a sample of them."""
    faiss = import_module("faiss")
    rows, dim = vectors.shape
    lists = max(1, min(2 * isqrt(rows), rows // 48))
    sample = min(rows, max(_TRAINING, 48 * lists) if kind == "ivf" else _TRAINING)
    picked = np.sort(np.random.default_rng(0).choice(rows, sample, replace=False))
    codes = faiss.index_factory(dim, _recipe(kind, dim, lists), faiss.METRIC_INNER_PRODUCT)
    for part in (codes, getattr(codes, "pq", codes)):
        if hasattr(part, "cp"):
            part.cp.min_points_per_centroid = 1  # no warnings about small collections
    if kind == "pq":
        # Twice Faiss's own number: over three samples a recall of 0.997 to 0.998 in place of 0.994
        # to 0.997, for 0.9 s more.
        codes.pq.cp.max_points_per_centroid = 512
    if kind == "ivf":
        codes.cp.niter = 10  # as good lists as 25 rounds make
    codes.train(np.asarray(vectors[picked], np.float32))
    return codes


def write_part(codes: Codes, vectors: Matrix, path: Path) -> None:
    """Encode vectors with trained codes into a new file."""
    codes.reset()
    for first in range(0, len(vectors), _PIECE):
        codes.add(np.ascontiguousarray(vectors[first : first + _PIECE], np.float32))
    try:
        import_module("faiss").write_index(codes, str(path))
    except RuntimeError as error:
        raise SolarError(f"{path} cannot be written: is the disk full?") from error
    with path.open("rb") as file:
        os.fsync(file.fileno())


def read_part(path: Path, sha256: str) -> Codes:
    """Read a part; FileNotFoundError if it is gone, a SolarError if it is damaged.

    The checksum is needed because Faiss trusts what it reads: one wrong bit can end the process.
    """
    damaged = SolarError(f"{path} is damaged: run `solar index compact` to rebuild it.")
    if file_digest(regular(path)) != sha256:
        raise damaged
    try:
        codes = import_module("faiss").read_index(str(path))
    except RuntimeError as error:
        raise damaged from error
    if hasattr(codes, "nprobe"):
        codes.nprobe = max(16, codes.nlist // 8)
    return codes


def _recipe(kind: str, dim: int, lists: int) -> str:
    # Four numbers share a code; where four does not divide the length, the next number that does.
    least = max(min(4, dim), -(-dim // _CODES))
    share = next(share for share in range(least, dim + 1) if dim % share == 0)
    codes = f"PQ{dim // share}x4fs"
    return {"pq": codes, "ivf": f"IVF{lists},{codes}"}[kind]
