"""Query expansion and database-side augmentation: a descriptor is averaged with its neighbours.

Both replace a vector x, of the query or of every photo of a collection, by the unit vector along

    x + Σ w(i) · x(i),   i = 1 … n over the neighbours of x, best first,

and differ in the weights, where s(i) is the inner product of x and x(i):

- ``"average"``: w = 1. Chum et al., "Total Recall", ICCV 2007, average the query with results that
  passed geometric verification; nothing is verified here, so few are taken.
- ``"alpha"``: w = s(i)^alpha. Radenović et al., "Fine-tuning CNN Image Retrieval with No Human
  Annotation", 2018: alpha = 3, n = 50. The power silences doubtful ones: many may join.
- ``"rank"``: w falls in equal steps from 1, for x itself, to 0. Gordo et al., "End-to-end Learning
  of Deep Visual Representations for Image Retrieval", 2017, with n = 20 for augmentation.

Neighbours with a score of 0 or less have no weight; a vector without any other stays as it is.
"""

from typing import Literal

import numpy as np

from solar.arrays import Floats, RowNumbers, Vectors
from solar.ranking.neighbours import Neighbours, exact_neighbours
from solar.ranking.results import SearchResults

Method = Literal["average", "alpha", "rank"]

ALPHA = 3.0
NEIGHBOURS: dict[Method, int] = {"average": 9, "alpha": 50, "rank": 20}
"""How many neighbours join by default; an average is one of ten, with the vector itself."""

# Results to expand a query with: more than any method takes, because some may drop out.
_RESULTS = 64
# Results that augmentation compares again; the cost grows with the square.
_AUGMENTED = 400


def average(results: SearchResults) -> SearchResults:
    """Search again with the mean of the query and its best results."""
    return _expanded(results, "average")


def alpha(results: SearchResults) -> SearchResults:
    """Search again with the query and its best results, weighted by similarity."""
    return _expanded(results, "alpha")


def dba(results: SearchResults) -> SearchResults:
    """Compare the best results again, each augmented with its nearest among them."""
    found = results.candidates(_AUGMENTED)
    rows = np.arange(len(found.paths))
    augmented = augment(rows, exact_neighbours(found.vectors), found.vectors)
    scores = augmented @ results.vector
    order = np.argsort(-scores, kind="stable")
    return results.ranked(found, rows[order], scores[order])


def _expanded(results: SearchResults, method: Method) -> SearchResults:
    vector, found = results.vector, results.candidates(_RESULTS)
    others = (found.vectors != vector).any(axis=1)  # without the query, where it is indexed
    nearest, scores = found.vectors[others], found.scores[others]
    return results.searching(expand_query(vector, nearest, scores, method))


def weights_of(scores: Floats, method: Method, n: int) -> Floats:
    """Weights (m, k) of the first k neighbours, of at most n, from their scores (m, k)."""
    useful = np.clip(np.nan_to_num(scores), 0, 1)  # compressed vectors can score above 1
    if method == "alpha":
        return (useful**ALPHA).astype(np.float32)
    weights = (useful > 0).astype(np.float32)
    if method == "rank":
        weights *= 1 - np.arange(1, scores.shape[1] + 1) / (n + 1)
    return weights


def expand_query(
    query: Vectors,
    neighbour_vectors: Vectors,
    scores: Floats,
    method: Method = "alpha",
    n: int | None = None,
) -> Vectors:
    """Expand a query (d,) with its neighbours: (d,), unit norm.

    Args:
        query: (d,), unit norm.
        neighbour_vectors: (m, d), best first, without the query itself.
        scores: (m,), their inner products with the query.
        method: How they are weighted, see the top of this module.
        n: How many of them to use. Default: `NEIGHBOURS`.
    """
    n = NEIGHBOURS[method] if n is None else n
    weights = weights_of(scores[None, :n], method, n)
    expanded: Vectors = _combined(query[None], neighbour_vectors[None, :n], weights)[0]
    return expanded


def augment(
    rows: RowNumbers, neighbours: Neighbours, vectors: Vectors, n: int = NEIGHBOURS["rank"]
) -> Vectors:
    """Expand rows (m,) of vectors with their n neighbours by rank: (m, d), unit norm."""
    own = vectors[rows]
    found, scores = neighbours(own, n + 1)
    # Among equal vectors a row need not come first in its own list, nor be in it at all. If it is
    # there, it is removed; otherwise the last one is.
    others = np.argsort(found == rows[:, None], axis=1, kind="stable")[:, :n]
    found = np.take_along_axis(found, others, axis=1)
    scores = np.take_along_axis(scores, others, axis=1)
    scores[(found == rows[:, None]) | (found < 0)] = 0  # an index of n rows or fewer
    weights = weights_of(scores, "rank", n)
    out = np.empty(own.shape, np.float32)
    for start in range(0, len(own), 64):  # 64 × 20 vectors of 2048 floats are 10 MB
        part = slice(start, start + 64)
        out[part] = _combined(own[part], vectors[found[part]], weights[part])
    return out


def _combined(own: Vectors, others: Vectors, weights: Floats) -> Vectors:
    """Add (m, k, d) others by (m, k) weights to (m, d) vectors, and make them unit vectors."""
    total = own + np.matmul(weights[:, None], others)[:, 0]
    norm = np.linalg.norm(total, axis=1, keepdims=True)
    # Scores of true neighbours are positive, so the sum is longer than 1; wrong ones could cancel.
    return np.where(norm > 1e-6, total / np.maximum(norm, 1e-6), own).astype(np.float32)
