"""Photos of one flat scene, or from one place, with the homographies between them.

The layout of HPatches sequences and of the older affine covariant regions: a folder per sequence,
`1.jpg` to `6.jpg` (or .ppm, .png) and `H_1_2` to `H_1_6`, text files of nine numbers.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from solar.errors import SolarError
from solar.files import reading

_SUFFIXES = (".jpg", ".ppm", ".png", ".jpeg", ".pgm")


@dataclass(frozen=True, eq=False)
class PhotoSequence:
    """One scene, named as its folder; the first of its two or more photos is the reference."""

    name: str
    photos: tuple[Path, ...]
    # (photos, 3, 3), from the reference's pixels (x, y, 1) to each photo's; the first: identity
    homographies: npt.NDArray[np.float64]


def read_sequences(root: str | Path) -> tuple[PhotoSequence, ...]:
    """All sequences in the folders of a folder, by name, or the one that the folder is itself.

    A SolarError if there is none, or one has a photo without its homography or a damaged one.
    """
    root = Path(root)
    if not root.is_dir():
        raise SolarError(f"There is no folder {root}: name one with sequences of photos.")
    folders = [root, *sorted(path for path in root.iterdir() if path.is_dir())]
    found = tuple(_sequence(folder) for folder in folders if _photo(folder, 1) is not None)
    if not found:
        raise SolarError(f"{root} contains no sequence (a folder with 1.jpg, 2.jpg, …, H_1_2, …).")
    return found


def _sequence(folder: Path) -> PhotoSequence:
    photos, homographies = [], []
    number = 1
    while (photo := _photo(folder, number)) is not None:
        photos.append(photo)
        homographies.append(np.eye(3) if number == 1 else _homography(folder / f"H_1_{number}"))
        number += 1
    if len(photos) < 2:
        raise SolarError(f"{folder} has a first photo, but no second one (2.jpg).")
    return PhotoSequence(folder.resolve().name, tuple(photos), np.stack(homographies))


def _photo(folder: Path, number: int) -> Path | None:
    places = (folder / f"{number}{suffix}" for suffix in _SUFFIXES)
    return next((place for place in places if place.is_file()), None)


def _homography(path: Path) -> npt.NDArray[np.float64]:
    with reading(path, "is not a homography: it needs nine numbers", ValueError):
        values = np.array(path.read_text().split(), np.float64)
        if values.size != 9 or not np.isfinite(values).all():
            raise ValueError
    matrix = values.reshape(3, 3)
    if abs(np.linalg.det(matrix)) < 1e-12:
        raise SolarError(f"{path} is not a homography: its matrix cannot be inverted.")
    return matrix
