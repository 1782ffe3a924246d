"""Local features of photos for ASMK*: found, kept in files, sampled, assigned to visual words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Vectors
from solar.asmk.codebook import (
    LEAST_EACH,
    MOST_EACH,
    MOST_WORDS,
    Codebook,
    sum_residuals,
    train_codebook,
)
from solar.asmk.kernel import Signatures, binarise
from solar.describe.progress import counted
from solar.errors import SolarError
from solar.images import Photos
from solar.images.exif import exif_facts
from solar.local.cache import LocalCache
from solar.local.features import (
    BINARY,
    LocalFeatures,
    LocalModel,
    local_features,
    local_fingerprint,
    local_name,
)
from solar.storage.types import Photo

if TYPE_CHECKING:
    from solar.describe.progress import Progress

TRAINING = LEAST_EACH * MOST_WORDS
"""Descriptors to learn visual words from, at most."""

Described = tuple[Sequence[Photo], Sequence[Signatures]]
"""Photos and their visual words."""

_BATCH = 64
_QUANTISED = 16  # photos whose words are looked up together: 16 MB of descriptors


class Finder:
    """Finds local features of photos, and keeps them in a folder."""

    def __init__(self, model: LocalModel, keypoints: int, size: int, place: Path) -> None:
        if model in BINARY:
            raise SolarError(
                f"ASMK averages descriptors, but those of {model} are binary: choose rootsift, "
                "sift or a patch model."
            )
        self.model, self.keypoints, self.size = model, keypoints, size
        # The same key as for verification.
        self.cache = LocalCache(place, model, keypoints=keypoints, size=size)

    def features(self, name: str, photo: Path | bytes) -> LocalFeatures:
        """The features of a photo, as the cache stores them."""
        kept = self.cache.get(name, photo)
        if kept is not None:
            return kept
        features = local_features(photo, self.model, keypoints=self.keypoints, size=self.size)
        return self.cache.put(name, photo, features)

    def learn(
        self,
        photos: Photos,
        words: int | None = None,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Codebook:
        """Learn visual words from some descriptors of every photo, of too many photos evenly.

        A SolarError if there are too few descriptors.
        """
        some = photos.select(range(0, len(photos), -(-len(photos) // (TRAINING // 16))))
        most = TRAINING if words is None else min(TRAINING, MOST_EACH * words)
        share = -(-max(most, words or 0) // max(len(some), 1))
        taken, why = list[Vectors](), "there is none"
        advance = counted(progress, "Learning visual words", len(some))
        for number, features in self._walk(some):
            advance(1)
            if isinstance(features, SolarError):
                why = str(features)
                continue
            descriptors = features.descriptors
            if len(descriptors) > share:
                chance = np.random.default_rng((seed, number))
                chosen = chance.choice(len(descriptors), share, replace=False)
                descriptors = descriptors[np.sort(chosen)]
            taken.append(descriptors)
        if not taken:
            raise SolarError(f"No photo could be described: {why.rstrip('.')}.")
        facts = {"local": local_name(self.model), "fingerprint": local_fingerprint(self.model)}
        return train_codebook(np.concatenate(taken), words, seed=seed, facts=facts)

    def signatures(
        self,
        photos: Photos,
        codebook: Codebook,
        failures: dict[str, str],
        *,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[Described]:
        """Batches of photos with their visual words; `failures` gets those that cannot be read."""
        described = self._described(photos, failures, extra or {}, progress)
        while batch := list(islice(described, _QUANTISED)):
            found = sum_residuals([features.descriptors for _, features in batch], codebook)
            yield [photo for photo, _ in batch], [binarise(residuals) for residuals in found]

    def _described(
        self,
        photos: Photos,
        failures: dict[str, str],
        extra: Mapping[str, Mapping[str, Any]],
        progress: Progress | None,
    ) -> Iterator[tuple[Photo, LocalFeatures]]:
        advance = counted(progress, "Describing", len(photos))
        for number, features in self._walk(photos):
            name = photos.names[number]
            if isinstance(features, SolarError):
                failures[name] = str(features)
            else:
                height, width = features.shape
                facts = {**exif_facts(photos.read(number))._asdict(), **extra.get(name, {})}
                yield Photo(name, width, height, stamp=photos.stamp(number), **facts), features
            advance(1)

    def _walk(self, photos: Photos) -> Iterator[tuple[int, LocalFeatures | SolarError]]:
        """The features of all photos in order, or errors, on all cores."""

        def features(number: int) -> LocalFeatures | SolarError:
            try:
                return self.features(photos.names[number], photos.read(number))
            except SolarError as error:
                return error

        # A network that sees whole photos has all cores to itself: two, so that one reads.
        alone = not isinstance(self.model, str) and hasattr(self.model, "backbone")
        with ThreadPoolExecutor(2 if alone else os.cpu_count()) as threads:
            for first in range(0, len(photos), _BATCH):  # bounds the memory
                numbers = range(first, min(first + _BATCH, len(photos)))
                yield from zip(numbers, threads.map(features, numbers), strict=True)
