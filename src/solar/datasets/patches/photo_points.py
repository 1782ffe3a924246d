"""SIFT keypoints of photos, to cut patches around.

Those that show nearly the same patch as a stronger one beside them are left out, because training
takes any two keypoints of a batch for different ones.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Floats, Pixels
from solar.errors import SolarError
from solar.images import ImageError, Photos
from solar.images import load as load_photo
from solar.images.opencv import opencv
from solar.local.patch_cutting import REGION, SMALLEST

STRONGEST = 2000  # keypoints of a photo that are compared with each other, the strongest first


@dataclass(frozen=True)
class PointSettings:
    """Which keypoints to keep, and how large a patch each has.

    Attributes:
        size: Photos are shrunk to this longer side first; null keeps every pixel.
        most: Keypoints kept of a photo at most, the strongest.
        spacing: Two patches of about one size must be this part of their side apart. A quarter is
            where the patches of the HPatches benchmark overlap at most, by half.
    """

    size: int | None = 640
    most: int = 300
    spacing: float = 0.25


@dataclass(frozen=True, eq=False)
class PhotoPoints:
    """Grey photos and their keypoints."""

    names: tuple[str, ...]
    photos: tuple[Pixels, ...]  # (h, w) uint8 each
    points: tuple[Floats, ...]  # (n, 4) float32 each: x, y, side in pixels, angle in radians


def find_points(photo: Pixels, settings: PointSettings | None = None) -> Floats:
    """Keypoints, the strongest first, no two of which show nearly the same patch.

    (n, 4) float32: x, y, side of the patch in pixels, angle in radians.
    """
    settings = settings or PointSettings()
    found = sorted(opencv().SIFT_create().detect(photo, None), key=lambda k: -k.response)
    rows = [(*k.pt, max(REGION * k.size, SMALLEST), k.angle) for k in found]
    table = np.array(rows, np.float32).reshape(-1, 4)[:STRONGEST]
    table[:, 3] = np.deg2rad(table[:, 3])
    return table[_distinct(table, settings.spacing)][: settings.most]


def collect_points(
    photos: Photos,
    settings: PointSettings | None = None,
    *,
    orient: bool = True,
) -> PhotoPoints:
    """Decode photos and find their keypoints, on all cores; photos that cannot be read are skipped.

    `orient` turns photos upright by their EXIF orientation. A SolarError if no photo can be read.
    """
    settings = settings or PointSettings()

    def one(number: int) -> tuple[Pixels, Floats] | None:
        try:
            pixels = load_photo(photos.read(number), settings.size, orient=orient).pixels
        except ImageError:
            return None
        grey = np.asarray(Image.fromarray(pixels).convert("L"))
        return grey, find_points(grey, settings)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(one, range(len(photos))))
    kept = [(name, *r) for name, r in zip(photos.names, results, strict=True) if r is not None]
    if not kept:
        raise SolarError(f"None of {len(photos)} photos can be read, such as {photos.names[0]}.")
    names, greys, points = zip(*kept, strict=True)
    return PhotoPoints(names, greys, points)


def _distinct(table: Floats, spacing: float) -> npt.NDArray[np.bool_]:
    """Which patches show something else than every stronger one: (n, 4) to (n,)."""
    x, y, side = table[:, 0], table[:, 1], table[:, 2]
    near = spacing * np.minimum(side[:, None], side)
    alike = np.maximum(side[:, None], side) < 1.5 * np.minimum(side[:, None], side)
    apart = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2
    clash = (apart < near**2) & alike
    return np.asarray(~np.tril(clash, -1).any(1))
