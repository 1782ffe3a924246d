"""Whether two photos show the same scene: whether enough of their matches fit one geometry.

Photos of different places have matches, too, and some of them fit a geometry by chance. The
thresholds are such that at most one in 1,000 of such pairs should reach them.
`benchmarks/same_scene.py` measures that on photos of known places, and how many pairs of the same
place reach them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from solar.describe.local import LocalFeatures

Kind = Literal["numbers", "bits", "dense"]
"""Features of keypoints that are numbers (SIFT, patch networks) or bits, or locations of a map."""

THRESHOLDS: dict[tuple[Kind, str], int] = {
    ("numbers", "homography"): 9,
    ("numbers", "fundamental"): 17,
    ("bits", "homography"): 10,
    ("bits", "fundamental"): 20,
    ("dense", "homography"): 15,
    ("dense", "fundamental"): 30,
}
"""By kind of features and by geometry: so many inliers mean the same scene.

Those of a homography were measured, with RootSIFT and ORB. Those of a fundamental matrix and of
dense features, which agree within more pixels and so more often by chance, are cautious choices."""


def scene_threshold(features: LocalFeatures, geometry: str) -> int:
    """From so many inliers on, a photo with such features shows the same scene as another."""
    if features.dense:
        return THRESHOLDS["dense", geometry]
    binary = features.descriptors.dtype == np.uint8
    return THRESHOLDS["bits" if binary else "numbers", geometry]


def verdict(inliers: int, threshold: int) -> str:
    """What so many inliers mean, as a sentence begins."""
    if inliers >= threshold:
        return f"Likely the same scene: {inliers:,} inliers, threshold {threshold}"
    return f"Not verified as the same scene: {inliers:,} inliers, threshold {threshold}"


def compared(inliers: int | None, threshold: int | None) -> str:
    """The same in a column of results; nothing where nobody looked."""
    if inliers is None or threshold is None:
        return ""
    if inliers >= threshold:
        return f"same scene ({inliers} ≥ {threshold} points)"
    return f"not verified ({inliers} < {threshold} points)"
