"""The embedded engine: vectors in a memory-mapped file, Faiss sketches, a SQLite catalogue.

```
photos.solar/
  catalogue.sqlite    photos, their rows, and which of the files below count (see catalogue.py)
  vectors-1.f32       one row a photo; rows are only ever appended
  sketch-1-0.faiss    with --compress: small codes of the first so many rows
  local/              keypoints of photos that a search verified; may be deleted at any time
  .lock               held by the one writer
```

Bytes of the vectors file beyond the rows in the catalogue do not exist: a killed writer left them,
and the next one writes over them. Opening reads a few lines of the catalogue and maps the vectors,
whatever their number.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from solar.errors import SolarError
from solar.files import make_folder
from solar.search import exact
from solar.search.codes import CompressedCodes, read_part
from solar.search.engine import DescriptorSpec, Engine, Hit, NoIndexError, Photo, Vectors, Where
from solar.search.exact import Rows, Stored
from solar.search.metadata import FILE, FORMAT, Catalogue, CodesFile, Version, View
from solar.search.writer import COMPRESSIONS, Writer, first_version, mapped

# Candidates that are ranked exactly: this many, or ten for every hit.
_CANDIDATES = 400


def create(
    address: str | os.PathLike[str],
    made: DescriptorSpec,
    batches: Iterable[tuple[Sequence[Photo], Vectors]],
    *,
    compress: str = "none",
) -> FolderEngine:
    """Make an index in a new or empty folder and fill it: whole, or not at all.

    Args:
        address: The folder.
        made: How the vectors were made.
        batches: Photos and their vectors (n, dim).
        compress: `none` and `fp16` (half the bytes) are searched exactly. The others keep small
            codes beside the vectors that find candidates, which are then ranked exactly: `sq8` (a
            quarter of the bytes), `pq` (a 32nd; the fastest), `ivf` (as `pq`, in lists of which an
            eighth is searched) and `hnsw` (a graph; slow to build).

    Raises:
        SolarError: The folder holds something, cannot be written, or the vectors are not sound.
    """
    if compress not in COMPRESSIONS:
        choices = ", ".join(COMPRESSIONS)
        raise SolarError(f"No compression is called {compress!r}: choose from {choices}.")
    folder = Path(address)
    make_folder(folder, FILE)
    with Catalogue(folder).writing(create=True) as view:
        if view.made() is not None:
            raise SolarError(f"{folder} is an index already: add to it, or choose another folder.")
        view.begin(made, compress)
        view.set_version(first_version(compress))
        Writer(folder, view, made.dim, compress).add(batches)
    return FolderEngine(folder, made, compress)


def open_index(address: str | os.PathLike[str]) -> Engine:
    """Open an index in a folder, of vectors or of local features.

    Raises:
        SolarError: There is none, or it is unfinished, damaged or too new.
    """
    folder = Path(address)
    if not (folder / FILE).is_file():
        raise NoIndexError(f"{folder} is not an index: make one with `solar index build`.")
    catalogue = Catalogue(folder)
    with catalogue.reading() as view:
        found = view.format()
        if found > FORMAT:
            raise SolarError(f"{folder} was written by a newer version of solar: upgrade solar.")
        facts = view.made() if found else None
    if facts is None:
        raise NoIndexError(f"{folder} was never finished: run `solar index build` again.")
    made, compress = facts
    if compress == "asmk":
        from solar.search.asmk_engine import AsmkEngine

        return AsmkEngine(folder, made, catalogue)
    return FolderEngine(folder, made, compress, catalogue)


@dataclass(frozen=True)
class _State:
    """One committed version with its vectors mapped."""

    version: Version
    vectors: Stored
    removed: Rows

    def present(self, first: int, last: int) -> Rows | None:
        """The rows of first..last that were not removed; None for all of them."""
        gone = _between(self.removed, first, last)
        return np.delete(np.arange(first, last), gone - first) if len(gone) else None

    def without_removed(self, rows: Rows) -> Rows:
        """Those of the rows that were not removed, in the same order."""
        places = np.searchsorted(self.removed, rows)
        present: Rows = rows[np.append(self.removed, -1)[places] != rows]
        return present


class FolderEngine:
    """An index in a folder; see `solar.search.engine.Engine`."""

    def __init__(
        self, folder: Path, made: DescriptorSpec, compress: str, catalogue: Catalogue | None = None
    ) -> None:
        self.made = made
        self.folder = folder
        self.compress = compress
        self._catalogue = catalogue or Catalogue(folder)
        self._latest: _State | None = None
        self._sketch: tuple[tuple[CodesFile, ...], CompressedCodes] | None = None

    def __len__(self) -> int:
        with self._catalogue.reading() as view:
            return view.version().photos

    def search(self, queries: Vectors, k: int, where: Where = ()) -> list[list[Hit]]:
        """The k best photos that satisfy `where`, for each of the queries (n, dim).

        With conditions every photo that satisfies them is compared, also in a compressed index.
        """
        with self._snapshot(sketch=not where) as (view, state):
            if where:
                allowed = view.matching(where)
                candidates = exact.scan(
                    queries, state.vectors, k, lambda *ends: _between(allowed, *ends)
                )
            else:
                candidates = _candidates(state, self._sketch_of(state.version), queries, k)
            ranked = [
                exact.rank(query, state.vectors, rows, k)
                for query, rows in zip(queries, candidates, strict=True)
            ]
            paths = view.paths({row for best in ranked for row, _ in best})
        return [[Hit(paths[row], score) for row, score in best] for best in ranked]

    def lookup(self, paths: Sequence[str]) -> dict[str, tuple[Photo, Vectors]]:
        """What is known of photos and their vectors (dim,), by path; unknown paths are left out."""
        with self._snapshot() as (view, state):
            return {
                photo.path: (photo, np.array(state.vectors[row], np.float32))
                for row, photo in view.find(paths)
            }

    def batches(self, rows: int = 4096) -> Iterator[tuple[list[Photo], Vectors]]:
        """Everything, ascending by row, in pieces of at most `rows`, from one committed state."""
        with self._snapshot() as (view, state):
            for batch in view.batches(rows):
                wanted = [row for row, _ in batch]
                yield [photo for _, photo in batch], np.asarray(state.vectors[wanted], np.float32)

    def photos(self, rows: int = 4096) -> Iterator[list[Photo]]:
        """What is known of every photo, ascending by row, without reading vectors."""
        with self._catalogue.reading() as view:
            for batch in view.batches(rows):
                yield [photo for _, photo in batch]

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Add photos or replace those of the same path: all of them at once, or none."""
        with self._writing() as writer:
            return writer.add(batches)

    def remove(self, paths: Sequence[str]) -> int:
        """Remove photos, all at once; a SolarError names the first that is not indexed."""
        with self._writing() as writer:
            return writer.remove(paths)

    def compact(self) -> None:
        """Write the vectors anew without removed photos, and make a new sketch."""
        with self._writing() as writer:
            writer.compact()

    def info(self) -> dict[str, Any]:
        """Facts to print."""
        with self._snapshot() as (_, state):
            version = state.version
            files = {f.name: f.stat().st_size for f in self.folder.iterdir() if f.is_file()}
        return {
            "engine": "embedded",
            "photos": version.photos,
            "removed": version.rows - version.photos,
            "version": version.number,
            "compress": self.compress,
            "bytes": sum(files.values()),
            "bytes_of_vectors": state.vectors.nbytes,
            "bytes_of_sketch": sum(files.get(part.name, 0) for part in version.sketch),
            "rows_outside_sketch": version.rows - version.sketch_rows if version.sketch else 0,
        }

    def verify(self) -> list[str]:
        """Read everything, recompute every checksum, and return one sentence a problem."""
        from solar.search.audit import audit

        try:
            with self._snapshot() as (view, state):
                return audit(self.folder, view, state.version, state.vectors)
        except SolarError as error:
            return [str(error)]

    def close(self) -> None:
        """Let go of files and connections."""
        self._latest = self._sketch = None
        self._catalogue.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Writer]:
        with self._catalogue.writing() as view:
            yield Writer(self.folder, view, self.made.dim, self.compress)

    def _snapshot(
        self, *, sketch: bool = False
    ) -> contextlib.AbstractContextManager[tuple[View, _State]]:
        """The latest version, which stays the same until the end of the block."""

        def load(view: View, version: Version) -> _State:
            state = self._state(view, version)
            if sketch:
                self._sketch_of(version)
            return state

        return self._catalogue.snapshot(load)

    def _state(self, view: View, version: Version) -> _State:
        state = self._latest
        if state is None or state.version != version:
            vectors = mapped(self.folder / version.vectors, version.rows, self.made.dim)
            state = self._latest = _State(version, vectors, view.removed())
        return state

    def _sketch_of(self, version: Version) -> CompressedCodes | None:
        """The sketch, read when it is first searched."""
        if not version.sketch:
            return None
        loaded = self._sketch
        if loaded is None or loaded[0] != version.sketch:
            parts = [read_part(self.folder / part.name) for part in version.sketch]
            loaded = self._sketch = version.sketch, CompressedCodes(parts)
        return loaded[1]


def _candidates(
    state: _State, sketch: CompressedCodes | None, queries: Vectors, k: int
) -> list[Rows]:
    """Rows among which the k best are: surely so without a sketch, and nearly always with one."""
    if sketch is None:
        return exact.scan(queries, state.vectors, k, state.present)
    tail = exact.scan(queries, state.vectors, k, state.present, start=state.version.sketch_rows)
    found = _from_sketch(state, sketch, queries, max(_CANDIDATES, 10 * k))
    return [np.concatenate(pair) for pair in zip(found, tail, strict=True)]


def _from_sketch(
    state: _State, sketch: CompressedCodes, queries: Vectors, wanted: int
) -> list[Rows]:
    """Candidates among the rows that the sketch covers."""
    count = wanted
    while True:
        found = sketch.candidates(queries, count)
        present = [state.without_removed(rows) for rows in found]
        crowded = any(
            len(rows) < min(wanted, len(all_rows))
            for rows, all_rows in zip(present, found, strict=True)
        )
        if not crowded or count >= state.version.sketch_rows:
            return present
        count *= 4  # removed photos took the places of others


def _between(rows: Rows, first: int, last: int) -> Rows:
    """Those of ascending rows that lie in first..last."""
    return rows[slice(*np.searchsorted(rows, (first, last)))]
