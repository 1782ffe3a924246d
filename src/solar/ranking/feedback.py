"""Relevance feedback: the query moves towards photos that are right, and away from wrong ones.

The user ticks right results and crosses wrong ones; the next search is for the unit vector along

    (1 - a) · q + a · mean of the ticked - b · mean of the crossed,

where a is 0 if nothing is ticked (after Rocchio, "Relevance Feedback in Information Retrieval",
1971, whose weights are constant: crosses alone would push the query away from what it shows).
Ticked photos are listed first, crossed ones last.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from solar.arrays import Vectors
from solar.storage.types import Hit

LIKE, UNLIKE = 0.8, 0.25
"""How much ticked and crossed photos count: a and b above, chosen on landmarks/train."""


def updated(
    query: Vectors, liked: Vectors, unliked: Vectors, like: float = LIKE, unlike: float = UNLIKE
) -> Vectors:
    """The next query (d,), unit norm, from this one and ticked (n, d) and crossed (m, d) photos."""
    if not len(liked) and not len(unliked):
        return query
    total = query
    if len(liked):
        total = (1 - like) * query + like * np.mean(liked, axis=0)
    if len(unliked):
        total = total - unlike * np.mean(unliked, axis=0)
    norm = float(np.linalg.norm(total))
    # A crossed photo may be the query itself, and cancel it.
    return np.asarray(total / norm if norm > 1e-6 else query, np.float32)


def arranged(
    liked: Iterable[Hit], found: Sequence[Hit], unliked: Iterable[Hit], count: int
) -> list[Hit]:
    """The first `count` of: ticked photos, found photos, crossed photos."""
    first, last = (sorted(hits, key=lambda hit: -hit.score) for hits in (liked, unliked))
    return [*first, *found, *last][:count]
