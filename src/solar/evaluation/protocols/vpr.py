"""Visual place recognition: is a photo taken near the query's position among the first found?"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from solar.arrays import AnyFloats, Ints
from solar.datasets.place_positions import (
    Position,
    frame_of,
    listed_positions,
    name_positions,
    read_positions,
)
from solar.errors import SolarError
from solar.evaluation.described_photos import (
    DescribedPhotos,
    PhotoDescriber,
    describe_side,
    find_side,
    how_described,
    open_distractors,
    rank_options,
)
from solar.evaluation.metrics import recall_at
from solar.evaluation.ranks import RankOptions, ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.row_blocks import NAMES, Database, select_rows
from solar.evaluation.settings import EvaluationSettings
from solar.images import Photos

RECALLS = (1, 5, 10, 20)


def evaluate_vpr(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> Evaluation:
    """Measure recall@1, 5, 10 and 20 on `database/` and `queries/` below a folder.

    A SolarError if a photo or its position is missing, or something else is wrong with them.
    """
    if settings.frames is not None and settings.positions is not None:
        raise SolarError("`frames=` and `positions=` cannot be combined: give one of the two.")
    places = [
        Path(what, settings.database or "database"),
        Path(what, settings.queries or "queries"),
    ]
    sides = [find_side(place, side, settings) for side, place in enumerate(places)]
    positions = None if settings.frames is not None else _positions(places, sides, settings)
    database, queries = (
        describe_side(side, place, describe) for side, place in zip(sides, places, strict=True)
    )
    if positions is None:
        assert settings.frames is not None
        right = near_frames(database.names, queries.names, settings.frames)
        rule = f"the same name, up to {settings.frames} frames apart"
    else:
        known = [
            np.array([where[name] for name in side.names], np.int64)
            for where, side in zip(positions, (database, queries), strict=True)
        ]
        right = near_positions(known[0], known[1], round(100 * settings.radius))
        rule = f"within {settings.radius:g} m (inclusive, to the centimetre)"
    distractors = open_distractors(describe, settings)
    found = evaluate_places(
        database.rows,
        select_rows(queries.rows, slice(None)),
        right,
        photos=queries.names,
        answerable=settings.answerable,
        **rank_options(settings, distractors, (queries.name, database.name, NAMES[2])),
    )
    alone = sum(not len(own) for own in right)
    counted = "left out" if settings.answerable else "count as misses"
    return replace(
        found,
        failures={**database.failures, **queries.failures},
        convention=f"Whole photos, {how_described(describe, settings)}; correct: {rule}; "
        f"{alone} queries without a correct photo {counted}; no AP.",
    )


def _positions(
    places: Sequence[Path], sides: Sequence[Photos | DescribedPhotos], settings: EvaluationSettings
) -> list[dict[str, Position]]:
    if settings.positions is None:
        return [
            name_positions(side.names, place) for side, place in zip(sides, places, strict=True)
        ]
    # A store does not hold the photos that could not be read: their positions are no mistake.
    names = [
        [*side.names, *(side.failures if isinstance(side, DescribedPhotos) else ())]
        for side in sides
    ]
    table = read_positions(settings.positions)
    return listed_positions(table, [*zip(places, names, strict=True)], settings.positions)


def near_positions(database: Ints, queries: Ints, radius: int) -> list[Ints]:
    """For each query the rows of the database within this distance in centimetres, ascending.

    Positions are (n, 2) whole centimetres, so the answer is exact.
    """
    order = np.argsort(database[:, 0], kind="stable")
    east = database[order, 0]
    found = []
    for query in queries.astype(np.int64):
        # Only what lies in a strip is looked at: a city has millions of positions.
        strip = order[
            east.searchsorted(query[0] - radius) : east.searchsorted(query[0] + radius, "right")
        ]
        away = database[strip].astype(np.int64) - query
        # The first condition keeps the squares that the second one counts on within 64 bits.
        near = (np.abs(away[:, 1]) <= radius) & ((away**2).sum(axis=1) <= radius**2)
        found.append(np.sort(strip[near]))
    return found


def near_frames(database: Sequence[str], queries: Sequence[str], frames: int) -> list[Ints]:
    """For each query the rows of the database with its name, its number up to `frames` apart.

    The number is what the name ends in, before `.jpg`; names that end in none must be equal.
    """
    sequences: dict[str, list[tuple[int, int]]] = {}
    for row, name in enumerate(database):
        before, number = frame_of(name)
        sequences.setdefault(before, []).append((number, row))
    found = []
    for name in queries:
        before, number = frame_of(name)
        most = frames if number >= 0 else 0
        near = [row for other, row in sequences.get(before, ()) if abs(other - number) <= most]
        found.append(np.array(near, np.int64))
    return found


def evaluate_places(
    database: Database,
    queries: AnyFloats,
    right: Sequence[Ints],
    *,
    photos: Sequence[str] | None = None,
    answerable: bool = False,
    recalls: Sequence[int] = RECALLS,
    **ranking: Unpack[RankOptions],
) -> Evaluation:
    """Rank a database for every query and measure recall@k.

    Args:
        database: (n, dim) unit rows.
        queries: (nq, dim) unit rows.
        right: For each query the rows of the database that are right.
        photos: Names of the queries; their numbers if not given.
        answerable: Leave out queries that nothing is right for; they count as misses otherwise.
        recalls: The k of recall@k.
        ranking: As for `solar.evaluation.ranks.ranks`: `distractors`, `precision`, `device`, ….

    Raises:
        SolarError: The rows are no descriptors, or nothing is right for any query.
    """
    if not any(len(own) for own in right):
        raise SolarError("No photo of the database is correct for any query: check the positions.")
    miss = float("nan") if answerable else 0.0
    places = [np.sort(own) for own in ranks(queries, database, right, **ranking)]
    return Evaluation(
        tuple(map(str, range(len(right)))) if photos is None else tuple(photos),
        {
            "all": {
                f"recall@{k}": np.array([recall_at(own, k) if len(own) else miss for own in places])
                for k in recalls
            }
        },
    )
