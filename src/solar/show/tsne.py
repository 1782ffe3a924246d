"""t-SNE (van der Maaten and Hinton, JMLR 2008) in numpy, for a few thousand rows.

Attraction is summed over the nearest neighbours of each row, as others add next to nothing;
repulsion over all pairs, a block of rows at a time. The learning rate is the number of rows over
the exaggeration (Belkina et al., Nature Communications 2019).
"""

import numpy as np
import numpy.typing as npt

from solar.arrays import Floats, Ints

_EXAGGERATION, _EARLY, _STEPS = 12.0, 250, 500
_BLOCK = 1 << 19  # pairs at a time: 2 MB, which a cache holds


def tsne(rows: Floats, start: Floats, perplexity: float = 30.0) -> Floats:
    """Arrange rows (n, d) in the plane, deterministically, from small initial places (n, 2)."""
    n = len(rows)
    i, j, weights = _edges(rows, perplexity)
    places = np.asarray(start, np.float32).copy()
    speed, gains = np.zeros_like(places), np.ones_like(places)
    rate = max(n / _EXAGGERATION, 20.0)
    for step in range(_STEPS):
        early = step < _EARLY
        gradient = (_EXAGGERATION if early else 1.0) * _attraction(places, i, j, weights)
        gradient -= _repulsion(places)
        same_way = (gradient > 0) == (speed > 0)
        gains = np.maximum(np.where(same_way, gains * 0.8, gains + 0.2), 0.01)
        speed = (0.5 if early else 0.8) * speed - np.float32(4 * rate) * gains * gradient
        places += speed
        places -= places.mean(axis=0)
    return places


def _edges(rows: Floats, perplexity: float) -> tuple[Ints, Ints, Floats]:
    """The symmetric affinities: edges i, j in both directions, and weights that sum to one.

    The weights of a row are Gaussian in the distance, with the entropy of `perplexity` equal ones.
    """
    n = len(rows)
    count = min(n - 1, int(3 * perplexity) + 1)
    squares = (rows**2).sum(axis=1)
    nearest = np.empty((n, count), np.int64)
    distance = np.empty((n, count), np.float64)
    block = max(1, _BLOCK // n)
    for first in range(0, n, block):
        here = slice(first, first + block)
        part = squares[here, None] + squares - 2 * rows[here] @ rows.T
        own = np.arange(len(part))
        part[own, first + own] = np.inf
        found = np.argpartition(part, count - 1, axis=1)[:, :count]
        nearest[here], distance[here] = found, np.take_along_axis(part, found, axis=1)
    shares = _shares(np.maximum(distance, 0), np.log(perplexity)) / (2 * n)
    i = np.repeat(np.arange(n), count)
    j, weights = nearest.ravel(), shares.ravel()
    every = np.concatenate([i * n + j, j * n + i])  # pairs that are each other's add up
    pairs, where = np.unique(every, return_inverse=True)
    summed = np.bincount(where, np.concatenate([weights, weights]))
    return pairs // n, pairs % n, summed.astype(np.float32)


def _shares(squares: npt.NDArray[np.float64], entropy: float) -> npt.NDArray[np.float64]:
    """Weights (n, k) of neighbours at squared distances, each row with this entropy."""
    squares = squares - squares.min(axis=1, keepdims=True)
    scale = np.maximum(squares.mean(axis=1, keepdims=True), 1e-12)
    low, high = np.full((2, len(squares), 1), [[[-30.0]], [[30.0]]])  # of the logarithm
    for _ in range(50):
        middle = (low + high) / 2
        shares: npt.NDArray[np.float64] = np.exp(-squares * np.exp(middle) / scale)
        shares /= shares.sum(axis=1, keepdims=True)
        wide = -(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=1, keepdims=True) > entropy
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    return shares


def _attraction(places: Floats, i: Ints, j: Ints, weights: Floats) -> Floats:
    away = places[i] - places[j]
    pull = (weights / (1 + (away**2).sum(axis=1)))[:, None] * away
    columns = [np.bincount(i, column, len(places)) for column in pull.T]
    return np.stack(columns, axis=1).astype(np.float32)


def _repulsion(places: Floats) -> Floats:
    """(n, 2) the repulsive part of the gradient."""
    n = len(places)
    squares = (places**2).sum(axis=1, keepdims=True)
    ones = np.ones_like(squares)
    left = np.hstack([-2 * places, squares + 1, ones])
    right = np.hstack([places, ones, squares]).T.copy()
    across = np.hstack([places, ones])
    total, pushed = 0.0, np.empty_like(places)
    block = max(1, _BLOCK // n)
    for first in range(0, n, block):
        near = left[first : first + block] @ right  # 1 + the squared distances
        np.maximum(near, 1, out=near)
        np.reciprocal(near, out=near)
        total += float(near.sum(dtype=np.float64)) - len(near)  # without each with itself
        np.square(near, out=near)
        sums = near @ across
        pushed[first : first + block] = sums[:, 2:] * places[first : first + block] - sums[:, :2]
    pushed /= np.float32(max(total, 1e-12))
    return pushed
