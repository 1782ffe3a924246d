"""The files of a store: what they say, and how they come to be whole on the disk or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from solar.errors import SolarError
from solar.files import sync_folder

FORMAT = 1
MANIFEST = "manifest.json"
SOURCE = "source.json"
LOCK = ".lock"

TEMPORARY = re.compile(r"\.solar-[0-9a-f]{32}\.tmp")
VECTORS = re.compile(r"shard-\d{5,}-[0-9a-f]{16}\.npy")
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


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
    format: int = FORMAT


@dataclass(frozen=True)
class Header:
    """The first line of a shard's record: enough to use its vectors without reading its names."""

    rows: int
    bytes: int
    vectors_sha256: str
    photos_sha256: str


def make_folder(path: Path) -> None:
    """Make the folder of a store, refusing one that holds anything else.

    Raises:
        SolarError: It holds other files, or cannot be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        others = [f for f in path.iterdir() if not TEMPORARY.fullmatch(f.name)]
    except OSError as error:
        raise unwritable(path, error) from error
    if {f.name for f in others} - {SOURCE, LOCK} and not (path / MANIFEST).exists():
        raise SolarError(f"{path} holds other files and no store; choose a new or empty folder.")


def is_store(path: str | Path) -> bool:
    """Whether a path is the folder of a store, finished or not."""
    return Path(path, MANIFEST).is_file()


def read_manifest(path: Path) -> Manifest:
    """What a store says of itself; a SolarError where there is none or it cannot be read."""
    file = path / MANIFEST
    try:
        content = json.loads(file.read_bytes())
        if content["format"] > FORMAT:
            raise SolarError(f"{path} was written by a newer version of solar; upgrade to read it.")
        return Manifest(**content)
    except (FileNotFoundError, NotADirectoryError):
        raise SolarError(
            f"{path} is not a store of descriptors, it has no {MANIFEST}; "
            "make one with `solar extract`."
        ) from None
    except SolarError:
        raise
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged(file) from error


def write_whole(target: Path, content: bytes) -> None:
    """Write a file whole or not at all, and on the disk before returning."""
    temporary = target.with_name(f".solar-{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise unwritable(target.parent, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def source_bytes(names: list[str]) -> bytes:
    """The list of photos as its file holds it."""
    # A JSON list with a name a line: any file name survives, and diff and grep can read it.
    return json.dumps(names, separators=(",\n", ":")).encode() + b"\n"


def manifest_bytes(manifest: Manifest) -> bytes:
    """A manifest as its file holds it."""
    return json.dumps(asdict(manifest), indent=2, sort_keys=True).encode() + b"\n"


def sha256(content: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(content).hexdigest()


def choices(manifest: Manifest) -> dict[tuple[str, bool], Any]:
    """What a user chose, by name; a setting may share its name with a field, hence the flag."""
    fields = ("model", "fingerprint", "dim", "dtype", "shard_size", "format")
    chosen = {(name, False): getattr(manifest, name) for name in fields}
    return chosen | {(name, True): value for name, value in manifest.settings.items()}


def listed(choices: dict[tuple[str, bool], Any], keys: list[tuple[str, bool]]) -> str:
    """Choices as a sentence names them."""
    return " and ".join(
        f"{key[0]}={json.dumps(choices[key])}" if key in choices else f"no {key[0]}" for key in keys
    )


def damaged(path: Path) -> SolarError:
    """The complaint about a file that is not what was written."""
    return SolarError(f"{path} is missing or damaged; restore it or make the store again.")


def unwritable(path: Path, error: OSError) -> SolarError:
    """The complaint about a folder that cannot be written."""
    remedy = "make room" if error.errno in _FULL else "make it writable"
    return SolarError(
        f"{path} cannot be written ({error.strerror}); {remedy} and run the same command again, "
        "what is finished is kept."
    )
