"""From photos to an ASMK* index: find local features, learn visual words, fill the index.

Features are kept in files while that lasts, so that a killed run continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.asmk import index as asmk_index
from solar.asmk.codebook import MOST_WORDS, Codebook
from solar.asmk.features import TRAINING, FeatureSample, Finder
from solar.asmk.index import CODEBOOK
from solar.asmk.regions import read_regions
from solar.errors import SolarError
from solar.images import Photos, collect, find_photos
from solar.images.known_roots import confirm
from solar.index.build import BuiltIndex, read_metadata, refuse_taken, warn_of_unknown
from solar.index.index import Index, is_folder
from solar.index.ingest import note_skipped
from solar.index.sources import working_folder
from solar.local.features import (
    LocalModel,
    local_fingerprint,
    local_model,
    local_name,
)
from solar.ranking.verify import VerifySettings
from solar.storage.types import DescriptorSpec

if TYPE_CHECKING:
    from solar.describe.progress import Progress


KEYPOINTS, SIZE = VerifySettings.keypoints, VerifySettings.size
"""As geometric verification has them, so that the two can share what they found."""


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
    metadata: str | Path | None = None,
    progress: Progress | None = None,
    follow: bool = True,
) -> BuiltIndex:
    """Make an ASMK* index of photos; a killed run continues where it was when called again.

    Other arguments are as for `solar.index.build.build_index`.
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
    with working_folder(address) as place:
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
        failures = finder.find_all(photos, sample, progress)
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
        asmk_index.create(address, spec, codebook, described, photos.roots).close()
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
    """Learn visual words from photos, evenly sampled if there are too many."""
    step = -(-len(photos) // (TRAINING // 16))
    some = photos.select(range(0, len(photos), step))
    sample = FeatureSample(len(some), words, seed)
    finder.find_all(some, sample, progress)
    return sample.words(finder)


def read_codebook(path: str | Path, model: LocalModel) -> Codebook:
    """The codebook of an index or a file; a SolarError if it is for other local features."""
    codebook = Codebook.read(Path(path) / CODEBOOK if Path(path).is_dir() else path)
    if codebook.facts.get("fingerprint") != local_fingerprint(model):
        raise SolarError(
            f"The codebook {path} was trained on other local features "
            f"({codebook.facts.get('local', 'unnamed')}): choose one for {local_name(model)}."
        )
    return codebook
