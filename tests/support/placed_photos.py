"""Toy photos of a few places, seen from several sides, and an index of them without a network."""

from pathlib import Path

import cv2
import numpy as np
from PIL import Image
from support.warped import toy_photo

from solar.images import Roots
from solar.index import Index

PLACES, VIEWS = 3, 4


def placed_photos(folder: Path, size: tuple[int, int] = (240, 180)) -> list[str]:
    """Write `VIEWS` photos of each of `PLACES` places, and one of a place of its own."""
    folder.mkdir(parents=True)
    names = []
    for place in range(PLACES):
        photo = toy_photo(place, size)
        for view in range(VIEWS):
            names.append(f"{place}-{view}.png")
            Image.fromarray(_moved(photo, view)).save(folder / names[-1])
    Image.fromarray(toy_photo(77, size)).save(folder / "alone.png")
    return [*names, "alone.png"]


def _moved(photo: np.ndarray, view: int) -> np.ndarray:
    height, width = photo.shape[:2]
    matrix = np.array([[1 - 0.03 * view, 0.04 * view, 5.0 * view], [0.02 * view, 1, 2.0 * view]])
    return cv2.warpAffine(photo, matrix, (width, height), borderMode=cv2.BORDER_REFLECT)


def placed_index(photos: Path, place: Path) -> Path:
    """An index of such photos whose vectors are alike for all: keypoints have to decide."""
    names = sorted(file.name for file in photos.iterdir())
    vectors = np.random.default_rng(0).normal(size=(len(names), 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    Index.create(place, vectors, names, roots=Roots.at(photos)).close()
    return place


EXPECTED = [[f"{place}-{view}.png" for view in range(VIEWS)] for place in range(PLACES)]
"""The groups that there are, each by name."""
