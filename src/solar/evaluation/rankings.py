"""What two models put first for the same queries (the paper's figure 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.datasets.photo_labels import labelled_photos
from solar.describe.store import Store, Vectors
from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.evaluation.collection import (
    DescribedSet,
    Features,
    open_collection,
    store_maker,
    stores_folder,
    truth_photos,
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
    root: str | Path | None = None,
    ground_truth: str | Path | None = None,
    distractors: Features | None = None,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    cache: str | Path | None = None,
    average: str = "trapezoid",
    precision: str | None = None,
    device: str | None = None,
    watch: Callable[[int, int], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Ranking]:
    """List what models find for some queries, junk left out.

    Args:
        what: See `evaluate`, also for what is not named here.
        models: One or two by what to call them, the baseline first.
        count: How many queries: those on which two models differ most in average precision, or
            those that one model does worst on.
        top: How long the lists are.
        queries: Ask these instead, by their photos' names.
        protocol: Such as `hard`; the last one of the set, which is the hardest, if not given.
        root: See `evaluate`.
        ground_truth: See `evaluate`.
        distractors: See `evaluate`.
        size: See `evaluate`.
        scales: See `evaluate`.
        cache: See `evaluate`.
        average: See `evaluate`.
        precision: See `evaluate`.
        device: See `evaluate`.
        watch: See `evaluate`.
        progress: See `evaluate`.

    Raises:
        SolarError: There is no such query or protocol, a photo is missing, or the set cannot be
            evaluated.
    """
    with stores_folder(cache) as folder:
        sets, found = {}, {}
        for name, model in models.items():
            sets[name] = open_collection(
                what,
                store_maker(model, size, scales, device=device, progress=progress),
                folder,
                root=root,
                ground_truth=ground_truth,
                distractors=distractors,
            )
            found[name] = sets[name].measure(
                average=average, precision=precision, device=device, watch=watch
            )
        any_set, any_found = next(iter(sets.values())), next(iter(found.values()))
        level = _protocol(any_found, protocol)
        measured = {name: one.protocols[level]["AP"] for name, one in found.items()}
        chosen = _named(any_found, queries) if queries else _chosen(list(measured.values()), count)
        album = _Album(what, root, any_set, distractors)
        lists = {
            name: _first(one, album, any_found, chosen, level, top) for name, one in sets.items()
        }
        return [
            Ranking(
                any_found.queries[number],
                album.query(number, any_found),
                None if any_set.truth is None else any_set.truth.queries[number].box,
                level,
                tuple(
                    Listed(name, float(measured[name][number]), lists[name][place])
                    for name in models
                ),
            )
            for place, number in enumerate(chosen)
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
    order = known[np.argsort(-interest[known], kind="stable")]
    numbers: list[int] = order[:count].tolist()
    return numbers


def _first(
    opened: DescribedSet,
    album: _Album,
    found: Evaluation,
    chosen: Sequence[int],
    level: str,
    top: int,
) -> list[tuple[RankedPhoto, ...]]:
    """For each of the chosen queries the first rows that are not junk."""
    asked = [_answers(opened, found, number, level) for number in chosen]
    vectors = _vectors(opened, found, chosen)
    longest = top + max((len(junk) for _, junk in asked), default=0)
    rows = best(
        vectors, opened.database, longest, distractors=opened.distractors, names=opened.names
    )
    lists = []
    for (right, junk), listed in zip(asked, rows, strict=True):
        kept_rows = [row for row in listed.tolist() if row not in junk][:top]
        lists.append(
            tuple(RankedPhoto(*album.photo(row, opened), row in right) for row in kept_rows)
        )
    return lists


def _answers(
    opened: DescribedSet, found: Evaluation, number: int, level: str
) -> tuple[set[int], set[int]]:
    """The rows that are right for a query, and those that are junk."""
    if opened.truth is not None:
        answers = opened.truth.queries[number].answers
        right, junk = opened.truth.protocols[level]
        return (
            {row for kind in right for row in answers[kind].tolist()},
            {row for kind in junk for row in answers[kind].tolist()},
        )
    itself = list(opened.photos).index(found.queries[number])
    label = opened.labels[itself]
    alike = {row for row, other in enumerate(opened.labels) if other == label}
    return alike - {itself}, {itself}


def _vectors(opened: DescribedSet, found: Evaluation, chosen: Sequence[int]) -> Vectors:
    if opened.queries is not None:
        return opened.queries[list(chosen)]
    rows = [list(opened.photos).index(found.queries[number]) for number in chosen]
    database = opened.database
    return database.vectors(rows) if isinstance(database, Store) else database[rows]


class _Album:
    """Where the pictures of queries, database and distractors are."""

    def __init__(
        self,
        what: str | Path,
        root: str | Path | None,
        opened: DescribedSet,
        distractors: Features | None,
    ) -> None:
        if opened.truth is not None:
            self.database, self.queries = truth_photos(str(what), opened.truth, root)
        else:
            self.database = self.queries = _labelled(what, root, opened)
        self.numbers = {name: number for number, name in enumerate(self.database.names)}
        self.others: Photos | None = None
        if isinstance(distractors, str | Path) and isinstance(opened.distractors, Store):
            self.others = None if is_store(distractors) else find_photos(distractors)

    def query(self, number: int, found: Evaluation) -> Picture:
        """The photo that a query asks with."""
        if self.queries is self.database:
            return self.database.read(self.numbers[found.queries[number]])
        return self.queries.read(number)

    def photo(self, row: int, opened: DescribedSet) -> tuple[str, Picture]:
        """Name and picture of a row."""
        if row < len(opened.database):
            name = opened.photos[row] if opened.truth is None else opened.truth.database[row]
            return name, self.database.read(self.numbers[name])
        row -= len(opened.database)
        if self.others is None or not isinstance(opened.distractors, Store):
            return f"distractor {row}", None
        name = opened.distractors.names[row]
        return name, self.others.read(self.others.names.index(name))


def _labelled(what: str | Path, root: str | Path | None, opened: DescribedSet) -> Photos:
    if not is_store(what):
        return labelled_photos(what, root)[0]
    if root is None:
        raise SolarError(f"{what} holds no photos: say with --root where they are.")
    return Photos.in_folder(Path(root), opened.photos)


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
