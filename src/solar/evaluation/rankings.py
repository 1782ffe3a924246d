"""What two models put first for the same queries (the paper's figure 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from solar.datasets.folders import labelled_photos
from solar.describe.store import Store, Vectors
from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.evaluation.collection import (
    DescribedSet,
    ModelDescriber,
    open_collection,
    truth_photos,
)
from solar.evaluation.evaluation_settings import (
    EvaluationOptions,
    EvaluationSettings,
    choose_settings,
)
from solar.evaluation.layout import Table, number
from solar.evaluation.metrics import Numbers
from solar.evaluation.ranks import best
from solar.evaluation.result import Evaluation
from solar.images import Box, Photos, find_photos

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
    """What one model lists for a query, junk left out, and its average precision from 0 to 1."""

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
    **options: Unpack[EvaluationOptions],
) -> list[Ranking]:
    """List what models find for some queries, junk left out.

    Args:
        what: As `evaluate` takes it.
        models: One or two by what to call them, the baseline first.
        count: How many queries: those on which two models differ most in average precision, or
            those that one model does worst on.
        top: How long the lists are.
        queries: Ask these instead, by their photos' names.
        protocol: Such as `hard`; the last one of the set, which is the hardest, if not given.
        settings: How to do it; without features.
        options: Fields of `EvaluationSettings`, in place of those of `settings`.

    Raises:
        SolarError: There is no such query or protocol, a photo is missing, or the set cannot be
            evaluated.
    """
    settings = choose_settings(settings, options).without_features("A ranking")
    sets, found = {}, {}
    with settings.stores() as folder:
        for name, model in models.items():
            describe = ModelDescriber.of(model, settings)
            sets[name] = open_collection(what, describe, folder, settings)
            found[name] = sets[name].measure(settings)
        any_set, any_found = next(iter(sets.values())), next(iter(found.values()))
        level = _protocol(any_found, protocol)
        measured = {name: one.protocols[level]["AP"] for name, one in found.items()}
        chosen = _named(any_found, queries) if queries else _chosen(list(measured.values()), count)
        asked = {number: any_found.queries[number] for number in chosen}
        album = _Album(what, any_set, settings)
        lists = {name: _first(one, album, asked, level, top) for name, one in sets.items()}
        return [
            Ranking(
                query,
                album.query(number, query),
                None if any_set.truth is None else any_set.truth.queries[number].box,
                level,
                tuple(
                    Listed(name, float(measured[name][number]), lists[name][place])
                    for name in models
                ),
            )
            for place, (number, query) in enumerate(asked.items())
        ]


def _protocol(found: Evaluation, wanted: str | None) -> str:
    known = list(found.protocols)
    if wanted not in (None, *known):
        raise SolarError(f"There is no protocol {wanted!r} here: choose {' or '.join(known)}.")
    return wanted or known[-1]


def _named(found: Evaluation, queries: Sequence[str]) -> list[int]:
    for name in queries:
        if name not in found.queries:
            raise SolarError(f"There is no query {name}; the first one is {found.queries[0]}.")
    return [found.queries.index(name) for name in queries]


def _chosen(measured: Sequence[Numbers], count: int) -> list[int]:
    interest = np.abs(measured[-1] - measured[0]) if len(measured) > 1 else -measured[0]
    known = np.flatnonzero(~np.isnan(interest))
    numbers: list[int] = known[np.argsort(-interest[known], kind="stable")][:count].tolist()
    return numbers


def _first(
    described: DescribedSet, album: _Album, asked: Mapping[int, str], level: str, top: int
) -> list[tuple[RankedPhoto, ...]]:
    """For each query, by its number and name, the first rows that are not junk."""
    answers = [_answers(described, number, query, level) for number, query in asked.items()]
    rows = best(
        _vectors(described, asked),
        described.database,
        top + max((len(junk) for _, junk in answers), default=0),
        distractors=described.distractors,
        names=described.names,
    )
    lists = []
    for (right, junk), listed in zip(answers, rows, strict=True):
        kept = [row for row in listed.tolist() if row not in junk][:top]
        lists.append(tuple(RankedPhoto(*album.photo(row, described), row in right) for row in kept))
    return lists


def _answers(
    described: DescribedSet, number: int, query: str, level: str
) -> tuple[set[int], set[int]]:
    """The rows that are right for a query, and those that are junk."""
    if described.truth is None:
        itself = list(described.photos).index(query)
        label = described.labels[itself]
        alike = {row for row, other in enumerate(described.labels) if other == label}
        return alike - {itself}, {itself}
    answers = described.truth.queries[number].answers
    right, junk = (
        {row for kind in kinds for row in answers[kind].tolist()}
        for kinds in described.truth.protocols[level]
    )
    return right, junk


def _vectors(described: DescribedSet, asked: Mapping[int, str]) -> Vectors:
    if described.queries is not None:
        return described.queries[list(asked)]
    rows = [list(described.photos).index(query) for query in asked.values()]
    database = described.database
    return database.vectors(rows) if isinstance(database, Store) else database[rows]


class _Album:
    """Where the pictures of queries, database and distractors are."""

    def __init__(
        self, what: str | Path, described: DescribedSet, settings: EvaluationSettings
    ) -> None:
        self.queries: Photos | None = None  # labelled photos ask for each other
        if described.truth is not None:
            self.database, self.queries = truth_photos(str(what), described.truth, settings.root)
        else:
            self.database = _labelled(what, settings.root, described)
        self.numbers = {name: number for number, name in enumerate(self.database.names)}
        self.others: Photos | None = None
        others = settings.distractors
        if isinstance(others, str | Path) and isinstance(described.distractors, Store):
            self.others = None if is_store(others) else find_photos(others)

    def query(self, number: int, name: str) -> Picture:
        """The photo that a query asks with."""
        if self.queries is None:
            return self.database.read(self.numbers[name])
        return self.queries.read(number)

    def photo(self, row: int, described: DescribedSet) -> tuple[str, Picture]:
        """Name and picture of a row."""
        if row < len(described.database):
            truth = described.truth
            name = described.photos[row] if truth is None else truth.database[row]
            return name, self.database.read(self.numbers[name])
        row -= len(described.database)
        if self.others is None or not isinstance(described.distractors, Store):
            return f"distractor {row}", None
        name = described.distractors.names[row]
        return name, self.others.read(self.others.names.index(name))


def _labelled(what: str | Path, root: str | Path | None, described: DescribedSet) -> Photos:
    if not is_store(what):
        return labelled_photos(what, root)[0]
    if root is None:
        raise SolarError(f"{what} holds no photos: say with --root where they are.")
    return Photos.in_folder(Path(root), described.photos)


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
    """For a program: each query with what every model lists, best first."""
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
