"""What every kind of storage does; `solar.index.index` chooses one by its address."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import Roots, Stamp
from solar.storage.conditions import Where
from solar.storage.rows import Matrix
from solar.storage.types import Amendment, DescriptorSpec, Hit, Photo, Skipped

_ROUNDED = 0.01  # numbers rounded to 16 or 8 bits change a norm by less


class NoIndexError(SolarError):
    """There is no index at an address."""


class NoVectorsError(SolarError, AttributeError):
    """An index of local features was asked for what takes one vector per photo."""

    def __init__(self) -> None:
        super().__init__(
            "This index compares local features (ASMK) and has no vectors for that: build one "
            "with `solar index build` instead."
        )


@dataclass(frozen=True)
class Piece:
    """What a run has described at once.

    Attributes:
        photos: Photos that have a vector.
        vectors: Their vectors (n, dim), or the SHA-256 of a segment that holds them.
        skipped: Files that could not be described; a photo of that name in the index is removed.
    """

    photos: Sequence[Photo]
    vectors: Matrix | str
    skipped: Mapping[str, Skipped] = field(default_factory=dict)


class Engine(Protocol):
    """Where an index of any kind keeps its photos, by their unique paths.

    Safe for several threads, and for many readers beside one writer: a search sees one committed
    state. Without vectors, what takes or gives some raises a NoVectorsError. Scores are inner
    products, best first. The module of an engine has `begin(address, spec, roots, **options)`,
    `finished(address)`, `open_index(address, **options)` and `index_name(address)`, and a line in
    `ENGINES` of `solar.index.index`.
    """

    spec: DescriptorSpec

    @property
    def folder(self) -> Path | None:
        """Its folder; None for a server."""

    @property
    def version(self) -> int:
        """Another number after every change by any process; cheap to ask for."""

    def __len__(self) -> int: ...

    @property
    def roots(self) -> Roots:
        """Where the photos are."""

    @property
    def roots_seen(self) -> Roots:
        """Where they were when the index was last searched, without reading again."""

    def stamps(self) -> dict[str, Stamp | None]:
        """The stamp of every photo's file when it was described, by path."""

    def skipped(self) -> dict[str, Skipped]:
        """Files that the latest build or sync left out, as far as the engine stores them."""

    def amend(self, change: Amendment) -> None:
        """Make changes for which nothing has to be described; paths must be indexed."""

    def find(self, paths: Sequence[str]) -> dict[str, Photo]:
        """Photos by path; unknown paths are left out."""

    def field_names(self) -> list[str]:
        """The names of own fields, sorted."""

    def has_field(self, name: str) -> bool:
        """Whether a photo has this own field."""

    def photos(self, rows: int = 4096) -> Iterator[list[Photo]]:
        """All photos, in a fixed order and pieces of at most `rows`."""

    def info(self) -> dict[str, Any]:
        """Facts to print: at least `engine`, `photos` and `bytes`."""

    def check(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence per problem."""

    def compact(self) -> None:
        """Reclaim space from removed photos, and rebuild the search index."""

    def close(self) -> None:
        """Close files and connections."""

    def filling(self) -> AbstractContextManager[None]:
        """Held by the one run that describes photos; a SolarError if there is another."""

    @property
    def unfinished(self) -> bool:
        """Whether a build has still to add photos."""

    def finish(self) -> None:
        """Note that a build is complete."""

    def discard(self) -> None:
        """Delete an index that was begun and holds no photo."""

    # Unit vectors

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim)."""

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """Photos and their vectors (dim,), by path; unknown paths are left out."""

    def batches(self, rows: int = 4096) -> Iterator[tuple[list[Photo], Vectors]]:
        """Everything, in the order of `photos`, from one committed state."""

    def sample(self, count: int) -> tuple[list[Photo], Vectors]:
        """Some photos, at most `count` and like a random choice, and their vectors (n, dim)."""

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path, all or none; returns how many.

        A SolarError if another process is writing, the disk is full, or vectors do not fit.
        """

    def fill(self, piece: Piece) -> None:
        """Add what a run has described at once, and note what it could not describe."""

    @property
    def incoming(self) -> tuple[Path, str] | None:
        """The folder to which processes of a run write segments, and how their files end.

        None if they must send vectors.
        """

    def mapped(self) -> tuple[list[Photo], Matrix]:
        """All photos and their vectors (n, dim), in the order of `batches`, mapped if possible."""


def validated(
    photos: Sequence[Photo], vectors: Vectors, dim: int, where: object
) -> tuple[Sequence[Photo], Vectors]:
    """Photos and vectors for an engine: of two photos with one path, the later.

    A SolarError if shapes do not fit each other or `where`, or a vector is not of unit norm: scores
    would not be cosines.
    """
    if vectors.shape != (len(photos), dim):
        raise SolarError(
            f"{where} holds vectors of length {dim}: {len(photos)} photos need an array of shape "
            f"({len(photos)}, {dim}), not {vectors.shape}."
        )
    sound = np.isfinite(vectors).all(axis=1)
    if not sound.all():
        path = photos[int(sound.argmin())].path
        raise SolarError(f"The vector of {path} is not finite: describe the photo again.")
    norms = np.linalg.norm(vectors, axis=1)
    if len(norms) and (off := np.abs(norms - 1)).max() > _ROUNDED:
        worst = int(off.argmax())
        raise SolarError(
            f"The vector of {photos[worst].path} has a norm of {norms[worst]:.4g}: {where} takes "
            "vectors of norm 1, so divide each by its norm."
        )
    last = {photo.path: number for number, photo in enumerate(photos)}
    if len(last) == len(photos):
        return photos, vectors
    kept = sorted(last.values())
    return [photos[number] for number in kept], vectors[kept]
