"""What a query consists of: photos, each with the box of what is meant in it, and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError

if TYPE_CHECKING:
    from solar.images import Box


@dataclass(frozen=True)
class Words:
    """A text that a query consists of, for models with a text side."""

    text: str


@dataclass(frozen=True, eq=False)
class Part:
    """A photo of a query, or a box in it.

    Attributes:
        photo: Whatever `Index.search` takes as one query; `Words` for a text.
        box: x1, y1, x2, y2 in pixels of the upright photo; None for the whole photo.

    Example:
        >>> parts = [Part("front.jpg", (41, 30, 280, 201)), Part("side.jpg")]
        >>> index.search_mean(parts)  # doctest: +SKIP
    """

    photo: Any
    box: Box | None = None


class Together(list[Any]):
    """Several queries that are searched for by the mean of their vectors."""


def parts_of(query: Any, box: Box | None = None) -> list[Part]:
    """The parts of a query: itself, or those of a list; a box goes with a single photo, if any.

    A SolarError if there is none, or a box is given for several, or for a part that has its own.
    """
    given = list(query) if isinstance(query, list | tuple) else [query]
    parts = [one if isinstance(one, Part) else Part(one) for one in given]
    if not parts:
        raise SolarError("A search needs at least one photo.")
    if box is None:
        return parts
    photos = [part for part in parts if not isinstance(part.photo, Words)]
    if len(photos) != 1 or photos[0].box is not None:
        raise SolarError(
            "A box belongs to one photo: for several photos, give each as a Part with its box."
        )
    return [Part(photos[0].photo, box), *(part for part in parts if part is not photos[0])]


def with_words(query: Any, text: str | None) -> Any:
    """A query with a text beside its photos, if there is one; None is a query without photos.

    A SolarError if there is neither, or the text is empty.
    """
    if text is None:
        if query is None:
            raise SolarError("A search needs a photo or a text: give one of them.")
        return query
    if not text.strip():
        raise SolarError("The text to search for is empty: write what the photo shows.")
    photos = [] if query is None else query if isinstance(query, list | tuple) else [query]
    return [*photos, Words(text)]


def shown(parts: Sequence[Part]) -> list[Part]:
    """The photos among the parts; a SolarError if there are words alone."""
    photos = [part for part in parts if not isinstance(part.photo, Words)]
    if not photos:
        raise SolarError("A text has no points to match: verify a search with a photo.")
    return photos


def has_words(parts: Sequence[Part]) -> bool:
    """Whether a text is among the parts."""
    return any(isinstance(part.photo, Words) for part in parts)


def mean_vector(vectors: Sequence[Vectors]) -> Vectors:
    """What several parts are searched for by: the mean of their vectors (dim,), unit norm."""
    if len(vectors) == 1:
        return vectors[0]
    return unit(np.mean(vectors, axis=0, dtype=np.float32))


def unit(vector: Vectors) -> Vectors:
    """A vector (dim,) divided by its norm."""
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def read_files(query: Any) -> Any:
    """A query whose open files are read: some are looked at twice."""
    if isinstance(query, list | tuple):
        return [read_files(part) for part in query]
    if isinstance(query, Part):
        return replace(query, photo=read_files(query.photo))
    if not hasattr(query, "read"):
        return query
    try:
        data = query.read()
    except UnicodeDecodeError:  # which only text has
        data = ""
    if isinstance(data, str):
        raise SolarError("The query is a file in text mode: open it in binary mode, 'rb'.")
    return data


def as_vector(query: Any) -> Vectors | None:
    """A query that is a vector, given as (dim,) or (1, dim); None for anything else.

    Photos are never arrays of floating-point numbers in one row, so that the two differ.
    """
    if type(query).__module__.partition(".")[0] == "torch" and hasattr(query, "detach"):
        query = query.detach().cpu().numpy()
    if not isinstance(query, np.ndarray) or query.dtype.kind != "f":
        return query if isinstance(query, np.ndarray) and query.ndim == 1 else None
    row = query[0] if query.ndim == 2 and len(query) == 1 else query
    return row if row.ndim == 1 else None
