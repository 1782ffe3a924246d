"""Groups of photos from pairs that match, robust against chains.

Connected components alone will not do: one wrong match joins two albums, and a chain of wrong ones
joins the whole collection. So pairs come first whose two photos match the same other photos (the
structural similarity of SCAN, Xu et al., KDD 2007), and a pair joins two groups only if enough
photos of the smaller one match as many of the larger: a share of them, from one to three. A wrong
match between two albums, however strong, comes last, without support.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from solar.arrays import RowNumbers

SHARE = 0.5
"""So many of the smaller group's photos must match as many of the larger."""

MOST = 3
"""But never more: sides of one large place have few photos in common."""


def supported_groups(
    pairs: RowNumbers, strengths: Sequence[float] | np.ndarray, share: float = SHARE
) -> list[list[int]]:
    """Groups of two rows or more, each ascending, ordered by their first rows.

    Args:
        pairs: (m, 2) rows that match, each pair once.
        strengths: (m,) the stronger of two pairs comes first that are alike otherwise.
        share: See the top of this module; 0 gives connected components.
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
    while joined:  # what a group lacked it may have once both have grown
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
    small: Sequence[int],
    large: int,
    linked: dict[int, set[int]],
    own: dict[int, int],
    share: float,
) -> bool:
    """Whether enough photos of a group match enough of another: a photo of both is no bridge."""
    needed = max(min(math.ceil(share * len(small)), MOST), 1)
    matching, matched = 0, set[int]()
    for row in small:
        there = {other for other in linked[row] if own[other] == large}
        matching += bool(there)
        matched |= there
        if matching >= needed and len(matched) >= needed:
            return True
    return False
