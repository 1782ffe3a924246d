"""The embedded engine: vectors in a memory-mapped file, Faiss codes, metadata in SQLite.

```
photos.solar/
  catalogue.sqlite    photos, their rows, and which of the files below count (see metadata.py)
  vectors-1.f32       one row per photo; rows are only ever appended
  sketch-1-0.faiss    with --compress: small codes of the first so many rows
  local/              keypoints of photos that a search verified; may be deleted at any time
  .lock               held by the one writer
```

Bytes of the vectors file beyond the rows in the metadata do not exist: a killed writer left them,
and the next one writes over them. Opening reads a few lines of the metadata and maps the vectors,
whatever their number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import AnyFloats, RowNumbers, Vectors
from solar.errors import SolarError
from solar.images import Roots
from solar.storage import nearest
from solar.storage.catalogue import Metadata
from solar.storage.catalogue_view import CodesFile, DamageError, Version, View
from solar.storage.catalogued_folder import FolderState, FolderStorage, creating
from solar.storage.checksums import (
    Block,
    CheckedVectors,
    damage,
    gaps,
    rows_of,
    whole,
    whole_if_there,
)
from solar.storage.compression import CompressedCodes, read_part
from solar.storage.conditions import Where
from solar.storage.nearest import mapped
from solar.storage.types import DescriptorSpec, Hit, Photo
from solar.storage.writer import COMPRESSIONS, Writer, first_version

# Candidates that are ranked exactly: this many, or ten for every hit. Of 200,000 vectors around
# those of photos 400 found 0.988 to 0.995 of the ten best, 600 found 0.993 and more.
_CANDIDATES = 600
# Photos that searches found, whose rows need not be read and compared with their sums again: to do
# so takes 7 % of a compressed search among a million vectors of 128 numbers, 1 % of an exact one.
_KNOWN = 100_000


def create(
    address: str | os.PathLike[str],
    spec: DescriptorSpec,
    batches: Iterable[tuple[Sequence[Photo], Vectors]],
    roots: Roots | None = None,
    *,
    compress: str = "none",
) -> FolderEngine:
    """Make an index in a new or empty folder and fill it: whole, or not at all.

    With `compress` `none` and `fp16` (half the bytes) it is searched exactly. The others keep small
    codes beside the vectors that find candidates, which are then ranked exactly: `pq` (a 32nd of
    the bytes) and `ivf` (as `pq`, in lists of which an eighth is searched; the fastest).
    """
    refuse_compression(compress)
    folder = Path(address)
    with creating(folder) as view:
        view.begin(spec, compress, roots or Roots())
        view.set_version(first_version(compress))
        Writer(folder, view, spec.dim, compress).add(batches)
    return FolderEngine(folder, spec, compress)


def refuse_compression(compress: str) -> None:
    """A SolarError if no new index can be compressed so."""
    if compress not in COMPRESSIONS:
        choices = ", ".join(COMPRESSIONS)
        raise SolarError(f"There is no compression {compress!r}: choose from {choices}.")


def open_index(address: str | os.PathLike[str], metadata: Metadata | None = None) -> FolderEngine:
    """Open an index of vectors in a folder; a SolarError as `Metadata.facts` has it."""
    folder = Path(address)
    metadata = metadata or Metadata(folder)
    return FolderEngine(folder, *metadata.facts, metadata)


@dataclass(frozen=True)
class FolderVectors(FolderState):
    """One committed version with its vectors mapped."""

    file: Path
    vectors: AnyFloats
    blocks: Sequence[Block]
    known: dict[int, str] = field(default_factory=dict)

    def paths(self, view: View, rows: set[int]) -> dict[int, str]:
        """The paths of rows; those that were found before are still known."""
        found = {row: path for row in rows if (path := self.known.get(row)) is not None}
        if len(found) < len(rows):
            new = view.paths(rows - found.keys())
            if len(self.known) + len(new) > _KNOWN:
                self.known.clear()
            self.known.update(new)
            found |= new
        return found

    def present(self, first: int, last: int) -> RowNumbers | None:
        """The rows of first..last that were not removed; None for all of them."""
        gone = _between(self.removed, first, last)
        return np.delete(np.arange(first, last), gone - first) if len(gone) else None

    def without_removed(self, rows: RowNumbers) -> RowNumbers:
        """The rows, with -1 in place of those that were removed."""
        places = np.searchsorted(self.removed, rows)
        return np.where(np.append(self.removed, -1)[places] == rows, -1, rows)


class FolderEngine(FolderStorage[FolderVectors]):
    """An index in a folder; see `solar.storage.protocol.Engine`."""

    engine = "embedded"

    def __init__(
        self, folder: Path, spec: DescriptorSpec, compress: str, metadata: Metadata | None = None
    ) -> None:
        super().__init__(folder, spec, metadata)
        self.compress = compress
        self._codes: tuple[tuple[CodesFile, ...], CompressedCodes] | None = None
        self._checked = CheckedVectors()

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim).

        With conditions every photo that satisfies them is compared, also in a compressed index.
        """
        load = self._state if where else self._state_with_codes
        with self._metadata.snapshot(load) as (view, state):
            candidates = self._candidates(view, state, queries, k, where)
            ranked = nearest.rank_all(queries, state.vectors, candidates, k)
            rows = rows_of(ranked)
            self._check(state, rows)
            paths = state.paths(view, rows)
        return [[Hit(paths[row], score) for row, score in best] for best in ranked]

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """What is known of photos and their vectors (dim,), by path; unknown paths are left out."""
        with self._metadata.snapshot(self._state) as (view, state):
            found = view.find(paths)
            self._check(state, (row for row, _ in found))
            return {
                photo.path: (photo, np.array(state.vectors[row], np.float32))
                for row, photo in found
            }

    def batches(self, rows: int = 4096) -> Iterator[tuple[list[Photo], Vectors]]:
        """Everything, ascending by row, in pieces of at most `rows`, from one committed state."""
        with self._metadata.snapshot(self._state) as (view, state):
            for batch in view.batches(rows):
                wanted = [row for row, _ in batch]
                whole_if_there(state.file, state.vectors)  # time has passed since the last batch
                self._check(state, wanted)
                yield [photo for _, photo in batch], np.asarray(state.vectors[wanted], np.float32)

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path: all of them at once, or none."""
        with self._metadata.writing() as view:
            return self._writer(view).add(batches)

    def close(self) -> None:
        """Let go of files and connections."""
        self._codes = None
        super().close()

    def _writer(self, view: View) -> Writer:
        return Writer(self.folder, view, self.spec.dim, self.compress)

    def _state_with_codes(self, view: View, version: Version) -> FolderVectors:
        """The state, with its codes read while a newer version can take the place of this one."""
        state = self._state(view, version)
        self._codes_of(version)
        return state

    def _load(self, view: View, version: Version) -> FolderVectors:
        file = self.folder / version.vectors
        vectors = mapped(file, version.rows, self.spec.dim)
        blocks = view.blocks()
        if gaps(blocks, version.rows):
            raise DamageError("the record of what was written has gaps")
        return FolderVectors(version, view.roots(), view.removed(), file, vectors, blocks)

    def _state(self, view: View, version: Version) -> FolderVectors:
        state = super()._state(view, version)
        whole(state.file, state.vectors)
        return state

    def _check(self, state: FolderVectors, rows: Iterable[int]) -> None:
        self._checked.check(state.file, state.vectors, state.blocks, rows)

    def _facts(self, state: FolderVectors, files: Mapping[str, int]) -> dict[str, Any]:
        version = state.version
        return {
            "compress": self.compress,
            "bytes_of_vectors": state.vectors.nbytes,
            "bytes_of_codes": sum(files.get(part.name, 0) for part in version.codes),
            "rows_outside_codes": version.rows - version.coded_rows if version.codes else 0,
        }

    def _problems(self, view: View, state: FolderVectors) -> list[str]:
        """The vectors are not those that were written, or the codes."""
        found = [damage(state.file, state.vectors, block) for block in state.blocks]
        problems = [problem for problem in found if problem]
        codes = {part.name: part.sha256 for part in state.version.codes}
        return problems + self._damaged(codes, "run `solar index compact` to rebuild it")

    def _candidates(
        self, view: View, state: FolderVectors, queries: Vectors, k: int, where: Where
    ) -> RowNumbers:
        """Rows (n, m) among which the k best are: surely so without codes, nearly always with."""
        if where:
            allowed = view.matching(where)
            return _matrix(
                nearest.scan(queries, state.vectors, k, lambda *ends: _between(allowed, *ends))
            )
        codes = self._codes_of(state.version)
        if codes is None:
            return _matrix(nearest.scan(queries, state.vectors, k, state.present))
        found = _from_codes(state, codes, queries, max(_CANDIDATES, 10 * k))
        coded = state.version.coded_rows
        if coded == len(state.vectors):
            return found
        tail = nearest.scan(queries, state.vectors, k, state.present, start=coded)
        return np.concatenate([found, _matrix(tail)], axis=1)

    def _codes_of(self, version: Version) -> CompressedCodes | None:
        """The codes, read when they are first searched."""
        if not version.codes:
            return None
        loaded = self._codes
        if loaded is None or loaded[0] != version.codes:
            parts = [read_part(self.folder / part.name, part.sha256) for part in version.codes]
            loaded = self._codes = version.codes, CompressedCodes(parts)
        return loaded[1]


def _from_codes(
    state: FolderVectors, codes: CompressedCodes, queries: Vectors, wanted: int
) -> RowNumbers:
    """Candidates among the rows that have codes."""
    count = wanted
    while True:
        found = codes.candidates(queries, count)
        if not len(state.removed):
            return found
        present = state.without_removed(found)
        least = np.minimum(wanted, np.count_nonzero(found >= 0, axis=1))
        crowded = (np.count_nonzero(present >= 0, axis=1) < least).any()
        if not crowded or count >= state.version.coded_rows:
            return present
        count *= 4  # removed photos took the places of others


def _matrix(lists: Sequence[RowNumbers]) -> RowNumbers:
    """Lists of rows as the rows of a matrix, filled up with -1."""
    matrix = np.full((len(lists), max(map(len, lists), default=0)), -1, np.int64)
    for number, rows in enumerate(lists):
        matrix[number, : len(rows)] = rows
    return matrix


def _between(rows: RowNumbers, first: int, last: int) -> RowNumbers:
    """Those of ascending rows that lie in first..last."""
    return rows[slice(*np.searchsorted(rows, (first, last)))]
