"""The probability that a photo shows the same place as a query.

Two logistic regressions per model: one of similarity and rank, one also of how the keypoints match
the query's. `benchmarks/calibrate.py` fits their weights on photos of known places, and writes them
to `solar/weights/probabilities.json`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from solar.weights import probabilities

BY_CHANCE = 6
"""Photos of different places have up to this many inliers."""


@dataclass(frozen=True)
class Evidence:
    """How the keypoints of a photo match a query.

    Attributes:
        inliers: Matches that fit one geometry.
        matches: All matches.
        coverage: The share of the area with keypoints that the inliers span, from 0 to 1, the
            smaller of both photos'.
        threshold: With at least this many inliers, the photo shows the same scene; None if unknown.
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
    """The weights of a model: of 1 and of each of `features`."""

    similar: tuple[float, ...]
    matched: tuple[float, ...]

    def probability(self, score: float, rank: int, evidence: Evidence | None = None) -> float:
        """The probability of a photo with this similarity at this rank, from 1.

        `evidence` is None for a photo that was not matched with the query.
        """
        weights = self.similar if evidence is None else self.matched
        pairs = zip(weights, (1.0, *features(score, rank, evidence)), strict=True)
        odds = sum(weight * value for weight, value in pairs)
        return 1 / (1 + math.exp(-min(max(odds, -50.0), 50.0)))


def features(score: float, rank: int, evidence: Evidence | None = None) -> tuple[float, ...]:
    """The inputs of the regression, after the constant."""
    known = (score, math.log(rank))
    if evidence is None:
        return known
    # Some matches of any two photos fit a geometry.
    points = math.log1p(max(evidence.inliers - BY_CHANCE, 0))
    share = evidence.inliers / max(evidence.matches, 1)
    return (*known, points, points * evidence.coverage, points * share)


def calibration_of(fingerprint: object) -> Calibration | None:
    """The calibration of the model with this fingerprint; None if it has none.

    An untrusted index may hold a non-string here.
    """
    return _calibrations().get(fingerprint) if isinstance(fingerprint, str) else None


@cache
def _calibrations() -> dict[str, Calibration]:
    return {
        facts["fingerprint"]: Calibration(tuple(facts["similar"]), tuple(facts["matched"]))
        for facts in probabilities().values()
    }


def calibrated_models() -> list[str]:
    """The names of the models that have a calibration."""
    return list(probabilities())
