"""The two files of a shard of a store: vectors, and the record that commits them."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from solar.arrays import AnyFloats
from solar.describe.store_files import damaged, sha256, write_whole
from solar.errors import SolarError
from solar.files import file_digest
from solar.images import Stamp

Record: TypeAlias = list["ShardEntry"]
"""The photos of a shard, in order."""

SWEPT = re.compile(r"shard-\d{5,}(-[0-9a-f]{16}\.npy|\.jsonl)|source(-[0-9a-f]{16})?\.json")
"""Files that a manifest or a record must name to be there."""


@dataclass(frozen=True)
class ShardEntry:
    """A photo of a shard: its size, or why it has no vector; and its stamp, where it is known."""

    name: str
    size: tuple[int, int] | None
    reason: str = ""
    stamp: Stamp | None = None

    @classmethod
    def read(cls, facts: list[Any]) -> ShardEntry:
        """From its line: name, width, height; or name and reason; and what the stamp has."""
        name, failed = facts[0], isinstance(facts[1], str)
        known, rest = (None, facts[2:]) if failed else ((facts[1], facts[2]), facts[3:])
        return cls(name, known, facts[1] if failed else "", Stamp(*rest) if rest else None)

    def line(self) -> bytes:
        """As its line has it."""
        known = [self.reason] if self.size is None else self.size
        return json.dumps([self.name, *known, *(self.stamp or ())]).encode() + b"\n"


@dataclass(frozen=True)
class Header:
    """The first line of a shard's record: enough to use its vectors without reading its names."""

    rows: int
    bytes: int
    vectors_sha256: str
    photos_sha256: str


@dataclass(frozen=True)
class ShardFiles:
    """Where the files of a shard are: the store's folder, and the shard's number."""

    folder: Path
    number: int

    @property
    def record(self) -> Path:
        """The file that says which photos are in the shard: with it the shard is there."""
        return self.folder / f"shard-{self.number:05d}.jsonl"

    def vectors(self, header: Header) -> Path:
        """The file of the vectors that a record names."""
        return self.folder / f"shard-{self.number:05d}-{header.vectors_sha256[:16]}.npy"

    def write(self, array: AnyFloats, photos: Record) -> Header:
        """Write the vectors, then the record."""
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, version=(1, 0), allow_pickle=False)
        vectors = buffer.getvalue()
        lines = b"".join(photo.line() for photo in photos)
        header = Header(len(array), len(vectors), sha256(vectors), sha256(lines))
        write_whole(self.vectors(header), vectors)
        write_whole(self.record, json.dumps(asdict(header)).encode() + b"\n" + lines)
        return header

    def read_header(self) -> Header | None:
        """The header of a finished shard; None if the shard has to be written (again)."""
        try:
            with self.record.open("rb") as file:
                header = Header(**json.loads(file.readline()))
            whole = self.vectors(header).stat().st_size == header.bytes
        except (OSError, ValueError, TypeError):
            return None
        return header if whole else None

    def read_record(self, header: Header) -> Record:
        """The photos of a finished shard; a SolarError if they cannot be read."""
        try:
            content = self.record.read_bytes().partition(b"\n")[2]
            if sha256(content) != header.photos_sha256:
                raise damaged(self.record)
            lines = content.split(b"\n")[:-1]
            photos = [ShardEntry.read(f) for f in json.loads(b"[" + b",".join(lines) + b"]")]
        except SolarError:
            raise
        except (OSError, ValueError, TypeError, IndexError) as error:
            raise damaged(self.record) from error
        if sum(photo.size is not None for photo in photos) != header.rows:
            raise damaged(self.record)
        return photos

    def map(
        self, header: Header, dim: int, dtype: np.dtype[Any], *, check: bool = True
    ) -> AnyFloats:
        """The vectors (rows, dim), memory-mapped; a SolarError if they are not those written.

        With `check` all of the file is read for that: its checksum goes through a gigabyte a second
        or more.
        """
        path = self.vectors(header)
        try:
            if check and file_digest(path) != header.vectors_sha256:
                raise damaged(path)
            array: AnyFloats = np.load(path, mmap_mode="r", allow_pickle=False)
        except SolarError:
            raise
        except (OSError, ValueError) as error:
            raise damaged(path) from error
        if array.shape != (header.rows, dim) or array.dtype != dtype:
            raise damaged(path)
        return array

    def sound(self, header: Header, names: Sequence[str], dim: int, dtype: np.dtype[Any]) -> bool:
        """Whether both files are to the byte what was written, for photos of these names."""
        try:
            self.map(header, dim, dtype)
            return [photo.name for photo in self.read_record(header)] == list(names)
        except (OSError, SolarError):
            return False
