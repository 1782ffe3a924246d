"""Labelled photos to train on: with queries and positives, or as places to tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self, TypeVar, overload

import numpy as np

from solar.arrays import Flags, Ints
from solar.errors import SolarError
from solar.files import reading
from solar.images import Photos
from solar.images.scan import Place

Part = Literal["train", "val", "all"]


class Positives(Sequence[Ints]):
    """Lists of photos in one array, of which each is a range; the ranges may overlap.

    In a landmark of n photos each has the other n - 1 as positives: written out that would be n²
    numbers, for up to 50,000 photos. Here it is 2n, also when sent to a process.
    """

    def __init__(self, numbers: Ints, starts: Ints, stops: Ints) -> None:
        self.numbers, self.starts, self.stops = numbers, starts, stops

    @classmethod
    def of(cls, lists: Iterable[Sequence[int] | Ints]) -> Positives:
        """Lists as they are."""
        arrays = [np.asarray(numbers, np.int64) for numbers in lists]
        stops = np.cumsum([len(numbers) for numbers in arrays], dtype=np.int64)
        numbers = np.concatenate([np.zeros(0, np.int64), *arrays])
        return cls(numbers, np.concatenate([[0], stops[:-1]]).astype(np.int64)[: len(stops)], stops)

    @classmethod
    def all_others(cls, groups: Iterable[Ints]) -> Positives:
        """For each member of each group, in this order, the other members."""
        numbers, starts, stops = [], [], []
        first = 0
        for group in groups:
            # Twice around the circle: the others of member i are the n - 1 that follow it.
            numbers.append(np.concatenate([group, group[:-1]]))
            starts.append(first + 1 + np.arange(len(group)))
            stops.append(first + len(group) + np.arange(len(group)))
            first += 2 * len(group) - 1
        empty = np.zeros(0, np.int64)
        return cls(*(np.concatenate([empty, *parts]) for parts in (numbers, starts, stops)))

    def kept(self, keep: Flags) -> Positives:
        """The lists without photos that are not kept, renumbered; some may be empty."""
        here = keep[self.numbers]
        before = np.concatenate([[0], np.cumsum(here)])
        new = np.cumsum(keep) - 1
        return Positives(new[self.numbers[here]], before[self.starts], before[self.stops])

    def members(self) -> Ints:
        """The photos that are in any of the lists, some of them several times."""
        edges = np.zeros(len(self.numbers) + 1, np.int64)
        np.add.at(edges, self.starts, 1)
        np.add.at(edges, self.stops, -1)
        return self.numbers[np.cumsum(edges)[:-1] > 0]

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, at: int) -> Ints: ...
    @overload
    def __getitem__(self, at: slice | Ints) -> Positives: ...
    def __getitem__(self, at: int | slice | Ints) -> Ints | Positives:
        if isinstance(at, slice | np.ndarray):
            return Positives(self.numbers, self.starts[at], self.stops[at])
        return self.numbers[self.starts[at] : self.stops[at]]


@dataclass(frozen=True, eq=False)
class Places:
    """Photos, and the landmark that each shows."""

    photos: Photos
    landmarks: Ints  # (n,) counted from 0
    labels: tuple[str, ...]  # names of the landmarks

    def __len__(self) -> int:
        return len(self.photos)

    def split(self, fraction: float, *, seed: int = 0) -> tuple[Self, Self]:
        """Hold out some landmarks, with all of their photos: training set, validation set.

        Of the landmarks with two photos or more, this fraction (above 0, below 1) is held out, at
        least two, and at least two are kept. The choice depends on their names and the seed, not
        on the order of the photos. A SolarError if there are fewer than four.
        """
        held = set(self.held_out(fraction, seed=seed))
        mine = np.array([label in held for label in self.labels])[self.landmarks]
        return self.of_photos(~mine, "what is left"), self.of_photos(mine, "what is held out")

    def held_out(self, fraction: float, *, seed: int = 0) -> list[str]:
        """Names of the landmarks that `split` holds out."""
        names = sorted(self.labels[landmark] for landmark in self._several().tolist())
        if not 0 < fraction < 1:
            raise SolarError(f"The fraction to hold out must be between 0 and 1, not {fraction:g}.")
        if len(names) < 4:
            raise SolarError(f"{len(names)} landmarks with positives are too few to split: take 4.")
        wanted = min(max(round(fraction * len(names)), 2), len(names) - 2)
        # `random` alone: NumPy may change what its other distributions draw.
        order = np.argsort(np.random.default_rng(seed).random(len(names)), kind="stable")
        return sorted(names[number] for number in order[:wanted].tolist())

    def of_photos(self, keep: Flags, source: object) -> Self:
        """Some of the photos, (n,); a SolarError about `source` if that is no set any more."""
        numbers = np.flatnonzero(keep)
        shown, landmarks = np.unique(self.landmarks[numbers], return_inverse=True)
        return replace(
            self,
            photos=self.photos.select(numbers.tolist()),
            landmarks=landmarks.astype(np.int64),
            labels=tuple(self.labels[landmark] for landmark in shown.tolist()),
        )

    def _several(self) -> Ints:
        return np.flatnonzero(np.bincount(self.landmarks, minlength=len(self.labels)) > 1)


@dataclass(frozen=True, eq=False)
class TrainingSet(Places):
    """Places with positives; a landmark's only photo is no query, but is among the negatives."""

    queries: Ints  # (q,) ascending
    positives: Positives  # for each query one photo or more of its landmark

    @property
    def singletons(self) -> int:
        """Landmarks with a single photo."""
        return int((np.bincount(self.landmarks, minlength=len(self.labels)) == 1).sum())

    def verified(self, source: object) -> TrainingSet:
        """Without photos that have no positive although their landmark has other photos.

        Where photos were compared, nothing says that these show what their label says.
        """
        keep = np.bincount(self.landmarks)[self.landmarks] == 1
        keep[self.queries] = True
        keep[self.positives.members()] = True
        return self.of_photos(keep, source)

    def of_photos(self, keep: Flags, source: object) -> Self:
        """See `Places.of_photos`."""
        positives = self.positives.kept(keep)
        asking = keep[self.queries] & (positives.stops > positives.starts)
        found = replace(
            super().of_photos(keep, source),
            queries=(np.cumsum(keep) - 1)[self.queries[asking]],
            positives=positives[np.flatnonzero(asking)],
        )
        return found.checked(source)

    def checked(self, source: object) -> Self:
        """The set, or a SolarError if it has fewer than two landmarks or no positives."""
        if len(self.labels) < 2:
            raise SolarError(
                f"{source} has {len(self.labels) or 'no'} landmark: training needs at least two, "
                "because negatives come from other landmarks."
            )
        if not len(self.queries):
            raise SolarError(
                f"No two photos of {source} show the same landmark ({len(self.labels)} for "
                f"{len(self)} photos): there is nothing to learn from."
            )
        return self

    def _several(self) -> Ints:
        return np.unique(self.landmarks[self.queries])


def label_photos(photos: Photos, labels: Sequence[str], source: object) -> TrainingSet:
    """A set in which each photo has all others of its landmark as positives."""
    shown, landmarks = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    landmarks = landmarks.astype(np.int64)
    counts = np.bincount(landmarks, minlength=len(shown))
    groups = np.split(np.argsort(landmarks, kind="stable"), np.cumsum(counts)[:-1])
    groups = [group for group in groups if len(group) > 1]
    queries = np.concatenate([np.zeros(0, np.int64), *groups])
    ascending = np.argsort(queries, kind="stable")
    positives = Positives.all_others(groups)[ascending]
    names = tuple(shown.tolist())
    found = TrainingSet(photos, landmarks, names, queries[ascending], positives)
    return found.checked(source)


P = TypeVar("P", bound=Places)


def present(
    found: P,
    source: object,
    missing: str,
    cure: str = "say where they are with root, or drop them",
) -> P:
    """The set without missing photos; a SolarError unless `missing` is `drop` and some are left."""
    listings: dict[Path, set[str]] = {}  # a question per photo takes minutes for a million

    def is_there(place: Place) -> bool:
        if not isinstance(place, Path):
            return True
        if (folder := place.parent) not in listings:
            with reading(folder):
                files = folder.iterdir() if folder.is_dir() else ()
                listings[folder] = {file.name for file in files}
        return place.name in listings[folder]

    here = np.array([is_there(place) for place in found.photos.places])
    if here.all():
        return found
    if missing == "drop" and here.any():
        return found.of_photos(here, source)
    gone = np.flatnonzero(~here)
    first = [found.photos.names[number] for number in gone[:4].tolist()]
    raise missing_photos(source, first, len(gone), len(here), cure)


def missing_photos(
    source: object, first: Sequence[str], gone: int, total: int, cure: str
) -> SolarError:
    """The error about missing photos of a set, which names up to three of them."""
    named = ", ".join([*first[:3], *(["…"] if gone > 3 else [])])
    return SolarError(f"{gone:,} of {total:,} photos of {source} are missing ({named}): {cure}.")
