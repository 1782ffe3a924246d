"""What a similarity is compared with: photos of the collection, and neighbours of the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from solar.arrays import Doubles, Vectors
from solar.ranking.calibration import FEWEST, NEIGHBOURS, Background
from solar.ranking.results import BEST
from solar.storage.protocol import Engine
from solar.storage.types import Hit, Photo

SAMPLE, TYPICAL = 1000, 64
"""How many photos of the collection are compared with a query, and with the collection."""

_DEEP = NEIGHBOURS[-1] + 1  # a photo is its own nearest

Nearest = Callable[[Sequence[Any], int], list[list[Hit]]]


class Surroundings:
    """The photos among which one search is made: those of an engine that are `passing` its filters.

    `kept` is what lives as long as the index; `nearest` finds only photos that pass.
    """

    def __init__(
        self,
        engine: Engine,
        kept: dict[str, Any],
        passing: Callable[[Photo], bool],
        nearest: Nearest,
    ) -> None:
        self._engine, self._nearest = engine, nearest
        self._sample = _sample(engine, kept)
        photos = self._sample.photos
        rows = [row for row, photo in enumerate(photos) if passing(photo)]
        self._count = max(round(len(engine) * len(rows) / max(len(photos), 1)), 1)
        self._vectors = self._sample.vectors[rows]
        self._near: Any = None

    def background(self, vector: Vectors, best: Sequence[Hit]) -> Background | None:
        """That of a query, given its best results; None where there are too few photos.

        The neighbours of the results are those of the first call.
        """
        if self._near is None:
            found = self._engine.lookup([hit.path for hit in best[:BEST]])
            self._near = neighbours(self._nearest, [row for _, row in found.values()])
        near = self._near, self._sample.near
        if len(self._vectors) < FEWEST:  # a filter that few photos pass: all of these are looked at
            [hits] = self._nearest([vector], SAMPLE)
            return Background.of([hit.score for hit in hits], len(hits), *near)
        return Background.of(self._vectors @ vector, self._count, *near)


class Sample(NamedTuple):
    """Photos of a collection, and how similar some of them are to their neighbours in it."""

    version: int
    photos: list[Photo]
    vectors: Vectors
    near: Doubles


def neighbours(nearest: Nearest, rows: Sequence[Vectors]) -> Doubles:
    """The similarities (m, n) of photos to their neighbours, best first."""
    lists = nearest(rows, _DEEP) if len(rows) else []
    deep = min((len(hits) for hits in lists), default=1)
    scores = [[hit.score for hit in hits[1:deep]] for hits in lists]
    return np.array(scores, np.float64).reshape(len(lists), deep - 1)


def _sample(engine: Engine, kept: dict[str, Any]) -> Sample:
    """The sample of the collection as it is, taken once."""
    version = engine.version
    found: Sample | None = kept.get("sample")
    if found is None or found.version != version:
        photos, vectors = engine.sample(SAMPLE)
        some = np.linspace(0, len(vectors) - 1, min(TYPICAL, len(vectors)), dtype=np.int64)
        typical = np.ascontiguousarray(vectors[some])
        near = neighbours(lambda rows, k: engine.search(np.array(rows), k), list(typical))
        found = kept["sample"] = Sample(version, photos, vectors, near)
    return found
