"""Labelled photos for training a classifier.

Google Landmarks v2 has a million and a half of them, so no list here holds an object per photo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from solar.arrays import Ints
from solar.datasets.labelled.training_set import held_out_names
from solar.errors import SolarError
from solar.images import Photos


class PhotoList(Protocol):
    """What training reads photos from; `solar.images.Photos` is one."""

    @property
    def names(self) -> Sequence[str]:
        """Of the photos, in order."""

    def __len__(self) -> int: ...

    def read(self, number: int) -> Path | bytes:
        """What `solar.images.load` takes for a photo."""

    def select(self, numbers: Iterable[int]) -> PhotoList:
        """Some of the photos, in the order of their numbers."""


class PathArray(Sequence[str]):
    """Texts of about equal length in one array, a tenth of what as many Python strings take."""

    def __init__(self, texts: Iterable[str] | npt.NDArray[np.bytes_]) -> None:
        """Take texts, or an array of their bytes in UTF-8."""
        given = texts if isinstance(texts, np.ndarray) else [text.encode() for text in texts]
        self.array: npt.NDArray[np.bytes_] = np.asarray(given, dtype=np.bytes_)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, at: int) -> str:  # type: ignore[override]
        return bytes(self.array[at]).decode()


@dataclass(frozen=True, eq=False)
class FolderPhotos:
    """Photos by their paths below one folder, whether they are there or not."""

    folder: Path
    names: PathArray

    def __len__(self) -> int:
        return len(self.names)

    def read(self, number: int) -> Path:
        """The file of a photo."""
        return self.folder / self.names[number]

    def select(self, numbers: Iterable[int]) -> FolderPhotos:
        """Some of the photos, in the order of their numbers."""
        chosen = np.fromiter(numbers, np.int64)
        return FolderPhotos(self.folder, PathArray(self.names.array[chosen]))


@dataclass(frozen=True, eq=False)
class Places:
    """Photos, and the place that each shows.

    Attributes:
        photos: `solar.images.Photos`, or `FolderPhotos` where there are very many.
        labels: (n,) the place of each, counted from 0; every place has a photo.
        names: Of the places.
    """

    photos: PhotoList
    labels: Ints
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise SolarError(
                f"The photos show {len(self.names) or 'no'} place: training needs at least two."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def split(self, fraction: float, *, seed: int = 0) -> tuple[Places, Places]:
        """Hold out some places, with all of their photos: what to train on, and the others.

        As `TrainingSet.split`: this fraction of the places with two photos or more, chosen by
        their names and the seed. A SolarError if there are fewer than four of those.
        """
        several = np.flatnonzero(np.bincount(self.labels, minlength=len(self.names)) > 1)
        names = [self.names[number] for number in several.tolist()]
        held = set(held_out_names(names, fraction, seed=seed))
        out = np.array([name in held for name in self.names])[self.labels]
        return self._of_photos(~out), self._of_photos(out)

    def _of_photos(self, keep: npt.NDArray[np.bool_]) -> Places:
        numbers = np.flatnonzero(keep)
        shown, labels = np.unique(self.labels[numbers], return_inverse=True)
        return Places(
            self.photos.select(numbers),
            labels.astype(np.int64),
            tuple(self.names[place] for place in shown.tolist()),
        )


def listed(photos: PhotoList) -> Photos:
    """The photos as `solar.images.Photos`, which have an object each: for a few."""
    if isinstance(photos, Photos):
        return photos
    files = [photos.read(number) for number in range(len(photos))]
    return Photos(tuple(photos.names), tuple(Path(str(file)) for file in files))
