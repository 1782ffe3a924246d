"""Noisy labels cleaned by geometry: two photos show the same if many points move as one plane.

Photos that share a label often share nothing else: the view from a tower, its plaque, its foyer.
Two photos are compared by SIFT keypoints. Points that are each other's nearest, and clearly nearer
than the next best, vote for a homography; how many agree with the best one is written down. A
homography is stricter than a fundamental matrix, for which a point need only lie on a line: of
3,085 pairs of photos of different landmarks none had more than 7 points agree on a homography, and
316 had more than 10 agree on a fundamental matrix.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from multiprocessing import get_context
from typing import Any

import numpy as np
import numpy.typing as npt

from solar.datasets.training import TrainingSet
from solar.errors import SolarError
from solar.images import Photos, load

Floats = npt.NDArray[np.float32]
Match = tuple[int, int, int]
"""Two photos, and how many of their points agree on one change of view."""


@dataclass(frozen=True)
class Geometry:
    """How photos are compared.

    Attributes:
        size: Photos are shrunk to this longer side.
        keypoints: Of a photo, the strongest.
        ratio: A match is nearer than the next best by this factor of their distances.
        tolerance: How far a point may be from where the homography puts it, as a part of the
            photo's longer side.
        stamp: Points that are at the same place in both photos, and not farther than this part of
            the longer side from the top or bottom, are not counted: text stamped on photos.
        floor: Fewer agreeing points are chance, and not written down.
        everybody: In a group of up to so many photos every pair is compared.
        candidates: In a larger group each photo is compared with so many that look likeliest.
        group: Larger landmarks are divided by chance into groups, which bounds time and memory.
    """

    size: int = 640
    keypoints: int = 1000
    ratio: float = 0.85
    tolerance: float = 0.01
    stamp: float = 0.1
    floor: int = 8
    everybody: int = 150
    candidates: int = 50
    group: int = 500


@dataclass(frozen=True)
class Features:
    """Keypoints of a photo, strongest first.

    Attributes:
        points: (n, 2) in units of the longer side.
        descriptors: (n, 128) RootSIFT, unit rows.
        extent: Width and height of the photo, in units of the longer side.
    """

    points: Floats
    descriptors: Floats
    extent: tuple[float, float] = (1.0, 1.0)


Watch = Callable[[int, int], None]
"""Told the pairs that are done, and of how many (an upper bound)."""


def compare_photos(
    found: TrainingSet,
    geometry: Geometry | None = None,
    *,
    processes: int = 1,
    seed: int = 0,
    watch: Watch | None = None,
) -> list[Match]:
    """Compare the photos of each landmark with each other.

    Args:
        found: Photos that can be read, and what they are said to show.
        geometry: How to compare.
        processes: Work in so many processes; the result does not depend on it.
        seed: Decides who is in a group with whom in landmarks too large to compare whole.
        watch: Told the pairs that are done, and of how many.

    Returns:
        Pairs of photos, the lower number first, with the points that agree, in order; those below
        the floor are left out.

    Raises:
        SolarError: OpenCV is not installed, or a photo cannot be read.
    """
    _opencv()
    geometry = geometry or Geometry()
    groups = list(_groups(found, geometry.group, seed))
    total = sum(_pairs(len(group), geometry) for group in groups)
    done = 0
    matches: list[Match] = []
    for group, result in _compared(found.photos, groups, geometry, processes):
        done += _pairs(len(group), geometry)
        matches += [_in_order(int(group[a]), int(group[b]), count) for a, b, count in result]
        if watch is not None:
            watch(done, total)
    return sorted(matches)


def _in_order(a: int, b: int, count: int) -> Match:
    return min(a, b), max(a, b), count


def _groups(found: TrainingSet, most: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Photos to be compared with each other, by name and therefore whatever their order."""
    by_name = np.array(sorted(range(len(found)), key=found.photos.names.__getitem__))
    chance = np.random.default_rng(seed)
    for landmark in range(len(found.labels)):
        members = by_name[found.landmarks[by_name] == landmark]
        pieces = -(-len(members) // most)
        if pieces > 1:
            members = members[np.argsort(chance.random(len(members)), kind="stable")]
        yield from (piece for piece in np.array_split(members, pieces) if len(piece) > 1)


def _pairs(photos: int, geometry: Geometry) -> int:
    if photos <= geometry.everybody:
        return photos * (photos - 1) // 2
    return photos * geometry.candidates


def _compared(
    photos: Photos,
    groups: Sequence[npt.NDArray[np.int64]],
    geometry: Geometry,
    processes: int,
) -> Iterator[tuple[npt.NDArray[np.int64], list[Match]]]:
    def job(group: npt.NDArray[np.int64]) -> Photos:
        numbers = group.tolist()
        return Photos(
            tuple(photos.names[number] for number in numbers),
            tuple(photos.places[number] for number in numbers),
        )

    if processes <= 1:
        yield from ((group, compare_group(job(group), geometry)) for group in groups)
        return
    # Started afresh rather than forked: a forked OpenCV or BLAS with threads may hang.
    with (
        _single_threads(),
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool,
    ):
        # The largest first, so that no process is left with one at the end.
        running = {
            pool.submit(compare_group, job(group), geometry): group
            for group in sorted(groups, key=len, reverse=True)
        }
        yield from ((running[future], future.result()) for future in as_completed(running))


@contextmanager
def _single_threads() -> Iterator[None]:
    """Let new processes use one thread each for matrix products: there is one for every core."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def compare_group(photos: Photos, geometry: Geometry) -> list[Match]:
    """Compare photos with each other, all of them or the likeliest.

    Returns:
        Pairs of photos, and the points that agree; those below the floor are left out.
    """
    _opencv().setNumThreads(1)
    features = [
        describe_points(load(photos.read(number), geometry.size, mode="fast").pixels, geometry)
        for number in range(len(photos))
    ]
    matches = []
    for a, b in _worth_comparing(features, geometry):
        count = agreeing(features[a], features[b], geometry)
        if count >= geometry.floor:
            matches.append((a, b, count))
    return matches


def _worth_comparing(features: Sequence[Features], geometry: Geometry) -> Iterable[tuple[int, int]]:
    """All pairs of a small group; of a large one those whose strongest points match most often."""
    everybody = combinations(range(len(features)), 2)
    if len(features) <= geometry.everybody:
        return everybody
    strongest = [
        replace(f, points=f.points[:200], descriptors=f.descriptors[:200]) for f in features
    ]
    likely = np.zeros((len(features), len(features)), np.int64)
    for a, b in everybody:
        likely[a, b] = likely[b, a] = len(nearest(strongest[a], strongest[b], geometry.ratio)[0])
    best = np.argsort(-likely, axis=1, kind="stable")[:, : geometry.candidates]
    return sorted({(min(a, b), max(a, b)) for a in range(len(best)) for b in best[a] if a != b})


def describe_points(pixels: npt.NDArray[np.uint8], geometry: Geometry) -> Features:
    """The strongest SIFT keypoints of RGB pixels (h, w, 3), and their RootSIFT descriptors."""
    cv2 = _opencv()
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    found, sift = cv2.SIFT_create(nfeatures=geometry.keypoints).detectAndCompute(grey, None)
    height, width = (side / max(grey.shape) for side in grey.shape)
    if not found:
        nothing = np.zeros((0, 2), np.float32), np.zeros((0, 128), np.float32)
        return Features(*nothing, (width, height))
    order = np.argsort([-point.response for point in found], kind="stable")[: geometry.keypoints]
    points = np.array([point.pt for point in found], np.float32)[order] / max(grey.shape)
    sift = sift[order]
    root = np.sqrt(sift / np.maximum(sift.sum(axis=1, keepdims=True), 1e-9))
    return Features(points, root.astype(np.float32), (width, height))


def nearest(
    a: Features, b: Features, ratio: float
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Points of `a` and of `b` that are each other's nearest, and much nearer than the next."""
    if min(len(a.points), len(b.points)) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    similar = a.descriptors @ b.descriptors.T
    rows = np.arange(len(similar))
    best = similar.argmax(axis=1)
    first = similar[rows, best]
    similar[rows, best] = -1
    second = similar.max(axis=1)
    similar[rows, best] = first
    # Unit vectors: a squared distance is 2 - 2 times the product.
    clear = np.flatnonzero(1 - first < ratio**2 * (1 - second))
    # The way back only for those that are left: a tenth of the columns.
    mutual = clear[similar[:, best[clear]].argmax(axis=0) == clear]
    return mutual, best[mutual]


def agreeing(a: Features, b: Features, geometry: Geometry) -> int:
    """How many matches agree on one homography; 0 where none is found, or it mirrors."""
    of_a, of_b = nearest(a, b, geometry.ratio)
    own = ~_stamped(a.points[of_a], b.points[of_b], a.extent, b.extent, geometry)
    of_a, of_b = of_a[own], of_b[own]
    if len(of_a) < max(geometry.floor, 4):
        return 0
    cv2 = _opencv()
    # OpenCV's thresholds are made for pixels.
    from_points, to_points = a.points[of_a] * 1000, b.points[of_b] * 1000
    cv2.setRNGSeed(0)
    try:
        matrix, inliers = cv2.findHomography(
            from_points,
            to_points,
            cv2.USAC_MAGSAC,
            1000 * geometry.tolerance,
            maxIters=2000,
            confidence=0.999,
        )
    except cv2.error:  # points on one line
        return 0
    if matrix is None or np.linalg.det(matrix) <= 0:
        return 0  # a reflection in a lake is not a view from elsewhere
    return int(inliers.sum())


def _stamped(
    a: Floats,
    b: Floats,
    extent_a: tuple[float, float],
    extent_b: tuple[float, float],
    geometry: Geometry,
) -> npt.NDArray[np.bool_]:
    """Which matches may be a date or an agency's name: as far from the same corner in both photos.

    Photos of anything agree on those. Photos from the very same place lose a few matches as well,
    of the hundreds that they have.
    """
    from_end_a, from_end_b = np.subtract(extent_a, a), np.subtract(extent_b, b)
    same = np.abs(a - b) < geometry.tolerance
    same_end = np.abs(from_end_a - from_end_b) < geometry.tolerance
    at_top = same[:, 1] & (a[:, 1] < geometry.stamp)
    at_bottom = same_end[:, 1] & (from_end_a[:, 1] < geometry.stamp)
    stamped: npt.NDArray[np.bool_] = (same[:, 0] | same_end[:, 0]) & (at_top | at_bottom)
    return stamped


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise SolarError(
            "Comparing photos needs OpenCV: install it with `pip install solar-retrieval[local]`."
        ) from error
    return cv2
