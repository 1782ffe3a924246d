"""Two photos matched keypoint by keypoint, and the geometry that most of the matches agree on."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from solar.arrays import Doubles, Flags, Floats, Ints
from solar.defaults import KEYPOINTS, SIZE
from solar.errors import SolarError
from solar.images.opencv import opencv
from solar.local.features import (
    Descriptors,
    Frames,
    LocalFeatures,
    LocalModel,
    local_features,
    local_model,
    local_name,
)

if TYPE_CHECKING:
    from solar.images import Source

Geometry = Literal["homography", "fundamental"]

DENSE_RATIO, DENSE_ERROR = 0.97, 12.0
"""Lower limits of the ratio, and of an inlier's error in pixels, for features of a dense map, where
the second nearest is often the location beside the nearest. Chosen on generated photos."""

RATIO = 0.9
THRESHOLD: dict[Geometry, float] = {"homography": 3.0, "fundamental": 1.5}
"""Largest error of an inlier, in pixels."""

_LEAST: dict[Geometry, int] = {"homography": 4, "fundamental": 8}


@dataclass(frozen=True, eq=False)
class Matches:
    """How two photos, A and B, correspond.

    Attributes:
        keypoints: How many keypoints A and B have.
        points_a: (n, 2) all keypoints of A, in pixels of the whole upright photo.
        points_b: (m, 2) those of B.
        pairs: (k, 2) int64 matching keypoints of A and B, by the strength of A's.
        inliers: (k,) bool: which matches agree with the matrix.
        matrix: 3×3 float64 that takes homogeneous pixels of A to pixels of B (homography) or to
            lines of B (fundamental); None where too few matches agree.
        geometry: Which of the two.
        descriptor: The model's name, `"rootsift"`, `"orb"`, ….
        threshold: With at least this many inliers, the photos show the same scene.
    """

    keypoints: tuple[int, int]
    points_a: Floats
    points_b: Floats
    pairs: Ints
    inliers: Flags
    matrix: Doubles | None
    geometry: Geometry
    descriptor: str
    threshold: int

    @property
    def same_scene(self) -> bool:
        """Whether there are at least `threshold` inliers."""
        return bool(self.inliers.sum() >= self.threshold)

    def to_dict(self) -> dict[str, Any]:
        """What `solar match --json` prints."""
        return {
            "keypoints": list(self.keypoints),
            "matches": len(self.pairs),
            "inliers": int(self.inliers.sum()),
            "matrix": None if self.matrix is None else self.matrix.tolist(),
            "same_scene": self.same_scene,
            "threshold": self.threshold,
        }

    def turned(self) -> Matches:
        """The same with A and B swapped."""
        matrix = self.matrix
        if matrix is not None and self.geometry == "homography":
            matrix = _scaled(np.linalg.inv(matrix).astype(np.float64))
        elif matrix is not None:
            matrix = matrix.T
        order = np.argsort(self.pairs[:, 1])
        return replace(
            self,
            keypoints=self.keypoints[::-1],
            points_a=self.points_b,
            points_b=self.points_a,
            pairs=self.pairs[order, ::-1],
            inliers=self.inliers[order],
            matrix=matrix,
        )


def match(
    a: Source,
    b: Source,
    *,
    model: LocalModel | str | Path | None = None,
    geometry: Geometry = "homography",
    keypoints: int = KEYPOINTS,
    size: int = SIZE,
    ratio: float = RATIO,
    threshold: float | None = None,
    frames: Frames = "wide",
    backend: str = "torch",
) -> Matches:
    """Match the keypoints of two photos.

    Example:
        >>> pairs = match("a.jpg", "b.jpg", model="solar-local-345")  # doctest: +SKIP
        >>> pairs.inliers.sum(), pairs.matrix  # doctest: +SKIP

    Args:
        a: A photo: a path, the bytes of a file, a PIL image, an array.
        b: The other one.
        model: What describes keypoints: a patch network, its name or file, `"rootsift"` (the
            default), `"sift"`, `"orb"` or `"akaze"`.
        geometry: `"homography"` for a flat scene or a camera that only turned, `"fundamental"` for
            anything rigid.
        keypoints: Maximum number per photo.
        size: Longest side that photos are reduced to first.
        ratio: Lowe ratio-test threshold, applied in both directions.
        threshold: Largest error of an inlier, in pixels of the downscaled photos; by default 3 for
            a homography and 1.5 for a fundamental matrix.
        frames: How patches are cut, see `solar.local.features`.
        backend: What runs a patch network on a CPU: "torch", or "openvino-int8", for example.

    Returns:
        The same for the same photos every time, whichever is A. Photos with nothing in common have
        matches by chance, of which few are inliers: `same_scene` says whether there are enough.

    Raises:
        SolarError: A photo cannot be read, there is no such model, an argument makes no sense, or
            OpenCV has no AKAZE.
    """
    _check(geometry, ratio, threshold)
    describer = local_model(model, backend)
    first, second = (
        local_features(photo, describer, keypoints=keypoints, size=size, frames=frames)
        for photo in (a, b)
    )
    return match_features(
        first,
        second,
        geometry=geometry,
        ratio=ratio,
        threshold=threshold,
        descriptor=local_name(describer),
    )


def match_features(
    a: LocalFeatures,
    b: LocalFeatures,
    *,
    geometry: Geometry = "homography",
    ratio: float = RATIO,
    threshold: float | None = None,
    iterations: int = 10_000,
    descriptor: str = "",
) -> Matches:
    """`match` for features of two photos by the same model, which `descriptor` names.

    At most `iterations` guesses are made at the geometry.
    """
    _check(geometry, ratio, threshold)
    # Errors are measured in one of the photos, and guesses depend on which: always the same one.
    swapped = _rank(b) < _rank(a)
    if swapped:
        a, b = b, a
    limit = THRESHOLD[geometry] if threshold is None else threshold
    if a.dense or b.dense:
        ratio, limit = max(ratio, DENSE_RATIO), max(limit, DENSE_ERROR)
    pairs = mutual_matches(a.directions, b.directions, ratio=ratio)
    # Errors are in pixels of the downscaled photos.
    matrix, inliers = estimate(
        a.points[pairs[:, 0]] / np.float32(a.scale),
        b.points[pairs[:, 1]] / np.float32(b.scale),
        geometry,
        limit,
        iterations=iterations,
    )
    if matrix is not None:
        matrix = _in_photos(matrix, geometry, a.scale, b.scale)
    found = Matches(
        *((len(a), len(b)), a.points, b.points, pairs, inliers, matrix, geometry, descriptor),
        threshold=scene_threshold(a, geometry),
    )
    return found.turned() if swapped else found


def _rank(features: LocalFeatures) -> tuple[Any, ...]:
    """Orders two photos regardless of which was given first."""
    return len(features), features.shape, features.scale, features.points.tobytes()


def mutual_matches(a: Descriptors, b: Descriptors, *, ratio: float = RATIO) -> Ints:
    """Mutual nearest rows of a (n, d) and b (m, d) that pass the ratio test both ways.

    Pairs are (k, 2), ascending; no row occurs twice. With a ratio of 1 or more there is no test.
    Rows are float32 of unit norm, or bytes, whose distance is the number of bits that differ.
    """
    if len(a) == 0 or len(b) == 0:
        return np.empty((0, 2), np.int64)
    largest, factor = 1, ratio**2  # of unit vectors 2 − 2 s is the squared distance
    if a.dtype == np.uint8:
        # Of n signs n − s is twice the number of bits that differ.
        largest, factor = 8 * a.shape[1], ratio
        a, b = _signs(a), _signs(b)
    similar = a @ b.T
    i, j = np.arange(len(a)), similar.argmax(axis=1)
    i = i[similar[i, j] == similar.max(axis=0)[j]]
    j, first = np.unique(j[i], return_index=True)  # of equal rows of a the first
    i = i[first]
    if ratio < 1:
        best = similar[i, j]
        # Without the pairs, the best in their rows and columns are the second best.
        similar[i, j] = -np.inf
        second = np.maximum(similar.max(axis=1)[i], similar.max(axis=0)[j])
        # Rounding makes some distances negative.
        kept = np.maximum(largest - best, 0) < factor * (largest - second)
        i, j = i[kept], j[kept]
    order = np.argsort(i)
    return np.stack([i[order], j[order]], axis=1)


def _signs(rows: Descriptors) -> Floats:
    """The bits of bytes (n, d) as ±1, (n, 8 d)."""
    return np.unpackbits(rows, axis=1).astype(np.float32) * 2 - 1


def estimate(
    a: Floats, b: Floats, geometry: Geometry, threshold: float, *, iterations: int = 10_000
) -> tuple[Doubles | None, Flags]:
    """The geometry that most pairs of points (k, 2) agree on, by MAGSAC with a fixed seed.

    Inliers are at most `threshold` pixels off; at most `iterations` guesses are made.

    Returns:
        The matrix from a to b, or None where there are fewer than 4 (homography) or 8
        (fundamental) pairs or inliers; and (k,) which pairs agree with it.
    """
    nothing = None, np.zeros(len(a), bool)
    if len(a) < _LEAST[geometry]:
        return nothing
    cv2 = opencv()
    find = cv2.findHomography if geometry == "homography" else cv2.findFundamentalMat
    a, b = (np.ascontiguousarray(points, np.float32) for points in (a, b))
    try:
        matrix, mask = find(a, b, _settings(threshold, iterations))
    except cv2.error:  # points that all lie on one line, say
        return nothing
    if matrix is None or mask is None or np.shape(matrix) != (3, 3):
        return nothing
    inliers = np.asarray(mask, bool).reshape(-1)
    if inliers.sum() < _LEAST[geometry] or not np.isfinite(matrix).all():
        return nothing
    if geometry == "homography" and abs(np.linalg.det(matrix)) < 1e-12:  # maps all to one line
        return nothing
    return np.asarray(matrix, np.float64), inliers


def _settings(threshold: float, iterations: int) -> Any:
    """The settings of `cv2.USAC_MAGSAC`, with a seed, and one thread to be deterministic."""
    cv2 = opencv()
    settings = cv2.UsacParams()
    settings.score = cv2.SCORE_METHOD_MAGSAC
    settings.sampler = cv2.SAMPLING_UNIFORM
    settings.loMethod = cv2.LOCAL_OPTIM_SIGMA
    settings.loIterations, settings.loSampleSize = 10, 50
    settings.final_polisher, settings.final_polisher_iterations = cv2.MAGSAC, 3
    settings.confidence, settings.maxIterations = 0.9999, iterations
    settings.threshold = threshold
    settings.randomGeneratorState, settings.isParallel = 0, False
    return settings


def _in_photos(matrix: Doubles, geometry: Geometry, scale_a: float, scale_b: float) -> Doubles:
    """The matrix between whole photos, from that between photos downscaled by these factors."""
    to_a = np.diag([1 / scale_a, 1 / scale_a, 1])
    from_b = np.diag([scale_b, scale_b, 1])
    if geometry == "homography":
        return _scaled(from_b @ matrix @ to_a)
    matrix = np.linalg.inv(from_b) @ matrix @ to_a  # lines go the other way
    return matrix / np.linalg.norm(matrix)


def _scaled(homography: Doubles) -> Doubles:
    """The same homography with a last number of 1, if possible."""
    last = homography[2, 2]
    return homography / last if abs(last) > 1e-12 else homography


def _check(geometry: str, ratio: float, threshold: float | None) -> None:
    if geometry not in get_args(Geometry):
        raise SolarError(f"The geometry must be homography or fundamental, not {geometry!r}.")
    if not ratio > 0 or (threshold is not None and not threshold > 0):
        raise SolarError("The ratio and the threshold of matches must be positive numbers.")


Kind = Literal["numbers", "bits", "dense"]
"""Local features: numbers (SIFT, patch networks), bits, or locations of a dense map."""

SAME_SCENE: dict[tuple[Kind, str], int] = {
    ("numbers", "homography"): 9,
    ("numbers", "fundamental"): 17,
    ("bits", "homography"): 10,
    ("bits", "fundamental"): 20,
    ("dense", "homography"): 15,
    ("dense", "fundamental"): 30,
}
"""From this many inliers on, two photos show the same scene, by kind of features and geometry.

At most one in 1,000 pairs of photos of different places should reach these numbers by chance, which
`benchmarks/same_scene.py` measures. Those of a homography were measured, with RootSIFT and ORB.
Those of a fundamental matrix and of dense features, whose larger errors make chance matches more
frequent, are cautious choices."""

RARER = 3.5
"""With each inlier more, photos of different places are this many times rarer, by the same
measurement: 3.5 to 13 times with ORB, 6 to 25 with RootSIFT."""


def inliers_needed(kind: Kind, geometry: str = "homography", wrong: float = 1e-3) -> int:
    """Inliers that at most the share `wrong` of pairs of different places reaches by chance.

    A thousandth will do for the results of a search; whoever compares all pairs of a collection
    wants less.
    """
    return SAME_SCENE[kind, geometry] + math.ceil(max(math.log(1e-3 / wrong, RARER), 0))


def scene_threshold(features: LocalFeatures, geometry: str, wrong: float = 1e-3) -> int:
    """`inliers_needed` with these features."""
    binary = features.descriptors.dtype == np.uint8
    kind: Kind = "dense" if features.dense else "bits" if binary else "numbers"
    return inliers_needed(kind, geometry, wrong)


def verdict(inliers: int, threshold: int) -> str:
    """The verdict as the beginning of a sentence."""
    words = "Same place" if inliers >= threshold else "Not confirmed as the same place"
    return f"{words}: {inliers:,} matching details, {threshold} are needed"
