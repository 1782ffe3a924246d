"""The embedded engine: vectors in a memory-mapped file, Faiss codes, metadata in SQLite.

```
photos.solar/
  catalogue.sqlite    photos, their rows, and which of the files below count
  vectors-1.f32       one row per photo; rows are only ever appended
  sketch-1-0.faiss    with --compress: small codes of the first rows
  local/              keypoints of photos that a search verified; may be deleted at any time
  .lock               held by the one writer
```

Bytes of the vectors file beyond the rows in the metadata do not count: a killed writer left them,
and the next one writes over them.

Vectors that are written at once form a block, whose checksum is in the metadata. A small file is
checked whole before its first search; of a large one, each block when an answer first comes from
it. `solar index check` reads everything.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from solar.arrays import AnyFloats, RowNumbers, Vectors
from solar.errors import SolarError
from solar.files import file_digest, regular, sync_folder
from solar.images import Roots
from solar.storage import compression, nearest
from solar.storage.catalogue import Metadata
from solar.storage.catalogue_view import CodesFile, DamageError, Version, View
from solar.storage.catalogued_folder import FolderState, FolderStorage, FolderWriter, creating
from solar.storage.conditions import Where
from solar.storage.nearest import DTYPES, mapped
from solar.storage.protocol import validated
from solar.storage.types import DescriptorSpec, Hit, Photo

COMPRESSIONS = ("none", "fp16", *compression.KINDS)

Block = tuple[int, int, str]
"""First row, rows and SHA-256 of vectors that were written at once."""

# Candidates that are ranked exactly: this many, or ten for every hit. Of 200,000 vectors around
# those of photos 400 found 0.988 to 0.995 of the ten best, 600 found 0.993 and more.
_CANDIDATES = 600
# Paths remembered by row: to read and check them again takes 7 % of a compressed search among a
# million vectors of 128 numbers, 1 % of an exact one.
_KNOWN = 100_000
_PIECE = 8192
# Up to this many rows, or an eighth of the others, are searched exactly before they get codes.
_TAIL = 8192
# Bytes of vectors that are checked before the first search: 0.03 to 0.1 s.
_CHECKED_AT_ONCE = 64 << 20


def create(
    address: str | os.PathLike[str],
    spec: DescriptorSpec,
    batches: Iterable[tuple[Sequence[Photo], Vectors]],
    roots: Roots | None = None,
    *,
    compress: str = "none",
) -> FolderEngine:
    """Make an index in a new or empty folder and fill it: whole, or not at all.

    With `compress` `none` and `fp16` (half the bytes) it is searched exactly. The others also store
    small codes that find candidates, which are then ranked exactly: `pq` (a 32nd of the bytes) and
    `ivf` (as `pq`, in lists of which an eighth is searched; the fastest).
    """
    refuse_compression(compress)
    folder = Path(address)
    with creating(folder) as view:
        view.begin(spec, compress, roots or Roots())
        suffix = ".f16" if compress == "fp16" else ".f32"
        view.set_version(Version(vectors=f"vectors-1{suffix}"))
        Writer(folder, view, spec.dim, compress).add(batches)
    return FolderEngine(folder, spec, compress)


def refuse_compression(compress: str) -> None:
    """A SolarError if there is no such compression."""
    if compress not in COMPRESSIONS:
        choices = ", ".join(COMPRESSIONS)
        raise SolarError(f"There is no compression {compress!r}: choose from {choices}.")


def open_index(address: str | os.PathLike[str], metadata: Metadata | None = None) -> FolderEngine:
    """Open an index of vectors in a folder; errors are those of `Metadata.facts`."""
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
        """The paths of rows, read from the metadata unless remembered."""
        found = {row: path for row in rows if (path := self.known.get(row)) is not None}
        if len(found) < len(rows):
            new = view.paths(rows - found.keys())
            if len(self.known) + len(new) > _KNOWN:
                self.known.clear()
            self.known.update(new)
            found |= new
        return found

    def present(self, first: int, last: int) -> RowNumbers | None:
        """The rows from first to last that were not removed; None for all of them."""
        gone = _between(self.removed, first, last)
        return np.delete(np.arange(first, last), gone - first) if len(gone) else None

    def refuse_short(self) -> None:
        """A SolarError if the file was cut short since: reading the map would end the process."""
        if len(self.vectors) and self.file.stat().st_size < self.vectors.nbytes:
            raise SolarError(f"{self.file} is cut short: restore it or build it again.")

    def damage(self, block: Block) -> str | None:
        """A sentence if a block is not what was written."""
        first, rows, digest = block
        if hashlib.sha256(self.vectors[first : first + rows].data).hexdigest() == digest:
            return None
        return (
            f"{self.file} is damaged in rows {first} to {first + rows - 1}: restore it or build "
            "the index again."
        )


class Writer(FolderWriter):
    """One change to an index of vectors."""

    patterns = ("vectors-*", "sketch-*")

    def __init__(self, folder: Path, view: View, dim: int, compress: str) -> None:
        super().__init__(folder, view)
        self._dim = dim
        self._kind = compress if compress in compression.KINDS else None

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Append photos and vectors; they replace older ones of the same path."""
        version, given, replaced = self._version, 0, 0
        rows = version.rows
        with self._appending(version.vectors, rows) as file:
            for batch in batches:
                photos, vectors = validated(*batch, self._dim, self._folder)
                self._append(file, vectors, rows)
                replaced += self._view.put(photos, rows)
                rows += len(photos)
                given += len(batch[0])
        photos_now = version.photos + rows - version.rows - replaced
        self._commit(replace(version, rows=rows, photos=photos_now))
        return given

    def compact(self) -> None:
        """Rewrite the vectors without removed photos, and make new codes."""
        version = replace(self._version, codes=())
        if version.photos < version.rows:
            old = mapped(self._folder / version.vectors, version.rows, self._dim)
            present = np.delete(np.arange(version.rows), self._view.removed())
            name = f"vectors-{version.number + 1}{Path(version.vectors).suffix}"
            self._view.renumber()
            with self._appending(name, 0) as file:
                for first in range(0, len(present), _PIECE):
                    self._append(file, old[present[first : first + _PIECE]], first)
            version = replace(version, vectors=name, rows=len(present))
        self._commit(version)

    def _commit(self, version: Version) -> None:
        super()._commit(self._with_codes(version))

    @contextlib.contextmanager
    def _appending(self, name: str, rows: int) -> Iterator[BinaryIO]:
        """Open the vectors file after its committed rows; synced to disk at the end."""
        path = self._folder / name
        path.touch()
        with regular(path).open("r+b") as file:
            file.seek(rows * self._dim * DTYPES[path.suffix].itemsize)
            file.truncate()
            yield file
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)

    def _append(self, file: BinaryIO, vectors: AnyFloats, first: int) -> None:
        data = np.ascontiguousarray(vectors, DTYPES[Path(file.name).suffix])
        file.write(data.data)
        self._view.add_block(first, len(data), hashlib.sha256(data.data).hexdigest())

    def _with_codes(self, version: Version) -> Version:
        """The version with codes for all rows, if enough rows are without."""
        first, last = version.coded_rows, version.rows
        if self._kind is None:
            return version
        due = last - first > max(_TAIL, first // 8) if version.codes else last >= compression.LEAST
        if not due:
            return version
        vectors = mapped(self._folder / version.vectors, last, self._dim)
        if version.codes:
            part = version.codes[0]
            codes = compression.read_part(self._folder / part.name, part.sha256)
        else:
            codes = compression.train(self._kind, vectors)
        parts = list(version.codes)
        for start, end in compression.stretches(self._kind, first, last):
            path = self._folder / f"sketch-{version.number + 1}-{len(parts)}.faiss"
            compression.write_part(codes, vectors[start:end], path)
            parts.append(CodesFile(path.name, end - start, file_digest(path)))
        sync_folder(self._folder)
        return replace(version, codes=tuple(parts))


class FolderEngine(FolderStorage[FolderVectors]):
    """An index in a folder; see `solar.storage.protocol.Engine`."""

    engine = "embedded"

    def __init__(
        self, folder: Path, spec: DescriptorSpec, compress: str, metadata: Metadata | None = None
    ) -> None:
        super().__init__(folder, spec, metadata)
        self.compress = compress
        self._codes: tuple[tuple[CodesFile, ...], compression.CompressedCodes] | None = None
        self._sound: set[tuple[Path, Block]] = set()

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim).

        With conditions, codes are not used.
        """
        load = self._state if where else self._state_with_codes
        with self._metadata.snapshot(load) as (view, state):
            candidates = self._candidates(view, state, queries, k, where)
            ranked = nearest.rank_all(queries, state.vectors, candidates, k)
            rows = {row for best in ranked for row, _ in best}
            self._check(state, rows)
            paths = state.paths(view, rows)
        return [[Hit(paths[row], score) for row, score in best] for best in ranked]

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """Photos and their vectors (dim,), by path; unknown paths are left out."""
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
                self._check(state, wanted)
                yield [photo for _, photo in batch], np.asarray(state.vectors[wanted], np.float32)

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path: all or none."""
        with self._metadata.writing() as view:
            return self._writer(view).add(batches)

    def close(self) -> None:
        """Let go of files and connections."""
        self._codes = None
        super().close()

    def _writer(self, view: View) -> Writer:
        return Writer(self.folder, view, self.spec.dim, self.compress)

    def _state_with_codes(self, view: View, version: Version) -> FolderVectors:
        """The state, its codes read where `snapshot` still tries again if a file is missing."""
        state = self._state(view, version)
        self._codes_of(version)
        return state

    def _load(self, view: View, version: Version) -> FolderVectors:
        file = self.folder / version.vectors
        vectors = mapped(file, version.rows, self.spec.dim)
        blocks = view.blocks()
        ends = [0, *(first + rows for first, rows, _ in blocks)]
        if [first for first, _, _ in blocks] != ends[:-1] or ends[-1] != version.rows:
            raise DamageError("the record of what was written has gaps")
        return FolderVectors(version, view.roots(), view.removed(), file, vectors, blocks)

    def _state(self, view: View, version: Version) -> FolderVectors:
        state = super()._state(view, version)
        state.refuse_short()
        return state

    def _check(self, state: FolderVectors, rows: Iterable[int]) -> None:
        """Check the blocks of some rows, or all of a small file; a SolarError if damaged."""
        with contextlib.suppress(FileNotFoundError):  # replaced: the old one stays mapped
            state.refuse_short()
        blocks = state.blocks
        if state.vectors.nbytes > _CHECKED_AT_ONCE:
            firsts = [first for first, _, _ in blocks]
            blocks = [blocks[i] for i in sorted({bisect_right(firsts, row) - 1 for row in rows})]
        for block in blocks:
            if (state.file, block) not in self._sound:
                if problem := state.damage(block):
                    raise SolarError(problem)
                self._sound.add((state.file, block))

    def _facts(self, state: FolderVectors, files: Mapping[str, int]) -> dict[str, Any]:
        version = state.version
        return {
            "compress": self.compress,
            "bytes_of_vectors": state.vectors.nbytes,
            "bytes_of_codes": sum(files.get(part.name, 0) for part in version.codes),
            "rows_outside_codes": version.rows - version.coded_rows if version.codes else 0,
        }

    def _problems(self, view: View, state: FolderVectors) -> list[str]:
        problems = [text for block in state.blocks if (text := state.damage(block))]
        codes = {part.name: part.sha256 for part in state.version.codes}
        return problems + self._damaged(codes, "run `solar index compact` to rebuild it")

    def _candidates(
        self, view: View, state: FolderVectors, queries: Vectors, k: int, where: Where
    ) -> RowNumbers:
        """Rows (n, m) that contain the k best: always without codes, nearly always with them."""
        if where:
            allowed = view.matching(where)
            return nearest.scan(queries, state.vectors, k, lambda *ends: _between(allowed, *ends))
        codes = self._codes_of(state.version)
        if codes is None:
            return nearest.scan(queries, state.vectors, k, state.present)
        found = _from_codes(state, codes, queries, max(_CANDIDATES, 10 * k))
        coded = state.version.coded_rows
        if coded == len(state.vectors):
            return found
        tail = nearest.scan(queries, state.vectors, k, state.present, start=coded)
        return np.concatenate([found, tail], axis=1)

    def _codes_of(self, version: Version) -> compression.CompressedCodes | None:
        if not version.codes:
            return None
        loaded = self._codes
        if loaded is None or loaded[0] != version.codes:
            parts = [
                compression.read_part(self.folder / part.name, part.sha256)
                for part in version.codes
            ]
            loaded = self._codes = version.codes, compression.CompressedCodes(parts)
        return loaded[1]


def _from_codes(
    state: FolderVectors, codes: compression.CompressedCodes, queries: Vectors, wanted: int
) -> RowNumbers:
    """Candidates among the rows that have codes."""
    count = wanted
    while True:
        found = codes.candidates(queries, count)
        if not len(state.removed):
            return found
        places = np.searchsorted(state.removed, found)
        present = np.where(np.append(state.removed, -1)[places] == found, -1, found)
        least = np.minimum(wanted, np.count_nonzero(found >= 0, axis=1))
        crowded = (np.count_nonzero(present >= 0, axis=1) < least).any()
        if not crowded or count >= state.version.coded_rows:
            return present
        count *= 4  # too many were removed photos


def _between(rows: RowNumbers, first: int, last: int) -> RowNumbers:
    """Those of ascending rows from first to last."""
    return rows[slice(*np.searchsorted(rows, (first, last)))]
