"""Albums: groups of the photos of a collection that show the same place.

Descriptors name candidates, keypoints decide (`solar.search.verified_graph`), and what matches is
joined to groups in a way that single wrong matches do not get through
(`solar.search.supported_groups`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solar.describe.counting import Progress
from solar.errors import SolarError
from solar.files import make_folder
from solar.search.described_collection import Described, DescribedCollection, walk_described
from solar.search.group_report import GroupPhoto, PhotoGroup
from solar.search.photo_pairs import PairSettings, chosen_pairs, refuse_score
from solar.search.supported_groups import SHARE, supported_groups
from solar.search.verified_graph import VerifiedGraph, verified_graph
from solar.search.verify import VerifySettings

K = 20
"""Neighbours of each photo that are looked at."""

INLIERS = 8
"""From so many keypoints that agree, two photos show the same place."""


@dataclass(frozen=True)
class GroupSettings:
    """What makes a group; see `groups`."""

    k: int = K
    min_score: float | None = None
    inliers: int = INLIERS
    support: float = SHARE
    device: str | None = None

    def __post_init__(self) -> None:
        refuse_score(self.min_score)
        if self.k < 1:
            raise SolarError("Groups need neighbours: k must be 1 or more.")
        if self.inliers < 1:
            raise SolarError("Groups need matching keypoints: inliers must be 1 or more.")
        if not 0 <= self.support <= 1:
            raise SolarError(f"Support must be a share from 0 to 1, not {self.support:g}.")


def groups(
    source: Described,
    *,
    k: int = K,
    min_score: float | None = None,
    inliers: int = INLIERS,
    support: float = SHARE,
    photos: str | Path | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **describing: Any,
) -> Iterator[PhotoGroup]:
    """Group the photos of a collection that show the same place, the largest group first.

    Memory holds a few blocks of descriptors and the pairs that match.

    Example:
        >>> for group in groups("photos.solar"):  # doctest: +SKIP
        ...     print(group.cover, group.names)

    Args:
        source: An index or its address, a store, or photos: a folder, a list or a tar shard.
        k: Number of nearest neighbours to compare each photo with.
        min_score: Minimum cosine similarity of these neighbours.
        inliers: Minimum number of inliers for two photos to match.
        support: Two groups are joined if this share of the smaller one's photos, but at most three
            photos, match as many of the other; 0 joins all that are connected.
        photos: Where the photos of an index or a store are, if they have moved.
        work: A folder for unfinished work, from which another run can resume. Default: temporary.
        progress: Called with the step, what is done, and the total.
        **describing: How to describe photos, as for `solar.extract`: `model`, `device`, `size`, ….

    Raises:
        SolarError: There is no such collection or model, nobody knows where the photos are, OpenCV
            is not installed, or the disk is full.
    """
    settings = GroupSettings(k, min_score, inliers, support, describing.get("device"))
    return walk_described(
        source,
        work,
        lambda found, folder: find_groups(found.moved_to(photos), settings, folder, progress),
        **describing,
    )


def find_groups(
    photos: DescribedCollection,
    settings: GroupSettings,
    folder: Path,
    progress: Progress | None = None,
) -> Iterable[PhotoGroup]:
    """The same for a collection that is at hand, with unfinished work in a folder."""
    make_folder(folder)
    verifier = photos.verifier(VerifySettings())
    wanted = PairSettings(settings.k, settings.min_score, device=settings.device)
    chosen = chosen_pairs(photos, wanted, folder, progress)
    graph = verified_graph(photos, chosen, verifier, settings.inliers, folder, progress)
    return grouped(photos.names, graph, settings)


def grouped(
    names: Sequence[str], graph: VerifiedGraph, settings: GroupSettings
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


def _group(names: Sequence[str], graph: VerifiedGraph, edges: Sequence[int], k: int) -> PhotoGroup:
    """A group from its pairs; who matches most photos, and these best, comes first."""
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
