"""What a re-ranking method takes and returns: a query, and the photos found for it so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from solar.arrays import Floats, RowNumbers, Vectors
from solar.errors import SolarError
from solar.ranking.calibration import FEWEST, Background, Calibration
from solar.storage.protocol import Engine
from solar.storage.types import Hit
from solar.weights import probabilities

if TYPE_CHECKING:
    from solar.ranking.query import Part

BEST = 8
"""At least so many results are looked at to rate them."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Photos with their vectors, best first."""

    paths: Sequence[str]
    vectors: Vectors  # (n, dim)
    scores: Floats  # (n,) inner products with the query


@dataclass(frozen=True, eq=False)
class SearchResults:
    """A query and the photos found for it so far, computed lazily.

    A method that lacks a library fails before the query is described.
    """

    engine: Engine  # where the photos are
    describe: Callable[[], Any]  # a vector (dim,), or what an index without vectors searches for
    find: Callable[[Any, int], list[Hit]]  # a plain search for the k best photos
    photos: Callable[[], Sequence[Part]]  # the query's, files or `Photo`s; an error for vectors
    k: int = 10  # how many photos are wanted in the end
    head: Sequence[Hit] = ()  # ranked by a method; those of a plain search follow them
    # By the names of methods: their settings, and what they keep between searches.
    settings: Mapping[str, Any] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    # Turns similarities to the query into probabilities; None once it was expanded.
    calibration: Calibration | None = None
    similar: bool = True  # whether scores are similarities
    # What similarities to a vector are compared with, given its best hits; None for too few photos.
    background: Callable[[Vectors, Sequence[Hit]], Background | None] = lambda *_: None

    @property
    def vector(self) -> Vectors:
        """The vector of the query, (dim,)."""
        return cast("Vectors", self.describe())

    def best(self, count: int) -> list[Hit]:
        """The best photos, as they are ranked now."""
        if count <= len(self.head):
            return list(self.head[:count])
        return _joined(self.head, self.find(self.describe(), count))[:count]

    @cached_property
    def top(self) -> list[Hit]:
        """The `k` best photos with their probabilities, if there are any; see `rated`."""
        return rated(self.best(self.k), self.rating, self._own_background)

    def probable(
        self, hits: Sequence[Hit], least: float, names: Sequence[str], *, calibrated: bool
    ) -> list[Hit]:
        """The rated hits with a probability of `least`, after the methods with these names.

        A SolarError if there are no probabilities; it says why, which depends on whether the index
        is `calibrated`.
        """
        if self.rating is not None:
            return [hit for hit in hits if (hit.probability or 0.0) >= least]
        if calibrated and self.calibration is not None and self.similar:
            raise SolarError(
                f"There are too few photos to say how probable each is (fewer than {FEWEST}): "
                "leave out the minimum probability."
            )
        if calibrated:
            after = ", ".join(names) or "results were judged"
            raise SolarError(
                f"There are no probabilities after {after}: leave out the minimum probability, "
                "or the re-ranking."
            )
        known = " and ".join(probabilities()) or "no model"
        raise SolarError(
            f"{self.engine.spec.model or 'The model of this index'} has no calibrated "
            f"probabilities (available for {known}): leave out the minimum probability, or fit "
            "them with `solar calibrate`."
        )

    @cached_property
    def rating(self) -> Calibration | None:
        """Turns the current scores into probabilities; None if they are no similarities.

        It is None, too, if there are too few photos to compare with.
        """
        known = self.calibration if self.similar else None
        return None if known is None or self._own_background is None else known

    @cached_property
    def _own_background(self) -> Background | None:
        if self.calibration is None:
            return None
        return self.background(self.vector, self.find(self.vector, max(self.k, BEST)))

    def similarities(self, count: int) -> list[Hit]:
        """The best photos, as they are ranked now, with their similarities as scores."""
        if self.similar:
            return self.best(count)
        found = self.candidates(count)
        return list(map(Hit, found.paths, found.scores.tolist()))

    def candidates(self, count: int) -> Candidates:
        """The best photos and their vectors."""
        hits = self.best(count)
        found = self.engine.lookup([hit.path for hit in hits])
        hits = [hit for hit in hits if hit.path in found]  # a photo may just have been removed
        rows = [found[hit.path][1] for hit in hits]
        vectors: Vectors = np.reshape(rows, (len(hits), self.engine.spec.dim)).astype(np.float32)
        # The score of another method need not be a similarity.
        scores = vectors @ self.vector if self.head else [hit.score for hit in hits]
        return Candidates([hit.path for hit in hits], vectors, np.asarray(scores, np.float32))

    def ranked(self, found: Candidates, rows: RowNumbers, scores: Floats) -> SearchResults:
        """The same search with candidates first, in the order of `rows` and with these scores."""
        pairs = zip(rows.tolist(), scores.tolist(), strict=True)
        hits = [Hit(found.paths[row], score) for row, score in pairs]
        return replace(self.led_by(hits), similar=False)

    def led_by(self, hits: Sequence[Hit]) -> SearchResults:
        """The same search with these photos first; the others follow in the order they had."""
        return replace(self, head=_joined(hits, self.head))

    def searching(self, vector: Vectors) -> SearchResults:
        """A search for another vector (dim,)."""
        return replace(self, describe=lambda: vector, head=(), calibration=None)


def rated(
    hits: Sequence[Hit], calibration: Calibration | None, background: Background | None
) -> list[Hit]:
    """Hits, best first, with probabilities; those that have one keep it.

    None is more probable than a photo before it.
    """
    if calibration is None or background is None:
        return list(hits)
    most, done = 1.0, []
    found = calibration.probabilities([hit.score for hit in hits], background)
    for hit, probability in zip(hits, found, strict=True):
        if hit.probability is None:
            hit = replace(hit, probability=min(most, probability))
        most = min(most, hit.probability or 0.0)
        done.append(hit)
    return done


def _joined(first: Sequence[Hit], then: Sequence[Hit]) -> list[Hit]:
    known = {hit.path for hit in first}
    return [*first, *(hit for hit in then if hit.path not in known)]
