"""What a query consists of: photos, each with the box of what is meant in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.errors import SolarError
from solar.search.engine import Vectors

if TYPE_CHECKING:
    from solar.images import Box


@dataclass(frozen=True, eq=False)
class Part:
    """A photo of a query and, where not all of it is meant, a box in it.

    Attributes:
        photo: Whatever `Index.search` takes as one query.
        box: x1, y1, x2, y2 in pixels of the upright photo; None for all of it.

    Example:
        >>> parts = [Part("front.jpg", (41, 30, 280, 201)), Part("side.jpg")]
        >>> index.search_mean(parts)  # doctest: +SKIP
    """

    photo: Any
    box: Box | None = None


def parts_of(query: Any, box: Box | None = None) -> list[Part]:
    """The parts of a query: itself, or those of a list; a box goes with a single photo.

    A SolarError if there is none, or a box is given for several, or for a part that has its own.
    """
    given = list(query) if isinstance(query, list | tuple) else [query]
    parts = [one if isinstance(one, Part) else Part(one) for one in given]
    if not parts:
        raise SolarError("A search needs at least one photo.")
    if box is None:
        return parts
    if len(parts) > 1 or parts[0].box is not None:
        raise SolarError("One box goes with one photo: give each of several a Part with its own.")
    return [Part(parts[0].photo, box)]


def mean_vector(vectors: Sequence[Vectors]) -> Vectors:
    """What several parts are searched for by: the mean of their vectors (dim,), unit norm."""
    if len(vectors) == 1:
        return vectors[0]
    return unit(np.mean(vectors, axis=0, dtype=np.float32))


def unit(vector: Vectors) -> Vectors:
    """A vector (dim,) divided by its norm."""
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)
