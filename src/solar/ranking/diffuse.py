"""Diffusion: similarity spreads along the graph of mutual neighbours.

After Iscen et al., "Efficient Diffusion on Region Manifolds", CVPR 2017:

- the graph joins photos i and j that are among each other's k nearest, W(i, j) = s(i, j)^gamma; it
  is normalised by the degrees D to S = D^-½ W D^-½;
- a query puts y(i) = s(i)^gamma on its own nearest photos, the seeds, and the scores f solve
  (I - alpha S) f = y, by conjugate gradients because the matrix is symmetric and positive.

Only the best photos of a plain search take part (the paper's truncation), and the graph is that of
these, so the cost does not grow with the collection.

Defaults (k = 50, 10 seeds, gamma = 3, alpha = 0.99, 1000 photos, 20 steps or 1e-6) are those of
Yang et al., "Efficient Image Retrieval via Decoupling Diffusion into Online and Offline
Processing", AAAI 2019, and its code, except that its k = 50 counts the photo itself: that is k = 49
here.
"""

from typing import TypeAlias

import numpy as np

from solar.arrays import Doubles, Floats, Ints, Vectors
from solar.ranking.neighbours import largest
from solar.ranking.results import SearchResults

TRUNCATE = 1000
"""How many of the best photos take part."""

Graph: TypeAlias = tuple[Ints, Ints, Doubles]
"""The entries of a sparse matrix: row, column and weight of each."""


def rerank(results: SearchResults) -> SearchResults:
    """Diffuse among the best results of a search."""
    found = results.candidates(TRUNCATE)
    scores = diffused(found.scores, mutual_graph(found.vectors))
    order = np.argsort(-scores, kind="stable")
    return results.ranked(found, order, scores[order])


def mutual_graph(vectors: Vectors, k: int = 50, gamma: float = 3.0) -> Graph:
    """The normalised graph S of vectors (n, d): symmetric, nothing on the diagonal."""
    similar = vectors @ vectors.T
    np.fill_diagonal(similar, -np.inf)
    near = np.zeros(similar.shape, bool)
    np.put_along_axis(near, largest(similar, k), values=True, axis=1)
    i, j = np.nonzero(near & near.T & (similar > 0))
    weights = similar[i, j].astype(np.float64) ** gamma
    root = np.sqrt(np.bincount(i, weights, minlength=len(vectors)))
    return i, j, weights / (root[i] * root[j])


def diffused(
    scores: Floats,
    graph: Graph,
    *,
    seeds: int = 10,
    gamma: float = 3.0,
    alpha: float = 0.99,
    steps: int = 20,
    tolerance: float = 1e-6,
) -> Floats:
    """Scores (m,) of the results of a plain search after diffusion; 0 where nothing leads to.

    Args:
        scores: (m,) inner products with the query, the best first.
        graph: Of these results.
        seeds: How many of the best results the query is joined with.
        gamma: Power of their similarity to the query.
        alpha: How far similarity spreads, 0 to less than 1; with 0 it stays on the seeds.
        steps: Maximum steps of conjugate gradients.
        tolerance: Residual to stop at, as a fraction of that at the start.
    """
    y = np.zeros(len(scores))
    y[:seeds] = np.maximum(scores[:seeds], 0).astype(np.float64) ** gamma
    i, j, weights = graph
    f, rest, step = np.zeros_like(y), y.copy(), y
    size = float(rest @ rest)
    enough = size * tolerance**2
    for _ in range(steps):
        if size <= enough:
            break
        image = step - alpha * np.bincount(i, weights * step[j], minlength=len(y))
        length = size / float(step @ image)
        f += length * step
        rest -= length * image
        before, size = size, float(rest @ rest)
        step = rest + size / before * step
    return f.astype(np.float32)
