"""The embedded engine: vectors in memory-mapped segments, Faiss codes, metadata in SQLite.

```
photos.solar/
  catalogue.sqlite      photos, their rows, and which of the files below count
  segments/3f2a….f32    vectors that were written at once, named by their SHA-256; never changed
  codes/1-0.faiss       with --compress: small codes of the first rows
  local/                keypoints of photos that a search verified; may be deleted at any time
  .lock, .filling       held by the one writer, and by the one run that describes photos
```

A segment counts once the catalogue names it. Others were left by a killed writer, and the next one
deletes them. `solar.storage.damage` says when they are checked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
from solar.files import file_digest, sync_folder, unwritable
from solar.images import Roots
from solar.storage import compression, nearest, segments
from solar.storage.catalogue import Metadata
from solar.storage.catalogue_view import CodesFile, DamageError, Segment, Version, View
from solar.storage.conditions import Where
from solar.storage.damage import (
    Mapped,
    check_segments,
    damage,
    damaged_files,
    holding,
    refuse_short,
)
from solar.storage.folder_base import (
    FolderState,
    FolderStorage,
    FolderWriter,
    being_filled,
    creating,
)
from solar.storage.protocol import NoIndexError, Piece, validated
from solar.storage.rows import DTYPES, Matrix, Rows, mapped
from solar.storage.types import DescriptorSpec, Hit, Photo

COMPRESSIONS = ("none", "fp16", *compression.KINDS)

MOST_SEGMENTS = 512
"""With more, the two smallest neighbours become one: each takes a file handle."""

_CODES = "codes"
# Candidates that are ranked exactly: this many, or ten for every hit. Of 200,000 vectors around
# those of photos 400 found 0.988 to 0.995 of the ten best, 600 found 0.993 and more.
_CANDIDATES = 600
# Paths remembered by row: to read and check them again takes 7 % of a compressed search among a
# million vectors of 128 numbers, 1 % of an exact one.
_KNOWN = 100_000
# Up to this many rows, or an eighth of the others, are searched exactly before they get codes.
_TAIL = 8192


def begin(
    address: str | os.PathLike[str],
    spec: DescriptorSpec,
    roots: Roots | None = None,
    *,
    compress: str = "none",
) -> FolderEngine:
    """Start an index that a run fills, or open the one that a killed run has begun there.

    With `compress` `none` and `fp16` (half the bytes) it is searched exactly. The others also store
    small codes that find candidates, which are then ranked exactly: `pq` (a 32nd of the bytes) and
    `ivf` (as `pq`, in lists of which an eighth is searched; the fastest). An index without photos
    that was begun otherwise is begun again. A SolarError if it is finished.
    """
    refuse_compression(compress)
    folder = Path(address)
    with creating(folder) as (view, known):
        if known is None:
            with being_filled(folder):  # or a run that has just begun would go on otherwise
                known = spec, compress
                view.begin(spec, compress, roots or Roots())
    if known[1] != compress:
        raise SolarError(
            f"{folder} was begun with the compression {known[1]}, not {compress}: use the same "
            "again to continue, or delete it to start over."
        )
    return FolderEngine(folder, *known)


def finished(address: str | os.PathLike[str]) -> bool:
    """Whether there is an index in a folder that no build has still to add photos to."""
    metadata = Metadata(Path(address))
    try:
        _ = metadata.facts
        with metadata.reading() as view:
            return not view.unfinished()
    except NoIndexError:
        return False
    finally:
        metadata.close()


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
class FolderVectors(Mapped, FolderState):
    """One committed version with its segments mapped."""

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


class Writer(FolderWriter):
    """One change to an index of vectors."""

    patterns = (f"{segments.FOLDER}/*", f"{_CODES}/*")

    def __init__(self, folder: Path, view: View, dim: int, compress: str) -> None:
        self._suffix = suffix_of(compress)
        self._segments = view.segments()
        super().__init__(folder, view)
        self._dim = dim
        self._kind = compress if compress in compression.KINDS else None

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Append photos and vectors; they replace older ones of the same path."""
        given, replaced, waiting = 0, 0, list[Vectors]()
        rows = self._version.rows
        for batch in batches:
            photos, vectors = validated(*batch, self._dim, self._folder)
            replaced += self._view.put(photos, rows)
            rows += len(photos)
            given += len(batch[0])
            waiting.append(vectors)
            if sum(part.nbytes for part in waiting) >= segments.SEGMENT_BYTES:
                self._append(np.concatenate(waiting))
                waiting.clear()
        if waiting:
            self._append(np.concatenate(waiting))
        self._added(rows, replaced)
        return given

    def fill(self, piece: Piece) -> None:
        """Add what was described at once."""
        rows = self._version.rows + len(piece.photos)
        replaced = self._view.put(piece.photos, self._version.rows)
        if isinstance(piece.vectors, str):
            segments.accept(self._folder, piece.vectors, self._suffix)
            self._take(piece.vectors, len(piece.photos))
        else:
            self._append(piece.vectors)
        gone = self._view.drop(list(piece.skipped))  # what they showed before
        if piece.skipped:
            self._view.skip(piece.skipped)
        self._added(rows, replaced + gone)

    def _added(self, rows: int, replaced: int) -> None:
        before = self._version
        photos = before.photos + rows - before.rows - replaced
        while len(self._segments) > MOST_SEGMENTS:
            self._merge()
        self._commit(replace(before, rows=rows, photos=photos))

    def compact(self) -> None:
        """Rewrite the vectors without removed photos, and make new codes."""
        version = replace(self._version, codes=())
        few = max(1, segments.SEGMENT_BYTES // (self._dim * DTYPES[self._suffix].itemsize))
        if version.photos < version.rows or len(self._segments) > 2 + version.rows // few:
            present = np.delete(np.arange(version.rows), self._view.removed())
            old = self._rows().select(present)
            self._view.renumber()
            self._segments = []
            for first in range(0, len(old), few):
                self._append(old[first : first + few])
            version = replace(version, rows=len(old))
        self._commit(version)

    def _commit(self, version: Version) -> None:
        self._view.set_segments(self._segments)
        super()._commit(self._with_codes(version))

    def _names(self) -> list[str]:
        files = [segments.place(Path(), one.sha256, self._suffix) for one in self._segments]
        return [*(file.as_posix() for file in files), *super()._names()]

    def _append(self, vectors: Matrix) -> None:
        if len(vectors):
            folder = segments.place(self._folder, "", self._suffix).parent
            self._take(*segments.write(vectors, folder, self._suffix))

    def _take(self, digest: str, rows: int) -> None:
        first = sum(one.rows for one in self._segments[-1:])
        first += self._segments[-1].first if self._segments else 0
        self._segments.append(Segment(first, rows, digest))

    def _merge(self) -> None:
        """Make one segment of the two smallest neighbours; rows keep their numbers."""
        number = int(np.argmin([a.rows + b.rows for a, b in pairwise(self._segments)]))
        one, other = self._segments[number : number + 2]
        both = self._rows()[one.first : other.first + other.rows]
        folder = segments.place(self._folder, "", self._suffix).parent
        digest, rows = segments.write(both, folder, self._suffix)
        self._segments[number : number + 2] = [Segment(one.first, rows, digest)]

    def _rows(self) -> Rows:
        files = (segments.place(self._folder, s.sha256, self._suffix) for s in self._segments)
        pairs = zip(files, self._segments, strict=True)
        return Rows([mapped(file, one.rows, self._dim) for file, one in pairs], self._dim)

    def _with_codes(self, version: Version) -> Version:
        """The version with codes for all rows, if enough rows are without."""
        first, last = version.coded_rows, version.rows
        if self._kind is None:
            return version
        due = last - first > max(_TAIL, first // 8) if version.codes else last >= compression.LEAST
        if not due:
            return version
        vectors = self._rows()
        if version.codes:
            part = version.codes[0]
            codes = compression.read_part(self._folder / part.name, part.sha256)
        else:
            codes = compression.train(self._kind, vectors)
        parts = list(version.codes)
        (self._folder / _CODES).mkdir(exist_ok=True)
        for start, end in compression.stretches(self._kind, first, last):
            path = self._folder / _CODES / f"{version.number + 1}-{len(parts)}.faiss"
            compression.write_part(codes, vectors[start:end], path)
            name = path.relative_to(self._folder).as_posix()
            parts.append(CodesFile(name, end - start, file_digest(path)))
        sync_folder(self._folder / _CODES)
        sync_folder(self._folder)
        return replace(version, codes=tuple(parts))


def suffix_of(compress: str) -> str:
    """How the files of vectors end."""
    return ".f16" if compress == "fp16" else ".f32"


class FolderEngine(FolderStorage[FolderVectors]):
    """An index in a folder; see `solar.storage.protocol.Engine`."""

    engine = "embedded"
    parts = (segments.FOLDER, _CODES)

    def __init__(
        self, folder: Path, spec: DescriptorSpec, compress: str, metadata: Metadata | None = None
    ) -> None:
        super().__init__(folder, spec, metadata)
        self.compress = compress
        self._codes: tuple[tuple[CodesFile, ...], compression.CompressedCodes] | None = None
        self._sound = set[str]()  # digests of segments that were checked

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim).

        With conditions, codes are not used.
        """
        load = self._state if where else self._state_with_codes
        with self._metadata.snapshot(load) as (view, state):
            candidates = self._candidates(view, state, queries, k, where)
            ranked = nearest.rank_all(queries, state.vectors, candidates, k)
            rows = {row for best in ranked for row, _ in best}
            check_segments(state, rows, self._sound)
            paths = state.paths(view, rows)
        return [[Hit(paths[row], score) for row, score in best] for best in ranked]

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """Photos and their vectors (dim,), by path; unknown paths are left out."""
        with self._metadata.snapshot(self._state) as (view, state):
            found = view.find(paths)
            check_segments(state, (row for row, _ in found), self._sound)
            vectors = state.vectors[[row for row, _ in found]].astype(np.float32)
            return {
                photo.path: (photo, vector)
                for (_, photo), vector in zip(found, vectors, strict=True)
            }

    def batches(self, rows: int = 4096) -> Iterator[tuple[list[Photo], Vectors]]:
        """Everything, ascending by row, in pieces of at most `rows`, from one committed state."""
        with self._metadata.snapshot(self._state) as (view, state):
            for batch in view.batches(rows):
                wanted = [row for row, _ in batch]
                check_segments(state, wanted, self._sound)
                with contextlib.suppress(FileNotFoundError):  # replaced: the old one stays mapped
                    refuse_short(state, holding(state, wanted))
                yield [photo for _, photo in batch], np.asarray(state.vectors[wanted], np.float32)

    def sample(self, count: int) -> tuple[list[Photo], Vectors]:
        """At most so many photos, spread evenly over the rows, and their vectors, unchecked."""
        with self._metadata.snapshot(self._state) as (view, state):
            rows = np.setdiff1d(np.arange(len(state.vectors)), state.removed)
            rows = rows[np.linspace(0, len(rows) - 1, min(count, len(rows)), dtype=np.int64)]
            refuse_short(state, holding(state, rows.tolist()))
            found = view.find(list(state.paths(view, set(rows.tolist())).values()))
            vectors = state.vectors[[row for row, _ in found]].astype(np.float32)
            return [photo for _, photo in found], vectors

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path: all or none."""
        with self._metadata.writing() as view:
            return self._writer(view).add(batches)

    def fill(self, piece: Piece) -> None:
        """Add what a run has described at once, and note what it could not describe."""
        with self._metadata.writing(wait=True) as view:
            self._writer(view).fill(piece)

    @property
    def incoming(self) -> tuple[Path, str]:
        """The folder to which processes of a run write segments, and how their files end."""
        return self.folder / segments.INCOMING, suffix_of(self.compress)

    @contextlib.contextmanager
    def filling(self) -> Iterator[None]:
        """Held by the one run that describes photos; what killed runs have left is deleted."""
        place = self.folder / segments.INCOMING
        with super().filling():
            segments.place(self.folder, "", "")  # refuses a link
            try:
                shutil.rmtree(place, ignore_errors=True)
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise unwritable(self.folder, error) from error
            try:
                yield
            finally:
                shutil.rmtree(place, ignore_errors=True)

    def mapped(self) -> tuple[list[Photo], Rows]:
        """All photos and their vectors, mapped, from one committed state, ascending by row."""
        with self._metadata.snapshot(self._state) as (view, state):
            found = [pair for batch in view.batches(4096) for pair in batch]
            rows = np.array([row for row, _ in found], np.int64)
            check_segments(state, rows.tolist(), self._sound)
            return [photo for _, photo in found], state.vectors.select(rows)

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
        named, suffix = view.segments(), suffix_of(self.compress)
        if sum(one.rows for one in named) != version.rows:
            raise DamageError("the list of segments has gaps")
        files = [segments.place(self.folder, one.sha256, suffix) for one in named]
        pairs = zip(files, named, strict=True)
        vectors = [mapped(file, one.rows, self.spec.dim) for file, one in pairs]
        rows = Rows(vectors, self.spec.dim)
        names = [str(file) for file in files]
        return FolderVectors(version, view.roots(), view.removed(), named, names, rows)

    def _state(self, view: View, version: Version) -> FolderVectors:
        state = super()._state(view, version)
        refuse_short(state, range(len(state.files)))
        return state

    def _facts(self, state: FolderVectors, files: Mapping[str, int]) -> dict[str, Any]:
        version = state.version
        return {
            "compress": self.compress,
            "segments": len(state.segments),
            "bytes_of_vectors": state.vectors.nbytes,
            "bytes_of_codes": sum(files.get(part.name, 0) for part in version.codes),
            "rows_outside_codes": version.rows - version.coded_rows if version.codes else 0,
        }

    def _problems(self, view: View, state: FolderVectors) -> list[str]:
        numbers = range(len(state.segments))
        problems = [text for number in numbers if (text := damage(state, number))]
        codes = {part.name: part.sha256 for part in state.version.codes}
        return problems + damaged_files(
            self.folder, codes, "run `solar index compact` to rebuild it"
        )

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
