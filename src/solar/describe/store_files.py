"""The files of a store: manifest, list of photos, and two per shard, all written whole."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from solar import files
from solar.arrays import AnyFloats
from solar.errors import SolarError
from solar.images import Stamp

FORMAT = 2
MANIFEST = "manifest.json"
SOURCE = "source.json"
SWEPT = re.compile(r"shard-\d{5,}(-[0-9a-f]{16}\.npy|\.jsonl)|source(-[0-9a-f]{16})?\.json")
"""Files that a manifest or a record must name to be there."""

# What the manifest's file calls a field of `Manifest`, where the two differ.
_ON_DISK = {"fingerprint": "model_hash"}
_SUM = "manifest_sha256"
_LONG = 200
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class OtherSettingsError(SolarError):
    """A store was made with another model or other settings than are asked for now."""


class OtherPhotosError(SolarError):
    """A store holds other photos than those that it is to be brought up to date with."""


@dataclass(frozen=True)
class Manifest:
    """What every vector of a store has in common; equal manifests mean interchangeable stores."""

    model: str
    fingerprint: str
    settings: dict[str, Any]
    dim: int
    dtype: str
    shard_size: int
    photos: int
    source_sha256: str
    roots: list[list[Any]] = field(default_factory=list)  # of `Roots.stored`
    layout: list[list[int]] | None = None  # of a store that has grown: number and photos of shards
    format: int = FORMAT

    @property
    def shards(self) -> list[tuple[int, int]]:
        """Number and photos of every shard, in order."""
        if self.layout is not None:
            return [(number, count) for number, count in self.layout]
        starts = range(0, self.photos, self.shard_size)
        return [(n, min(self.shard_size, self.photos - at)) for n, at in enumerate(starts)]

    @property
    def source(self) -> str:
        """The name of the file that lists the photos; a list that changed has a new one."""
        return SOURCE if self.layout is None else f"source-{self.source_sha256[:16]}.json"

    def to_bytes(self) -> bytes:
        """The content of its file."""
        content = {_ON_DISK.get(name, name): value for name, value in asdict(self).items()}
        content[_SUM] = _checksum(content)
        return json.dumps(content, indent=2, sort_keys=True).encode() + b"\n"

    def choices(self) -> dict[tuple[str, bool], Any]:
        """What a user chose, by name; a setting may share its name with a field, hence the flag."""
        fields = ("model", "fingerprint", "dim", "dtype", "shard_size")
        chosen = {(name, False): getattr(self, name) for name in fields}
        return chosen | {(name, True): value for name, value in self.settings.items()}


def make_folder(path: Path) -> None:
    """Make the folder of a store; a SolarError if it holds other things or cannot be written."""
    files.make_folder(path, MANIFEST, frozenset({SOURCE}), unwritable)


def is_store(path: str | Path) -> bool:
    """Whether a path is the folder of a store, finished or not."""
    return Path(path, MANIFEST).is_file()


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of a store; a SolarError where there is none or it cannot be read."""
    file = path / MANIFEST
    names = {on_disk: name for name, on_disk in _ON_DISK.items()}
    try:
        content = json.loads(file.read_bytes())
        found = content["format"]
        if found == FORMAT:
            if content.pop(_SUM, None) != _checksum(content):
                raise damaged(file)
            return Manifest(**{names.get(key, key): value for key, value in content.items()})
    except (FileNotFoundError, NotADirectoryError):
        raise SolarError(
            f"{path} is not a store of embeddings, because it has no {MANIFEST}; "
            "make one with `solar extract`."
        ) from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise damaged(file) from error
    raise SolarError(
        f"{path} has format {found}, and this version of solar reads format {FORMAT}: run "
        "`solar extract` again in another folder, or use the version that wrote it."
    )


def _checksum(content: dict[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode())


def difference(old: Manifest, new: Manifest) -> str:
    """What was chosen otherwise for a store: "another model (gem, not how)"; empty if nothing was.

    With another model, nothing else is named: its settings are different anyway.
    """
    before, now = old.choices(), new.choices()
    keys = sorted(key for key in before | now if before.get(key, ...) != now.get(key, ...))
    if ("fingerprint", False) in keys and old.model == new.model:
        return f"another edition of the model {old.model}"
    if ("model", False) in keys:
        keys = [("model", False)]
    return " and ".join(f"another {key[0]}{_both(before.get(key), now.get(key))}" for key in keys)


def _both(before: Any, now: Any) -> str:
    """Two values in brackets, unless they are too long to be read."""
    text = f" ({_shown(before)}, not {_shown(now)})"
    return text if len(text) <= _LONG else ""


def _shown(value: Any) -> str:
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class ShardEntry:
    """A photo of a shard: its size, or why it has no vector; and its stamp, where it is known."""

    name: str
    size: tuple[int, int] | None
    reason: str = ""
    stamp: Stamp | None = None

    @classmethod
    def read(cls, facts: list[Any]) -> ShardEntry:
        """From its line: name, width, height; or name and reason; then the stamp's fields."""
        name, failed = facts[0], isinstance(facts[1], str)
        size, rest = (None, facts[2:]) if failed else ((facts[1], facts[2]), facts[3:])
        return cls(name, size, facts[1] if failed else "", Stamp(*rest) if rest else None)

    def line(self) -> bytes:
        """As its line has it."""
        known = [self.reason] if self.size is None else self.size
        return json.dumps([self.name, *known, *(self.stamp or ())]).encode() + b"\n"


Record: TypeAlias = list[ShardEntry]
"""The photos of a shard, in order."""


@dataclass(frozen=True)
class Header:
    """The first line of a shard's record: enough to use its vectors without reading its names."""

    rows: int
    bytes: int
    vectors_sha256: str
    photos_sha256: str


@dataclass(frozen=True)
class ShardFiles:
    """The two files of a shard in a folder: vectors, and the record that commits them."""

    folder: Path
    number: int

    @property
    def record(self) -> Path:
        """The file that lists the photos of the shard: with it the shard is there."""
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
        except (OSError, ValueError, TypeError, IndexError) as error:
            raise damaged(self.record) from error
        if sum(photo.size is not None for photo in photos) != header.rows:
            raise damaged(self.record)
        return photos

    def map(
        self, header: Header, dim: int, dtype: np.dtype[Any], *, check: bool = True
    ) -> AnyFloats:
        """The vectors (rows, dim), memory-mapped; a SolarError if they are not those written.

        `check` reads the whole file for its checksum, at a gigabyte per second or more.
        """
        path = self.vectors(header)
        try:
            if check and files.file_digest(path) != header.vectors_sha256:
                raise damaged(path)
            array: AnyFloats = np.load(path, mmap_mode="r", allow_pickle=False)
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


def write_whole(target: Path, content: bytes) -> None:
    """Write a file whole or not at all, and on the disk before returning."""
    with files.replacing(
        target, complaint=lambda path, error: unwritable(path.parent, error)
    ) as temporary:
        temporary.write_bytes(content)


def source_bytes(names: Sequence[str]) -> bytes:
    """The list of photos as its file holds it."""
    # A JSON list with a name per line: any file name survives, and diff and grep can read it.
    return json.dumps(list(names), separators=(",\n", ":")).encode() + b"\n"


def sha256(content: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(content).hexdigest()


def damaged(path: Path) -> SolarError:
    """The complaint about a file that is not what was written."""
    return SolarError(f"{path} is missing or damaged; restore it or make the store again.")


def unwritable(path: Path, error: OSError) -> SolarError:
    """The complaint about a folder that cannot be written."""
    remedy = "make room" if error.errno in _FULL else "make it writable"
    return SolarError(
        f"{path} cannot be written ({error.strerror}); {remedy} and run the same command again "
        "(what is finished is kept)."
    )
