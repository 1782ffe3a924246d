"""One function for every kind of collection: named sets, ground truths, labelled photos."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from solar.datasets.folders import folder_labels, labelled_photos
from solar.datasets.revisited import (
    SIZES,
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
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.ranks import Database
from solar.evaluation.result import Evaluation
from solar.evaluation.revisited_protocol import evaluate_ground_truth
from solar.images import Box, Photos, find_photos
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.models import RetrievalNet

Features: TypeAlias = str | Path | Vectors | Store

_VECTOR_FILES = {".npy", ".pt", ".mat"}
_TRUTH_FILES = {".json", ".pkl"}


def evaluate(
    what: str | Path,
    *,
    model: RetrievalNet | str | Path | None = None,
    root: str | Path | None = None,
    ground_truth: str | Path | None = None,
    features: tuple[Features, Features] | None = None,
    distractors: Features | None = None,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    cache: str | Path | None = None,
    average: str = "trapezoid",
    precision: str | None = None,
    device: str | None = None,
    watch: Callable[[int, int], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
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
        root: The folder of the photos. For a named set, one that holds `jpg/` and the ground truth,
            or a folder of its name that does.
        ground_truth: The file, if it is not found in `root`.
        features: Descriptors of the database and of the queries, in the order of the ground truth,
            in place of a model: arrays, stores or files that `read_vectors` takes.
        distractors: Photos or descriptors that are never right.
        size: Longest side of a photo; the model's own if not given.
        scales: Scales to average; the model's own if not given.
        cache: A folder in which descriptors are kept for the next time.
        average: `trapezoid`, the published average precision, or `finite`.
        precision: See `solar.evaluation.ranks.ranks`.
        device: Where to compute scores (and, for a model that is not loaded yet, descriptors).
        watch: Told how many rows are ranked, and of how many.
        progress: Told how many photos were just described, and how many could not be read.

    Raises:
        SolarError: Something is missing, unreadable, or does not belong together.
    """
    if model is None and needs_model(what, features):
        model = DEFAULT
    describe = store_maker(model, size, scales, device=device, progress=progress)
    with stores_folder(cache) as folder:
        opened = open_collection(
            what,
            describe,
            folder,
            root=root,
            ground_truth=ground_truth,
            features=features,
            distractors=distractors,
        )
        return opened.measure(average=average, precision=precision, device=device, watch=watch)


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

    def measure(
        self,
        *,
        average: str = "trapezoid",
        precision: str | None = None,
        device: str | None = None,
        watch: Callable[[int, int], None] | None = None,
    ) -> Evaluation:
        """Rank and measure; see `evaluate`."""
        how: dict[str, Any] = {
            "distractors": self.distractors,
            "average": average,
            "precision": precision,
            "device": device,
            "watch": watch,
            "names": self.names,
        }
        if self.truth is not None:
            assert self.queries is not None
            return evaluate_ground_truth(self.truth, self.database, self.queries, **how)
        found = evaluate_labels(self.database, self.labels, photos=self.photos, **how)
        return replace(found, failures=self.failures)


def open_collection(
    what: str | Path,
    describe: PhotoDescriber | None,
    folder: Path,
    *,
    root: str | Path | None = None,
    ground_truth: str | Path | None = None,
    features: tuple[Features, Features] | None = None,
    distractors: Features | None = None,
) -> DescribedSet:
    """Find a set's photos or descriptors, and describe what is not described yet.

    Args:
        what: See `evaluate`.
        describe: Makes descriptors; None where there are `features`.
        folder: Where it keeps them.
        root: See `evaluate`.
        ground_truth: See `evaluate`.
        features: See `evaluate`.
        distractors: See `evaluate`.

    Raises:
        SolarError: Something is missing, unreadable, or does not belong together.
    """
    more = None
    if distractors is not None:
        more = _open(distractors, describe, folder, "--distractors")
        if isinstance(more, Store) and isinstance(describe, ModelDescriber):
            describe.check(more)
    extra = _called(distractors, "the distractors")
    truth = find_truth(what, root, ground_truth)
    if truth is not None:
        names = ("the queries", "the database", extra)
        if features is not None:
            database, queries = (_open(part, None, folder, "--features") for part in features)
            names = (_called(features[1], names[0]), _called(features[0], names[1]), extra)
        else:
            database, queries = _describe_truth(str(what), truth, root, describe, folder)
        queries = queries.vectors() if isinstance(queries, Store) else queries
        return DescribedSet(database, names, more, truth, queries)
    if features is not None:
        raise SolarError(f"--features needs the ground truth that goes with them, not {what}.")
    return replace(_labelled(what, root, describe, folder, extra), distractors=more)


def find_truth(
    what: str | Path, root: str | Path | None, ground_truth: str | Path | None
) -> GroundTruth | None:
    """The ground truth of a set; None for labelled photos, which need none.

    Raises:
        SolarError: Nobody says where a named set is, or its file cannot be read.
    """
    name = os.fspath(what)
    if name in SIZES:
        if ground_truth is None and root is None:
            raise SolarError(
                f"Say where {name} is: --root FOLDER, or --ground-truth and --features."
            )
        return read_ground_truth(ground_truth or find_ground_truth(name, root or ""), name)
    if ground_truth is not None:
        return read_ground_truth(ground_truth)
    return read_ground_truth(name) if Path(name).suffix.lower() in _TRUTH_FILES else None


def _describe_truth(
    what: str,
    truth: GroundTruth,
    root: str | Path | None,
    describe: PhotoDescriber | None,
    folder: Path,
) -> tuple[Database, Database]:
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
    folders = photo_folders(what if what in SIZES else "", home)
    database = locate_photos(truth.database, folders)
    asked = locate_photos(list(dict.fromkeys(query.photo for query in truth.queries)), folders)
    places = dict(zip(asked.names, asked.places, strict=True))
    photos = tuple(query.photo for query in truth.queries)
    return database, Photos(photos, tuple(places[photo] for photo in photos))


def _labelled(
    what: str | Path,
    root: str | Path | None,
    describe: PhotoDescriber | None,
    folder: Path,
    extra: str,
) -> DescribedSet:
    path = Path(what)
    if is_store(path):
        store, labels = Store.open(path), None
    elif path.suffix.lower() in _VECTOR_FILES:
        raise SolarError(f"{path} has no labels: give a store, or a ground truth and --features.")
    else:
        photos, given = labelled_photos(path, root)
        labels = dict(zip(photos.names, given, strict=True))
        if describe is None:
            raise SolarError(f"Evaluating {path} takes a --model.")
        store = describe(photos, folder)
    if not len(store):
        raise SolarError(f"No photo of {path} could be read.")
    mine = folder_labels(store.names, path) if labels is None else [labels[n] for n in store.names]
    names = (str(path), str(path), extra)
    return DescribedSet(store, names, photos=store.names, labels=mine, failures=store.failures)


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


def store_maker(
    model: RetrievalNet | str | Path | None,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    *,
    device: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ModelDescriber | None:
    """What describes the photos of a set by a model; None where there is no model.

    Raises:
        SolarError: The model cannot be loaded, or is not for photos.
    """
    if model is None:
        return None
    from solar.models import retrieval_model

    network = retrieval_model(model, device=device)
    return ModelDescriber(network, size, None if scales is None else tuple(scales), progress)


@contextmanager
def stores_folder(cache: str | Path | None) -> Iterator[Path]:
    """The folder for stores: the user's, or one that is gone afterwards."""
    if cache is not None:
        yield Path(cache)
        return
    with tempfile.TemporaryDirectory(prefix="solar-evaluate-") as folder:
        yield Path(folder)


@dataclass(frozen=True)
class ModelDescriber:
    """Photos to a store, in a folder of its own for everything that shapes the descriptors."""

    model: RetrievalNet
    size: int | None = None
    scales: tuple[float, ...] | None = None
    progress: Callable[[int, int], None] | None = None

    def __call__(
        self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None
    ) -> Store:
        """Describe photos, some of them only inside a box, unless that was done before."""
        from solar.describe import extract

        return extract(
            photos,
            self.place(photos, folder, boxes),
            model=self.model,
            size=self.size,
            scales=self.scales,
            boxes=boxes,
            progress=self.progress,
        )

    def check(self, store: Store) -> None:
        """Raise a SolarError if another model has made a store: nothing in it can be compared."""
        if store.fingerprint != self._fingerprint:
            raise SolarError(
                f"{store.path} was described by another model ({store.model}): give the photos "
                "themselves, which each model then describes, or a store that this model has made."
            )

    def place(self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None) -> Path:
        """The store's own folder below `folder`."""
        # A store remembers what its model was called, and is not taken for another of that name.
        model = [self._fingerprint, self.model.source]
        settings = [*model, self.size, list(self.scales or ()), photos.names]
        places = [str(place) for place in photos.places]
        key = json.dumps([*settings, places, dict(boxes or {})])
        return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.store"

    @cached_property
    def _fingerprint(self) -> str:
        from solar.models import fingerprint

        return fingerprint(self.model)
