"""One function for every kind of collection: named sets, ground truths, labelled photos."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

import numpy as np

from solar.datasets.folders import folder_labels, labelled_photos
from solar.datasets.registry import GROUND_TRUTHS
from solar.datasets.revisited import (
    GroundTruth,
    find_ground_truth,
    locate_photos,
    photo_folders,
    read_ground_truth,
)
from solar.describe.store import Store, Vectors
from solar.describe.store_files import is_store
from solar.describe.vector_files import read_vectors
from solar.errors import SolarError
from solar.evaluation.evaluation_settings import (
    EvaluationOptions,
    EvaluationSettings,
    Features,
    choose_settings,
)
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.ranks import Database, RankOptions
from solar.evaluation.result import Evaluation
from solar.evaluation.revisited_protocol import evaluate_ground_truth
from solar.images import Box, Photos, find_photos
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.models import RetrievalNet

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
    settings = choose_settings(settings, options)
    if model is None and needs_model(what, settings.features):
        model = DEFAULT
    describe = None if model is None else ModelDescriber.of(model, settings)
    with settings.stores() as folder:
        return open_collection(what, describe, folder, settings).measure(settings)


@dataclass(frozen=True)
class DescribedSet:
    """A set and its descriptors by one model, ready to be ranked.

    Attributes:
        database: (n, dim) unit rows.
        names: What to call queries, database and distractors in a complaint.
        distractors: Rows that are never right.
        truth: What is right; None for labelled photos, which ask for each other.
        queries: (nq, dim) unit rows of the truth's queries.
        photos: The names of labelled photos, a row each.
        labels: What they show.
        failures: Photos that could not be read, and why.
    """

    database: Database
    names: tuple[str, str, str]
    distractors: Database | None = None
    truth: GroundTruth | None = None
    queries: Vectors | None = None
    photos: Sequence[str] = ()
    labels: Sequence[str] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    def measure(self, settings: EvaluationSettings) -> Evaluation:
        """Rank and measure."""
        ranking: RankOptions = {
            "distractors": self.distractors,
            "precision": settings.precision,
            "device": settings.device,
            "watch": settings.watch,
            "names": self.names,
        }
        average = settings.average
        if self.truth is None:
            found = evaluate_labels(
                self.database, self.labels, photos=self.photos, average=average, **ranking
            )
            return replace(found, failures=self.failures)
        assert self.queries is not None
        return evaluate_ground_truth(
            self.truth, self.database, self.queries, average=average, **ranking
        )


def open_collection(
    what: str | Path, describe: PhotoDescriber | None, folder: Path, settings: EvaluationSettings
) -> DescribedSet:
    """Find a set's photos or descriptors, and describe what is not described yet.

    Args:
        what: As `evaluate` takes it.
        describe: Makes descriptors; None where there are features.
        folder: Where it keeps them.
        settings: Which photos or descriptors.

    Raises:
        SolarError: Something is missing, unreadable, or does not belong together.
    """
    distractors = None
    if settings.distractors is not None:
        distractors = _open(settings.distractors, describe, folder, "--distractors")
        if isinstance(distractors, Store) and isinstance(describe, ModelDescriber):
            describe.check(distractors)
    extra = _called(settings.distractors, "the distractors")
    truth = find_truth(what, settings)
    if truth is None:
        return replace(_labelled(what, describe, folder, settings, extra), distractors=distractors)
    names = ("the queries", "the database", extra)
    if settings.features is not None:
        first, second = settings.features
        database, queries = (_open(f, None, folder, "--features") for f in (first, second))
        names = (_called(second, names[0]), _called(first, names[1]), extra)
    else:
        database, queries = _describe_truth(str(what), truth, describe, folder, settings.root)
    rows = queries.vectors() if isinstance(queries, Store) else queries
    return DescribedSet(database, names, distractors, truth, rows)


def find_truth(what: str | Path, settings: EvaluationSettings) -> GroundTruth | None:
    """The ground truth of a set; None for labelled photos, which need none.

    Raises:
        SolarError: Nobody says where a named set is, or its file cannot be read.
    """
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
    what: str,
    truth: GroundTruth,
    describe: PhotoDescriber | None,
    folder: Path,
    root: str | Path | None,
) -> tuple[Store, Store]:
    """Descriptors of the database and of the queries, these cut to their boxes."""
    if describe is None:
        raise SolarError(f"Evaluating {what} takes a --model, or --features that one has made.")
    database, asked = truth_photos(what, truth, root)
    # Two queries may be parts of one photo, so a query's name needs its number.
    names = [f"{number}/{query.photo}" for number, query in enumerate(truth.queries)]
    queries = Photos(tuple(names), asked.places)
    boxes = {n: q.box for n, q in zip(names, truth.queries, strict=True) if q.box is not None}
    stores = describe(database, folder), describe(queries, folder, boxes)
    for store in stores:
        for name, why in store.failures.items():
            raise SolarError(f"{what} cannot be evaluated without its photo {name}: {why}")
    return stores


def truth_photos(what: str, truth: GroundTruth, root: str | Path | None) -> tuple[Photos, Photos]:
    """Where the photos of the database and of the queries are (a photo may be asked for twice).

    Raises:
        SolarError: One is missing.
    """
    home = truth.path.parent if root is None else root
    folders = photo_folders(what if what in GROUND_TRUTHS else "", home)
    database = locate_photos(truth.database, folders)
    photos = tuple(query.photo for query in truth.queries)
    asked = locate_photos(list(dict.fromkeys(photos)), folders)
    places = dict(zip(asked.names, asked.places, strict=True))
    return database, Photos(photos, tuple(places[photo] for photo in photos))


def _labelled(
    what: str | Path,
    describe: PhotoDescriber | None,
    folder: Path,
    settings: EvaluationSettings,
    extra: str,
) -> DescribedSet:
    path = Path(what)
    if settings.features is not None:
        raise SolarError(f"--features needs the ground truth that goes with them, not {what}.")
    if is_store(path):
        store = Store.open(path)
        labels = folder_labels(store.names, path)
    elif path.suffix.lower() in _VECTOR_FILES:
        raise SolarError(f"{path} has no labels: give a store, or a ground truth and --features.")
    else:
        photos, given = labelled_photos(path, settings.root)
        if describe is None:
            raise SolarError(f"Evaluating {path} takes a --model.")
        store = describe(photos, folder)
        known = dict(zip(photos.names, given, strict=True))
        labels = [known[name] for name in store.names]
    if not len(store):
        raise SolarError(f"No photo of {path} could be read.")
    names = (str(path), str(path), extra)
    return DescribedSet(store, names, photos=store.names, labels=labels, failures=store.failures)


def _open(what: Features, describe: PhotoDescriber | None, folder: Path, option: str) -> Database:
    """Descriptors from an array, a store or a file, or of photos; files are mapped, not read."""
    if isinstance(what, np.ndarray | Store):
        return what
    path = Path(what)
    if is_store(path):
        return Store.open(path)
    if path.name.partition(":")[0].lower().endswith(tuple(_VECTOR_FILES)):
        return read_vectors(what)
    if describe is None:
        raise SolarError(f"{option} {path} is no store, .npy, .pt or .mat file of descriptors.")
    return describe(find_photos(path), folder)


def needs_model(what: str | Path | None, features: tuple[Features, Features] | None) -> bool:
    """Whether there are photos to describe, and not descriptors by a model that nobody names."""
    return features is None and (what is None or not is_store(what))


def _called(what: Features | None, otherwise: str) -> str:
    return os.fspath(what) if isinstance(what, str | Path) else otherwise


class PhotoDescriber(Protocol):
    """Turns photos into a store below a folder, or finds the one it has made there before."""

    def __call__(
        self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None
    ) -> Store:
        """Describe photos, some of them only inside a box."""


@dataclass(frozen=True)
class ModelDescriber:
    """Photos to a store, in a folder of its own for everything that shapes the descriptors.

    Attributes:
        model: The network; its weights must stay as they are while this is in use.
        settings: Size, scales and who is told.
    """

    model: RetrievalNet
    settings: EvaluationSettings

    @classmethod
    def of(cls, model: RetrievalNet | str | Path, settings: EvaluationSettings) -> ModelDescriber:
        """Load a network, unless it is one.

        Raises:
            SolarError: It cannot be loaded, or is not for photos.
        """
        from solar.models import retrieval_model

        return cls(retrieval_model(model, device=settings.device), settings)

    @cached_property
    def fingerprint(self) -> str:
        """The hash of the weights, computed once for all stores."""
        from solar.models import fingerprint

        return fingerprint(self.model)

    def __call__(
        self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None
    ) -> Store:
        """Describe photos, some of them only inside a box, unless that was done before."""
        from solar.describe import extract
        from solar.models.checkpoint import known_fingerprints

        with known_fingerprints({self.model: self.fingerprint}):
            return extract(
                photos,
                self.place(photos, folder, boxes),
                model=self.model,
                size=self.settings.size,
                scales=self.settings.scales,
                boxes=boxes,
                progress=self.settings.progress,
            )

    def check(self, store: Store) -> None:
        """Raise a SolarError if another model has made a store: nothing in it can be compared."""
        if store.model_hash != self.fingerprint:
            raise SolarError(
                f"{store.path} was described by another model ({store.model}): give the photos "
                "themselves, which each model then describes, or a store that this model has made."
            )

    def place(self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None) -> Path:
        """The store's own folder below `folder`."""
        # A store remembers what its model was called, and is not taken for another of that name.
        model = [self.fingerprint, self.model.source]
        settings = [*model, self.settings.size, list(self.settings.scales or ()), photos.names]
        places = [str(place) for place in photos.places]
        key = json.dumps([*settings, places, dict(boxes or {})])
        return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.store"
