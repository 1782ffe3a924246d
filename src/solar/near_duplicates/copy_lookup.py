"""Which photos of an index one photo is a copy or a crop of."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from solar.arrays import Pixels, Vectors
from solar.errors import SolarError
from solar.images import ImageError, Photos, Source
from solar.images.roots import expanded
from solar.near_duplicates.candidates import likely_parts
from solar.near_duplicates.crop_fit import copy_ways, patterns
from solar.near_duplicates.orientations import ALIKE, invariant
from solar.near_duplicates.relation import SETTINGS, PhotoComparer
from solar.near_duplicates.report import COPIES, KINDS, Relation
from solar.near_duplicates.small_pictures import small_picture, small_pictures
from solar.ranking.verify import index_verifier
from solar.storage.protocol import NoVectorsError

if TYPE_CHECKING:
    from solar.index.ingest import Changes
    from solar.index.photo_index import PhotoIndex

_NEIGHBOURS = 20  # by descriptor

_Candidate: TypeAlias = tuple[str, Callable[[], Source] | None, Pixels, float]


@dataclass(frozen=True)
class FoundCopy:
    """A photo of an index, and how the photo that was asked for is related to it.

    Attributes:
        path: The indexed photo.
        relation: From the indexed photo, a, to the one asked for, b.
    """

    path: str
    relation: Relation

    @property
    def whole(self) -> bool:
        """Whether the indexed photo shows all of the one that was asked for."""
        return self.relation.within[1]

    def __str__(self) -> str:
        if self.relation.kind == "exact":
            return f"the same picture as {self.path}"
        if self.whole:
            return f"a {self.relation.kind} of {self.path}: {self.relation.how}"
        return f"not all of it is in {self.path}: {self.relation.why}"


class CopyFinder:
    """Finds copies for one photo after the other; the small pictures stay in memory.

    The first one reads a small picture of every indexed photo that has none yet. Photos passed to
    `note` count like those of the index, until the index changes.

    Args:
        index: An index of vectors. A SolarError if it is unknown where its photos are, or OpenCV is
            not installed.
    """

    def __init__(self, index: PhotoIndex) -> None:
        if not index.has_vectors:
            raise NoVectorsError
        self._index, self._engine = index, index.engine
        self._load()

    def _load(self) -> None:
        engine = self._engine
        self._version = engine.version
        verifier = index_verifier(engine, SETTINGS)
        assert verifier.cache is not None
        self._comparer = PhotoComparer(verifier, places=False)
        self._names = [photo.path for photos in engine.photos() for photo in photos]
        self._rows = {name: row for row, name in enumerate(self._names)}
        folder = verifier.cache.folder
        self._small = small_pictures(self._names, engine.roots.find, folder)
        self._shapes = self._small.shapes()
        self._noted: list[tuple[str, Callable[[], Source], Pixels]] = []
        self._noted_vectors, self._noted_shapes = list[Vectors](), list[Vectors]()

    def find(self, photo: Source, vector: Vectors | None = None) -> list[FoundCopy]:
        """The indexed photos that a photo is a copy or a crop of, or they of it, best first.

        A SolarError if it cannot be read. Unreadable photos of the index are skipped. `vector` is
        its descriptor (dim,), if known.
        """
        if self._version != self._engine.version:
            self._load()
        vector = self._index.describe(photo) if vector is None else vector
        path = expanded(Path(photo)) if isinstance(photo, str | os.PathLike) else None
        own = None if path is None else self._index.roots.name_of(path)
        picture, *_ = small_picture(photo)
        asked = self._comparer.given(photo)
        found = []
        candidates = [one for one in self._candidates(picture, vector) if one[0] != own]
        if not candidates:
            return []
        pictures = np.stack([picture, *(one[2] for one in candidates)])
        ways = copy_ways(pictures[1:], np.broadcast_to(picture, pictures[1:].shape)).tolist()
        pairs = np.array([(0, number) for number in range(1, len(pictures))])
        parts = likely_parts(pictures, patterns(pictures), pairs).tolist()
        for (name, other, _, score), way, part in zip(candidates, ways, parts, strict=True):
            if way < 0 and not part:
                continue
            try:
                comparer = self._comparer
                compared = comparer.photo(name) if other is None else comparer.given(other())
                relation = comparer.relation(compared, asked, way, part=part)
            except SolarError:
                continue
            if relation is not None and relation.kind in COPIES:
                rank = KINDS.index(relation.kind), -score
                found.append((rank, FoundCopy(name, replace(relation, score=score))))
        return [copy for _, copy in sorted(found, key=lambda one: one[0])]

    def note(self, name: str, read: Callable[[], Source], vector: Vectors) -> None:
        """Count a photo that will soon be in the index; `read` is called again when needed."""
        picture, *_ = small_picture(read())
        self._noted.append((name, read, picture))
        self._noted_vectors.append(vector)
        self._noted_shapes.append(invariant(picture[None])[0])

    def _candidates(self, picture: Pixels, vector: Vectors) -> list[_Candidate]:
        """Names, files where they are not in the index, small pictures, and similarities."""
        shape = invariant(picture[None])[0]
        [hits] = self._index.nearest([vector], _NEIGHBOURS, ())
        scores = {hit.path: hit.score for hit in hits}
        nearest = _best(self._shapes @ shape, ALIKE)
        names = [self._names[row] for row in nearest]
        more = self._index.lookup([name for name in names if name not in scores])
        scores |= {name: min(float(row @ vector), 1.0) for name, (_, row) in more.items()}
        known: list[_Candidate] = [
            (name, None, self._small.all[self._rows[name]], score)
            for name, score in scores.items()
            if name in self._rows
        ]
        if not self._noted:
            return known
        similar = np.minimum(np.array(self._noted_vectors) @ vector, 1)
        alike = np.array(self._noted_shapes) @ shape
        rows = dict.fromkeys([*_best(similar, _NEIGHBOURS), *_best(alike, ALIKE)])
        return [*known, *((*self._noted[row], float(similar[row])) for row in rows)]


def _best(scores: Vectors, k: int) -> list[int]:
    best: list[int] = np.argsort(-scores, kind="stable")[:k].tolist()
    return best


def without_copies(
    index: PhotoIndex, photos: Photos, changes: Changes
) -> tuple[Changes, dict[str, str]]:
    """Leave out new photos that are copies or crops of indexed ones, or of each other.

    For `solar.index.add.add`. The index does not remember these: when the original is removed, they
    count as new. Returns the changes without them, and those left out with what each is a copy of.
    """
    finder = CopyFinder(index)
    copies: dict[str, str] = {}
    for name in changes.new:
        if name in changes.copied:
            copies[name] = f"the same file as {changes.copied[name]}"
            continue
        read = partial(photos.read, photos.numbers[name])
        try:
            photo = read()
            vector = index.describe(photo)
            found = next((one for one in finder.find(photo, vector) if one.whole), None)
            if found is not None:
                copies[name] = str(found)
            else:
                finder.note(name, read, vector)
        except ImageError:
            continue  # reported when it is described
    left = replace(
        changes,
        new=tuple(name for name in changes.new if name not in copies),
        copied={name: like for name, like in changes.copied.items() if name not in copies},
    )
    return left, copies
