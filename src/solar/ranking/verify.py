"""Geometric verification: match the keypoints of the best photos of a search with the query.

The first `top` photos are matched with the query. Those with enough inliers are verified: they show
the same scene (`solar.matching.match`).

Where the model is calibrated (`solar.ranking.calibration`), the mean of the query and the verified
photos is searched for (Chum et al., Total Recall, ICCV 2007), and the first results of that are
ordered by the probability that they show the same place, from similarity, inliers, coverage and
share of the matches. After another re-ranking method there is no second search. Without a
calibration, verified photos come first, the most inliers ahead, and the others follow in the order
they had. Photos that were not matched come last, so that a photo that cannot be verified (another
side of the house, night) stays above unchecked ones.

Features of indexed photos are kept in files (`solar.local.cache`).
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from solar.arrays import Floats, Vectors
from solar.defaults import SIZE
from solar.errors import SolarError, and_more
from solar.files import cache_directory
from solar.images import Roots
from solar.images.opencv import opencv
from solar.images.roots import Finder
from solar.local.cache import LocalCache, own_folder, rounded
from solar.local.features import (
    DEFAULT,
    LocalFeatures,
    LocalModel,
    local_features,
    local_model,
    local_name,
)
from solar.matching.match import Matches, match_features
from solar.ranking.calibration import Background, Calibration, Evidence
from solar.ranking.query import unit
from solar.ranking.results import SearchResults
from solar.storage.protocol import Engine
from solar.storage.types import Hit, Photo

if TYPE_CHECKING:
    from solar.images import Box, Source


# Right photos need a few hundred guesses; more would be spent on photos that do not match.
_ITERATIONS = 1000

ERROR = 8.0
"""Largest error of an inlier in pixels; large, because buildings are not flat."""

T = TypeVar("T")

FRESH = 20
"""How many photos without kept features an automatic verification describes."""


@dataclass(frozen=True)
class VerifySettings:
    """How to verify.

    Attributes:
        top: How many of the best photos are matched with the query.
        inliers: Minimum number of inliers of a verified photo. Default: the threshold measured for
            the features (`solar.matching.match`).
        model: What describes keypoints, as for `solar.match`.
        keypoints: Maximum number per photo.
        size: Longest side that photos are reduced to first.
        backend: What runs a patch network on a CPU, as for `solar.match`.
        fresh: Maximum number of photos per search whose keypoints are computed, the best first;
            None for no limit.
        photos: The folder of the indexed photos, if they have moved.
    """

    top: int = 50
    inliers: int | None = None
    model: LocalModel | str | Path | None = None
    keypoints: int = 1000
    size: int = SIZE
    backend: str = "torch"
    fresh: int | None = None
    photos: str | Path | None = None

    @property
    def calibrated(self) -> bool:
        """Whether these are the settings that probabilities were calibrated with."""
        model = None if self.model == DEFAULT else self.model
        free = {name: getattr(self, name) for name in ("top", "inliers", "fresh", "photos")}
        return replace(self, model=model) == VerifySettings(**free)

    def __post_init__(self) -> None:
        least = 1 if self.inliers is None else self.inliers
        if min(self.top, least, self.keypoints, self.size) < 1:
            raise SolarError("Verification needs top, inliers, keypoints and size of 1 or more.")


class Verifier:
    """Matches queries with photos, whose features it keeps in the folder `cache`, if given."""

    def __init__(
        self, find: Finder, cache: str | Path | None, settings: VerifySettings | None = None
    ) -> None:
        self.settings = settings or VerifySettings()
        self.photo = find
        self._model = local_model(self.settings.model, self.settings.backend)
        self._finding: dict[str, Any] = {
            "keypoints": self.settings.keypoints,
            "size": self.settings.size,
        }
        self.cache = None if cache is None else LocalCache(cache, self._model, **self._finding)

    def query(self, photo: Source, *, box: Box | None = None) -> LocalFeatures:
        """The features of a query, or of its box; a SolarError if the box misses the photo."""
        return rounded(local_features(photo, self._model, box=box, **self._finding))

    def kept(self, path: str) -> LocalFeatures | None:
        """The features of an indexed photo, if the cache has them."""
        photo = self.photo(path) if self.cache else None
        return None if photo is None or self.cache is None else self.cache.get(path, photo)

    def features(self, path: str) -> LocalFeatures:
        """The features of an indexed photo, from the cache if it has them."""
        if (kept := self.kept(path)) is not None:
            return kept
        photo = self.photo(path)
        if photo is None:
            raise SolarError(f"There is no photo {path}.")
        features = local_features(photo, self._model, **self._finding)
        return self.cache.put(path, photo, features) if self.cache else rounded(features)

    def matches(self, query: LocalFeatures, photo: LocalFeatures) -> Matches:
        """The matches between a query and a photo."""
        name = local_name(self._model)
        found = match_features(
            query, photo, threshold=ERROR, iterations=_ITERATIONS, descriptor=name
        )
        least = self.settings.inliers
        return found if least is None else replace(found, threshold=least)

    def evidence(self, query: LocalFeatures, photo: LocalFeatures) -> Evidence:
        """How a photo matches a query."""
        found = self.matches(query, photo)
        count = int(found.inliers.sum())
        return Evidence(count, len(found.pairs), coverage(found), found.threshold)

    def verify(self, queries: Sequence[LocalFeatures], hits: Sequence[Hit]) -> list[Hit]:
        """Put verified hits first; see the top of this module."""
        first, others = hits[: self.settings.top], hits[self.settings.top :]
        found = self.matched(queries, [hit.path for hit in first])
        return [*reordered([_matched(hit, found.get(hit.path)) for hit in first]), *others]

    def matched(
        self, queries: Sequence[LocalFeatures], paths: Sequence[str]
    ) -> dict[str, Evidence]:
        """How indexed photos match, by path; with several queries the best match counts.

        Photos beyond `fresh` are left out, and so are those that are missing or unreadable, with a
        warning unless verification is automatic.
        """
        errors: list[SolarError] = []

        def found(path: str) -> LocalFeatures | None:
            try:
                return self.features(path)
            except SolarError as error:
                errors.append(error)
                return None

        def best(photo: LocalFeatures) -> Evidence:
            return max((self.evidence(one, photo) for one in queries), key=lambda one: one.inliers)

        with ThreadPoolExecutor(min(os.cpu_count() or 1, max(len(paths), 1))) as threads:
            features = dict(zip(paths, threads.map(self.kept, paths), strict=True))
            missing = [path for path, kept in features.items() if kept is None]
            missing = missing[: self.settings.fresh]
            features |= zip(missing, threads.map(found, missing), strict=True)
            known = {path: photo for path, photo in features.items() if photo is not None}
            evidence = dict(zip(known, threads.map(best, known.values()), strict=True))
        if errors and self.settings.fresh is None:  # no warning when verification is automatic
            warnings.warn(f"Not verified: {and_more(errors)}", stacklevel=3)
        return evidence


def coverage(matches: Matches) -> float:
    """The share of the area of all keypoints that inliers span, the smaller of both photos'."""
    inliers = matches.pairs[matches.inliers]
    sides = ((matches.points_a, inliers[:, 0]), (matches.points_b, inliers[:, 1]))
    return min(_area(points[rows]) / max(_area(points), 1.0) for points, rows in sides)


def _area(points: Floats) -> float:
    """The area of the convex hull of points (n, 2)."""
    cv2 = opencv()
    return float(cv2.contourArea(cv2.convexHull(points))) if len(points) > 2 else 0.0


def reordered(hits: Sequence[Hit]) -> list[Hit]:
    """Hits of the same scene first, most inliers ahead; the rest in the order they have."""
    return sorted(hits, key=lambda hit: -(hit.inliers or 0) if hit.same_scene else 0)


def _matched(hit: Hit, evidence: Evidence | None) -> Hit:
    if evidence is None:
        return hit
    return replace(hit, inliers=evidence.inliers, threshold=evidence.threshold)


def rerank(results: SearchResults) -> SearchResults:
    """Verify the best photos; see the top of this module."""
    settings = results.settings.get("verify") or VerifySettings()
    verifier = kept_verifier(results.engine, settings, results.kept)
    queries = [
        verifier.features(part.photo.path)
        if isinstance(part.photo, Photo)
        else verifier.query(part.photo, box=part.box)
        for part in results.photos()
    ]
    calibration = results.calibration if settings.calibrated else None
    count = max(results.k, settings.top)
    found = None if calibration is None else expanded(results, verifier, queries, count)
    if calibration is None or found is None or found.background is None:
        hits = verifier.verify(queries, results.best(count))
        return replace(results.led_by(hits), calibration=None)
    hits = _most_probable(found, calibration, settings.top)
    return replace(results.led_by(hits), similar=True)


@dataclass(frozen=True)
class Expanded:
    """The results of a search with a query and the photos verified for it.

    Attributes:
        hits: The best first, with their similarities to the query alone.
        scores: Their similarities to the mean of the query and the verified photos.
        evidence: How they match; None where they were not compared.
        background: What these similarities are compared with; None for too few photos.
    """

    hits: Sequence[Hit]
    scores: Sequence[float]
    evidence: Sequence[Evidence | None]
    background: Background | None


def expanded(
    results: SearchResults, verifier: Verifier, queries: Sequence[LocalFeatures], count: int
) -> Expanded:
    """Match the best photos, and search again with those that are verified."""
    hits, top, vector = results.similarities(count), verifier.settings.top, results.vector
    best = hits
    evidence = verifier.matched(queries, [hit.path for hit in hits[:top]])
    similar = {hit.path: hit.score for hit in hits}
    right = [path for path, one in evidence.items() if one.same_scene]
    if right and not results.head:  # not after another re-ranking method
        rows = {path: vector for path, (_, vector) in results.engine.lookup(right).items()}
        vector, own = together(vector, rows)
        hits = [
            replace(hit, score=own.get(hit.path, hit.score))
            for hit in results.find(vector, len(hits))
        ]
        new = [hit.path for hit in hits[:top] if hit.path not in evidence]
        evidence |= verifier.matched(queries, new)
        unknown = results.engine.lookup([hit.path for hit in hits if hit.path not in similar])
        own = {path: float(row @ results.vector) for path, (_, row) in unknown.items()}
        similar |= {path: min(score, 1.0) for path, score in own.items()}
    return Expanded(
        [replace(hit, score=similar.get(hit.path, hit.score)) for hit in hits],
        [hit.score for hit in hits],
        [evidence.get(hit.path) for hit in hits[:top]] + [None] * len(hits[top:]),
        results.background(vector, best),
    )


def _most_probable(found: Expanded, calibration: Calibration, top: int) -> list[Hit]:
    """The hits by their probability; see the top of this module."""
    assert found.background is not None
    probable = calibration.probabilities(found.scores, found.background, found.evidence)
    rated = [
        replace(_matched(hit, evidence), probability=probability)
        for hit, evidence, probability in zip(found.hits, found.evidence, probable, strict=True)
    ]
    first = sorted(rated[:top], key=lambda hit: -(hit.probability or 0.0))
    # Photos that were not matched come after those that were, and are no more probable.
    least = (first[-1].probability or 0.0) if first else 1.0
    rest = [replace(hit, probability=min(hit.probability or 0.0, least)) for hit in rated[top:]]
    return [*first, *rest]


def together(query: Vectors, verified: Mapping[T, Vectors]) -> tuple[Vectors, dict[T, float]]:
    """The mean of a query (dim,) and verified photos, of unit norm, and their similarities to it.

    Each photo is compared with the mean of the query and the other photos, without itself.
    """
    total: Vectors = np.stack([query, *verified.values()]).sum(axis=0)
    own = {name: float(unit(total - row) @ row) for name, row in verified.items()}
    return unit(total), own


def kept_verifier(engine: Engine, settings: VerifySettings, kept: dict[str, Any]) -> Verifier:
    """`index_verifier`, made once, as it may have a network to load."""
    verifier: Verifier | None = kept.get("verify")
    if verifier is None or verifier.settings != settings:
        verifier = kept["verify"] = index_verifier(engine, settings)
    return verifier


def index_verifier(engine: Engine, settings: VerifySettings) -> Verifier:
    """The verifier of an index: keeps features in its folder, or in the user's cache for Milvus."""
    roots = engine.roots.moved_to(settings.photos)
    folder = own_folder(engine.folder)
    if folder is None:
        name = hashlib.sha256(str(roots).encode()).hexdigest()[:16]
        folder = cache_directory() / "local" / name
    return verifier_of(roots, folder, settings)


def verifier_of(roots: Roots, folder: Path, settings: VerifySettings) -> Verifier:
    """A verifier that keeps features in a folder; a SolarError if the photos are not at `roots`."""
    if not roots:
        raise SolarError(
            "Verification reads the photos, but the index does not know where they are: name "
            "their folder with `photos=`."
        )
    # A root may be called anything, and Path.exists() fails for names that are too long.
    if not any(os.path.exists(root.path) for root in roots.roots):  # noqa: PTH110
        if settings.photos is not None:
            raise SolarError(f"There is no folder {settings.photos}: check `photos=`.")
        raise SolarError(
            f"{roots} no longer exists: say where the photos are with `photos=`, or with "
            "`solar index relocate`."
        )
    return Verifier(roots.find, folder, settings)


def find_features(engine: Engine, threads: int | None = None) -> Iterator[str]:
    """Find and keep the features of every photo of an index, in advance of searches.

    In one thread for each core if `threads` is None.

    Yields the paths of photos as they are done; missing or damaged ones are skipped. A SolarError
    if the index does not know where its photos are.
    """
    verifier = index_verifier(engine, VerifySettings())

    def keep(photo: Photo) -> str:
        with suppress(SolarError):
            verifier.features(photo.path)
        return photo.path

    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for photos in engine.photos(rows=256):
            yield from pool.map(keep, photos)
