"""Clean noisy labels by geometry: photos match if many keypoints fit one homography.

Photos that share a label often share nothing else: the view from a tower, its plaque, its foyer.
In 3,085 pairs of photos of different landmarks, at most 8 matches agreed on one homography by
chance. With a fundamental matrix, for which a point need only lie on a line, it was twice as many.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt

from solar.arrays import Floats
from solar.datasets.labelled.training_set import TrainingSet
from solar.describe.progress import Progress, counted
from solar.images import Photos
from solar.images.opencv import opencv
from solar.local.features import DEFAULT, LocalFeatures, local_features, local_model
from solar.matching.match import RATIO, estimate, mutual_matches

Match = tuple[int, int, int]  # two photos, and how many of their points agree on one change of view


@dataclass(frozen=True)
class Geometry:
    """How photos are compared."""

    model: str = DEFAULT  # local features, see `solar.local.features.local_model`
    size: int = 640  # longer side that photos are shrunk to
    keypoints: int = 1000  # per photo, the strongest
    ratio: float = RATIO  # as for `solar.matching.match.match`
    tolerance: float = 0.01  # error of the homography, as a part of the longer side
    # Points at the same place in both photos, this close to the top or bottom, are not counted.
    stamp: float = 0.1
    floor: int = 8  # fewer agreeing points are chance, and not written
    all_pairs: int = 150  # in a group of up to this many photos every pair is compared
    candidates: int = 50  # in a larger group each photo only with this many of the likeliest
    group: int = 500  # larger landmarks are divided at random, which bounds time and memory


def compare_photos(
    found: TrainingSet,
    geometry: Geometry | None = None,
    *,
    processes: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Match]:
    """Compare the photos of each landmark with each other, in several processes.

    The seed divides landmarks too large to compare whole; `processes` changes nothing. A SolarError
    if a photo cannot be read.

    Returns:
        Pairs of photos, the lower number first, and the points that agree, in order.
    """
    geometry = geometry or Geometry()
    local_model(geometry.model)  # to complain here, and not from another process
    groups = list(_groups(found, geometry.group, seed))
    total = sum(_pairs(len(group), geometry) for group in groups)
    advance = counted(progress, "Comparing photos", total)
    matches: list[Match] = []
    for group, result in _compared(found.photos, groups, geometry, processes):
        for a, b, count in result:
            first, second = sorted((int(group[a]), int(group[b])))
            matches.append((first, second, count))
        advance(_pairs(len(group), geometry))
    return sorted(matches)


def _groups(found: TrainingSet, most: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Photos to compare with each other, chosen by name and so whatever their order."""
    by_name = np.array(sorted(range(len(found)), key=found.photos.names.__getitem__))
    chance = np.random.default_rng(seed)
    for landmark in range(len(found.labels)):
        members = by_name[found.landmarks[by_name] == landmark]
        pieces = -(-len(members) // most)
        if pieces > 1:
            members = members[np.argsort(chance.random(len(members)), kind="stable")]
        yield from (piece for piece in np.array_split(members, pieces) if len(piece) > 1)


def _pairs(photos: int, geometry: Geometry) -> int:
    if photos <= geometry.all_pairs:
        return photos * (photos - 1) // 2
    return photos * geometry.candidates


def _compared(
    photos: Photos, groups: Sequence[npt.NDArray[np.int64]], geometry: Geometry, processes: int
) -> Iterator[tuple[npt.NDArray[np.int64], list[Match]]]:
    if processes <= 1:
        for group in groups:
            yield group, compare_group(photos.select(group.tolist()), geometry)
        return
    # Started afresh rather than forked: a forked OpenCV or BLAS with threads may hang.
    with _single_threads(), ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        # The largest first, so that no process is left with one at the end.
        running = {
            pool.submit(compare_group, photos.select(group.tolist()), geometry): group
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
        for name in names:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def compare_group(photos: Photos, geometry: Geometry) -> list[Match]:
    """Compare photos, all or the likeliest; pairs below the floor are left out."""
    opencv().setNumThreads(1)
    model = local_model(geometry.model)
    features = [
        local_features(photos.read(number), model, keypoints=geometry.keypoints, size=geometry.size)
        for number in range(len(photos))
    ]
    matches = []
    for a, b in _worth_comparing(features, geometry):
        if (count := agreeing(features[a], features[b], geometry)) >= geometry.floor:
            matches.append((a, b, count))
    return matches


def _worth_comparing(
    features: Sequence[LocalFeatures], geometry: Geometry
) -> Iterable[tuple[int, int]]:
    """All pairs of a small group; of a large one those whose strongest points match most often."""
    pairs = combinations(range(len(features)), 2)
    if len(features) <= geometry.all_pairs:
        return pairs
    strongest = [one.directions[:200] for one in features]
    likely = np.zeros((len(features), len(features)), np.int64)
    for a, b in pairs:
        found = mutual_matches(strongest[a], strongest[b], ratio=geometry.ratio)
        likely[a, b] = likely[b, a] = len(found)
    best = np.argsort(-likely, axis=1, kind="stable")[:, : geometry.candidates]
    return sorted({(min(a, b), max(a, b)) for a in range(len(best)) for b in best[a] if a != b})


def agreeing(a: LocalFeatures, b: LocalFeatures, geometry: Geometry) -> int:
    """How many matches agree on one homography; 0 where none is found, or it mirrors."""
    pairs = mutual_matches(a.directions, b.directions, ratio=geometry.ratio)
    # In units of the longer side, so that a photo's size does not matter.
    of_a, of_b = (
        one.points[numbers] / np.float32(max(one.shape))
        for one, numbers in zip((a, b), pairs.T, strict=True)
    )
    extents = [np.divide(one.shape[::-1], max(one.shape)) for one in (a, b)]
    own = ~_stamped(of_a, of_b, extents, geometry)
    if own.sum() < geometry.floor:
        return 0
    matrix, inliers = estimate(
        of_a[own] * 1000, of_b[own] * 1000, "homography", geometry.tolerance * 1000, iterations=2000
    )
    # A reflection in a lake is not a view from elsewhere.
    return int(inliers.sum()) if matrix is not None and np.linalg.det(matrix) > 0 else 0


def _stamped(
    a: Floats, b: Floats, extents: Sequence[npt.NDArray[np.float64]], geometry: Geometry
) -> npt.NDArray[np.bool_]:
    """Which matches may be a stamped date or agency name: as far from one corner in both photos.

    Photos taken from the same place lose a few of their hundreds of matches as well.
    """
    from_end_a, from_end_b = np.subtract(extents[0], a), np.subtract(extents[1], b)
    same = np.abs(a - b) < geometry.tolerance
    same_end = np.abs(from_end_a - from_end_b) < geometry.tolerance
    at_top = same[:, 1] & (a[:, 1] < geometry.stamp)
    at_bottom = same_end[:, 1] & (from_end_a[:, 1] < geometry.stamp)
    return np.asarray((same[:, 0] | same_end[:, 0]) & (at_top | at_bottom))
