"""One function for every kind of collection: named sets, ground truths, labelled photos."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack

import numpy as np

from solar.datasets.photo_labels import folder_labels, labelled_photos
from solar.datasets.registry import GROUND_TRUTHS
from solar.datasets.revisited import (
    GroundTruth,
    find_ground_truth,
    locate_photos,
    photo_folders,
    read_ground_truth,
)
from solar.describe.store import Store
from solar.describe.store_files import is_store
from solar.describe.vector_files import read_vectors
from solar.errors import SolarError
from solar.evaluation.evaluation_settings import EvaluationOptions, EvaluationSettings, Features
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.ranks import RankOptions
from solar.evaluation.result import Evaluation
from solar.evaluation.revisited_protocol import evaluate_ground_truth
from solar.evaluation.row_blocks import NAMES, Database, select_rows
from solar.images import Box, Photos, find_photos
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.models import RetrievalNet

PhotoDescriber: TypeAlias = Callable[[Photos, Mapping[str, Box]], Store]
"""Turns photos, some cut to a box, into a store, or finds the one that it has made before."""

_VECTOR_FILES = {".npy", ".pt", ".mat"}
_TRUTH_FILES = {".json", ".pkl"}


def evaluate(
    what: str | Path,
    *,
    model: RetrievalNet | str | Path | None = None,
    settings: EvaluationSettings | None = None,
    **options: Unpack[EvaluationOptions],
) -> Evaluation:
    """Measure how well photos are found again.

    Example:
        >>> found = solar.evaluate("roxford5k", model="solar-r101", root="data/")
        >>> found.to_dict()
        {'easy': {'mAP': 85.9, 'mP@1': …}, 'medium': …, 'hard': …}

    Args:
        what: `roxford5k`, `rparis6k`, `oxford5k` or `paris6k`; a ground truth of one's own
            (`.json`, or `.pkl` in the published form); or labelled photos, each asking for the
            others like it: a folder or tar of `landmark/photo.jpg`, a store made of one, or a CSV
            of `name,label`.
        model: Describes the photos: a network, or what `solar.load` takes; solar-r18 if not given.
        settings: How to do it.
        options: Fields of `EvaluationSettings`, such as `root` or `size`, in place of those of
            `settings`.

    Raises:
        SolarError: Something is missing, unreadable, or does not belong together.
    """
    with replace(settings or EvaluationSettings(), **options).caching() as how:
        describe = model_describer(what, model, how)
        return open_collection(what, describe, how).measure(how)


@dataclass(frozen=True)
class DescribedPhotos:
    """One part of a set: (n, dim) unit rows, their name in a complaint, and where the photos are.

    The photos are not always known, and some of them may have no row.
    """

    rows: Database
    name: str
    photos: Photos | None = None

    def picture(self, name: str) -> Path | bytes | None:
        """A photo's file or its bytes; None where only its descriptor is known."""
        return None if self.photos is None else self.photos.read(self.photos.names.index(name))


@dataclass(frozen=True)
class DescribedSet:
    """A set and its descriptors by one model, ready to be ranked.

    Labelled photos ask for each other: they have labels, one per row, but no queries and no truth.
    """

    database: DescribedPhotos
    queries: DescribedPhotos | None = None
    distractors: DescribedPhotos | None = None
    truth: GroundTruth | None = None
    labels: Sequence[str] = ()

    @property
    def photos(self) -> Sequence[str]:
        """The names of the database's photos, one per row."""
        if self.truth is not None:
            return self.truth.database
        assert isinstance(self.database.rows, Store)
        return self.database.rows.names

    @property
    def names(self) -> tuple[str, str, str]:
        """What to call queries, database and distractors in a complaint."""
        others = NAMES[2] if self.distractors is None else self.distractors.name
        return (self.queries or self.database).name, self.database.name, others

    def measure(self, settings: EvaluationSettings) -> Evaluation:
        """Rank and measure."""
        average = settings.average
        ranking: RankOptions = {
            "distractors": None if self.distractors is None else self.distractors.rows,
            "precision": settings.precision,
            "device": settings.device,
            "watch": settings.watch,
            "names": self.names,
        }
        rows = self.database.rows
        if self.truth is not None and self.queries is not None:
            queries = select_rows(self.queries.rows, slice(None))
            return evaluate_ground_truth(self.truth, rows, queries, average=average, **ranking)
        found = evaluate_labels(rows, self.labels, photos=self.photos, average=average, **ranking)
        return replace(found, failures=rows.failures if isinstance(rows, Store) else {})


def open_collection(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> DescribedSet:
    """Find a set's photos or descriptors, and describe what is not described yet.

    Features need no describer. A SolarError if something is missing, unreadable, or does not
    belong together.
    """
    distractors = None
    if settings.distractors is not None:
        distractors = _open(settings.distractors, NAMES[2], "--distractors", describe)
        if isinstance(distractors.rows, Store) and isinstance(describe, ModelDescriber):
            describe.check(distractors.rows)
    truth = find_truth(what, settings)
    if truth is None:
        return replace(_labelled(Path(what), describe, settings), distractors=distractors)
    if settings.features is not None:
        first, second = settings.features
        database = _open(first, NAMES[1], "--features")
        queries = _open(second, NAMES[0], "--features")
    else:
        database, queries = _describe_truth(str(what), truth, describe, settings.root)
    return DescribedSet(database, queries, distractors, truth)


def find_truth(what: str | Path, settings: EvaluationSettings) -> GroundTruth | None:
    """The ground truth of a set, a SolarError if it cannot be read; None for labelled photos."""
    name, given = os.fspath(what), settings.ground_truth
    if name in GROUND_TRUTHS:
        if given is None and settings.root is None:
            raise SolarError(
                f"Say where {name} is: --root FOLDER, or --ground-truth and --features."
            )
        return read_ground_truth(given or find_ground_truth(name, settings.root or ""), name)
    if given is None and Path(name).suffix.lower() in _TRUTH_FILES:
        given = name
    return None if given is None else read_ground_truth(given)


def _describe_truth(
    what: str, truth: GroundTruth, describe: PhotoDescriber | None, root: str | Path | None
) -> tuple[DescribedPhotos, DescribedPhotos]:
    """The database and the queries, these cut to their boxes."""
    if describe is None:
        raise SolarError(f"Evaluating {what} takes a --model, or --features that one has made.")
    folders = photo_folders(
        what if what in GROUND_TRUTHS else "", truth.path.parent if root is None else root
    )
    database = locate_photos(truth.database, folders)
    asked = locate_photos(list(dict.fromkeys(query.photo for query in truth.queries)), folders)
    places = dict(zip(asked.names, asked.places, strict=True))
    # Two queries may be parts of one photo, so a query's name needs its number.
    names = tuple(f"{number}/{query.photo}" for number, query in enumerate(truth.queries))
    queries = Photos(names, tuple(places[query.photo] for query in truth.queries))
    boxes = {n: q.box for n, q in zip(names, truth.queries, strict=True) if q.box is not None}
    stores = describe(database, {}), describe(queries, boxes)
    for store in stores:
        for name, why in store.failures.items():
            raise SolarError(f"{what} cannot be evaluated without its photo {name}: {why}")
    return (
        DescribedPhotos(stores[0], NAMES[1], database),
        DescribedPhotos(stores[1], NAMES[0], queries),
    )


def _labelled(
    path: Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> DescribedSet:
    photos: Photos | None = None
    if settings.features is not None:
        raise SolarError(f"--features needs the ground truth that goes with them, not {path}.")
    if is_store(path):
        store = Store.open(path)
        labels = folder_labels(store.names, path)
        if settings.root is not None:
            photos = Photos.in_folder(Path(settings.root), store.names)
    elif path.suffix.lower() in _VECTOR_FILES:
        raise SolarError(f"{path} has no labels: give a store, or a ground truth and --features.")
    else:
        photos, given = labelled_photos(path, settings.root)
        if describe is None:
            raise SolarError(f"Evaluating {path} takes a --model.")
        store = describe(photos, {})
        known = dict(zip(photos.names, given, strict=True))
        labels = [known[name] for name in store.names]
    if not len(store):
        raise SolarError(f"No photo of {path} could be read.")
    return DescribedSet(DescribedPhotos(store, str(path), photos), labels=labels)


def _open(
    what: Features, name: str, option: str, describe: PhotoDescriber | None = None
) -> DescribedPhotos:
    """Descriptors from an array, a store or a file, or of photos; files are mapped, not read."""
    if isinstance(what, np.ndarray | Store):
        return DescribedPhotos(what, name)
    path, name = Path(what), os.fspath(what)
    if is_store(path):
        return DescribedPhotos(Store.open(path), name)
    if path.name.partition(":")[0].lower().endswith(tuple(_VECTOR_FILES)):
        return DescribedPhotos(read_vectors(what), name)
    if describe is None:
        raise SolarError(f"{option} {path} is no store, .npy, .pt or .mat file of descriptors.")
    photos = find_photos(path)
    return DescribedPhotos(describe(photos, {}), name, photos)


def needs_model(what: str | Path | None, features: tuple[Features, Features] | None) -> bool:
    """Whether there are photos to describe, and not descriptors by a model that nobody names."""
    return features is None and (what is None or not is_store(what))


def model_describer(
    what: str | Path, model: RetrievalNet | str | Path | None, settings: EvaluationSettings
) -> ModelDescriber | None:
    """What describes a set by a model, the default one if not given; None if nothing has to."""
    if model is None and needs_model(what, settings.features):
        model = DEFAULT
    if model is None:
        return None
    from solar.models import retrieval_model  # descriptors alone are evaluated without torch

    device = settings.device or (None if settings.backend == "torch" else "cpu")
    return ModelDescriber(retrieval_model(model, device=device), settings)


@dataclass(frozen=True)
class ModelDescriber:
    """Photos to a store in the cache, one for everything that shapes the descriptors.

    The weights of the model must stay as they are while this is in use.
    """

    model: RetrievalNet
    settings: EvaluationSettings

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the weights, computed once for all stores."""
        from solar.models import fingerprint

        return fingerprint(self.model)

    def __call__(self, photos: Photos, boxes: Mapping[str, Box]) -> Store:
        """Describe photos, some of them only inside a box, unless that was done before."""
        from solar.describe import extract
        from solar.models.checkpoint import known_fingerprints

        with known_fingerprints({self.model: self.fingerprint}):
            return extract(
                photos,
                self.place(photos, boxes),
                model=self.model,
                size=self.settings.size,
                scales=self.settings.scales,
                boxes=boxes,
                backend=self.settings.backend,
                dtype="float16" if self.settings.half else "float32",
                progress=self.settings.progress,
            )

    def check(self, store: Store) -> None:
        """Raise a SolarError if another model has made a store: nothing in it can be compared."""
        if store.fingerprint != self.fingerprint:
            raise SolarError(
                f"{store.path} was described by another model ({store.model}): give the photos "
                "themselves, which each model then describes, or a store that this model has made."
            )

    def place(self, photos: Photos, boxes: Mapping[str, Box]) -> Path:
        """The store's own folder in the cache."""
        assert self.settings.cache is not None
        # A store remembers what its model was called, and is not taken for another of that name.
        model = [self.fingerprint, self.model.source]
        settings = [*model, self.settings.size, list(self.settings.scales or ()), photos.names]
        places = [str(place) for place in photos.places]
        how = (self.settings.backend, self.settings.half)
        key = json.dumps(
            [*settings, places, dict(boxes), *(how if how != ("torch", False) else ())]
        )
        return Path(self.settings.cache) / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.store"
