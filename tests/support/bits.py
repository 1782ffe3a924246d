"""What describes keypoints by bits, for tests to run with each."""

import cv2
import pytest

HAS_AKAZE = hasattr(cv2, "AKAZE_create") or hasattr(
    getattr(cv2, "xfeatures2d", None), "AKAZE_create"
)
NEEDS_AKAZE = pytest.mark.skipif(not HAS_AKAZE, reason="this OpenCV has no AKAZE")

BITS = pytest.mark.parametrize(
    ("model", "width"), [("orb", 32), pytest.param("akaze", 61, marks=NEEDS_AKAZE)]
)
"""Models, and the bytes of their descriptors."""
