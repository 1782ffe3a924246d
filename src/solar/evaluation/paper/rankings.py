"""Top results of several models for the same queries (the paper's figure 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Doubles
from solar.errors import SolarError
from solar.evaluation.collection import DescribedSet, open_collection
from solar.evaluation.described_photos import model_describer
from solar.evaluation.ranks import best
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import Table, number
from solar.images import Box
from solar.images.exif import upright_box

if TYPE_CHECKING:
    from solar.models import RetrievalNet

Picture = Path | bytes | None
"""A photo's file or its bytes; None where only its descriptor is known."""


@dataclass(frozen=True)
class RankedPhoto:
    """One photo of a list: its name, its picture, and whether it is right."""

    name: str
    picture: Picture
    right: bool


@dataclass(frozen=True)
class Listed:
    """Photos that one model lists for a query, without junk, and its AP from 0 to 1."""

    model: str
    average_precision: float
    hits: tuple[RankedPhoto, ...]


@dataclass(frozen=True)
class Ranking:
    """A query and the lists of one or more models."""

    query: str
    picture: Picture
    box: Box | None
    protocol: str
    lists: tuple[Listed, ...]


def rankings(
    what: str | Path,
    models: Mapping[str, RetrievalNet | str | Path],
    *,
    count: int = 3,
    top: int = 7,
    queries: Sequence[str] = (),
    protocol: str | None = None,
    settings: EvaluationSettings | None = None,
    **options: Any,
) -> list[Ranking]:
    """List what models find for some queries, without junk.

    Args:
        what: As `evaluate` takes it.
        models: One or two by their names, the baseline first.
        count: How many queries: those on which two models differ most in average precision, or
            those that one model does worst on.
        top: How long the lists are.
        queries: Names of other queries to show instead.
        protocol: Such as `hard`; default: the last one of the set, which is the hardest.
        settings: How to do it; without features.
        options: Fields of `EvaluationSettings`, which override `settings`.
    """
    sets, found = {}, {}
    given = replace(settings or EvaluationSettings(), **options).without_features("A ranking")
    with given.caching() as how:
        for name, model in models.items():
            sets[name] = open_collection(what, model_describer(what, model, how), how)
            found[name] = sets[name].measure(how)
        any_set, any_found = next(iter(sets.values())), next(iter(found.values()))
        if any_set.database.photos is None:
            raise SolarError(f"{what} contains no photos: name their folder with `root=`.")
        known = list(any_found.protocols)
        if protocol not in (None, *known):
            raise SolarError(f"There is no protocol {protocol!r}: choose {' or '.join(known)}.")
        level = protocol or known[-1]
        measured = {name: one.protocols[level]["AP"] for name, one in found.items()}
        chosen = _named(any_found, queries) if queries else _chosen(list(measured.values()), count)
        asked = {number: any_found.queries[number] for number in chosen}
        lists = {name: _first(one, asked, level, top) for name, one in sets.items()}
        return [
            Ranking(
                query,
                _query_picture(any_set, number, query),
                _query_box(any_set, number, query),
                level,
                tuple(
                    Listed(name, float(measured[name][number]), lists[name][place])
                    for name in models
                ),
            )
            for place, (number, query) in enumerate(asked.items())
        ]


def _named(found: Evaluation, queries: Sequence[str]) -> list[int]:
    for name in queries:
        if name not in found.queries:
            raise SolarError(f"There is no query {name}; the first one is {found.queries[0]}.")
    return [found.queries.index(name) for name in queries]


def _chosen(measured: Sequence[Doubles], count: int) -> list[int]:
    interest = np.abs(measured[-1] - measured[0]) if len(measured) > 1 else -measured[0]
    known = np.flatnonzero(~np.isnan(interest))
    return [*map(int, known[np.argsort(-interest[known], kind="stable")][:count])]


def _first(
    described: DescribedSet, asked: Mapping[int, str], level: str, top: int
) -> list[tuple[RankedPhoto, ...]]:
    """For each query, by its number and name, the first rows that are not junk."""
    answers = [_answers(described, number, query, level) for number, query in asked.items()]
    longest = top + max((len(junk) for _, junk in answers), default=0)
    if described.queries is None:
        itself = [described.photos.index(query) for query in asked.values()]
        vectors = described.database.rows[itself]
    else:
        vectors = described.queries.rows[list(asked)]
    others = None if described.distractors is None else described.distractors.rows
    database, names = described.database.rows, described.names
    rows = best(vectors, database, longest, distractors=others, names=names)
    lists = []
    for (right, junk), (listed, _) in zip(answers, rows, strict=True):
        kept = [row for row in listed.tolist() if row not in junk][:top]
        lists.append(tuple(RankedPhoto(*_photo(described, row), row in right) for row in kept))
    return lists


def _answers(
    described: DescribedSet, number: int, query: str, level: str
) -> tuple[set[int], set[int]]:
    if described.truth is None:
        itself = described.photos.index(query)
        label = described.labels[itself]
        alike = {row for row, other in enumerate(described.labels) if other == label}
        return alike - {itself}, {itself}
    answers = described.truth.queries[number].answers
    right, junk = (
        {row for kind in kinds for row in answers[kind].tolist()}
        for kinds in described.truth.protocols[level]
    )
    return right, junk


def _query_picture(described: DescribedSet, number: int, query: str) -> Picture:
    if described.queries is None:
        return described.database.picture(query)
    photos = described.queries.photos  # by number: a photo may be asked for twice
    return None if photos is None else photos.read(number)


def _query_box(described: DescribedSet, number: int, query: str) -> Box | None:
    """The box in the upright photo, which is how it is shown."""
    box = None if described.truth is None else described.truth.queries[number].box
    picture = _query_picture(described, number, query)
    return box if box is None or picture is None else upright_box(picture, box)


def _photo(described: DescribedSet, row: int) -> tuple[str, Picture]:
    if row < len(described.database.rows):
        name = described.photos[row]
        return name, described.database.picture(name)
    row -= len(described.database.rows)
    others = described.distractors
    if others is None or others.photos is None or others.known is None:
        return f"distractor {row}", None
    name = others.known[row]
    return name, others.picture(name)


def to_table(found: Sequence[Ranking]) -> Table:
    """Render: for each query and model its average precision, and what is right of the list."""
    longest = max(len(listed.hits) for one in found for listed in one.lists)
    groups = [
        [
            [
                one.query if not place else "",
                listed.model,
                number(100 * listed.average_precision, 2),
                "".join("✓" if hit.right else "✗" for hit in listed.hits),
            ]
            for place, listed in enumerate(one.lists)
        ]
        for one in found
    ]
    level = "" if found[0].protocol == "all" else f", {found[0].protocol} protocol"
    note = f"AP in percent{level}; ✓ right, ✗ wrong, best first, junk left out."
    return Table([["Query"], ["model"], ["AP"], [f"first {longest}"]], groups, note)


def to_json(found: Sequence[Ranking]) -> list[dict[str, Any]]:
    """Each query with what every model lists, best first."""
    return [
        {
            "query": one.query,
            "box": one.box,
            "protocol": one.protocol,
            "models": {
                listed.model: {
                    "AP": 100 * listed.average_precision,
                    "hits": [{"photo": hit.name, "right": hit.right} for hit in listed.hits],
                }
                for listed in one.lists
            },
        }
        for one in found
    ]
