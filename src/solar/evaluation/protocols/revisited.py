"""Revisited Oxford and Paris, their older forms, and any set with a ground truth of that kind."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from solar.arrays import AnyFloats, Ints
from solar.datasets.public.revisited import GroundTruth, Query
from solar.errors import SolarError
from solar.evaluation.metrics import measure, without_junk
from solar.evaluation.ranks import RankOptions, ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.row_blocks import NAMES, Database


def evaluate_ground_truth(
    truth: GroundTruth,
    database: Database,
    queries: AnyFloats,
    *,
    average: str = "trapezoid",
    **ranking: Unpack[RankOptions],
) -> Evaluation:
    """Rank a database for every query and measure each protocol of the ground truth.

    Junk is taken out of the list; a query that has no right answer in a protocol does not count in
    its means.

    Args:
        truth: What is right.
        database: (n, dim) unit rows, in the order of `truth.database`.
        queries: (nq, dim) unit rows, in the order of `truth.queries`.
        average: `trapezoid`, as published, or `finite`.
        ranking: As for `solar.evaluation.ranks.ranks`: `distractors`, `precision`, `device`, ….

    Raises:
        SolarError: The descriptors are not those of this ground truth, or not descriptors.
    """
    names = ranking.get("names", NAMES)
    for name, what, there, expected in (
        (names[1], "database photos", len(database), len(truth.database)),
        (names[0], "queries", len(queries), len(truth.queries)),
    ):
        if there != expected:
            raise SolarError(
                f"There are {there} rows in {name} but {expected} {what} in {truth.path}: "
                "it is the ground truth of another database."
            )
    places = ranks(queries, database, answers_of(truth), **ranking)
    return measure_ground_truth(truth, places, average=average)


def answers_of(truth: GroundTruth) -> list[Ints]:
    """For every query the rows of the database whose ranks tell how well it did."""
    return [np.concatenate(list(query.answers.values())) for query in truth.queries]


def measure_ground_truth(
    truth: GroundTruth, places: Sequence[Ints], *, average: str = "trapezoid"
) -> Evaluation:
    """Measure each protocol from the ranks of `answers_of` the ground truth."""
    by_kind = [_by_kind(query, found) for query, found in zip(truth.queries, places, strict=True)]
    return Evaluation(
        tuple(query.photo for query in truth.queries),
        {
            protocol: measure(
                [_protocol(found, right, ignored) for found in by_kind], average=average
            )
            for protocol, (right, ignored) in truth.protocols.items()
        },
    )


def _by_kind(query: Query, found: Ints) -> dict[str, Ints]:
    ends = np.cumsum([len(rows) for rows in query.answers.values()])
    return dict(zip(query.answers, np.split(found, ends[:-1]), strict=True))


def _protocol(found: dict[str, Ints], right: tuple[str, ...], ignored: tuple[str, ...]) -> Ints:
    return without_junk(
        np.concatenate([found[kind] for kind in right]),
        np.concatenate([found[kind] for kind in ignored]),
    )
