"""Which pairs of photos may be copies, or show one place, before any of them is opened again.

Descriptors find crops, frames and places; the magnitudes of the lowest frequencies of small
pictures find copies in any of eight orientations. Then the small pictures are compared, and most
pairs that only look alike are gone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from solar.files import replacing
from solar.search.described_collection import DescribedCollection
from solar.search.engine import RowNumbers
from solar.search.neighbour_lists import NeighbourLists, neighbour_lists
from solar.search.picture_windows import CELLS, PART, part_scores, patterns
from solar.search.small_pictures import SmallPictures
from solar.search.symmetries import ALIKE, WAYS, WHOLE, along, best_way, laid

Told = Callable[[str, int, int], None]
Floats = npt.NDArray[np.float32]

_COARSE = 0.6
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class DuplicateCandidates:
    """Pairs that are worth a look, ordered by their rows.

    Attributes:
        pairs: (p, 2) rows, the lower one first.
        ways: (p,) how to lay the second on the first if they may be one picture; otherwise -1.
        deep: (p,) whether keypoints are worth the time where the whole photos do not agree.
        scores: (p,) cosine similarities of the descriptors.
    """

    pairs: RowNumbers
    ways: npt.NDArray[np.int8]
    deep: npt.NDArray[np.bool_]
    scores: Floats

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def digest(self) -> str:
        """Equal for equal candidates."""
        parts = (self.pairs.astype("<i8"), self.ways, self.deep, self.scores.astype("<f4"))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def candidates(
    photos: DescribedCollection,
    small: SmallPictures,
    asked: RowNumbers,
    folder: Path,
    *,
    k: int,
    place_score: float | None,
    watch: Told | None = None,
) -> DuplicateCandidates:
    """Find pairs of which one at least is asked for.

    Args:
        photos: The collection.
        small: Their small pictures.
        asked: (m,) rows.
        folder: Where unfinished work is kept.
        k: Neighbours of each photo by its descriptor.
        place_score: From which similarity on two photos may show one place; None if nobody asks.
        watch: Told of the progress.
    """

    def told(name: str) -> Callable[[int, int], None] | None:
        return None if watch is None else lambda done, of: watch(name, done, of)

    near = neighbour_lists(photos, asked, k, folder, told("Comparing"))
    shapes = _shapes(photos, small, folder)
    alike = neighbour_lists(shapes, asked, ALIKE, folder, told("Comparing pictures"))
    pairs = _pairs(asked, near, alike, len(photos))
    rows = patterns_of(small)
    ways = whole_ways(small, rows, pairs)
    parts = _parts(small, rows, pairs, told("Looking for parts"))
    scores = _scores(photos, pairs)
    deep = parts >= PART
    if place_score is not None:
        deep |= scores >= place_score
    kept = (ways >= 0) | deep
    return DuplicateCandidates(pairs[kept], ways[kept], deep[kept], scores[kept])


def patterns_of(small: SmallPictures) -> Floats:
    """The patterns (n, 64) of all small pictures."""
    blocks = [np.arange(at, min(at + _BLOCK, len(small))) for at in range(0, len(small), _BLOCK)]
    nothing = np.empty((0, CELLS * CELLS), np.float32)
    return np.concatenate([nothing, *(patterns(small.pixels(block)) for block in blocks)])


def whole_ways(small: SmallPictures, rows: Floats, pairs: RowNumbers) -> npt.NDArray[np.int8]:
    """How to lay the second photo of each pair on the first to see the same; -1 for no way."""
    ways = np.full(len(pairs), -1, np.int8)
    for at in range(0, len(pairs), _BLOCK):
        some = pairs[at : at + _BLOCK]
        first = rows[some[:, 0]]
        second = rows[some[:, 1]].reshape(-1, CELLS, CELLS)
        coarse = np.stack([along(first, _flat(laid(second, way))) for way in range(WAYS)])
        likely = np.flatnonzero(coarse.max(axis=0) >= _COARSE)
        if len(likely):
            found, score = best_way(small.pixels(some[likely, 0]), small.pixels(some[likely, 1]))
            ways[at + likely] = np.where(score >= WHOLE, found, -1)
    return ways


def _flat(pictures: npt.NDArray[np.float32]) -> Floats:
    return pictures.reshape(len(pictures), -1)


def _shapes(photos: DescribedCollection, small: SmallPictures, folder: Path) -> DescribedCollection:
    """The photos with another descriptor, that of their small pictures."""
    file = folder / "shapes.f32"
    digest = hashlib.sha256(photos.digest.encode())
    with replacing(file, durable=False) as temporary, temporary.open("wb") as out:
        for rows in small.shapes():
            digest.update(rows.tobytes())
            out.write(rows.tobytes())
    vectors = np.memmap(file, np.float32, "r").reshape(len(small), -1)
    return replace(photos, vectors=vectors, digest=digest.hexdigest())


def _pairs(asked: RowNumbers, near: NeighbourLists, alike: NeighbourLists, n: int) -> RowNumbers:
    found = [np.empty(0, np.int64)]
    for lists in (near, alike):
        others = lists["rows"].astype(np.int64)
        mine = np.broadcast_to(asked[:, None], others.shape)
        found.append((np.minimum(mine, others) * n + np.maximum(mine, others)).ravel())
    return np.stack(np.divmod(np.unique(np.concatenate(found)), max(n, 1)), axis=1)


def _parts(
    small: SmallPictures,
    rows: Floats,
    pairs: RowNumbers,
    watch: Callable[[int, int], None] | None,
) -> Floats:
    """How well one photo of each pair fits a window of the other."""
    best = np.zeros(len(pairs), np.float32)
    numbers = np.arange(len(pairs))
    wholes = np.concatenate([pairs[:, 0], pairs[:, 1]])
    others = np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(wholes, kind="stable")
    wholes, others, numbers = wholes[order], others[order], np.tile(numbers, 2)[order]
    edges = np.flatnonzero(np.diff(wholes, prepend=-1))
    for done, (begin, end) in enumerate(pairwise([*edges, len(wholes)]), 1):
        scores = part_scores(small.pixels([wholes[begin]])[0], rows[others[begin:end]])
        mine = numbers[begin:end]
        best[mine] = np.maximum(best[mine], scores)
        if watch is not None and (done % 1024 == 0 or done == len(edges)):
            watch(done, len(edges))
    return best


def _scores(photos: DescribedCollection, pairs: RowNumbers) -> Floats:
    scores = np.zeros(len(pairs), np.float32)
    for at in range(0, len(pairs), _BLOCK):
        some = pairs[at : at + _BLOCK]
        a, b = (np.asarray(photos.vectors[some[:, side]], np.float32) for side in (0, 1))
        scores[at : at + _BLOCK] = along(a, b)
    return scores
