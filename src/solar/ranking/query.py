"""The parts of a query: photos, each with an optional box, and words."""

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
    """A text in a query, for models with a text encoder."""

    text: str


@dataclass(frozen=True, eq=False)
class Part:
    """A photo of a query, or a box in it.

    Attributes:
        photo: Anything that `Index.search` takes as one query; `Words` for a text.
        box: x1, y1, x2, y2 in pixels of the upright photo; None for the whole photo.
        path: Its path in an index, if it is known to be an indexed photo.

    Example:
        >>> parts = [Part("front.jpg", (41, 30, 280, 201)), Part("side.jpg")]
        >>> index.search_mean(parts)  # doctest: +SKIP
    """

    photo: Any
    box: Box | None = None
    path: str | None = None


def parts_of(query: Any, box: Box | None = None) -> list[Part]:
    """The parts of a query, or of a list of them, the box given to the only photo.

    A SolarError if there are no parts, or the box has no single photo without a box of its own.
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
    return [replace(photos[0], box=box), *(part for part in parts if part is not photos[0])]


def with_words(query: Any, text: str | None) -> Any:
    """Add a text, if given, to a query, which is None if there are no photos.

    A SolarError if both are missing, or the text is empty.
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
    """The photos among the parts; a SolarError if there are only words."""
    photos = [part for part in parts if not isinstance(part.photo, Words)]
    if not photos:
        raise SolarError("A text has no points to match: verify a search with a photo.")
    return photos


def has_words(parts: Sequence[Part]) -> bool:
    """Whether a text is among the parts."""
    return any(isinstance(part.photo, Words) for part in parts)


def mean_vector(vectors: Sequence[Vectors], words: Sequence[Vectors] = ()) -> Vectors:
    """The mean of vectors (dim,), unit norm; a single one as it is.

    Several photos weigh as much as one does against the vectors of words.
    """
    if words:
        return mean_vector([*([mean_vector(vectors)] if vectors else []), *words])
    if len(vectors) == 1:
        return vectors[0]
    return unit(np.mean(vectors, axis=0, dtype=np.float32))


def unit(vector: Vectors) -> Vectors:
    """A vector (dim,) divided by its norm."""
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def read_files(query: Any) -> Any:
    """The query with open files replaced by their content, because some are read twice."""
    if isinstance(query, list | tuple):
        return [read_files(part) for part in query]
    if isinstance(query, Part):
        return replace(query, photo=read_files(query.photo))
    if not hasattr(query, "read"):
        return query
    try:
        data = query.read()
    except UnicodeDecodeError:  # a file in text mode
        data = ""
    if isinstance(data, str):
        raise SolarError("The query is a file in text mode: open it in binary mode, 'rb'.")
    return data


def as_vector(query: Any) -> Vectors | None:
    """A query that is a vector, given as (dim,) or (1, dim); None for anything else.

    A photo is never an array of floats with one row.
    """
    if type(query).__module__.partition(".")[0] == "torch" and hasattr(query, "detach"):
        query = query.detach().cpu().numpy()
    if not isinstance(query, np.ndarray):
        return None
    row = query[0] if query.dtype.kind == "f" and query.ndim == 2 and len(query) == 1 else query
    return row if row.ndim == 1 else None
