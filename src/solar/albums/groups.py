"""Albums: groups of the photos of a collection that show the same place.

Embeddings propose pairs and keypoints decide which match; results are kept in a file, so that an
interrupted run continues. Connected components alone would not do: one wrong match joins two
albums, and a chain of them the whole collection. So pairs come first whose two photos match the
same other photos (the structural similarity of SCAN, Xu et al., KDD 2007), and a pair joins two
groups only if enough photos of the smaller one match as many of the larger: a share of them, from
one to three. A wrong match between two albums, however strong, comes last, without support.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from solar import __version__
from solar.albums.report import GroupPhoto, GroupReport, PhotoGroup
from solar.arrays import RowNumbers
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.index.embeddings import (
    Described,
    DescribedCollection,
    described,
    refuse_score,
    split_options,
    working,
)
from solar.ranking.verify import Verifier, VerifySettings, verifier_of
from solar.records import Records
from solar.sfm.pairs import PAIRS, ChosenPairs, PairSettings, chosen_pairs, matched

SHARE = 0.5
"""This share of the smaller group's photos must match as many of the larger."""

MOST = 3
"""But at most this many: sides of one large place have few photos in common."""


class MatchingPairs(NamedTuple):
    """Pairs of the same place: (m, 2) rows, the smaller first, and their (m,) inliers."""

    pairs: RowNumbers
    inliers: npt.NDArray[np.int32]


@dataclass(frozen=True)
class GroupSettings:
    """What makes a group for `groups`.

    Attributes:
        k: Number of nearest neighbours to compare each photo with.
        min_score: Minimum cosine similarity of these neighbours.
        inliers: Minimum number of inliers for two photos to match. Default: as many as show the
            same scene in a search (`solar.matching.match`).
        support: Two groups are joined if this share of the smaller one's photos, but at most three
            photos, match as many of the other; 0 joins all that are connected.
        device: Where photos are described and compared.
    """

    k: int = 20
    min_score: float | None = None
    inliers: int | None = None
    support: float = SHARE
    device: str | None = None

    def __post_init__(self) -> None:
        refuse_score(self.min_score)
        if self.k < 1:
            raise SolarError("Groups need neighbours: k must be 1 or more.")
        if self.inliers is not None and self.inliers < 1:
            raise SolarError("Groups need matching keypoints: inliers must be 1 or more.")
        if not 0 <= self.support <= 1:
            raise SolarError(f"Support must be a share from 0 to 1, not {self.support:g}.")


def groups(
    source: Described,
    settings: GroupSettings | None = None,
    *,
    photos: str | Path | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> GroupReport:
    """Group the photos of a collection that show the same place, the largest group first.

    Memory holds a few blocks of embeddings and the pairs that match.

    Example:
        >>> for group in groups("photos.solar"):  # doctest: +SKIP
        ...     print(group.cover, group.names)

    Args:
        source: An index or its address, or photos: a folder, a list or a tar shard.
        settings: What makes a group.
        photos: Where the photos of an index are, if they have moved.
        work: A folder for unfinished work, from which another run can resume. Default: temporary.
        progress: Called with the step, what is done, and the total.
        **options: Fields of `GroupSettings` by name; others say how to describe photos, as for
            `solar.build`: `model`, `size`, ….

    Raises:
        SolarError: There is no such collection or model, it is unknown where the photos are, OpenCV
            is not installed, or the disk is full.
    """
    settings, describing = split_options(settings or GroupSettings(), options)
    with working(work) as folder:
        found = described(source, folder, device=settings.device, **describing).moved_to(photos)
        wanted = VerifySettings(inliers=settings.inliers)
        verifier = verifier_of(found.roots, found.local, wanted)
        neighbours = PairSettings(settings.k, settings.min_score, device=settings.device)
        chosen = chosen_pairs(found, neighbours, folder, progress)
        graph = matching_pairs(found, chosen, verifier, folder, progress)
        return GroupReport(len(found), grouped(found.names, graph, settings), found.roots)


def grouped(
    names: Sequence[str], graph: MatchingPairs, settings: GroupSettings
) -> list[PhotoGroup]:
    """The groups of a graph, the largest first."""
    found = supported_groups(graph.pairs, graph.inliers, settings.support)
    number = {row: at for at, rows in enumerate(found) for row in rows}
    inside: list[list[int]] = [[] for _ in found]  # the pairs within each group
    for edge, (a, b) in enumerate(graph.pairs.tolist()):
        if number[a] == number[b]:
            inside[number[a]].append(edge)
    groups = [_group(names, graph, edges, settings.k) for edges in inside]
    return sorted(groups, key=lambda group: -len(group.photos))


def _group(names: Sequence[str], graph: MatchingPairs, edges: Sequence[int], k: int) -> PhotoGroup:
    """A group from its pairs; photos with most matches, and the best, come first."""
    matches: dict[int, list[int]] = defaultdict(list)  # the inliers of each photo's pairs
    for edge in edges:
        for row in graph.pairs[edge].tolist():
            matches[row].append(int(graph.inliers[edge]))
    order = sorted(matches, key=lambda row: (-len(matches[row]), -sum(matches[row]), row))
    others = min(len(order) - 1, k)
    photos = (
        GroupPhoto(
            names[row],
            len(matches[row]),
            max(matches[row]),
            round(min(len(matches[row]) / others, 1.0), 4),
        )
        for row in order
    )
    return PhotoGroup(tuple(photos), len(edges))


def matching_pairs(
    photos: DescribedCollection,
    chosen: ChosenPairs,
    verifier: Verifier,
    folder: Path,
    progress: Progress | None = None,
) -> MatchingPairs:
    """Match the keypoints of chosen pairs; those of the same scene show the same place.

    Unfinished work is kept in `folder`. A SolarError if the disk is full or read-only.
    """
    known = f"{__version__} {photos.digest} {photos.roots.stored()} {verifier.settings}"
    digest, count = hashlib.sha256(known.encode("utf-8", "surrogateescape")), 0
    for rows in chosen.pieces():
        digest.update(rows.astype("<i8").tobytes())
        count += len(rows)

    def more(number: int) -> Iterator[tuple[bytes, bool]]:
        for some in matched(islice(chosen, number * PAIRS, None), verifier):
            inliers = [
                -1 if evidence is None else evidence.inliers * evidence.same_scene
                for _, evidence in some
            ]
            # A photo that cannot be read may be back in another run.
            yield np.array(inliers, "<i4").tobytes(), min(inliers) >= 0

    records = Records(folder / f"matched-{digest.hexdigest()[:16]}")
    advance = counted(progress, "Verifying", count)
    blocks = [np.empty(0, np.int32)]
    for value in records.blocks(-(-count // PAIRS), more):
        blocks.append(np.frombuffer(value, "<i4"))
        advance(len(blocks[-1]))
    inliers, first = np.concatenate(blocks), 0
    kept = [(np.empty((0, 2), np.int64), np.empty(0, np.int32))]
    for rows in chosen.pieces():
        counts = inliers[first : first + len(rows)]
        good = np.flatnonzero(counts > 0)
        kept.append((np.sort(rows[good], axis=1), counts[good]))
        first += len(rows)
    pairs, strengths = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    return MatchingPairs(pairs, strengths)


def supported_groups(
    pairs: RowNumbers, strengths: Sequence[float] | np.ndarray, share: float = SHARE
) -> list[list[int]]:
    """Groups of two rows or more, each ascending, ordered by their first rows.

    Args:
        pairs: (m, 2) rows that match, each pair once.
        strengths: (m,) the stronger of two pairs comes first that are alike otherwise.
        share: See `SHARE`; 0 gives connected components.
    """
    linked: dict[int, set[int]] = defaultdict(set)
    for a, b in pairs.tolist():
        linked[a].add(b)
        linked[b].add(a)
    own = {row: row for row in linked}  # the group of each row, by the name of its first
    members = {row: [row] for row in linked}
    alike = [_alike(linked[a] | {a}, linked[b] | {b}) for a, b in pairs.tolist()]
    waiting = pairs[np.lexsort((-np.asarray(strengths), -np.array(alike)))].tolist()
    joined = True
    while joined:  # grown groups may have the support that they lacked
        joined, left = False, []
        for a, b in waiting:
            if own[a] == own[b]:
                continue
            small, large = sorted((own[a], own[b]), key=lambda one: (len(members[one]), one))
            if _supported(members[small], large, linked, own, share):
                for row in members.pop(small):
                    own[row] = large
                    members[large].append(row)
                joined = True
            else:
                left.append((a, b))
        waiting = left
    return sorted(sorted(rows) for rows in members.values() if len(rows) > 1)


def _alike(a: set[int], b: set[int]) -> float:
    """How far two photos match the same photos, themselves included, from 0 to 1."""
    return len(a & b) / math.sqrt(len(a) * len(b))


def _supported(
    small: Sequence[int], large: int, linked: dict[int, set[int]], own: dict[int, int], share: float
) -> bool:
    """Whether enough photos of a group match enough of another."""
    needed = max(min(math.ceil(share * len(small)), MOST), 1)
    matching, matched = 0, set[int]()
    for row in small:
        there = {other for other in linked[row] if own[other] == large}
        matching += bool(there)
        matched |= there
        if matching >= needed and len(matched) >= needed:
            return True
    return False
