"""Visual place recognition: is a photo taken near the query's position among the first found?

Positions are in the photos' names, `@UTM_E@UTM_N@`, or in a CSV. They are whole centimetres, so
that "25 m away" is decided exactly and not by rounding.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePosixPath
from typing import TypeAlias, Unpack

import numpy as np

from solar.arrays import AnyFloats, Ints
from solar.datasets.labelled.photo_labels import read_columns
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
from solar.evaluation.embeddings import NAMES
from solar.evaluation.metrics import recall_at
from solar.evaluation.ranks import RankOptions, ranks
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.images import Photos
from solar.storage.rows import Matrix

Position: TypeAlias = tuple[int, int]  # east and north in centimetres

_COLUMNS = {
    "name": ("name", "path", "photo", "file", "image", "key"),
    "east": ("east", "easting", "utm_e", "utm_east", "x"),
    "north": ("north", "northing", "utm_n", "utm_north", "y"),
}
_FURTHEST = 10**9  # metres: more than any projection has, and centimetres fit 64 bits
_FRAME = re.compile(r"(.*?)(\d*)", re.DOTALL)


def name_positions(names: Sequence[str], source: object) -> dict[str, Position]:
    """Positions in metres from names such as `@0543256.96@4178906.70@…@.jpg` of `source`."""
    found = {}
    for name in names:
        parts = PurePosixPath(name).name.split("@")
        try:
            found[name] = _centimetres(parts[1]), _centimetres(parts[2])
        except (IndexError, ValueError) as error:
            raise SolarError(
                f"The name of the photo {name} in {source} contains no position: rename it to "
                "@UTM_E@UTM_N@.jpg, or give `positions=FILE.csv` or `frames=N`."
            ) from error
    return found


def read_positions(path: str | Path) -> dict[str, Position]:
    """Read a CSV with columns for a photo's name, its east and its north in metres (`_COLUMNS`).

    Returns name to east and north in centimetres, in the order of the file.
    """
    path = Path(path)
    found: dict[str, Position] = {}
    for number, cells in read_columns(path, _COLUMNS):
        name, east, north = cells.values()
        if name in found:
            raise SolarError(f"Line {number} of {path} names the photo {name} for the second time.")
        try:
            found[name] = _centimetres(east), _centimetres(north)
        except ValueError as error:
            raise SolarError(
                f"Line {number} of {path} has no position in metres: {east!r}, {north!r}."
            ) from error
    if not found:
        raise SolarError(f"{path} names no photo.")
    return found


def listed_positions(
    table: Mapping[str, Position], sides: Sequence[tuple[Path, Sequence[str]]], source: object
) -> list[dict[str, Position]]:
    """The positions of the photos below some folders (`sides`: folder and names), by name.

    Names in the table are absolute, or relative to the folder that all are in (`queries/1.jpg`) or
    to their own (`1.jpg`). A SolarError about `source` if a photo has no position, or a position no
    photo.
    """
    used: set[str] = set()
    found = []
    for folder, names in sides:
        own = {}
        for name in names:
            keys = (f"{folder.name}/{name}", name, str((folder / name).absolute()))
            key = next((one for one in keys if one in table), None)
            if key is None:
                raise SolarError(f"{source} has no position for the photo {keys[0]}.")
            used.add(key)
            own[name] = table[key]
        found.append(own)
    for name in table:
        if name not in used:
            where = " or ".join(str(folder) for folder, _ in sides)
            raise SolarError(f"{source} names the photo {name}, which is not in {where}.")
    return found


def frame_of(name: str) -> tuple[str, int]:
    """A photo's name before the frame's number at its end, and that number; -1 if there is none."""
    match = _FRAME.fullmatch(str(PurePosixPath(name).with_suffix("")))
    assert match is not None
    before, number = match.groups()
    return before, int(number[-18:]) if number else -1


def _centimetres(metres: str) -> int:
    try:
        value = Decimal(metres)
    except InvalidOperation as error:
        raise ValueError(metres) from error
    if not (value.is_finite() and abs(value) < _FURTHEST):
        raise ValueError(metres)
    return round(value * 100)


RECALLS = (1, 5, 10, 20)


def evaluate_vpr(
    what: str | Path, describe: PhotoDescriber | None, settings: EvaluationSettings
) -> Evaluation:
    """Measure recall@1, 5, 10 and 20 on `database/` and `queries/` below a folder."""
    if settings.frames is not None and settings.positions is not None:
        raise SolarError("`frames=` and `positions=` cannot be combined: give one of the two.")
    folders = settings.database or "database", settings.queries or "queries"
    places = [Path(what, folder) for folder in folders]
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
        np.asarray(queries.rows),
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
    # An index lacks the photos that could not be read: the table may have their positions.
    names = [
        [*side.names, *(side.failures if isinstance(side, DescribedPhotos) else ())]
        for side in sides
    ]
    table = read_positions(settings.positions)
    return listed_positions(table, [*zip(places, names, strict=True)], settings.positions)


def near_positions(database: Ints, queries: Ints, radius: int) -> list[Ints]:
    """For each query the rows of the database within `radius` centimetres, ascending.

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
    database: Matrix,
    queries: AnyFloats,
    right: Sequence[Ints],
    *,
    photos: Sequence[str] | None = None,
    answerable: bool = False,
    recalls: Sequence[int] = RECALLS,
    **ranking: Unpack[RankOptions],
) -> Evaluation:
    """Rank a database (n, dim) for every query (nq, dim) of unit rows and measure recall@k.

    `right` has the correct rows of the database for each query, `photos` the names of the queries.
    `answerable` leaves out queries without a correct row, which count as misses otherwise.
    `ranking` is as for `solar.evaluation.ranks.ranks`.
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
