"""Changes to an index of vectors in a folder."""

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from solar.arrays import AnyFloats, Vectors
from solar.files import file_digest, regular, sync_folder
from solar.storage import compression as compressed
from solar.storage.catalogue_view import CodesFile, Version, View
from solar.storage.catalogued_folder import FolderWriter
from solar.storage.nearest import DTYPES, mapped
from solar.storage.protocol import validated
from solar.storage.types import Photo

COMPRESSIONS = ("none", "fp16", *compressed.KINDS)

_PIECE = 8192
# Up to this many rows, or an eighth of the others, are searched exactly before they get codes.
_TAIL = 8192


def first_version(compress: str) -> Version:
    """The version of an empty index."""
    return Version(vectors=_vectors_name(1, ".f16" if compress == "fp16" else ".f32"))


class Writer(FolderWriter):
    """One change to an index of vectors."""

    patterns = ("vectors-*", "sketch-*")

    def __init__(self, folder: Path, view: View, dim: int, compress: str) -> None:
        super().__init__(folder, view)
        self._dim = dim
        self._kind = compress if compress in compressed.KINDS else None

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
            name = _vectors_name(version.number + 1, Path(version.vectors).suffix)
            self._view.renumber()
            with self._appending(name, 0) as file:
                for first in range(0, len(present), _PIECE):
                    self._append(file, old[present[first : first + _PIECE]], first)
            version = replace(version, vectors=name, rows=len(present))
        self._commit(version)

    def _commit(self, version: Version) -> None:
        super()._commit(self._with_codes(version))

    # Vectors

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

    # Codes

    def _with_codes(self, version: Version) -> Version:
        """The version with codes for all rows, if enough rows are without."""
        first, last = version.coded_rows, version.rows
        if self._kind is None:
            return version
        due = last - first > max(_TAIL, first // 8) if version.codes else last >= compressed.LEAST
        if not due:
            return version
        vectors = mapped(self._folder / version.vectors, last, self._dim)
        if version.codes:
            part = version.codes[0]
            codes = compressed.read_part(self._folder / part.name, part.sha256)
        else:
            codes = compressed.train(self._kind, vectors)
        parts = list(version.codes)
        for start, end in compressed.stretches(self._kind, first, last):
            path = self._folder / f"sketch-{version.number + 1}-{len(parts)}.faiss"
            compressed.write_part(codes, vectors[start:end], path)
            parts.append(CodesFile(path.name, end - start, file_digest(path)))
        sync_folder(self._folder)
        return replace(version, codes=tuple(parts))


def _vectors_name(number: int, suffix: str) -> str:
    return f"vectors-{number}{suffix}"
