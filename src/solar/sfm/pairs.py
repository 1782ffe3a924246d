"""Which photos of a collection are worth matching: pairs for structure from motion.

Each photo is paired with the k that are most similar by their embeddings, and, for the frames of a
video, with those before and after it. A pair counts once, whichever of the two found the other.
Lists of pairs are files as COLMAP and hloc read them, with a line `image1.jpg image2.jpg` for each.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from solar.arrays import Doubles, RowNumbers
from solar.describe.progress import Progress, counted
from solar.errors import SolarError, and_more
from solar.files import reading, writing
from solar.index.embeddings import (
    Described,
    DescribedCollection,
    NeighbourLists,
    described,
    held,
    neighbour_lists,
    refuse_score,
    split_options,
    working,
)
from solar.local.features import LocalFeatures
from solar.ranking.calibration import Evidence
from solar.ranking.verify import Verifier, VerifySettings, verifier_of
from solar.storage.geo import in_space, straight

Pair: TypeAlias = tuple[str, str]
"""Names of two photos."""

PAIRS = 64
"""Pairs whose features are in memory at a time: up to some hundred MB."""

_CELLS = 1 << 21  # of a table that is looked at at a time: some tens of MB


@dataclass(frozen=True)
class PairSettings:
    """Which pairs `pairs` chooses.

    Attributes:
        k: Number of nearest neighbours to pair each photo with; 0 for `window` alone.
        min_score: Minimum cosine similarity of neighbours found by `k`.
        verify: Keep only pairs that pass geometric verification (`solar.ranking.verify`).
        query: Pair only these photos with others: names, or a file with one name per line.
        window: Also pair each photo with this many before and after it in its folder, by name.
        within: If both photos have a GPS position, only pair them within this many metres.
        device: Where photos are described, and embeddings compared if it is `cuda`.
    """

    k: int = 20
    min_score: float | None = None
    verify: bool | VerifySettings = False
    query: str | Path | Sequence[str] | None = None
    window: int = 0
    within: float | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        refuse_score(self.min_score)
        if self.within is not None and not self.within > 0:
            raise SolarError(f"within must be a distance in metres, not {self.within:g}.")
        if self.k < 0 or self.window < 0 or self.k + self.window < 1:
            raise SolarError(
                "Pairs need neighbours: k or window must be 1 or more, and neither negative."
            )


def pairs(
    source: Described,
    settings: PairSettings | None = None,
    *,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Iterator[Pair]:
    """Choose the pairs of photos that are worth matching, each once.

    Memory holds a few blocks of embeddings, never a matrix of all similarities.

    Example:
        >>> for a, b in pairs("photos.solar", k=20):  # doctest: +SKIP
        ...     print(a, b)

    Args:
        source: An index or its address, an `.h5` file of hloc's, or photos: a folder, a
            list or a tar shard.
        settings: Which pairs.
        work: A folder for unfinished work, from which another run can resume. Default: temporary.
        progress: Called with the step, what is done, and the total.
        **options: Fields of `PairSettings` by name; others say how to describe photos, as for
            `solar.build`: `model`, `size`, ….

    Returns:
        Names relative to the image folder, in the order of the collection, the most similar first.

    Raises:
        SolarError: There is no such collection, photo or model, or the disk is full.
    """
    settings, describing = split_options(settings or PairSettings(), options)
    with ExitStack() as stack:
        folder = stack.enter_context(working(work))
        photos = described(source, folder, device=settings.device, **describing)
        verifier = None
        if settings.verify:  # fail before any work
            wanted = VerifySettings() if settings.verify is True else settings.verify
            roots = photos.roots.moved_to(wanted.photos)
            verifier = verifier_of(roots, photos.local, wanted)
        chosen: Iterable[Pair] = (found := chosen_pairs(photos, settings, folder, progress))
        if verifier is not None:
            chosen = verified(found, verifier, len(found), progress)
        return held(stack.pop_all(), chosen)


def chosen_pairs(
    photos: DescribedCollection,
    settings: PairSettings,
    folder: Path,
    progress: Progress | None = None,
) -> ChosenPairs:
    """The pairs before any verification."""
    asked = np.arange(len(photos))
    if (query := settings.query) is not None:
        names = read_names(query, photos) if isinstance(query, str | Path) else query
        asked = np.array([photos.row(name, "The query") for name in dict.fromkeys(names)], np.int64)
    points = None if settings.within is None else in_space(photos.positions())
    lists = neighbour_lists(photos, asked, settings.k, folder, progress, settings.device)
    order = NameOrder.of(photos.names) if settings.window else None
    return ChosenPairs(photos, settings, asked, lists, order, points)


@dataclass(frozen=True, eq=False)
class NameOrder:
    """Photos by name within their folders; numbers count as such: 9.jpg comes before 10.jpg."""

    rows: RowNumbers  # (n,) in that order
    places: RowNumbers  # (n,) where each row is in it
    folders: RowNumbers  # (n,) which folder each row is in

    @classmethod
    def of(cls, names: Sequence[str]) -> NameOrder:
        """Sort names."""
        keys = [(name.rpartition("/")[0], _with_numbers(name)) for name in names]
        rows = np.array(sorted(range(len(names)), key=keys.__getitem__), np.int64)
        _, folders = np.unique([folder for folder, _ in keys], return_inverse=True)
        places = np.empty_like(rows)
        places[rows] = np.arange(len(rows))
        return cls(rows, places, folders.astype(np.int64))

    def around(self, rows: RowNumbers, window: int) -> RowNumbers:
        """The rows (m, 2 window) next to some rows (m,), nearest first; -1 where there is none."""
        steps = np.repeat(np.arange(1, window + 1), 2) * np.tile([1, -1], window)
        places = self.places[rows][:, None] + steps
        inside = (places >= 0) & (places < len(self.rows))
        near = self.rows[np.where(inside, places, 0)]
        inside &= self.folders[near] == self.folders[rows][:, None]
        return np.where(inside, near, -1)


def _with_numbers(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if part[:1].isdecimal() else (-1, part) for part in parts if part]


@dataclass(frozen=True, eq=False)
class ChosenPairs:
    """Pairs of photos, found when they are asked for; it can be iterated again."""

    photos: DescribedCollection
    settings: PairSettings
    asked: RowNumbers  # (m,) rows of the photos that are paired
    lists: NeighbourLists  # of each of them
    order: NameOrder | None = None  # for neighbours in time, if any are wanted
    points: Doubles | None = None  # (n, 3) in space; NaN where unknown
    numbers: RowNumbers = field(init=False, repr=False)  # (n,) a row's place in `asked`, or -1

    def __post_init__(self) -> None:
        numbers = np.full(len(self.photos), -1)
        numbers[self.asked] = np.arange(len(self.asked))
        object.__setattr__(self, "numbers", numbers)

    def __len__(self) -> int:
        return sum(len(rows) for rows in self.pieces())

    def __iter__(self) -> Iterator[Pair]:
        names = self.photos.names
        for rows in self.pieces():
            yield from ((names[a], names[b]) for a, b in rows.tolist())

    def pieces(self) -> Iterable[RowNumbers]:
        """Pairs of rows (p, 2), in pieces."""
        width = max(self.lists["rows"].shape[1] + 2 * self.settings.window, 1)
        step = min(max(_CELLS // width**2, 1), 4096)
        for first in range(0, len(self.asked), step):
            numbers = np.arange(first, min(first + step, len(self.asked)))
            found = self._partners(numbers)
            theirs = np.where(found >= 0, self.numbers[found], -1)
            # A pair that an earlier photo has found is there already.
            mine, column = np.nonzero((theirs >= 0) & (theirs < numbers[:, None]))
            others = self._partners(theirs[mine, column])
            known = (others == self.asked[numbers[mine]][:, None]).any(axis=1)
            found[mine[known], column[known]] = -1
            mine, column = np.nonzero(found >= 0)
            yield np.stack([self.asked[numbers[mine]], found[mine, column]], axis=1)

    def _partners(self, numbers: RowNumbers) -> RowNumbers:
        """Rows that each photo is paired with, (m, k + 2 window), -1 for none."""
        settings, asked, lists = self.settings, self.asked[numbers], self.lists[numbers]
        rows = lists["rows"].astype(np.int64)
        if settings.min_score is not None:
            rows = np.where(lists["scores"] >= settings.min_score, rows, -1)
        if self.order is not None:
            near = self.order.around(asked, settings.window)
            twice = (near[:, :, None] == rows[:, None]).any(axis=2)
            rows = np.concatenate([rows, np.where(twice, -1, near)], axis=1)
        if self.points is not None and settings.within is not None:
            apart = np.linalg.norm(self.points[rows] - self.points[asked][:, None], axis=2)
            rows = np.where(apart > straight(settings.within), -1, rows)
        return rows


def verified(
    pairs: Iterable[Pair], verifier: Verifier, total: int, progress: Progress | None = None
) -> Iterator[Pair]:
    """Those of the pairs whose keypoints fit one geometry; a warning of photos not read."""
    advance = counted(progress, "Verifying", total)
    for some in matched(pairs, verifier):
        yield from (pair for pair, found in some if found is not None and found.same_scene)
        advance(len(some))


def matched(
    pairs: Iterable[Pair], verifier: Verifier
) -> Iterator[list[tuple[Pair, Evidence | None]]]:
    """How the photos of each pair match, `PAIRS` at a time; None where one cannot be read."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        for some, features in with_features(pairs, verifier, threads):
            found = threads.map(partial(_evidence, verifier, features), some)
            yield list(zip(some, found, strict=True))


def _evidence(
    verifier: Verifier, features: Mapping[str, LocalFeatures], pair: Pair
) -> Evidence | None:
    if any(name not in features for name in pair):
        return None
    return verifier.evidence(*(features[name] for name in pair))


def with_features(
    pairs: Iterable[Pair], verifier: Verifier, threads: ThreadPoolExecutor
) -> Iterator[tuple[list[Pair], dict[str, LocalFeatures]]]:
    """Pairs in pieces, each with the features of its photos.

    Features are rounded as in the cache, so that another run gives the same. Photos that cannot be
    read have none; a warning at the end lists them.
    """
    errors: dict[str, str] = {}

    def found(name: str) -> LocalFeatures | None:
        try:
            return verifier.features(name)
        except SolarError as error:
            errors[name] = str(error)
            return None

    waiting, features = iter(pairs), dict[str, LocalFeatures]()
    while some := list(islice(waiting, PAIRS)):
        names = dict.fromkeys(name for pair in some for name in pair)
        new = [name for name in names if name not in features and name not in errors]
        features = {name: one for name, one in features.items() if name in names}
        known = zip(new, threads.map(found, new), strict=True)
        features |= {name: one for name, one in known if one is not None}
        yield some, features
    if errors:
        warnings.warn(f"Not matched: {and_more(errors.values())}", stacklevel=3)


def write_pairs(path: str | Path, pairs: Iterable[Pair]) -> int:
    """Write a list of pairs, whole or not at all, and return how many.

    Warns of names with spaces, and of names with line breaks, which are left out. A SolarError if
    the disk is full or read-only.
    """
    count, spaced, broken = 0, set[str](), set[str]()
    with writing(path) as out:
        for pair in pairs:
            if unlisted := {name for name in pair if len(name.splitlines()) != 1}:
                broken |= unlisted
                continue
            spaced |= {name for name in pair if len(name.split()) != 1}
            out.write(" ".join(pair) + "\n")
            count += 1
    for name in sorted(broken):
        warnings.warn(
            f"{name!r} is left out of {path}, because its name contains a line break: rename the "
            "photo.",
            stacklevel=2,
        )
    if spaced:
        warnings.warn(
            f"{len(spaced)} photo{'s'[: len(spaced) != 1]} in {path} have spaces in their names, "
            f"such as {min(spaced)!r}: COLMAP and hloc split lines at spaces, so rename the "
            "photos, or write the matches themselves with --database.",
            stacklevel=2,
        )
    return count


def read_pairs(path: str | Path, photos: DescribedCollection) -> Iterator[Pair]:
    """Pairs from a list, each once, by their names in the collection.

    A SolarError if the list cannot be read, or names a photo that is not there.
    """
    seen = set[tuple[int, int]]()
    for line in _lines(path):
        a, b = _split(line, path, photos)
        pair = (min(a, b), max(a, b))
        if a != b and pair not in seen:
            seen.add(pair)
            yield photos.names[a], photos.names[b]


def read_names(path: str | Path, photos: DescribedCollection) -> list[str]:
    """Names of photos from a list; what follows them, as the cameras in hloc's lists, is ignored.

    A SolarError if the list cannot be read, is empty, or names a photo that is not there.
    """
    rows = []
    for line in _lines(path):
        begun = line if line in photos.rows else line.split()[0]
        rows.append(photos.row(line if Path(line).is_absolute() else begun, path))
    if not rows:
        raise SolarError(f"{path} names no photo: write one name per line.")
    return [photos.names[row] for row in rows]


def _split(line: str, path: str | Path, photos: DescribedCollection) -> tuple[int, int]:
    parts = line.split()
    if len(parts) > 2:  # a name has spaces: cut where both sides are photos
        for at in range(1, len(line)):
            a, b = line[:at], line[at + 1 :]
            if line[at] == " " and a in photos.rows and b in photos.rows:
                return photos.rows[a], photos.rows[b]
    if len(parts) != 2:
        raise SolarError(
            f"{path} has a line {line!r}: each line must have the names of two photos of the "
            "collection, separated by a space."
        )
    a, b = parts
    return photos.row(a, path), photos.row(b, path)


def _lines(path: str | Path) -> list[str]:
    with reading(path):
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]
