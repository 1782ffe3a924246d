"""Any labelled collection: every photo is a query for the others with its label."""

from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np

from solar.arrays import Ints
from solar.errors import SolarError
from solar.evaluation.metrics import CUTS, measure, without_junk
from solar.evaluation.ranks import RankOptions, ranks
from solar.evaluation.result import Evaluation
from solar.storage.rows import Matrix


def evaluate_labels(
    database: Matrix,
    labels: Sequence[str],
    *,
    photos: Sequence[str] | None = None,
    skipped: Mapping[str, str] | None = None,
    average: str = "trapezoid",
    **ranking: Unpack[RankOptions],
) -> Evaluation:
    """Use every photo as a query among all the others: mAP, mP@k and recall@k.

    Database is (n, dim) unit rows, with a label and perhaps the name of its photo for each. A photo
    alone with its label is no query, but the others are ranked against it as well. Photos that
    were `skipped`, and why, are named where no label comes twice. Average and ranking are as for
    `evaluate_ground_truth`.
    """
    names = ranking.setdefault("names", ("the photos", "the photos", "the distractors"))
    if len(labels) != len(database):
        raise SolarError(f"There are {len(labels)} labels for {len(database)} rows of {names[1]}.")
    asking, kin = label_groups(labels, names[1], skipped)
    places = ranks(database[asking], database, kin, **ranking)
    asked = [str(row) if photos is None else photos[row] for row in asking.tolist()]
    return measure_labels(asked, asking, kin, places, average=average)


def label_groups(
    labels: Sequence[str], name: str, skipped: Mapping[str, str] | None = None
) -> tuple[Ints, list[Ints]]:
    """The rows that are queries, and for each the rows of its label, itself among them.

    A SolarError if no label comes twice; it names the rows `name` and why photos were `skipped`.
    """
    shown, of_row = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    members = np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row))[:-1])
    asking = np.flatnonzero(np.bincount(of_row)[of_row] > 1)
    if not len(asking):
        found = f"{_counted(len(shown), 'label')} for {_counted(len(labels), 'photo')}"
        if skipped:
            why = next(iter(skipped.values())).rstrip(".")
            first = ", the first" if len(skipped) > 1 else ""
            found += f"; {_counted(len(skipped), 'photo')} skipped{first} because {why}"
        raise SolarError(f"No two photos of {name} have the same label ({found}).")
    return asking, [members[of_row[row]] for row in asking]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s'[: count != 1]}"


def measure_labels(
    asked: Sequence[str],
    asking: Ints,
    kin: Sequence[Ints],
    places: Sequence[Ints],
    *,
    average: str = "trapezoid",
) -> Evaluation:
    """Measure from the ranks of what `label_groups` gives; `asked` are names of the queries."""
    found = []
    for row, members, ranked in zip(asking, kin, places, strict=True):
        itself = members == row
        found.append(without_junk(ranked[~itself], ranked[itself]))
    return Evaluation(tuple(asked), {"all": measure(found, average=average, recall=CUTS)})
