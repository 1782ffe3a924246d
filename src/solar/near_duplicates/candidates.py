"""Candidate pairs of copies and of photos of one place, before any photo is opened again.

Descriptors find crops, frames and places; the magnitudes of the lowest frequencies of small
pictures find copies in any of eight orientations. Comparing the small pictures, roughly first and
to a fraction of a pixel then, removes nearly all pairs that only look alike.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from solar.arrays import Flags, Floats, Pixels, RowNumbers
from solar.describe.progress import Progress, counted
from solar.index.embeddings import DescribedCollection, NeighbourLists, neighbour_lists
from solar.near_duplicates.crop_fit import CELLS, PART, are_parts, best_windows, copy_ways, patterns
from solar.near_duplicates.orientations import ALIKE, WAYS, along, laid
from solar.near_duplicates.small_pictures import SmallPictures

_PLACES = 10  # two photos may show one place if each is among these nearest of the other
_COARSE = 0.6
_BLOCK = 4096
_FITTED = 512  # pairs whose windows a thread fits at a time: 14 MB
_PHOTOS = 256  # whose windows a thread looks at before it is given others

DuplicateCandidates: TypeAlias = npt.NDArray[np.void]
"""Pairs in reading order: rows `a` < `b`; the `way` to lay b on a, -1 if they are not one picture;
whether one may be a `part` of the other or both may show one `place`; and the `score`, the cosine
similarity of the descriptors."""

_CANDIDATE = np.dtype(
    [("a", "<i8"), ("b", "<i8"), ("way", "i1"), ("part", "?"), ("place", "?"), ("score", "<f4")]
)


def candidates(
    photos: DescribedCollection,
    small: SmallPictures,
    asked: RowNumbers,
    folder: Path,
    *,
    k: int,
    place_score: float | None,
    progress: Progress | None = None,
) -> DuplicateCandidates:
    """Find pairs with at least one photo of the rows `asked` (m,); unfinished work is in `folder`.

    Each photo has `k` neighbours by its descriptor. Two photos of one place are at least so similar
    as `place_score`; None looks for no places.
    """
    near = neighbour_lists(photos, asked, k, folder, progress)
    shapes = small.shapes()
    digest = hashlib.sha256(photos.digest.encode() + shapes.tobytes()).hexdigest()
    shaped = replace(photos, vectors=shapes, digest=digest)
    alike = neighbour_lists(shaped, asked, ALIKE, folder, progress, step="Comparing pictures")
    pairs = _pairs(asked, (near, alike), len(photos))
    blocks = (small.all[at : at + _BLOCK] for at in range(0, len(small), _BLOCK))
    nothing = np.empty((0, CELLS * CELLS), np.float32)
    rows = np.concatenate([nothing, *map(patterns, blocks)])
    ways = whole_ways(small, rows, pairs)
    parts = likely_parts(small.all, rows, pairs, progress)
    scores = _scores(photos, pairs)
    likely = scores >= (np.inf if place_score is None else place_score)
    others = np.setdiff1d(pairs[likely], asked)  # whose nearest may be in no pair
    theirs = _pairs(others, [neighbour_lists(photos, others, k, folder)], len(photos))
    theirs = theirs[~np.isin(theirs @ (len(photos), 1), pairs @ (len(photos), 1))]
    every, all_scores = np.concatenate([pairs, theirs]), [scores, _scores(photos, theirs)]
    places = likely & _mutual(every, np.concatenate(all_scores))[: len(pairs)]
    kept = np.flatnonzero((ways >= 0) | parts | places)
    kept = kept[reading_order(pairs[kept])]
    found = np.zeros(len(kept), _CANDIDATE)
    columns = (*pairs.T, ways, parts, places, scores)
    for name, column in zip(_CANDIDATE.names or (), columns, strict=True):
        found[name] = column[kept]
    return found


def reading_order(pairs: RowNumbers) -> RowNumbers:
    """An order of pairs (p, 2) in which those of one photo lie close together.

    It follows a walk from neighbour to neighbour, depth first. With the last 128 photos in memory,
    45,000 are read for 55,000 pairs among 118,287 photos; in the order of their rows it is 77,000.
    """
    rows, ends = np.unique(pairs, return_inverse=True)
    ends = ends.reshape(-1, 2)
    both = np.concatenate([ends, ends[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    begins = np.searchsorted(both[:, 0], np.arange(len(rows) + 1)).tolist()
    others = both[:, 1].tolist()
    met, steps = [-1] * len(rows), 0
    for first in range(len(rows)):
        waiting = [first]
        while waiting:
            here = waiting.pop()
            if met[here] < 0:
                met[here] = steps
                steps += 1
                waiting.extend(reversed(others[begins[here] : begins[here + 1]]))
    walked = np.sort(np.array(met, np.int64)[ends], axis=1)
    return np.lexsort((walked[:, 1], walked[:, 0]))


def whole_ways(small: SmallPictures, rows: Floats, pairs: RowNumbers) -> npt.NDArray[np.int8]:
    """How to lay the second photo of each pair on the first; -1 for different pictures."""
    ways = np.full(len(pairs), -1, np.int8)
    for at in range(0, len(pairs), _BLOCK):
        some = pairs[at : at + _BLOCK]
        first = rows[some[:, 0]]
        second = rows[some[:, 1]].reshape(-1, CELLS, CELLS)
        laid_over = (laid(second, way).reshape(len(some), -1) for way in range(WAYS))
        coarse = np.stack([along(first, turned) for turned in laid_over])
        likely = np.flatnonzero(coarse.max(axis=0) >= _COARSE)
        if len(likely):
            ways[at + likely] = copy_ways(*(small.all[some[likely, side]] for side in (0, 1)))
    return ways


def _pairs(asked: RowNumbers, found_by: Sequence[NeighbourLists], n: int) -> RowNumbers:
    found = [np.empty(0, np.int64)]
    for lists in found_by:
        others = lists["rows"].astype(np.int64)
        mine = np.broadcast_to(asked[:, None], others.shape)
        found.append((np.minimum(mine, others) * n + np.maximum(mine, others)).ravel())
    return np.stack(np.divmod(np.unique(np.concatenate(found)), max(n, 1)), axis=1)


def likely_parts(
    pictures: Pixels, rows: Floats, pairs: RowNumbers, progress: Progress | None = None
) -> Flags:
    """Of which pairs (p, 2) one picture may show a part of the other; `rows` are `patterns`."""
    marked = np.zeros(len(pairs), bool)
    numbers = np.arange(len(pairs))
    wholes = np.concatenate([pairs[:, 0], pairs[:, 1]])
    others = np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(wholes, kind="stable")
    wholes, others, numbers = wholes[order], others[order], np.tile(numbers, 2)[order]
    edges = [*np.flatnonzero(np.diff(wholes, prepend=-1)).tolist(), len(wholes)]

    def look(block: Sequence[tuple[int, int]]) -> RowNumbers:
        likely = [np.empty((0, 3), np.int64)]
        for begin, end in block:
            scores, which, mirror = best_windows(pictures[wholes[begin]], rows[others[begin:end]])
            good = np.flatnonzero(scores >= PART)
            likely.append(np.stack([begin + good, which[good], mirror[good]], axis=1))
        at, which, mirror = np.concatenate(likely).T
        found = [np.empty(0, np.int64)]
        for first in range(0, len(at), _FITTED):
            some = slice(first, first + _FITTED)
            whole, parts = (pictures[side[at[some]]] for side in (wholes, others))
            alike = are_parts(whole, parts, which[some], mirror[some] > 0)
            found.append(numbers[at[some][alike]])
        return np.concatenate(found)

    spans = list(pairwise(edges))
    blocks = [spans[at : at + _PHOTOS] for at in range(0, len(spans), _PHOTOS)]
    advance = counted(progress, "Looking for parts", len(spans))
    # Threads that share the cores of each product wait for each other: twice the processor's time.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as threads:
        for block, some in zip(blocks, threads.map(look, blocks), strict=True):
            marked[some] = True
            advance(len(block))
    return marked


def _scores(photos: DescribedCollection, pairs: RowNumbers) -> Floats:
    scores = np.zeros(len(pairs), np.float32)
    for at in range(0, len(pairs), _BLOCK):
        some = pairs[at : at + _BLOCK]
        a, b = (np.asarray(photos.vectors[some[:, side]], np.float32) for side in (0, 1))
        scores[at : at + _BLOCK] = along(a, b)
    return scores


def _mutual(pairs: RowNumbers, scores: Floats) -> Flags:
    """Which pairs are each among the nearest of the other, of all that they are compared with."""
    mine, near = pairs.T.ravel(), np.tile(scores, 2)
    order = np.lexsort((-near, mine))
    begins = np.flatnonzero(np.diff(mine[order], prepend=-1))
    counts = np.diff([*begins, len(mine)])
    ranks = np.empty(len(mine), np.int64)
    ranks[order] = np.arange(len(mine)) - np.repeat(begins, counts)
    first, second = (ranks < _PLACES).reshape(2, -1)
    return np.asarray(first & second)
