"""The probability that a photo shows the same place as a query, in any collection.

How similar two photos of one place are depends on the collection: the houses of one city look more
alike than landmarks of the world. So a similarity is judged beside those that other photos of the
same collection have to the same query (`Background`), beside its rank, and, for photos that were
matched with the query, beside their keypoints and those of the other results. Two logistic
regressions per model turn this into a probability. `benchmarks/calibrate.py` fits those of bundled
models in many artificial collections, and `solar calibrate` those of one's own index.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles
from solar.errors import SolarError
from solar.weights import probabilities

FILE = "calibration.json"
"""In the folder of an index: what `solar calibrate` found."""

FEWEST = 20
"""With fewer photos to compare with, there are no probabilities."""

BY_CHANCE = 6
"""Photos of different places have up to this many inliers."""

SURE, UNVERIFIED = 0.99, 0.95
"""The largest probabilities: of photos verified as the same scene, and of all others."""

NEIGHBOURS = (1, 8, 50)
"""How similar the neighbours of these ranks are tells how many photos a place seems to have."""

# What each feature says: 1 speaks for the same place, -1 against it, 0 either.
SIGNS = (1, -1, *(0,) * 9)
MATCHED_SIGNS = (1, 1, 1, 1, 0, 0)


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
class Background:
    """How similar the photos of a collection are to one query.

    Attributes:
        count: How many photos there are.
        middle: The median of their similarities.
        spread: How far the 16th percentile is below it. The upper half may hold right photos.
        near: How similar the best results are to their own neighbours of the ranks `NEIGHBOURS`
            (their mean), and photos of the collection to theirs (the upper quartile).
    """

    count: int
    middle: float
    spread: float
    near: tuple[float, ...]

    @classmethod
    def of(
        cls, scores: npt.ArrayLike, count: int, near: Doubles, typical: Doubles
    ) -> Background | None:
        """That of `count` photos, some of which have these scores; None for too few of them.

        `near` (m, n) are the similarities of m best results to their neighbours, best first, and
        `typical` those of photos of the collection.
        """
        known = np.asarray(scores, np.float64)
        if len(known) < FEWEST or not near.size or not typical.size:
            return None
        low, middle = np.quantile(known, (0.16, 0.5))
        curves = near.mean(axis=0), np.quantile(typical, 0.75, axis=0)
        steps = [float(one[min(rank, len(one)) - 1]) for one in curves for rank in NEIGHBOURS]
        return cls(count, float(middle), max(float(middle - low), 1e-3), tuple(steps))


@dataclass(frozen=True)
class Calibration:
    """The weights of a model: of 1 and of each of `features`."""

    similar: tuple[float, ...]
    matched: tuple[float, ...]

    def probabilities(
        self,
        scores: Sequence[float],
        background: Background,
        evidence: Sequence[Evidence | None] | None = None,
    ) -> list[float]:
        """The probabilities of the best photos of a search, the best first.

        `evidence` is None for photos that were not matched with the query.
        """
        odds = self.odds(scores, background)
        known = [None] * len(scores) if evidence is None else evidence
        rows = [row for row, one in enumerate(known) if one is not None]
        if rows:
            inputs = matched_features(odds, known)[rows]
            odds[rows] = inputs @ np.array(self.matched[1:]) + self.matched[0]
        most = [SURE if one and one.same_scene else UNVERIFIED for one in known]
        found: list[float] = np.minimum(_logistic(odds), most).tolist()
        return found

    def odds(self, scores: Sequence[float], background: Background) -> Doubles:
        """The logarithms of the odds, from similarity alone."""
        inputs = features(scores, background)
        odds: Doubles = inputs @ np.array(self.similar[1:]) + self.similar[0]
        return odds


def features(scores: Sequence[float], background: Background) -> Doubles:
    """The inputs (n, f) of the regression of similarity, after the constant."""
    score = np.asarray(scores, np.float64)
    share = np.log((np.arange(len(score)) + 0.5) / background.count)
    same = np.ones(len(score))
    logs = np.log([background.spread, background.count])
    about = (background.middle, *logs.tolist(), *background.near)
    return np.stack([score, share, *(same * one for one in about)], axis=1)


def matched_features(odds: Doubles, evidence: Sequence[Evidence | None]) -> Doubles:
    """The inputs (n, f) of the second regression: `Calibration.odds`, and how keypoints match."""
    nothing = Evidence(0, 0, 0.0)
    known = [one or nothing for one in evidence]
    # Some matches of any two photos fit a geometry.
    points = np.log1p([max(one.inliers - BY_CHANCE, 0) for one in known])
    coverage = np.array([one.coverage for one in known])
    fitting = np.array([one.inliers / max(one.matches, 1) for one in known])
    verified = np.array([one.same_scene for one in known], np.float64)
    others = (verified.sum() - verified) / max(len(known) - 1, 1)
    own = (points, points * coverage, points * fitting, np.sqrt(others), others > 0)
    return np.stack([odds, *own], axis=1)


def fit(rows: Doubles, right: Doubles, weights: Doubles, signs: Sequence[int]) -> tuple[float, ...]:
    """The weights of a logistic regression of inputs (n, f); those with the wrong sign become 0."""
    used = np.ones(rows.shape[1], bool)
    while True:
        found = np.zeros(rows.shape[1] + 1)
        found[np.r_[True, used]] = newton(rows[:, used], right, weights)
        wrong = found[1:] * np.array(signs) * rows.std(axis=0)
        if wrong.min(initial=0.0) >= 0:
            return tuple(round(float(weight), 4) for weight in found)
        used[wrong.argmin()] = False


def newton(rows: Doubles, right: Doubles, weights: Doubles) -> Doubles:
    """The constant and the weights that make the labels most probable, a little ridged."""
    mean, scale = rows.mean(axis=0), np.maximum(rows.std(axis=0), 1e-9)
    inputs = np.c_[np.ones(len(rows)), (rows - mean) / scale]
    ridge = 1e-3 * weights.sum() * np.diag([0.0, *np.ones(rows.shape[1])])
    found = np.zeros(inputs.shape[1])
    for _ in range(50):
        p = _logistic(inputs @ found)
        curvature = (inputs * (weights * p * (1 - p))[:, None]).T @ inputs + ridge
        curvature += 1e-9 * np.eye(len(found))
        slope = inputs.T @ (weights * (right - p)) - ridge @ found
        step: Doubles = np.linalg.solve(curvature, slope)
        found += step
        if np.abs(step).max() < 1e-9:
            break
    found[1:] /= scale
    found[0] -= found[1:] @ mean
    return found


@dataclass(frozen=True)
class Judged:
    """The best results of one query, of which it is known which are right.

    Attributes:
        query: A number of the query.
        scores: Their similarities, the best first.
        background: What these are compared with.
        right: Whether each shows the place of the query; nan where that is unknown.
        evidence: How each matches; None for a plain search.
        weight: How much the query counts.
    """

    query: int
    scores: Sequence[float]
    background: Background
    right: Doubles
    evidence: Sequence[Evidence | None] | None = None
    weight: float = 1.0


def fitted(results: Sequence[Judged]) -> Calibration:
    """The calibration under which the labels are most probable, from plain and matched searches."""
    plain = [one for one in results if one.evidence is None]
    matched = [one for one in results if one.evidence is not None]
    nothing = (0.0,) * (len(MATCHED_SIGNS) + 1)
    inputs = [features(one.scores, one.background) for one in plain]
    similar = Calibration(_fit(plain, inputs, SIGNS), nothing)
    inputs = [
        matched_features(similar.odds(one.scores, one.background), one.evidence or ())
        for one in matched
    ]
    return replace(similar, matched=_fit(matched, inputs, MATCHED_SIGNS))


def _fit(
    results: Sequence[Judged], inputs: Sequence[Doubles], signs: Sequence[int]
) -> tuple[float, ...]:
    right = np.concatenate([one.right for one in results])
    weights = np.concatenate([np.full(len(one.right), one.weight) for one in results])
    known = ~np.isnan(right)
    return fit(np.concatenate(inputs)[known], right[known], weights[known], signs)


def told(results: Sequence[Judged], calibration: Calibration, top: int) -> tuple[Doubles, Doubles]:
    """The probabilities of the `top` most probable results of each query, and which are right."""
    p, right = [np.empty(0)], [np.empty(0)]
    for one in results:
        found = np.array(calibration.probabilities(one.scores, one.background, one.evidence))
        best = np.argsort(-found, kind="stable")[:top]
        best = best[~np.isnan(one.right[best])]
        p.append(found[best])
        right.append(one.right[best])
    return np.concatenate(p), np.concatenate(right)


def calibration_error(p: npt.ArrayLike, right: npt.ArrayLike, bins: int = 15) -> float:
    """The expected calibration error: how far probabilities are from the share that is right."""
    told, true = np.asarray(p, np.float64), np.asarray(right, np.float64)
    number = np.minimum((told * bins).astype(int), bins - 1)
    off = np.bincount(number, told - true, minlength=bins)
    return float(np.abs(off).sum() / max(len(told), 1))


def calibration_of(fingerprint: object, folder: Path | None = None) -> Calibration | None:
    """That of an index in a folder, or else that of its model; None if there is none.

    An untrusted index may hold a non-string as the fingerprint. A SolarError if the folder's file
    is damaged.
    """
    if not isinstance(fingerprint, str):
        return None
    if folder is not None and (folder / FILE).is_file():
        return _read(folder / FILE, fingerprint)
    return _calibrations().get(fingerprint)


def _read(path: Path, fingerprint: str) -> Calibration | None:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["fingerprint"] != fingerprint:  # of a model that was replaced
            return None
        return _of(facts)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SolarError(f"{path} is damaged: delete it or run `solar calibrate` again.") from error


def _of(facts: Mapping[str, Any]) -> Calibration:
    parts = [tuple(map(float, facts[name])) for name in ("similar", "matched")]
    if [len(part) for part in parts] != [len(SIGNS) + 1, len(MATCHED_SIGNS) + 1]:
        raise ValueError("another number of weights")
    return Calibration(*parts)


@cache
def _calibrations() -> dict[str, Calibration]:
    return {facts["fingerprint"]: _of(facts) for facts in probabilities().values()}


def _logistic(odds: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-np.clip(odds, -50.0, 50.0)))
