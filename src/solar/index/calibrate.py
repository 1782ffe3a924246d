"""`solar calibrate`: probabilities fitted to labelled photos of one's own index."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.files import replacing
from solar.index.photo_index import PhotoIndex
from solar.index.search import BY_NAME, Search, SearchSettings
from solar.ranking.calibration import (
    FEWEST,
    FILE,
    Calibration,
    Judged,
    calibration_error,
    fitted,
    told,
)
from solar.ranking.verify import VerifySettings, expanded, kept_verifier
from solar.storage.protocol import NoVectorsError

TOP = VerifySettings().top
LEAST_QUERIES, LEAST_PLACES = 20, 4
"""Fewer labelled photos, or photos of fewer places, say too little."""


@dataclass(frozen=True)
class CalibrationReport:
    """What was fitted.

    Attributes:
        queries: Photos that were searched for.
        places: Labels that at least two photos have.
        errors: The calibration error of the best 10 and the best 50 results of places that the
            weights were not fitted to.
        calibration: The weights.
        path: The file that they were written to.
    """

    queries: int
    places: int
    errors: Mapping[str, float]
    calibration: Calibration
    path: Path


def calibrate(
    index: PhotoIndex,
    labels: Mapping[str, str],
    *,
    queries: int = 200,
    progress: Progress | None = None,
) -> CalibrationReport:
    """Fit the probabilities of an index to photos whose place is known, and write them into it.

    Example:
        >>> report = calibrate(solar.Index.open("photos.solar"), labels)  # doctest: +SKIP
        >>> report.errors  # doctest: +SKIP

    Args:
        index: An index in a folder, whose photos can be read.
        labels: What photos show, by their paths in the index. Results without a label are not
            counted.
        queries: How many of these photos to search for, at most.
        progress: Called with the step, what is done, and the total.

    Raises:
        SolarError: The index is not in a folder, or there are too few labels.
    """
    if not index.has_vectors:
        raise NoVectorsError
    folder = index.engine.folder
    if folder is None:
        raise SolarError(f"{index.place} is not a folder, and has no place for a calibration.")
    found = index.engine.find(list(labels))
    known = {path: label for path, label in labels.items() if path in found}
    several = {label for label, count in Counter(known.values()).items() if count > 1}
    asked = [path for path, label in known.items() if label in several]
    if len(asked) < LEAST_QUERIES or len(several) < LEAST_PLACES or len(index) < FEWEST:
        raise SolarError(
            f"{len(asked)} photos of {index.place} share a label with another one, of "
            f"{len(several)} places: a calibration takes at least {LEAST_QUERIES} photos of "
            f"{LEAST_PLACES} places."
        )
    every = np.linspace(0, len(asked) - 1, min(queries, len(asked)), dtype=np.int64)
    chosen = [asked[row] for row in every]
    advance = counted(progress, "Searching", len(chosen))
    results: list[Judged] = []
    for number, path in enumerate(chosen):
        results += judged(index, path, known, number)
        advance(1)
    if not results:
        raise SolarError("Too few photos to compare with: a calibration needs a larger index.")
    order = sorted(several)
    side = {number: order.index(known[path]) % 2 for number, path in enumerate(chosen)}
    calibration = fitted(results)
    path = folder / FILE
    facts = {"fingerprint": index.spec.fingerprint, **vars(calibration), "queries": len(chosen)}
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return CalibrationReport(len(chosen), len(several), _errors(results, side), calibration, path)


def judged(index: PhotoIndex, path: str, labels: Mapping[str, str], number: int) -> list[Judged]:
    """What a plain search and a verified one find for an indexed photo."""
    search = Search(index, BY_NAME + path, SearchSettings(k=TOP, rerank=None))
    results = search.after().results
    hits = results.best(TOP)
    background = results.background(results.vector, hits)
    if background is None or not hits:
        return []

    def right(paths: list[str]) -> np.ndarray:
        own = labels[path]
        known = [float(labels[one] == own) if one in labels else np.nan for one in paths]
        return np.array(known, np.float64)

    scores = [hit.score for hit in hits]
    plain = Judged(number, scores, background, right([hit.path for hit in hits]))
    verifier = kept_verifier(index.engine, VerifySettings(), index.kept)
    found = expanded(results, verifier, [verifier.features(path)], TOP)
    assert found.background is not None
    paths = [hit.path for hit in found.hits]
    matched = Judged(number, found.scores, found.background, right(paths), found.evidence)
    return [plain, matched]


def _errors(results: list[Judged], side: Mapping[int, int]) -> dict[str, float]:
    """By how many of the best: the calibration error of each half under weights of the other."""
    told_of: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {10: [], TOP: []}
    for half in (0, 1):
        others = [one for one in results if side[one.query] != half]
        own = [one for one in results if side[one.query] == half and one.evidence is not None]
        weights = fitted(others)
        for top, parts in told_of.items():
            parts.append(told(own, weights, top))
    found = {}
    for top, parts in told_of.items():
        p, right = (np.concatenate(part) for part in zip(*parts, strict=True))
        found[f"best {top}"] = round(calibration_error(p, right), 4)
    return found
