"""Local features of photos for ASMK*: found, kept in files, sampled, assigned to visual words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Vectors
from solar.asmk.codebook import LEAST_EACH, MOST_EACH, MOST_WORDS, Codebook, train_codebook
from solar.asmk.kernel import Signatures, aggregate_all, aggregate_regions
from solar.asmk.regions import PhotoRegions
from solar.describe.progress import counted
from solar.errors import SolarError
from solar.images import Photos
from solar.index.sources import detail
from solar.local.cache import LocalCache, pack, unpack
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


class FeatureSample:
    """Some descriptors of every photo, to learn visual words from."""

    def __init__(self, photos: int, words: int | None, seed: int) -> None:
        most = TRAINING if words is None else min(TRAINING, MOST_EACH * words)
        most = max(most, words or 0)
        self._share = -(-most // max(photos, 1))
        self._words, self._seed = words, seed
        self._taken: list[Vectors] = []

    def take(self, number: int, descriptors: Vectors) -> None:
        """Take a photo's share."""
        if len(descriptors) > self._share:
            chance = np.random.default_rng((self._seed, number))
            chosen = chance.choice(len(descriptors), self._share, replace=False)
            descriptors = descriptors[np.sort(chosen)]
        self._taken.append(descriptors)

    def words(self, finder: Finder) -> Codebook:
        """Learn the words; a SolarError if there are too few descriptors."""
        facts = {"local": local_name(finder.model), "fingerprint": local_fingerprint(finder.model)}
        descriptors = np.concatenate(self._taken) if self._taken else np.empty((0, 1), np.float32)
        return train_codebook(descriptors, self._words, seed=self._seed, facts=facts)


class Finder:
    """Finds local features of photos, and keeps them in a folder."""

    def __init__(
        self,
        model: LocalModel,
        keypoints: int,
        size: int,
        place: Path,
        regions: PhotoRegions | None = None,
    ) -> None:
        if model in BINARY:
            raise SolarError(
                f"ASMK averages descriptors, but those of {model} are binary: choose rootsift, "
                "sift or a patch model."
            )
        self.model, self.keypoints, self.size, self.regions = model, keypoints, size, regions
        # The same key as for verification.
        self.cache = LocalCache(place, model, keypoints=keypoints, size=size, frames="wide")

    def features(self, name: str, photo: Path | bytes) -> LocalFeatures:
        """The features of a photo, as the cache stores them."""
        kept = self.cache.get(name, photo)
        if kept is not None:
            return kept
        features = local_features(photo, self.model, keypoints=self.keypoints, size=self.size)
        self.cache.put(name, photo, features)
        return unpack(pack(features)) or features

    def walk(self, photos: Photos) -> Iterator[tuple[int, LocalFeatures | SolarError]]:
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

    def find_all(
        self, photos: Photos, sample: FeatureSample | None, progress: Progress | None
    ) -> dict[str, str]:
        """Find and keep the features of all photos, and give the sample its share.

        Returns the photos that cannot be read, and why. A SolarError for a region outside its
        photo, before time is spent on learning words.
        """
        failures = {}
        advance = counted(progress, "Describing", len(photos))
        for number, features in self.walk(photos):
            if isinstance(features, SolarError):
                failures[photos.names[number]] = str(features)
            else:
                if self.regions is not None:
                    height, width = features.shape
                    self.regions.of(photos.names[number], width, height)
                if sample:
                    sample.take(number, features.descriptors)
            advance(1)
        return failures

    def signatures(
        self,
        photos: Photos,
        failures: Mapping[str, str],
        codebook: Codebook,
        extra: Mapping[str, Mapping[str, Any]],
    ) -> Iterator[Described]:
        """Batches of the photos that were described, with their visual words."""
        described = self._described(photos, failures, extra)
        while batch := list(islice(described, _QUANTISED)):
            yield self._quantised(batch, codebook)

    def _described(
        self,
        photos: Photos,
        failures: Mapping[str, str],
        extra: Mapping[str, Mapping[str, Any]],
    ) -> Iterator[tuple[Photo, LocalFeatures]]:
        for number, features in self.walk(photos):
            name = photos.names[number]
            if name in failures:
                continue
            if isinstance(features, SolarError):  # its file has just become unreadable
                raise features
            height, width = features.shape
            photo = detail(name, width, height, photos.read(number), extra.get(name, {}))
            yield replace(photo, stamp=photos.stamp(number)), features

    def _quantised(
        self, waiting: Sequence[tuple[Photo, LocalFeatures]], codebook: Codebook
    ) -> Described:
        photos = [photo for photo, _ in waiting]
        if self.regions is None:
            return photos, aggregate_all([found.descriptors for _, found in waiting], codebook)
        regions = [self.regions.descriptors(photo.path, found) for photo, found in waiting]
        return photos, [aggregate_regions(one, codebook) for one in regions]
