"""Diffusion: similarity spreads along the graph of mutual neighbours.

After Iscen et al., "Efficient Diffusion on Region Manifolds", CVPR 2017:

- the graph joins rows i and j that are among each other's k nearest, with W(i, j) = s(i, j)^gamma;
  it is normalised by the degrees D to S = D^-½ W D^-½;
- a query puts y(i) = s(i)^gamma on its own nearest rows, the seeds, and the scores f solve
  (I - alpha S) f = y, by conjugate gradients because the matrix is symmetric and positive.

For a query only its best rows by plain search take part (the paper's truncation), so the cost does
not grow with the collection.

Defaults (k = 50, 10 seeds, gamma = 3, alpha = 0.99, 1000 rows, 20 steps or 1e-6) are those of Yang
et al., "Efficient Image Retrieval via Decoupling Diffusion into Online and Offline Processing",
AAAI 2019, and its code, except that its k = 50 counts the row itself: that is k = 49 here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Doubles, Floats, RowNumbers
from solar.errors import SolarError
from solar.ranking.neighbours import Neighbours, VectorsOf, distinct_places, exact_neighbours
from solar.ranking.results import SearchResults

TRUNCATE = 1000
"""How many rows of a plain search are worth passing to ``diffuse``."""


@dataclass(frozen=True, eq=False)
class Graph:
    """The normalised graph S of a collection: sparse, symmetric, nothing on the diagonal.

    The edges of row i are ``columns[starts[i] : starts[i + 1]]``, in ascending order.
    """

    starts: NDArray[np.int64]  # (n + 1,)
    columns: NDArray[np.int32]  # (edges,)
    weights: NDArray[np.float32]  # (edges,), in 0..1

    def __len__(self) -> int:
        return len(self.starts) - 1


def rerank(results: SearchResults) -> SearchResults:
    """Diffuse among the best results of a search, on a graph of these."""
    found = results.candidates(TRUNCATE)
    vectors, rows = found.vectors, np.arange(len(found.paths))
    graph = build_graph(len(rows), exact_neighbours(vectors), vectors.__getitem__)
    return results.ranked(found, *diffuse(rows, found.scores, graph))


def build_graph(
    count: int,
    neighbours: Neighbours,
    vectors_of: VectorsOf,
    *,
    k: int = 50,
    gamma: float = 3.0,
    chunk: int = 1024,
) -> Graph:
    """Search for the `k` neighbours of each of `count` rows, not counting itself; join mutual ones.

    `gamma` is the power of the similarity; `chunk` rows are searched for at a time. Takes about 60
    bytes per row and neighbour meanwhile (3 GB for a million rows at k = 50); the graph at most 8.
    """
    if k < 1:
        raise SolarError(f"A graph cannot be built from {k} neighbours: k must be 1 or more.")
    rows = np.full((count, k + 1), -1, np.int32)
    scores = np.zeros((count, k + 1), np.float32)
    for start in range(0, count, chunk):
        part = np.arange(start, min(start + chunk, count), dtype=np.int64)
        found, similar = neighbours(vectors_of(part), k + 1)
        rows[part, : found.shape[1]] = found
        scores[part, : found.shape[1]] = similar
    return mutual_graph(rows, scores, k=k, gamma=gamma)


def mutual_graph(
    rows: NDArray[np.integer], scores: Floats, *, k: int = 50, gamma: float = 3.0
) -> Graph:
    """Join mutual neighbours, from lists of neighbours.

    Args:
        rows: (n, m) neighbours of each of n rows, best first, -1 where there is none. A row in its
            own list is ignored.
        scores: (n, m). Pairs that score 0 or less are not joined. Where the two ends of a pair
            score differently (approximate search), the lower score counts.
        k: Neighbours to use of each list, not counting the row itself.
        gamma: Power of the similarity.
    """
    count, width = rows.shape
    real = (rows >= 0) & (rows != np.arange(count)[:, None])
    real &= (np.cumsum(real, axis=1, dtype=np.int32) <= k) & (scores > 0)
    edges = np.flatnonzero(real)
    pairs, first = np.unique(edges // width * count + rows.flat[edges], return_index=True)
    similar = scores.flat[edges[first]]
    del real, edges, first  # the largest part of the memory, for a large collection
    i, j = np.divmod(pairs, count)  # sorted by i, then by j
    back = np.minimum(np.searchsorted(pairs, j * count + i), max(len(pairs) - 1, 0))
    mutual = pairs[back] == j * count + i
    similar = np.minimum(similar, similar[back])[mutual].astype(np.float64)
    i, j = i[mutual], j[mutual]
    weights = np.maximum(similar**gamma, 1e-100)  # a tiny power must not become 0 / 0 below
    degree = np.bincount(i, weights, minlength=count)
    weights /= np.sqrt(degree[i] * degree[j])
    starts = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=count))])
    return Graph(starts.astype(np.int64), j.astype(np.int32), weights.astype(np.float32))


def diffuse(
    rows: RowNumbers,
    scores: Floats,
    graph: Graph,
    *,
    seeds: int = 10,
    gamma: float = 3.0,
    alpha: float = 0.99,
    iterations: int = 20,
    tolerance: float = 1e-6,
) -> tuple[RowNumbers, Floats]:
    """Rank the results of a plain search again by diffusion among them.

    Args:
        rows: (m,) found for one query, best first, at most ``TRUNCATE``, without the query itself.
        scores: (m,), inner products with the query.
        graph: Of the whole index.
        seeds: How many of the best rows the query is joined with.
        gamma: Power of their similarity to the query.
        alpha: How far similarity spreads, in 0..1; with 0 it stays on the seeds.
        iterations: Maximum steps of conjugate gradients.
        tolerance: Residual to stop at, as a fraction of that at the start.

    Returns:
        The same rows, best first (-1 and repeats dropped), with their diffused scores. Unreached
        rows score 0 and come last, in their old order.

    Raises:
        SolarError: alpha is not in 0..1 (1 excluded), or a row is not in the graph.
    """
    if not 0 <= alpha < 1:
        raise SolarError(f"Diffusion with alpha {alpha:g} does not converge: use 0 to 0.99.")
    kept = distinct_places(rows)
    rows, scores = rows[kept], scores[kept]
    if len(rows) and rows.max() >= len(graph):
        raise SolarError(
            f"Row {rows.max()} is not among the {len(graph)} of the graph: build the graph again."
        )
    start = np.zeros(len(rows))
    start[:seeds] = np.maximum(scores[:seeds], 0).astype(np.float64) ** gamma
    diffused = _solved(_among(graph, rows), start, alpha, iterations, tolerance)
    order = np.argsort(-diffused, kind="stable")
    return rows[order], diffused[order].astype(np.float32)


def _among(graph: Graph, rows: RowNumbers) -> Graph:
    """The edges between some rows, numbered by their places in ``rows``, not normalised again."""
    lengths = graph.starts[rows + 1] - graph.starts[rows]
    ends = np.cumsum(lengths)
    edges = np.arange(lengths.sum()) + np.repeat(graph.starts[rows] - (ends - lengths), lengths)
    order = np.argsort(rows)
    columns = graph.columns[edges]
    nearest = order[np.minimum(np.searchsorted(rows, columns, sorter=order), len(rows) - 1)]
    inside = rows[nearest] == columns
    kept = np.concatenate([[0], np.cumsum(inside)])[np.concatenate([[0], ends])]
    return Graph(kept, nearest[inside].astype(np.int32), graph.weights[edges[inside]])


def _solved(graph: Graph, y: Doubles, alpha: float, iterations: int, tolerance: float) -> Doubles:
    """Solve (I - alpha S) f = y by conjugate gradients."""
    i = np.repeat(np.arange(len(graph)), np.diff(graph.starts))
    weights = alpha * graph.weights.astype(np.float64)

    def times(x: Doubles) -> Doubles:
        return x - np.bincount(i, weights * x[graph.columns], minlength=len(x))

    f = np.zeros_like(y)
    rest, step = y.copy(), y.copy()
    size = float(rest @ rest)
    enough = size * tolerance**2
    for _ in range(iterations):
        if size <= enough:
            break
        image = times(step)
        length = size / float(step @ image)
        f += length * step
        rest -= length * image
        before, size = size, float(rest @ rest)
        step = rest + size / before * step
    return f
