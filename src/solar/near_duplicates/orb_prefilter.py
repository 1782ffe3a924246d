"""Whether two photos may show one place, before their costly keypoints are detected.

ORB detects and describes corners fifteen times as fast as SIFT. Every match of two corners is a
guess how one photo lies on the other: shifted, turned and scaled. If no guess has the votes of some
other matches, SIFT would hardly find the place either.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Pixels
from solar.images.opencv import opencv

VOTES = 7
"""Minimum matches that agree. Of places that SIFT finds in landmarks, 94 percent have these; of
photos that only look alike, 9 percent."""

_SIDE = 320  # pixels of the longer side
_CORNERS = 300
_EDGE = 12  # pixels at the border without corners
_BITS = 64  # of 256 may differ
_NEAR = 12.0  # pixels
_SCALE = 0.5  # logarithm of the ratio of sizes


class Corners(NamedTuple):
    """Corners of a shrunk photo.

    Attributes:
        points: (n,) x + iy.
        frames: (n,) size and direction of each, as one complex number.
        bits: (n, 32) uint8.
    """

    points: npt.NDArray[np.complex64]
    frames: npt.NDArray[np.complex64]
    bits: Pixels


def corners(photo: Image.Image) -> Corners:
    """Find and describe the corners of a photo."""
    cv2 = opencv()
    grey = photo.convert("L")
    grey.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
    finder = cv2.ORB_create(
        _CORNERS, scaleFactor=1.25, nlevels=6, edgeThreshold=_EDGE, patchSize=25, fastThreshold=8
    )
    found: Sequence[Any] = ()
    bits = None
    # ORB cannot make the smaller levels of a picture that is all border.
    if min(grey.size) > 2 * _EDGE:
        with suppress(cv2.error):
            found, bits = finder.detectAndCompute(np.asarray(grey), None)
    if bits is None:
        nothing = np.empty(0, np.complex64)
        return Corners(nothing, nothing, np.empty((0, 32), np.uint8))
    rows = np.array([(*one.pt, one.size, one.angle) for one in found], np.float32)
    frames = rows[:, 2] * np.exp(1j * np.deg2rad(rows[:, 3]))
    points = rows[:, 0] + 1j * rows[:, 1]
    return Corners(points.astype(np.complex64), frames.astype(np.complex64), bits)


def votes(a: Corners, b: Corners) -> int:
    """How many matches agree with the one that most agree with."""
    if not len(a.bits) or not len(b.bits):
        return 0
    cv2 = opencv()
    apart, nearest = cv2.batchDistance(
        a.bits, b.bits, cv2.CV_32S, normType=cv2.NORM_HAMMING, K=1, crosscheck=True
    )
    first = np.flatnonzero((nearest[:, 0] >= 0) & (apart[:, 0] <= _BITS))
    second = nearest[first, 0]
    if not len(first):
        return 0
    turn = b.frames[second] / a.frames[first]
    x, y = a.points[first], b.points[second]
    error = np.abs((y[None] - y[:, None]) - turn[:, None] * (x[None] - x[:, None]))
    scale = np.log(np.abs(turn))
    agree = (error < _NEAR) & (np.abs(scale[None] - scale[:, None]) < _SCALE)
    return int(agree.sum(axis=1).max())
