"""From photos to an ASMK* index: learn visual words from their local features, fill the index.

Features are kept in files while that lasts, so that a killed run continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.asmk import index as asmk_index
from solar.asmk.codebook import MOST_WORDS, Codebook
from solar.asmk.features import Finder
from solar.asmk.index import CODEBOOK, AsmkIndex
from solar.errors import SolarError
from solar.images import Photos, find_photos
from solar.index.build import BuiltIndex, built
from solar.index.index import is_folder
from solar.index.sources import working_place
from solar.local.features import LocalModel, local_fingerprint, local_model, local_name
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
    if not is_folder(address):
        raise SolarError("An ASMK index must be a folder: Milvus stores only embeddings.")
    how = settings or AsmkSettings()
    return built(
        *(sources, address, lambda photos: _begun(address, photos, how, progress)),
        metadata=metadata,
        progress=progress,
        follow=follow,
    )


def _begun(
    address: str | Path, photos: Photos, settings: AsmkSettings, progress: Progress | None
) -> tuple[AsmkIndex, dict[str, Any]]:
    """An index without photos, and how to describe them: with its visual words."""
    local, keypoints, size = settings.local, settings.keypoints, settings.size
    if local is not None and Path(str(local)).is_file():
        local = str(Path(str(local)).resolve())  # searches may start elsewhere
    place = working_place(address)
    finder = Finder(local_model(local), keypoints, size, place)
    if settings.codebook is not None:
        codebook = read_codebook(settings.codebook, finder.model)
    else:
        if settings.train_on is not None:
            photos = find_photos(settings.train_on)
            # In a folder of their own: photos there may be called as some here are.
            finder = Finder(finder.model, keypoints, size, place / "training")
        codebook = finder.learn(photos, settings.words, seed=settings.seed, progress=progress)
    known: dict[str, Any] = {"method": "asmk", "keypoints": keypoints, "size": size}
    name, fingerprint = local_name(finder.model), local_fingerprint(finder.model)
    spec = DescriptorSpec(codebook.dim, name, fingerprint, known)
    return AsmkIndex(asmk_index.begin(address, spec, codebook), finder.model), {}


def read_codebook(path: str | Path, model: LocalModel) -> Codebook:
    """The codebook of an index or a file; a SolarError if it is for other local features."""
    codebook = Codebook.read(Path(path) / CODEBOOK if Path(path).is_dir() else path)
    if codebook.facts.get("fingerprint") != local_fingerprint(model):
        raise SolarError(
            f"The codebook {path} was trained on other local features "
            f"({codebook.facts.get('local', 'unnamed')}): choose one for {local_name(model)}."
        )
    return codebook
