"""OpenCV's keypoints of a photo, strongest first, and its own descriptors of them.

SIFT's histograms are 128 numbers. ORB (Rublee et al., ICCV 2011) and AKAZE (Alcantarilla et al.,
BMVC 2013) find keypoints of their own, and describe each by bits: 256, and 488 of which the last
two are always zero. Descriptors of bits are compared by how many of them differ.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from solar.errors import SolarError
from solar.images.opencv import opencv

Method = Literal["sift", "orb", "akaze"]

BINARY = ("orb", "akaze")
"""Methods that describe a keypoint by bits."""

_BYTES = {"orb": 32, "akaze": 61}
_LEAST_SIDE = 32  # of a photo, for the methods of bits: they fail on a few pixels


def keypoints_of(
    grey: NDArray[np.uint8],
    method: Method,
    count: int,
    inside: tuple[float, ...] | None = None,
    *,
    describe: bool = True,
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Find the strongest keypoints of a grey photo (h, w).

    Args:
        grey: The photo.
        method: What finds them.
        count: Keep so many.
        inside: x1, y1, x2, y2 in pixels: only keypoints in this box.
        describe: Whether their descriptors are wanted, which SIFT saves time without.

    Returns:
        (n, 4) x, y, diameter and angle in degrees; and their descriptors: (n, 128) float32
        histograms of SIFT, (n, 32) or (n, 61) bytes of ORB or AKAZE.

    Raises:
        SolarError: OpenCV is not installed, or has no AKAZE.
    """
    if method == "sift":
        # Without a box SIFT itself drops the weaker ones, before it describes them.
        sift = opencv().SIFT_create(nfeatures=0 if inside else count)
        found, rows = sift.detectAndCompute(grey, None) if describe else (sift.detect(grey), None)
        blank = np.empty((len(found), 128), np.float32)
    else:
        found, rows = _of_bits(grey, method, count, inside)
        blank = np.empty((len(found), _BYTES[method]), np.uint8)
    rows = blank if rows is None else rows
    table = np.array([(*k.pt, k.size, k.angle, k.response) for k in found], np.float64)
    table = table.reshape(-1, 5)
    if inside:
        x, y = table[:, 0] + 0.5, table[:, 1] + 0.5
        within = (x >= inside[0]) & (y >= inside[1]) & (x <= inside[2]) & (y <= inside[3])
        table, rows = table[within], rows[within]
    x, y, sizes, angles, strength = table.T
    best = np.lexsort((angles, sizes, x, y, -strength))[:count]  # threads find them in any order
    return table[best, :4], rows[best]


def akaze() -> Any:
    """OpenCV's AKAZE; a SolarError where it has none.

    OpenCV 4 has it. OpenCV 5 has it among the extra modules, which are a package of their own.
    """
    cv2 = opencv()
    for place in (cv2, getattr(cv2, "xfeatures2d", None)):
        create = getattr(place, "AKAZE_create", None)
        if create is not None:
            return create()
    raise SolarError(
        f"This OpenCV ({cv2.__version__}) has no AKAZE: choose orb, or install "
        "opencv-contrib-python-headless instead of opencv-python-headless."
    )


def _of_bits(
    grey: NDArray[np.uint8], method: Method, count: int, inside: tuple[float, ...] | None
) -> tuple[Any, Any]:
    finder = akaze() if method == "akaze" else opencv().ORB_create(nfeatures=count)
    if min(grey.shape) < _LEAST_SIDE:
        return (), None
    mask = None
    if inside:  # ORB keeps so many per level of its pyramid: they must not be spent elsewhere
        left, top, right, bottom = inside
        mask = np.zeros_like(grey)
        mask[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = 255
    return finder.detectAndCompute(grey, mask)  # type: ignore[no-any-return]
