"""One function for every kind of collection: named sets, ground truths, labelled photos."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from solar.datasets.folders import folder_labels, read_csv
from solar.datasets.revisited import (
    SIZES,
    GroundTruth,
    find_ground_truth,
    find_pictures,
    picture_folders,
    read_ground_truth,
)
from solar.describe.published import read_vectors
from solar.describe.store import Store, Vectors
from solar.describe.store_files import MANIFEST
from solar.errors import SolarError
from solar.evaluate.labelled import evaluate_labels
from solar.evaluate.ranks import Database
from solar.evaluate.result import Evaluation
from solar.evaluate.revisited import evaluate_ground_truth
from solar.images import Box, Photos, find_photos

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
        model: Describes the photos: a network, or what `solar.load` takes.
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
        precision: See `solar.evaluate.ranks.ranks`.
        device: Where to compute scores (and, for a model that is not loaded yet, descriptors).
        watch: Told how many rows are ranked, and of how many.

    Raises:
        SolarError: Something is missing, unreadable, or does not belong together.
    """
    network = _network(model, device)
    describe = None if network is None else _Describer(network, size, scales)
    measuring: dict[str, Any] = {
        "average": average,
        "precision": precision,
        "device": device,
        "watch": watch,
    }
    with _kept(cache) as folder:
        if distractors is not None:
            measuring["distractors"] = _open(distractors, describe, folder, "--distractors")
        truth = _ground_truth(what, root, ground_truth)
        if truth is not None:
            names = ("the queries", "the database", _called(distractors, "the distractors"))
            if features is not None:
                database, queries = (_open(part, None, folder, "--features") for part in features)
                names = (_called(features[1], names[0]), _called(features[0], names[1]), names[2])
            else:
                database, queries = _describe_truth(str(what), truth, root, describe, folder)
            queries = queries.vectors() if isinstance(queries, Store) else queries
            return evaluate_ground_truth(truth, database, queries, names=names, **measuring)
        if features is not None:
            raise SolarError(f"--features needs the ground truth that goes with them, not {what}.")
        return _evaluate_labelled(what, root, describe, folder, measuring)


def _ground_truth(
    what: str | Path, root: str | Path | None, ground_truth: str | Path | None
) -> GroundTruth | None:
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
    describe: _Describer | None,
    folder: Path,
) -> tuple[Database, Database]:
    """Descriptors of the database and of the queries, these cut to their boxes."""
    if describe is None:
        raise SolarError(f"Evaluating {what} takes a --model, or --features that one has made.")
    home = truth.path.parent if root is None else root
    folders = picture_folders(what if what in SIZES else "", home)
    database = find_pictures(truth.database, folders)
    # Two queries may be parts of one photo, so a query's name needs its number.
    asked = find_pictures(list(dict.fromkeys(query.photo for query in truth.queries)), folders)
    places = dict(zip(asked.names, asked.places, strict=True))
    names = [f"{number}/{query.photo}" for number, query in enumerate(truth.queries)]
    queries = Photos(tuple(names), tuple(places[query.photo] for query in truth.queries))
    boxes = {n: q.box for n, q in zip(names, truth.queries, strict=True) if q.box is not None}
    stores = describe(database, folder), describe(queries, folder, boxes)
    for store in stores:
        for name, why in store.failures.items():
            raise SolarError(f"{what} cannot be evaluated without its photo {name}: {why}")
    return stores


def _evaluate_labelled(
    what: str | Path,
    root: str | Path | None,
    describe: _Describer | None,
    folder: Path,
    measuring: Mapping[str, Any],
) -> Evaluation:
    path = Path(what)
    if (path / MANIFEST).is_file():
        store, labels = Store.open(path), None
    elif path.suffix.lower() in _VECTOR_FILES:
        raise SolarError(f"{path} has no labels: give a store, or a ground truth and --features.")
    else:
        if path.suffix.lower() == ".csv":
            photos, given = read_csv(path, root)
        else:
            photos = find_photos(path)
            given = folder_labels(photos.names, path)
        labels = dict(zip(photos.names, given, strict=True))
        if describe is None:
            raise SolarError(f"Evaluating {path} takes a --model.")
        store = describe(photos, folder)
    if not len(store):
        raise SolarError(f"No photo of {path} could be read.")
    mine = folder_labels(store.names, path) if labels is None else [labels[n] for n in store.names]
    names = (str(path), str(path), _called(measuring.get("distractors"), "the distractors"))
    found = evaluate_labels(store, mine, photos=store.names, names=names, **measuring)
    return replace(found, failures=store.failures)


def _open(what: Features, describe: _Describer | None, folder: Path, option: str) -> Database:
    """Descriptors from an array, a store or a file, or of photos; files are mapped, not read."""
    if isinstance(what, np.ndarray | Store):
        return what
    path = Path(what)
    if (path / MANIFEST).is_file():
        return Store.open(path)
    if path.name.partition(":")[0].lower().endswith(tuple(_VECTOR_FILES)):
        return read_vectors(what)
    if describe is None:
        raise SolarError(f"{option} {path} is no store, .npy, .pt or .mat file of descriptors.")
    return describe(find_photos(path), folder)


def _called(what: Features | None, otherwise: str) -> str:
    return os.fspath(what) if isinstance(what, str | Path) else otherwise


def _network(model: RetrievalNet | str | Path | None, device: str | None) -> RetrievalNet | None:
    if model is None:
        return None
    from solar.models import RetrievalNet, load

    network = load(os.fspath(model), device=device) if isinstance(model, str | Path) else model
    if not isinstance(network, RetrievalNet):
        raise SolarError(f"{model} describes patches, not photos: choose a retrieval model.")
    return network


@contextmanager
def _kept(cache: str | Path | None) -> Iterator[Path]:
    """The folder for stores: the user's, or one that is gone afterwards."""
    if cache is not None:
        yield Path(cache)
        return
    with tempfile.TemporaryDirectory(prefix="solar-evaluate-") as folder:
        yield Path(folder)


@dataclass(frozen=True)
class _Describer:
    """Photos to a store, in a folder of its own for everything that shapes the descriptors."""

    model: RetrievalNet
    size: int | None
    scales: Sequence[float] | None

    def __call__(
        self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None
    ) -> Store:
        from solar.describe import extract
        from solar.models import fingerprint

        settings = [fingerprint(self.model), self.size, list(self.scales or ()), photos.names]
        places = [str(place) for place in photos.places]
        key = json.dumps([*settings, places, dict(boxes or {})])
        name = f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.store"
        return extract(
            photos,
            folder / name,
            model=self.model,
            size=self.size,
            scales=self.scales,
            boxes=boxes,
        )
