"""Changes to an embedded index, made inside one transaction of its catalogue."""

import contextlib
import hashlib
import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from solar.errors import SolarError
from solar.files import file_digest, sync_folder
from solar.search import codes as compressed
from solar.search.engine import Photo, Vectors, fitting, is_text
from solar.search.exact import Stored
from solar.search.metadata import Block, CodesFile, Version, View

COMPRESSIONS = ("none", "fp16", *compressed.KINDS)

_DTYPES: dict[str, np.dtype[np.floating[Any]]] = {".f32": np.dtype("<f4"), ".f16": np.dtype("<f2")}
_PIECE = 8192
# So many rows, or an eighth of the others, are searched exactly before the sketch takes them in.
_TAIL = 8192


def first_version(compress: str) -> Version:
    """What an index consists of before anything is added."""
    return Version(vectors=_vectors_name(1, ".f16" if compress == "fp16" else ".f32"))


def mapped(path: Path, rows: int, dim: int) -> Stored:
    """The first rows of a vectors file, (rows, dim), read when they are used.

    Raises:
        FileNotFoundError: There is no such file.
        SolarError: It is shorter than it must be.
    """
    dtype = _DTYPES[path.suffix]
    if rows == 0:
        return np.empty((0, dim), dtype)
    with path.open("rb") as file:
        try:
            content = mmap.mmap(file.fileno(), rows * dim * dtype.itemsize, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise SolarError(f"{path} is cut short: restore it or build again.") from error
    vectors: Stored = np.frombuffer(content, dtype).reshape(rows, dim)
    return vectors


class Writer:
    """One change to the index in a folder; it becomes true when the view's transaction does."""

    def __init__(self, folder: Path, view: View, dim: int, compress: str) -> None:
        self._folder, self._view, self._dim = folder, view, dim
        self._kind = compress if compress in compressed.KINDS else None
        self._version = view.version()
        self._sweep()
        view.afterwards.append(self._sweep)

    def add(self, batches: Iterable[tuple[Sequence[Photo], Vectors]]) -> int:
        """Append vectors and give their rows to the photos, away from older ones of that path."""
        version, given, replaced = self._version, 0, 0
        rows = version.rows
        with self._appending(version.vectors, rows) as file:
            for batch in batches:
                photos, vectors = self._checked(*batch)
                self._append(file, vectors, rows)
                replaced += self._view.put(photos, rows)
                rows += len(photos)
                given += len(batch[0])
        photos_now = version.photos + rows - version.rows - replaced
        self._commit(replace(version, rows=rows, photos=photos_now))
        return given

    def remove(self, paths: Sequence[str]) -> int:
        """Remove photos; a SolarError names the first that is not indexed."""
        count = drop_photos(self._view, paths, self._folder)
        self._commit(replace(self._version, photos=self._version.photos - count))
        return count

    def compact(self) -> None:
        """Write the vectors anew without removed photos, and make a new sketch."""
        version = replace(self._version, sketch=())
        if version.photos < version.rows:
            old = mapped(self._folder / version.vectors, version.rows, self._dim)
            present = np.delete(np.arange(version.rows), self._view.removed())
            name = _vectors_name(version.number + 1, Path(version.vectors).suffix)
            self._view.renumber()
            with self._appending(name, 0) as file:
                for first in range(0, len(present), _PIECE):
                    self._append(file, old[present[first : first + _PIECE]], first)
            version = replace(version, vectors=name, rows=len(present))
        self._commit(version)

    def _commit(self, version: Version) -> None:
        version = replace(version, number=version.number + 1)
        self._version = self._with_sketch(version)
        self._view.set_version(self._version)

    # Vectors

    @contextlib.contextmanager
    def _appending(self, name: str, rows: int) -> Iterator[BinaryIO]:
        """The vectors file, cut after its committed rows; on the disk when the block ends."""
        path = self._folder / name
        path.touch()
        with path.open("r+b") as file:
            file.seek(rows * self._dim * _DTYPES[path.suffix].itemsize)
            file.truncate()
            yield file
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._folder)

    def _append(self, file: BinaryIO, vectors: Stored, first: int) -> None:
        data = np.ascontiguousarray(vectors, _DTYPES[Path(file.name).suffix])
        file.write(data.data)
        self._view.add_block(Block(first, len(data), hashlib.sha256(data.data).hexdigest()))

    def _checked(
        self, photos: Sequence[Photo], vectors: Vectors
    ) -> tuple[Sequence[Photo], Vectors]:
        check_names(photos)
        return fitting(photos, vectors, self._dim, self._folder)

    # Sketches

    def _with_sketch(self, version: Version) -> Version:
        """Let the sketch cover all rows where that is due."""
        first, last = version.sketch_rows, version.rows
        due = last - first > max(_TAIL, first // 8) if version.sketch else last >= compressed.LEAST
        if self._kind is None or not due:
            return version
        vectors = mapped(self._folder / version.vectors, last, self._dim)
        if version.sketch:
            codes = compressed.read_part(self._folder / version.sketch[0].name)
        else:
            codes = compressed.train(self._kind, vectors)
        parts = list(version.sketch)
        for start, end in compressed.stretches(self._kind, first, last):
            path = self._folder / f"sketch-{version.number}-{len(parts)}.faiss"
            compressed.write_part(codes, vectors[start:end], path)
            parts.append(CodesFile(path.name, end - start, file_digest(path)))
        sync_folder(self._folder)
        return replace(version, sketch=tuple(parts))

    # Files

    def _sweep(self) -> None:
        """Delete files that the version does not name; they were replaced, or a kill left them."""
        named = {self._version.vectors, *(part.name for part in self._version.sketch)}
        for pattern in ("vectors-*", "sketch-*"):
            for file in self._folder.glob(pattern):
                if file.name not in named:
                    with contextlib.suppress(OSError):  # some systems keep what a reader has mapped
                        file.unlink()


def check_names(photos: Iterable[Photo]) -> None:
    """Refuse a photo whose name the catalogue cannot keep."""
    for photo in photos:
        if not is_text(photo.path):
            raise SolarError(f"The name {photo.path!r} is not text: rename the photo.")


def drop_photos(view: View, paths: Sequence[str], folder: Path) -> int:
    """Remove photos from a catalogue; a SolarError names the first that is not indexed."""
    wanted = dict.fromkeys(paths)
    known = {photo.path for _, photo in view.find(list(wanted))}
    for path in wanted:
        if path not in known:
            raise SolarError(f"{path} is not in {folder}: nothing was removed.")
    return view.drop(list(wanted))


def _vectors_name(number: int, suffix: str) -> str:
    return f"vectors-{number}{suffix}"
