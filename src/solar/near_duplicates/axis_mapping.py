"""The mapping between a photo and its edited copy: stretched and shifted, never tilted.

An editor crops, scales, mirrors and turns by quarters, and edges stay parallel to the edges. Two
photos of one place nearly never fit so: their cameras were tilted differently.
"""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles, Flags

_GUESSES = 400
_STRETCH = 2.0  # width against height
_SCALES = (1 / 8, 8.0)

AxisMapping: TypeAlias = tuple[Doubles, Flags]
"""A 3×3 matrix from points of one photo to those of another, of which every row but the last has
one entry beside the shift; and (n,) which pairs of points agree with it."""


def fit_axes(
    a: npt.NDArray[np.floating], b: npt.NDArray[np.floating], threshold: float, *, mirrored: bool
) -> AxisMapping | None:
    """The mapping on which most pairs of points (n, 2) agree; None if no two do.

    `threshold` is in pixels of b; `mirrored` whether the mapping turns left into right.
    """
    best: AxisMapping | None = None
    if len(a) < 2:
        return None
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    for swapped in (False, True):
        found = _fit(x[:, ::-1] if swapped else x, y, threshold, mirrored != swapped)
        if found is not None and (best is None or found[1].sum() > best[1].sum()):
            matrix, inliers = found
            best = matrix[:, [1, 0, 2]] if swapped else matrix, inliers
    return best


def _fit(a: Doubles, b: Doubles, threshold: float, reflected: bool) -> AxisMapping | None:
    random = np.random.default_rng(0)
    first, second = random.integers(len(a), size=(2, _GUESSES))
    apart = a[second] - a[first]
    sound = (np.abs(apart) > 2 * threshold).all(axis=1)
    first, second, apart = first[sound], second[sound], apart[sound]
    scale = (b[second] - b[first]) / apart
    sound = _plausible(scale, reflected)
    first, scale = first[sound], scale[sound]
    if not len(first):
        return None
    shift = b[first] - scale * a[first]
    errors = np.abs(scale[:, None] * a + shift[:, None] - b).max(axis=2)
    inliers = errors[(errors < threshold).sum(axis=1).argmax()] < threshold
    for _ in range(3):
        if inliers.sum() < 2:
            return None
        x, y = a[inliers], b[inliers]
        middle_a, middle_b = x.mean(axis=0), y.mean(axis=0)
        x, y = x - middle_a, y - middle_b
        along = (x * y).sum(axis=0) / np.maximum((x * x).sum(axis=0), 1e-9)
        move = middle_b - along * middle_a
        if not _plausible(along[None], reflected)[0]:
            return None
        inliers = np.abs(along * a + move - b).max(axis=1) < threshold
    matrix = np.array([[along[0], 0, move[0]], [0, along[1], move[1]], [0, 0, 1]])
    return matrix, inliers


def _plausible(scale: Doubles, reflected: bool) -> Flags:
    across, down = np.abs(scale).T + 1e-12
    within = (np.minimum(across, down) > _SCALES[0]) & (np.maximum(across, down) < _SCALES[1])
    stretch = np.maximum(across / down, down / across)
    turned = (scale[:, 0] * scale[:, 1] < 0) == reflected
    sound: Flags = within & (stretch < _STRETCH) & turned
    return sound
