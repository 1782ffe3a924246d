"""Photos and their descriptors: computed by a model, cached, or read from files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from solar.arrays import AnyFloats
from solar.describe.store import Store
from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.evaluation.embeddings import NAMES, Database, read_vectors
from solar.evaluation.ranks import RankOptions
from solar.evaluation.settings import EvaluationSettings, Features
from solar.images import Box, Photos, find_photos
from solar.storage.catalogue import is_index
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.models import RetrievalNet


# Photos, some cut to a box, to a store, perhaps one made before.
PhotoDescriber: TypeAlias = Callable[[Photos, Mapping[str, Box]], Store]

VECTOR_FILES = {".npy", ".pt", ".mat"}


@dataclass(frozen=True)
class DescribedPhotos:
    """Part of a set: (n, dim) unit rows, its name for messages, and its photos, if known.

    Some photos may have no row.
    """

    rows: Database
    name: str
    photos: Photos | None = None

    @property
    def names(self) -> Sequence[str]:
        """Name of each row's photo; a SolarError if that is not known."""
        if isinstance(self.rows, Store):
            return self.rows.names
        if self.photos is None:
            raise SolarError(f"{self.name} has no names of photos: use a store.")
        return self.photos.names

    @property
    def failures(self) -> Mapping[str, str]:
        """Photos that could not be read and have no row, and why."""
        return self.rows.failures if isinstance(self.rows, Store) else {}

    def rows_of(self, names: Sequence[str], what: str) -> AnyFloats:
        """The (n, dim) rows of some photos: by name in a store, all of them and in order otherwise.

        A SolarError if there is none for one of them; it calls them `what`.
        """
        if isinstance(self.rows, Store):
            for name, why in self.rows.failures.items():
                raise SolarError(f"There is no descriptor of the photo {name}: {why}")
            return self.rows.vectors(self.rows.rows_of(names))
        if (rows := len(self.rows)) != len(names):
            raise SolarError(f"There are {rows} rows in {self.name} but {len(names)} {what}.")
        return self.rows

    def picture(self, name: str) -> Path | bytes | None:
        """A photo's file or its bytes; None where only its descriptor is known."""
        return None if self.photos is None else self.photos.read(self.photos.names.index(name))


def open_rows(
    what: Features, name: str, option: str, describe: PhotoDescriber | None = None
) -> DescribedPhotos:
    """Descriptors from an array, a store or a file, or of photos; files are mapped, not read."""
    if isinstance(what, np.ndarray | Store):
        return DescribedPhotos(what, name)
    path, name = Path(what), os.fspath(what)
    if is_store(path):
        return DescribedPhotos(Store.open(path), name)
    if path.name.partition(":")[0].lower().endswith(tuple(VECTOR_FILES)):
        return DescribedPhotos(read_vectors(what), name)
    refuse_index(path)
    if describe is None:
        raise SolarError(f"{option} {path} is not a store, .npy, .pt or .mat file of descriptors.")
    photos = find_photos(path)
    return DescribedPhotos(describe(photos, {}), name, photos)


def refuse_index(path: Path) -> None:
    """A SolarError if an index is given where photos or a store are expected."""
    if is_index(path):
        raise SolarError(f"{path} is an index: give the folder of its photos, or a store.")


def find_side(place: Path, side: int, settings: EvaluationSettings) -> Photos | DescribedPhotos:
    """The database (side 0) or the queries (1) of a set: a folder, list, tar or store.

    Photos are not described yet, so that mistakes show at once. Features that are no store are of
    the photos there, in the order of their names. A SolarError if something is missing, unreadable,
    or does not belong together.
    """
    if settings.features is not None:
        opened = open_rows(settings.features[side], NAMES[1 - side], "`features=`")
        if not isinstance(opened.rows, Store):
            opened = replace(opened, photos=find_photos(place))
            opened.rows_of(opened.names, f"photos in {place}")
        return opened
    return open_rows(place, str(place), "") if is_store(place) else find_photos(place)


def describe_side(
    found: Photos | DescribedPhotos, place: Path, describe: PhotoDescriber | None
) -> DescribedPhotos:
    """Describe what `find_side` has found; a SolarError if that fails, or another model has."""
    if isinstance(found, Photos):
        if describe is None:
            raise SolarError(f"Evaluating {place} needs a `model=`.")
        found = DescribedPhotos(describe(found, {}), str(place), found)
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
    store = given.rows
    if not isinstance(store, Store) or not isinstance(describe, ModelDescriber):
        return
    if store.fingerprint != describe.fingerprint:
        raise SolarError(f"{store.path} is of another model ({store.model}): give the photos.")


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
        return "descriptors as given"
    config = describe.model.config
    scales = len(config.scales if settings.scales is None else settings.scales)
    size = config.size if settings.size is None else settings.size
    published = ", stored pixels, float32" if settings.published else ""
    return f"longest side {size} px, {scales} scale{'s' * (scales != 1)}{published}"


def needs_model(what: str | Path | None, settings: EvaluationSettings) -> bool:
    """Whether there are photos to describe, and no descriptors without a model's name."""
    given = (settings.features, settings.predictions)
    if settings.method == "asmk" or any(one is not None for one in given):
        return False
    sides = [Path(what or "", side) for side in (settings.database, settings.queries) if side]
    if len(sides) == 2 and all(map(is_store, sides)):
        return False
    return what is None or not is_store(what)


def model_describer(
    what: str | Path, model: RetrievalNet | str | Path | None, settings: EvaluationSettings
) -> ModelDescriber | None:
    """Describes by a model, the default one if none is given; None if nothing needs one."""
    if model is None and needs_model(what, settings):
        model = DEFAULT
    if model is None:
        return None
    from solar.models import retrieval_model  # descriptors alone are evaluated without torch

    device = settings.device or (None if settings.backend in (None, "torch") else "cpu")
    return ModelDescriber(retrieval_model(model, device=device), settings)


@dataclass(frozen=True)
class ModelDescriber:
    """Photos to a store in the cache, one for everything that shapes the descriptors.

    The weights of the model must not change while this is in use.
    """

    model: RetrievalNet
    settings: EvaluationSettings

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the weights, computed once for all stores."""
        from solar.models import fingerprint

        return fingerprint(self.model)

    def __call__(self, photos: Photos, boxes: Mapping[str, Box]) -> Store:
        """Describe photos, some only inside a box, unless the cache has them."""
        from solar.describe import extract

        return extract(
            photos,
            self.place(photos, boxes),
            model=self.model,
            boxes=boxes,
            backend=self.settings.backend or "torch",
            dtype="float16" if self.settings.compress == "fp16" else "float32",
            progress=self.settings.progress,
            **self.settings.describing,
        )

    def place(self, photos: Photos, boxes: Mapping[str, Box]) -> Path:
        """The store's own folder in the cache."""
        assert self.settings.cache is not None
        # A store has the name of its model, so the same weights under two names make two stores.
        model = [self.fingerprint, self.model.source]
        settings = [*model, self.settings.size, list(self.settings.scales or ()), photos.names]
        places = [str(place) for place in photos.places]
        half, published = self.settings.compress == "fp16", self.settings.published
        how = (self.settings.backend or "torch", half, published)
        key = json.dumps([*settings, places, dict(boxes), *how])
        return Path(self.settings.cache) / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.store"
