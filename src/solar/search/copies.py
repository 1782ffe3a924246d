"""Which photos of an index one photo is a copy or a crop of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from solar.errors import SolarError
from solar.images import Source
from solar.images.small_picture import small_picture
from solar.search.duplicate_report import COPIES, KINDS
from solar.search.engine import Engine, Vectors
from solar.search.photo_relation import SETTINGS, PhotoComparer, Relation
from solar.search.picture_windows import PART, part_scores, patterns
from solar.search.small_pictures import SmallPictures, small_pictures
from solar.search.symmetries import ALIKE, SHAPE, WHOLE, best_way, invariant
from solar.search.verify import index_verifier

K = 20
"""Neighbours by descriptor that are looked at."""


@dataclass(frozen=True)
class FoundCopy:
    """A photo of an index that another is made from, or that is made from it.

    Attributes:
        path: The indexed photo.
        score: Cosine similarity of the descriptors.
        relation: How the photo that was asked for is related to it: kind, mapping, reason.
    """

    path: str
    score: float
    relation: Relation

    def __str__(self) -> str:
        return f"{self.relation.kind} of {self.path}: {self.relation.how}"


class CopyFinder:
    """Answers for one photo after the other; the small pictures of the index stay in memory.

    Photos that were noted count like those of the index, until they are added to it.
    """

    def __init__(self, engine: Engine) -> None:
        verifier = index_verifier(engine, SETTINGS)
        assert verifier.cache is not None
        self._engine, self.count = engine, len(engine)
        self._comparer = PhotoComparer(verifier, places=False)
        self._names = [photo.path for photos in engine.photos() for photo in photos]
        self._rows = {name: row for row, name in enumerate(self._names)}
        folder = verifier.cache.folder.parent
        self._small: SmallPictures = small_pictures(self._names, engine.roots.find, folder)
        blocks = [np.empty((0, SHAPE), np.float32), *self._small.shapes()]
        self._shapes = np.concatenate(blocks)
        self._noted: list[tuple[str, Source, npt.NDArray[np.uint8], Vectors]] = []

    def find(self, photo: Source, vector: Vectors, own: set[str]) -> list[FoundCopy]:
        """The photos that this one, with its descriptor (dim,), is a copy or crop of, best first.

        A SolarError if it cannot be read. Indexed photos that cannot be are passed over.
        """
        picture, *_ = small_picture(photo)
        asked = self._comparer.given(photo)
        found = []
        candidates = [one for one in self._candidates(picture, vector) if one[0] not in own]
        if not candidates:
            return []
        inside = part_scores(picture, patterns(np.stack([one[2] for one in candidates])))
        for (name, other, pixels, score), part in zip(candidates, inside, strict=True):
            [way], [fit] = best_way(pixels[None], picture[None])
            whole = fit >= WHOLE
            if not whole and part < PART and _part(pixels, picture) < PART:
                continue
            try:
                compared = (
                    self._comparer.photo(name) if other is None else self._comparer.given(other)
                )
                relation = self._comparer.relation(compared, asked, int(way) if whole else None)
            except SolarError:
                continue
            if relation is not None and relation.kind in COPIES:
                found.append(FoundCopy(name, score, relation))
        return sorted(found, key=lambda one: (KINDS.index(one.relation.kind), -one.score))

    def note(self, name: str, photo: Source, vector: Vectors) -> None:
        """Have a photo count that will be in the index soon."""
        self._noted.append((name, photo, small_picture(photo)[0], vector))

    def _candidates(
        self, picture: npt.NDArray[np.uint8], vector: Vectors
    ) -> list[tuple[str, Source | None, npt.NDArray[np.uint8], float]]:
        """Names, files where they are not in the index, small pictures, and similarities."""
        [hits] = self._engine.search(vector[None], K, ())
        scores = {hit.path: hit.score for hit in hits}
        alike = self._shapes @ invariant(picture[None])[0]
        nearest = np.argsort(-alike, kind="stable")[:ALIKE].tolist()
        names = list(dict.fromkeys([*scores, *(self._names[row] for row in nearest)]))
        more = self._engine.lookup([name for name in names if name not in scores])
        scores |= {name: float(row @ vector) for name, (_, row) in more.items()}
        known: list[tuple[str, Source | None, npt.NDArray[np.uint8], float]] = [
            (name, None, self._small.pixels([self._rows[name]])[0], scores[name])
            for name in names
            if name in self._rows and name in scores
        ]
        noted = [
            (name, photo, pixels, float(row @ vector)) for name, photo, pixels, row in self._noted
        ]
        return [*known, *noted]


def _part(whole: npt.NDArray[np.uint8], part: npt.NDArray[np.uint8]) -> float:
    return float(part_scores(whole, patterns(part[None]))[0])


def kept_finder(engine: Engine, kept: dict[str, Any]) -> CopyFinder:
    """What answers for an index, made once, and again when photos were added or removed."""
    finder: CopyFinder | None = kept.get("copies")
    if finder is None or finder.count != len(engine):
        finder = kept["copies"] = CopyFinder(engine)
    return finder
