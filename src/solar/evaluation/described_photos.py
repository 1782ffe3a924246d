"""Photos and their embeddings: computed by a model, cached, or read from files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from solar.errors import SolarError
from solar.evaluation.embeddings import NAMES, read_vectors
from solar.evaluation.ranks import RankOptions
from solar.evaluation.settings import EvaluationSettings, Features
from solar.images import Box, Photos, find_photos
from solar.index.build import fill
from solar.index.index import Index
from solar.index.photo_index import PhotoIndex
from solar.storage.catalogue import is_index
from solar.storage.rows import Matrix, as_rows
from solar.storage.types import DescriptorSpec
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.models import RetrievalNet


VECTOR_FILES = {".npy", ".pt", ".mat"}


@dataclass(frozen=True)
class DescribedPhotos:
    """Part of a set: (n, dim) unit rows, its name for messages, and its photos, if known.

    Attributes:
        rows: In the order of `known`, or else of the photos.
        name: For messages.
        photos: The photos, some of which may have no row.
        known: The names of the rows' photos, if they were described or come from an index.
        failures: Photos that could not be read and have no row, and why.
        spec: How the rows were made, if that is known.
    """

    rows: Matrix
    name: str
    photos: Photos | None = None
    known: Sequence[str] | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    spec: DescriptorSpec | None = None

    @property
    def names(self) -> Sequence[str]:
        """Name of each row's photo; a SolarError if that is not known."""
        if self.known is not None:
            return self.known
        if self.photos is None:
            raise SolarError(f"{self.name} has no names of photos: use an index.")
        return self.photos.names

    def rows_of(self, names: Sequence[str], what: str) -> Matrix:
        """The (n, dim) rows of some photos: by name if known, all of them and in order otherwise.

        A SolarError if there is none for one of them; it calls them `what`.
        """
        if self.known is None and len(self.rows) != len(names):
            rows = len(self.rows)
            raise SolarError(f"There are {rows} rows in {self.name} but {len(names)} {what}.")
        return self.in_order(names).rows

    def in_order(self, names: Sequence[str]) -> DescribedPhotos:
        """With a row for each of these photos, by name, with or without ending; unnamed as it is.

        A SolarError if one is missing.
        """
        if self.known is None:
            return self
        places = {
            str(PurePosixPath(name).with_suffix("")): row for row, name in enumerate(self.known)
        }
        places |= {name: row for row, name in enumerate(self.known)}
        for name in names:
            if name in self.failures:
                raise SolarError(
                    f"There is no embedding of the photo {name}: {self.failures[name]}"
                )
            if name not in places:
                raise SolarError(f"{self.name} has no photo {name!r}: give an index that has it.")
        order = np.array([places[name] for name in names], np.int64)
        return replace(self, rows=as_rows(self.rows).select(order), known=tuple(names))

    def picture(self, name: str) -> Path | bytes | None:
        """A photo's file or its bytes; None where only its embedding is known."""
        return None if self.photos is None else self.photos.read(self.photos.names.index(name))


PhotoDescriber: TypeAlias = Callable[[Photos, Mapping[str, Box]], DescribedPhotos]
"""Describes photos, some cut to a box; what it gives may have been made before."""


def from_index(index: PhotoIndex, photos: Photos | None = None) -> DescribedPhotos:
    """The photos of an index with their rows, in the order of `photos` if given."""
    indexed, vectors = index.mapped()
    names, place = [photo.path for photo in indexed], index.place
    skipped = index.skipped
    if photos is not None:
        rows = {name: row for row, name in enumerate(names)}
        names = [name for name in photos.names if name in rows]
        vectors = as_rows(vectors).select(np.array([rows[name] for name in names], np.int64))
        skipped = {name: why for name, why in skipped.items() if name in photos.numbers}
    return DescribedPhotos(vectors, place, photos, names, skipped, index.spec)


def open_rows(
    what: Features, name: str, option: str, describe: PhotoDescriber | None = None
) -> DescribedPhotos:
    """Embeddings from an array, an index or a file, or of photos; nothing is copied."""
    if isinstance(what, np.ndarray):
        return DescribedPhotos(what, name)
    path, name = Path(what), os.fspath(what)
    if is_index(path):
        with Index.open(path) as index:
            return replace(from_index(index), name=name)
    if path.name.partition(":")[0].lower().endswith(tuple(VECTOR_FILES)):
        return DescribedPhotos(read_vectors(what), name)
    if describe is None:
        raise SolarError(f"{option} {path} is not an index, .npy, .pt or .mat file.")
    return described(describe, find_photos(path), name)


def described(
    describe: PhotoDescriber | None,
    photos: Photos,
    name: str,
    boxes: Mapping[str, Box] | None = None,
) -> DescribedPhotos:
    """Describe photos, which messages call `name`; a SolarError if there is no model."""
    if describe is None:
        raise SolarError(f"Evaluating {name} needs a `model=`, or `features=` computed by one.")
    return replace(describe(photos, boxes or {}), name=name, photos=photos)


def find_side(place: Path, side: int, settings: EvaluationSettings) -> Photos | DescribedPhotos:
    """The database (side 0) or the queries (1) of a set: a folder, list, tar or index.

    Photos are not described yet, so that mistakes show at once. Features that are no index are of
    the photos there, in the order of their names. A SolarError if something is missing, unreadable,
    or does not belong together.
    """
    if settings.features is not None:
        opened = open_rows(settings.features[side], NAMES[1 - side], "`features=`")
        if opened.known is None:
            opened = replace(opened, photos=find_photos(place))
            opened.rows_of(opened.names, f"photos in {place}")
        return opened
    return open_rows(place, str(place), "") if is_index(place) else find_photos(place)


def describe_side(
    found: Photos | DescribedPhotos, place: Path, describe: PhotoDescriber | None
) -> DescribedPhotos:
    """Describe what `find_side` has found; a SolarError if that fails, or another model has."""
    if isinstance(found, Photos):
        found = described(describe, found, str(place))
    else:
        _check_model(found, describe)
    if not len(found.rows):
        raise SolarError(f"No photo of {place} could be read.")
    return found


def open_distractors(
    describe: PhotoDescriber | None, settings: EvaluationSettings
) -> DescribedPhotos | None:
    """What is never right, if there is any; a SolarError if another model has described it."""
    if settings.distractors is None:
        return None
    distractors = open_rows(settings.distractors, NAMES[2], "`distractors=`", describe)
    _check_model(distractors, describe)
    return distractors


def _check_model(given: DescribedPhotos, describe: PhotoDescriber | None) -> None:
    spec = given.spec
    if spec is None or not isinstance(describe, ModelDescriber):
        return
    if spec.fingerprint and spec.fingerprint != describe.fingerprint:
        raise SolarError(f"{given.name} is of another model ({spec.model}): give the photos.")


def rank_options(
    settings: EvaluationSettings,
    distractors: DescribedPhotos | None,
    names: tuple[str, str, str] = NAMES,
) -> RankOptions:
    """Options for `ranks`; `names` of queries, database and distractors for messages."""
    return {
        "distractors": None if distractors is None else distractors.rows,
        "precision": settings.precision,
        "device": settings.device,
        "progress": settings.progress,
        "names": names,
    }


def how_described(describe: PhotoDescriber | None, settings: EvaluationSettings) -> str:
    """At which size and scales photos are described, as part of a sentence."""
    if not isinstance(describe, ModelDescriber):
        return "embeddings as given"
    config = describe.model.config
    scales = len(config.scales if settings.scales is None else settings.scales)
    size = config.size if settings.size is None else settings.size
    published = ", stored pixels, float32" if settings.published else ""
    return f"longest side {size} px, {scales} scale{'s' * (scales != 1)}{published}"


def needs_model(what: str | Path | None, settings: EvaluationSettings) -> bool:
    """Whether there are photos to describe, and no embeddings without a model's name."""
    given = (settings.features, settings.predictions)
    if settings.method == "asmk" or any(one is not None for one in given):
        return False
    sides = [Path(what or "", side) for side in (settings.database, settings.queries) if side]
    if len(sides) == 2 and all(map(is_index, sides)):
        return False
    return what is None or not is_index(Path(what))


def model_describer(
    what: str | Path, model: RetrievalNet | str | Path | None, settings: EvaluationSettings
) -> ModelDescriber | None:
    """Describes by a model, the default one if none is given; None if nothing needs one."""
    if model is None and needs_model(what, settings):
        model = DEFAULT
    if model is None:
        return None
    from solar.models import retrieval_model  # descriptors alone are evaluated without torch

    device = settings.device or (None if settings.backend in (None, "auto", "torch") else "cpu")
    return ModelDescriber(retrieval_model(model, device=device), settings)


@dataclass(frozen=True)
class ModelDescriber:
    """Photos to an index in the cache, one for everything that shapes the embeddings.

    The weights of the model must not change while this is in use.
    """

    model: RetrievalNet
    settings: EvaluationSettings

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the weights, computed once for all."""
        from solar.models import fingerprint

        return fingerprint(self.model)

    @property
    def _backend(self) -> str:
        return "torch" if self.settings.published else self.settings.backend or "auto"

    def __call__(self, photos: Photos, boxes: Mapping[str, Box]) -> DescribedPhotos:
        """Describe photos, some only inside a box, unless the cache has them."""
        index = fill(
            self.place(photos, boxes),
            photos,
            model=self.model,
            boxes=boxes,
            backend=self._backend,
            options={"compress": self.settings.compress or "none"},
            progress=self.settings.progress,
            empty=True,
            **self.settings.describing,
        )
        with index:
            return from_index(index, photos)

    def place(self, photos: Photos, boxes: Mapping[str, Box]) -> Path:
        """The index's own folder in the cache."""
        assert self.settings.cache is not None
        # An index has the name of its model: the same weights under two names make two.
        model = [self.fingerprint, self.model.source]
        settings = [*model, self.settings.size, list(self.settings.scales or ()), photos.names]
        places = [str(place) for place in photos.places]
        half, published = self.settings.compress == "fp16", self.settings.published
        how = (self._backend, half, published)
        key = json.dumps([*settings, places, dict(boxes), *how])
        return Path(self.settings.cache) / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.solar"
