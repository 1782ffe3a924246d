"""From photos to an ASMK* index: find local features, learn visual words, fill the index.

Features are kept in files while that lasts, so that a killed run continues where it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Vectors
from solar.asmk import folder as asmk_folder
from solar.asmk.codebook import LEAST_EACH, MOST_EACH, MOST_WORDS, Codebook, train_codebook
from solar.asmk.folder import CODEBOOK, Described
from solar.asmk.kernel import aggregate_all, aggregate_regions
from solar.asmk.regions import PhotoRegions, read_regions
from solar.describe.progress import counted
from solar.errors import SolarError
from solar.images import Photos, collect, find_photos
from solar.images.known_roots import confirm
from solar.index.build import (
    BuiltIndex,
    note_skipped,
    read_metadata,
    refuse_taken,
    warn_of_unknown,
)
from solar.index.index import Index, is_folder
from solar.index.sources import detail, working_folder
from solar.local.cache import LocalCache, pack, unpack
from solar.local.features import (
    BINARY,
    LocalFeatures,
    LocalModel,
    local_features,
    local_fingerprint,
    local_model,
    local_name,
)
from solar.ranking.verify import VerifySettings
from solar.storage.types import DescriptorSpec, Photo

if TYPE_CHECKING:
    from solar.describe.progress import Progress


KEYPOINTS, SIZE = VerifySettings.keypoints, VerifySettings.size
"""As geometric verification has them, so that the two can share what they found."""

_BATCH = 64
_QUANTISED = 16  # photos whose words are looked up together: 16 MB of descriptors
_TRAINING = LEAST_EACH * MOST_WORDS


@dataclass(frozen=True)
class AsmkSettings:
    """How photos are described for ASMK*."""

    local: LocalModel | str | Path | None = None  # what describes keypoints, as for `solar.match`
    words: int | None = None  # visual words to learn; as many as the features allow if not given
    codebook: str | Path | None = None  # an ASMK* index or a codebook's file: take its words
    train_on: str | Path | None = None  # photos to learn words from; otherwise those of the index
    keypoints: int = KEYPOINTS  # at most so many a photo
    size: int = SIZE  # photos with a longer side are shrunk to it first
    seed: int = 0  # for the sample of features and for k-means
    regions: str | Path | None = None  # `grid`, or a file of boxes: regional ASMK*

    def __post_init__(self) -> None:
        if self.codebook is not None and (self.train_on is not None or self.words is not None):
            raise SolarError(
                "`codebook=` brings its own words: leave out `words=` and `train_on=`."
            )
        if self.words is not None and not 1 <= self.words <= MOST_WORDS:
            raise SolarError(f"`words=` takes 1 to {MOST_WORDS}, not {self.words}.")


def build(
    sources: Sequence[str | Path],
    address: str | Path,
    settings: AsmkSettings | None = None,
    *,
    store: str | Path | None = None,
    metadata: str | Path | None = None,
    progress: Progress | None = None,
    follow: bool = True,
) -> BuiltIndex:
    """Make an ASMK* index of photos; a killed run continues where it was when called again.

    Local features are kept in `store`, or deleted when the index is done; other arguments are as
    for `solar.index.build.build_index`.
    """
    settings = settings or AsmkSettings()
    local, keypoints, size = settings.local, settings.keypoints, settings.size
    if not is_folder(address):
        raise SolarError("An ASMK index must be a folder: Milvus stores only embeddings.")
    refuse_taken(address)
    if local is not None and Path(str(local)).is_file():
        local = str(Path(str(local)).resolve())  # searches may start elsewhere
    extra = read_metadata(metadata) if metadata else {}
    regions = None if settings.regions is None else read_regions(settings.regions)
    with working_folder(address, store) as place:
        finder = Finder(local_model(local), keypoints, size, place, regions)
        given = settings.codebook
        codebook = None if given is None else read_codebook(given, finder.model)
        photos = collect(sources, follow=follow)
        if regions:
            regions.refuse_unknown({*photos.names, *photos.skipped})
        if settings.train_on is not None:
            # In a folder of their own: photos there may be called as some here are.
            apart = Finder(finder.model, keypoints, size, place / "training")
            others = find_photos(settings.train_on)
            codebook = learn_words(
                others, apart, settings.words, seed=settings.seed, progress=progress
            )
        sample = None if codebook else FeatureSample(len(photos), settings.words, settings.seed)
        failures = finder.look(photos, sample, progress)
        if len(failures) == len(photos):
            why = next(iter(failures.values()), "there is none")
            shown = ", ".join(map(str, sources))
            raise SolarError(f"No photo of {shown} could be described: {why.rstrip('.')}.")
        if sample:
            codebook = sample.words(finder)
        assert codebook is not None
        known: dict[str, Any] = {"method": "asmk", "keypoints": keypoints, "size": size}
        if regions:
            known["regions"] = regions.kind
        name, fingerprint = local_name(finder.model), local_fingerprint(finder.model)
        spec = DescriptorSpec(codebook.dim, name, fingerprint, known)
        described = finder.signatures(photos, failures, codebook, extra)
        asmk_folder.create(address, spec, codebook, described, photos.roots).close()
        index = Index.open(address)
        confirm(index.place, photos.roots)
        note_skipped(index, photos, failures)
    built = BuiltIndex(index, len(photos) - len(failures), {**photos.skipped, **failures})
    warn_of_unknown(metadata, extra, built)
    return built


def learn_words(
    photos: Photos,
    finder: Finder,
    words: int | None = None,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Codebook:
    """Learn visual words from photos, or from an even share of very many."""
    step = -(-len(photos) // (_TRAINING // 16))
    some = photos.select(range(0, len(photos), step))
    sample = FeatureSample(len(some), words, seed)
    finder.look(some, sample, progress)
    return sample.words(finder)


class FeatureSample:
    """Some descriptors of every photo, to learn visual words from."""

    def __init__(self, photos: int, words: int | None, seed: int) -> None:
        most = _TRAINING if words is None else min(_TRAINING, MOST_EACH * words)
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
        """Learn the words; a SolarError if there is too little to learn from."""
        facts = {"local": local_name(finder.model), "fingerprint": local_fingerprint(finder.model)}
        descriptors = np.concatenate(self._taken) if self._taken else np.empty((0, 1), np.float32)
        return train_codebook(descriptors, self._words, seed=self._seed, facts=facts)


class Finder:
    """Finds local features of photos as `AsmkSettings` has it, and keeps them in a folder."""

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
        """The features of a photo, exactly as they are kept."""
        kept = self.cache.get(name, photo)
        if kept is not None:
            return kept
        features = local_features(photo, self.model, keypoints=self.keypoints, size=self.size)
        self.cache.put(name, photo, features)
        return unpack(pack(features)) or features

    def walk(self, photos: Photos) -> Iterator[tuple[int, LocalFeatures | SolarError]]:
        """The features of all photos in order, or why there are none, on all cores."""

        def features(number: int) -> LocalFeatures | SolarError:
            try:
                return self.features(photos.names[number], photos.read(number))
            except SolarError as error:
                return error

        # A network that sees whole photos has all cores to itself: two, so that one reads.
        alone = not isinstance(self.model, str) and hasattr(self.model, "backbone")
        with ThreadPoolExecutor(2 if alone else os.cpu_count()) as threads:
            for first in range(0, len(photos), _BATCH):  # so that few wait in memory
                numbers = range(first, min(first + _BATCH, len(photos)))
                yield from zip(numbers, threads.map(features, numbers), strict=True)

    def look(
        self, photos: Photos, sample: FeatureSample | None, progress: Progress | None
    ) -> dict[str, str]:
        """Find and keep the features of all photos, and let the sample take its share.

        Returns the photos that cannot be read, and why. A SolarError for a region that is outside
        its photo: better now than after the words are learnt.
        """
        failures = {}
        advance = counted(progress, "Describing", len(photos))
        for number, features in self.walk(photos):
            if isinstance(features, SolarError):
                failures[photos.names[number]] = str(features)
            else:
                self._check_regions(photos.names[number], features)
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
        """All photos that were described, with their visual words, some at a time."""
        waiting: list[tuple[Photo, LocalFeatures]] = []
        for number, features in self.walk(photos):
            name = photos.names[number]
            if name in failures:
                continue
            if isinstance(features, SolarError):  # it was there a moment ago
                raise features
            height, width = features.shape
            photo = detail(name, width, height, photos.read(number), extra.get(name, {}))
            waiting.append((replace(photo, stamp=photos.stamp(number)), features))
            if len(waiting) == _QUANTISED:
                yield self._quantised(waiting, codebook)
                waiting = []
        if waiting:
            yield self._quantised(waiting, codebook)

    def _quantised(
        self, waiting: Sequence[tuple[Photo, LocalFeatures]], codebook: Codebook
    ) -> Described:
        """Photos and their visual words."""
        photos = [photo for photo, _ in waiting]
        if self.regions is None:
            return photos, aggregate_all([found.descriptors for _, found in waiting], codebook)
        regions = [self.regions.descriptors(photo.path, found) for photo, found in waiting]
        return photos, [aggregate_regions(one, codebook) for one in regions]

    def _check_regions(self, name: str, features: LocalFeatures) -> None:
        if self.regions is not None:
            height, width = features.shape
            self.regions.of(name, width, height)


def read_codebook(path: str | Path, model: LocalModel) -> Codebook:
    """The codebook of an index or of a file, if it is of these local features."""
    codebook = Codebook.read(Path(path) / CODEBOOK if Path(path).is_dir() else path)
    if codebook.facts.get("fingerprint") != local_fingerprint(model):
        raise SolarError(
            f"The codebook {path} was trained on other local features "
            f"({codebook.facts.get('local', 'unnamed')}): choose one for {local_name(model)}."
        )
    return codebook
