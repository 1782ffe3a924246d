"""Revisited Oxford and Paris, their older forms, and any set with a ground truth of that kind."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from solar.arrays import AnyFloats, Ints
from solar.datasets.public.registry import GROUND_TRUTHS
from solar.datasets.public.revisited import (
    GroundTruth,
    find_ground_truth,
    locate_photos,
    photo_folders,
    read_ground_truth,
)
from solar.errors import SolarError
from solar.evaluation.embeddings import NAMES
from solar.evaluation.metrics import measure, without_junk
from solar.evaluation.ranks import RankOptions, ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.images import Box, Photos
from solar.images.exif import upright_box
from solar.storage.rows import Matrix


def find_truth(what: str | Path, settings: EvaluationSettings) -> GroundTruth | None:
    """The ground truth of a set; None for labelled photos."""
    name, given = os.fspath(what), settings.ground_truth
    if name in GROUND_TRUTHS:
        if given is None and settings.root is None:
            raise SolarError(f"Say where {name} is: `root=`, or `ground_truth=` and `features=`.")
        return read_ground_truth(given or find_ground_truth(name, settings.root or ""), name)
    if given is not None or Path(name).suffix.lower() in (".json", ".pkl"):
        return read_ground_truth(given or name)
    return None


def truth_photos(
    what: str, truth: GroundTruth, root: str | Path | None, *, orient: bool = True
) -> tuple[Photos, Photos, Mapping[str, Box]]:
    """The database, the queries, and the boxes of these; a SolarError if a photo is missing.

    The ground truth's boxes are in pixels as they are stored; `orient` takes them to the upright
    photo.
    """
    folders = photo_folders(
        what if what in GROUND_TRUTHS else "", truth.path.parent if root is None else root
    )
    database = locate_photos(truth.database, folders)
    asked = locate_photos(list(dict.fromkeys(query.photo for query in truth.queries)), folders)
    places = dict(zip(asked.names, asked.places, strict=True))
    # Two queries may be parts of one photo, so a query's name needs its number.
    names = tuple(f"{number}/{query.photo}" for number, query in enumerate(truth.queries))
    queries = Photos(names, tuple(places[query.photo] for query in truth.queries))
    boxes = {
        names[number]: upright_box(queries.read(number), query.box) if orient else query.box
        for number, query in enumerate(truth.queries)
        if query.box is not None
    }
    return database, queries, boxes


def evaluate_ground_truth(
    truth: GroundTruth,
    database: Matrix,
    queries: AnyFloats,
    *,
    average: str = "trapezoid",
    **ranking: Unpack[RankOptions],
) -> Evaluation:
    """Rank a database for every query and measure each protocol of the ground truth.

    Junk is taken out of the list; a query without a right answer in a protocol does not count in
    its means. A SolarError if there are more or fewer rows than the truth has photos and queries.

    Args:
        truth: What is right.
        database: (n, dim) unit rows, in the order of `truth.database`.
        queries: (nq, dim) unit rows, in the order of `truth.queries`.
        average: `trapezoid`, as published, or `finite`.
        ranking: As for `solar.evaluation.ranks.ranks`: `distractors`, `precision`, `device`, ….
    """
    names = ranking.get("names", NAMES)
    for name, what, rows, expected in (
        (names[1], "database photos", database, truth.database),
        (names[0], "queries", queries, truth.queries),
    ):
        if len(rows) != len(expected):
            raise SolarError(
                f"There are {len(rows)} rows in {name} but {len(expected)} {what} in {truth.path}: "
                "it is the ground truth of another database."
            )
    places = ranks(queries, database, answers_of(truth), **ranking)
    return measure_ground_truth(truth, places, average=average)


def answers_of(truth: GroundTruth) -> list[Ints]:
    """For every query the rows of the database that the measures need the ranks of."""
    return [np.concatenate(list(query.answers.values())) for query in truth.queries]


def measure_ground_truth(
    truth: GroundTruth, places: Sequence[Ints], *, average: str = "trapezoid"
) -> Evaluation:
    """Measure each protocol from the ranks of `answers_of` the ground truth."""
    by_kind = []
    for query, found in zip(truth.queries, places, strict=True):
        ends = np.cumsum([len(rows) for rows in query.answers.values()])
        by_kind.append(dict(zip(query.answers, np.split(found, ends[:-1]), strict=True)))
    measured = {}
    for protocol, (right, ignored) in truth.protocols.items():
        ranked = [without_junk(_joined(own, right), _joined(own, ignored)) for own in by_kind]
        measured[protocol] = measure(ranked, average=average)
    return Evaluation(tuple(query.photo for query in truth.queries), measured)


def _joined(ranks_by_kind: Mapping[str, Ints], kinds: Sequence[str]) -> Ints:
    return np.concatenate([ranks_by_kind[kind] for kind in kinds])
