"""Evaluate any kind of collection: named sets, ground truths, labelled photos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from solar.datasets.labelled.photo_labels import folder_labels, labelled_photos
from solar.datasets.public.revisited import GroundTruth
from solar.errors import SolarError
from solar.evaluation.described_photos import (
    VECTOR_FILES,
    DescribedPhotos,
    PhotoDescriber,
    described,
    how_described,
    model_describer,
    open_distractors,
    open_rows,
    rank_options,
)
from solar.evaluation.embeddings import NAMES
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.metrics import AP_CONVENTIONS
from solar.evaluation.protocols.asmk import evaluate_asmk
from solar.evaluation.protocols.gldv2 import evaluate_recognition, evaluate_retrieval
from solar.evaluation.protocols.ilias import evaluate_ilias
from solar.evaluation.protocols.revisited import evaluate_ground_truth, find_truth, truth_photos
from solar.evaluation.protocols.vpr import evaluate_vpr
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.images import Photos
from solar.storage.catalogue import is_index

if TYPE_CHECKING:
    from solar.models import RetrievalNet

Protocol: TypeAlias = Callable[[str | Path, PhotoDescriber | None, EvaluationSettings], Evaluation]
PROTOCOLS: dict[str, Protocol] = {
    "vpr": evaluate_vpr,
    "ilias": evaluate_ilias,
    "gldv2-retrieval": evaluate_retrieval,
    "gldv2-recognition": evaluate_recognition,
}
"""Measures for `protocol=`; other sets tell by themselves how to measure them."""


def evaluate(
    what: str | Path,
    *,
    model: RetrievalNet | str | Path | None = None,
    settings: EvaluationSettings | None = None,
    **options: Any,
) -> Evaluation:
    """Compute retrieval metrics: mAP, precision, recall.

    Example:
        >>> found = solar.evaluate("roxford5k", model="solar-r101", root="data/")
        >>> found.to_dict()
        {'easy': {'mAP': 85.9, 'mP@1': …}, 'medium': …, 'hard': …}

    Args:
        what: `roxford5k`, `rparis6k`, `oxford5k` or `paris6k`; your own ground truth (`.json`, or
            `.pkl` in the published form); or labelled photos, each a query for the others with its
            label: a folder or tar of `landmark/photo.jpg`, an index of one, or a CSV of
            `name,label`. With a `protocol`, the folder of its set.
        model: The model: a network, or what `solar.load` takes. Default: solar-lite0.
        settings: How to do it.
        options: Fields of `EvaluationSettings`, such as `root` or `size`, which override
            `settings`.

    Raises:
        SolarError: Something is missing, unreadable, or does not belong together.
    """
    with replace(settings or EvaluationSettings(), **options).caching() as how:
        if how.method == "asmk":
            return evaluate_asmk(what, how)
        describe = model_describer(what, model, how)
        if how.protocol is not None:
            if (measure := PROTOCOLS.get(how.protocol)) is None:
                known = ", ".join(PROTOCOLS)
                raise SolarError(f"There is no protocol {how.protocol!r}: choose {known}.")
            return measure(what, describe, how)
        collection = open_collection(what, describe, how)
        found = collection.measure(how)
        crop = "Whole photos" if collection.truth is None else "Queries cut to their boxes"
        size, average = how_described(describe, how), AP_CONVENTIONS[how.average]
        return replace(found, convention=f"{crop}, {size}; AP: {average}.")


@dataclass(frozen=True)
class DescribedSet:
    """A set and its descriptors by one model, ready to be ranked.

    Labelled photos have labels, one per row, but neither queries nor a truth.
    """

    database: DescribedPhotos
    queries: DescribedPhotos | None = None
    distractors: DescribedPhotos | None = None
    truth: GroundTruth | None = None
    labels: Sequence[str] = ()

    @property
    def photos(self) -> Sequence[str]:
        """Names of the database's photos, one per row."""
        if self.truth is not None:
            return self.truth.database
        return self.database.names

    @property
    def names(self) -> tuple[str, str, str]:
        """What messages call queries, database and distractors."""
        others = NAMES[2] if self.distractors is None else self.distractors.name
        return (self.queries or self.database).name, self.database.name, others

    def measure(self, settings: EvaluationSettings) -> Evaluation:
        """Rank and measure."""
        average = settings.average
        ranking = rank_options(settings, self.distractors, self.names)
        rows = self.database.rows
        if self.truth is not None and self.queries is not None:
            queries = np.asarray(self.queries.rows)
            return evaluate_ground_truth(self.truth, rows, queries, average=average, **ranking)
        failures = self.database.failures
        known: dict[str, Any] = {"photos": self.photos, "skipped": failures, "average": average}
        found = evaluate_labels(rows, self.labels, **known, **ranking)
        return replace(found, failures=failures)


def open_collection(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> DescribedSet:
    """Find a set's photos or descriptors, and describe what is not described yet.

    A SolarError if something is missing, unreadable, or does not belong together.
    """
    distractors = open_distractors(describe, settings)
    truth = find_truth(what, settings)
    if truth is None:
        return replace(_labelled(Path(what), describe, settings), distractors=distractors)
    if settings.features is not None:
        first, second = settings.features
        database = open_rows(first, NAMES[1], "`features=`").in_order(truth.database)
        asked = [query.photo for query in truth.queries]
        queries = open_rows(second, NAMES[0], "`features=`").in_order(asked)
    else:
        orient = not settings.published
        photos, asking, boxes = truth_photos(str(what), truth, settings.root, orient=orient)
        database = described(describe, photos, NAMES[1])
        queries = described(describe, asking, NAMES[0], boxes)
        for name, why in {**database.failures, **queries.failures}.items():
            raise SolarError(f"{what} cannot be evaluated without its photo {name}: {why}")
    return DescribedSet(database, queries, distractors, truth)


def _labelled(
    path: Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> DescribedSet:
    if settings.features is not None:
        raise SolarError(f"`features=` needs the ground truth of the same photos, not {path}.")
    if is_index(path):
        found = open_rows(path, str(path), "")
        labels = folder_labels(found.names, path)
        if settings.root is not None:
            found = replace(found, photos=Photos.in_folder(Path(settings.root), found.names))
    elif path.suffix.lower() in VECTOR_FILES:
        raise SolarError(f"{path} has no labels: give an index, or a ground truth and `features=`.")
    else:
        photos, given = labelled_photos(path, settings.root)
        found = described(describe, photos, str(path))
        known = dict(zip(photos.names, given, strict=True))
        labels = [known[name] for name in found.names]
    if not len(found.rows):
        why = next(iter(found.failures.values()), "there is none").rstrip(".")
        hint = ": if its paths are relative to another folder, name it with `root=`"
        hint = hint if path.suffix.lower() == ".csv" else ""
        raise SolarError(f"No photo of {path} could be read ({why}){hint}.")
    return DescribedSet(found, labels=labels)
