"""How probable it is that a photo shows the same place as a query.

A similarity means something else for every model, and a count of matching points says little by
itself. Logistic regressions turn what is known of a result into a probability: one of its
similarity and rank, one that also knows how its keypoints match the query's.
`benchmarks/calibrate.py` fits their weights for a model, on photos of known places, and writes them
to `solar/weights/probabilities.json`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from solar.weights import probabilities

BY_CHANCE = 6
"""So many inliers photos of different places have, too."""


@dataclass(frozen=True)
class Evidence:
    """How a photo matches a query, keypoint by keypoint.

    Attributes:
        inliers: Matches that fit one geometry.
        matches: All matches.
        coverage: The share of the area with keypoints that the inliers span, from 0 to 1, in the
            photo in which it is smaller.
        threshold: From so many inliers on, the photo shows the same scene; None if nobody says.
    """

    inliers: int
    matches: int
    coverage: float
    threshold: int | None = None

    @property
    def same_scene(self) -> bool:
        """Whether there are enough inliers."""
        return self.threshold is not None and self.inliers >= self.threshold


@dataclass(frozen=True)
class Calibration:
    """The weights of a model: of 1, and of each of `seen`."""

    similar: tuple[float, ...]
    matched: tuple[float, ...]

    def probability(self, score: float, rank: int, evidence: Evidence | None = None) -> float:
        """The probability of a photo with this similarity at this rank, from 1.

        Without `evidence`, which a photo has once it was matched with the query, similarity and
        rank decide alone.
        """
        weights = self.similar if evidence is None else self.matched
        pairs = zip(weights, (1.0, *seen(score, rank, evidence)), strict=True)
        odds = sum(weight * value for weight, value in pairs)
        return 1 / (1 + math.exp(-min(max(odds, -50.0), 50.0)))


def seen(score: float, rank: int, evidence: Evidence | None = None) -> tuple[float, ...]:
    """What the weights of a calibration are multiplied with, after the constant."""
    known = (score, math.log(rank))
    if evidence is None:
        return known
    # Some matches of any two photos fit a geometry: these say nothing.
    points = math.log1p(max(evidence.inliers - BY_CHANCE, 0))
    share = evidence.inliers / max(evidence.matches, 1)
    return (*known, points, points * evidence.coverage, points * share)


@cache
def _calibrations() -> dict[str, Calibration]:
    return {
        facts["fingerprint"]: Calibration(tuple(facts["similar"]), tuple(facts["matched"]))
        for facts in probabilities().values()
    }


def calibration_of(fingerprint: object) -> Calibration | None:
    """The calibration of the model with this fingerprint; None if it has none.

    An untrusted index may hold a non-string here.
    """
    return _calibrations().get(fingerprint) if isinstance(fingerprint, str) else None


def calibrated_models() -> list[str]:
    """The names of the models that have a calibration."""
    return list(probabilities())
