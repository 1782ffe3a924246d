"""Any labelled collection: every photo asks for the others that show the same."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from solar.errors import SolarError
from solar.evaluation.metrics import CUTS, measure, without_junk
from solar.evaluation.ranks import RankOptions, ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.row_blocks import Database, select_rows


def evaluate_labels(
    database: Database,
    labels: Sequence[str],
    *,
    photos: Sequence[str] | None = None,
    average: str = "trapezoid",
    **ranking: Unpack[RankOptions],
) -> Evaluation:
    """Ask for every photo among all the others: mAP, mP@k and recall@k.

    A photo alone with its label asks nothing, but the others are ranked against it as well.

    Args:
        database: (n, dim) unit rows.
        labels: What each row shows.
        photos: Names of the rows; their numbers if not given.
        average: `trapezoid` or `finite`.
        ranking: As for `solar.evaluation.ranks.ranks`: `distractors`, `precision`, `device`, ….

    Raises:
        SolarError: The labels are not those of these rows, none comes twice, or the rows are no
            descriptors.
    """
    names = ranking.setdefault("names", ("the photos", "the photos", "the distractors"))
    if len(labels) != len(database):
        raise SolarError(f"There are {len(labels)} labels for {len(database)} rows of {names[1]}.")
    shown, of_row = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    members = np.split(np.argsort(of_row, kind="stable"), np.cumsum(np.bincount(of_row))[:-1])
    asking = np.flatnonzero(np.bincount(of_row)[of_row] > 1)
    if not len(asking):
        raise SolarError(
            f"No two photos of {names[1]} show the same ({len(shown)} labels for {len(labels)}): "
            "there is nothing to look for."
        )
    queries = select_rows(database, asking)
    places = ranks(queries, database, [members[of_row[row]] for row in asking], **ranking)
    found = []
    for row, ranked in zip(asking, places, strict=True):
        itself = members[of_row[row]] == row
        found.append(without_junk(ranked[~itself], ranked[itself]))
    return Evaluation(
        tuple(str(row) if photos is None else photos[row] for row in asking.tolist()),
        {"all": measure(found, average=average, recall=CUTS)},
    )
