"""The regions of a photo: where they are, pictures of a number per region, which ones match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Floats

if TYPE_CHECKING:
    from solar.models.contributions import LocatedDescriptor
    from solar.show.attention_source import Location


_BLOCK = 1 << 22  # pairs looked at together: 16 MB


def region_at(one: LocatedDescriptor, at: Location) -> tuple[int, int]:
    """Row and column of the region that a pixel is in, or of the nearest one."""
    x, y = at
    row = int(np.searchsorted(one.rows, y, side="right")) - 1
    column = int(np.searchsorted(one.columns, x, side="right")) - 1
    h, w = one.vectors.shape[:2]
    return min(max(row, 0), h - 1), min(max(column, 0), w - 1)


def middles(one: LocatedDescriptor) -> list[Location]:
    """The middles of all regions, row by row."""
    ys, xs = ((edges[1:] + edges[:-1]) / 2 for edges in (one.rows, one.columns))
    return [(float(x), float(y)) for y in ys for x in xs]


def density(one: LocatedDescriptor, heat: Floats, size: tuple[int, int]) -> Floats:
    """A heat map as a picture of (width, height): what a pixel of it adds, smooth between middles.

    Outside the box it is 0.
    """
    area = np.diff(one.rows)[:, None] * np.diff(one.columns)
    per_pixel = (heat / area).astype(np.float32)
    (width, height), (whole_width, whole_height) = size, one.size
    ys = (np.arange(height) + 0.5) * (whole_height / height)
    xs = (np.arange(width) + 0.5) * (whole_width / width)
    down, across = _between(one.rows, ys), _between(one.columns, xs)
    return (down @ per_pixel @ across.T).astype(np.float32)


def _between(edges: NDArray[np.float64], places: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Weights (places, regions) that interpolate between the middles of regions."""
    middles = (edges[1:] + edges[:-1]) / 2
    weights = np.stack([np.interp(places, middles, row) for row in np.eye(len(middles))], axis=1)
    inside = (places >= edges[0]) & (places <= edges[-1])
    between: NDArray[np.float64] = weights * inside[:, None]
    return between


def best_pairs(a: Floats, b: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """For each row of a the best of b, for each of b the best of a, and the products of a's."""
    best_a, value_a = np.zeros(len(a), np.int64), np.zeros(len(a), np.float32)
    best_b, value_b = np.zeros(len(b), np.int64), np.full(len(b), -np.inf, np.float32)
    step = max(1, _BLOCK // len(b))
    for start in range(0, len(a), step):
        products = a[start : start + step] @ b.T
        here = slice(start, start + len(products))
        best_a[here], value_a[here] = products.argmax(axis=1), products.max(axis=1)
        higher = products.max(axis=0) > value_b
        best_b[higher] = start + products.argmax(axis=0)[higher]
        value_b = np.maximum(value_b, products.max(axis=0))
    return best_a, best_b, value_a
