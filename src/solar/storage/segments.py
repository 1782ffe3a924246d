"""Files of vectors, written once, named by their content and never changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from solar.arrays import AnyFloats
from solar.errors import SolarError
from solar.files import replacing, sync_folder
from solar.storage.rows import DTYPES, Matrix

FOLDER = "segments"
INCOMING = f"{FOLDER}/incoming"
"""Where a run writes segments before the catalogue names them; the next run empties it."""

SEGMENT_BYTES = 32 << 20
"""Vectors that are added at once are cut into files of this size."""

_NAME = 32  # hexadecimal digits of the digest in a file's name


def place(folder: Path, sha256: str, suffix: str) -> Path:
    """The file of a segment in the folder of an index; a SolarError if it leads out of it."""
    if (folder / FOLDER).is_symlink():
        raise SolarError(f"{folder / FOLDER} is a link, and is not followed: restore the folder.")
    return folder / FOLDER / f"{sha256[:_NAME]}{suffix}"


def write(vectors: Matrix, folder: Path, suffix: str) -> tuple[str, int]:
    """Write vectors (n, dim) as a file of a folder, durably; its digest and its rows."""
    data: AnyFloats = np.ascontiguousarray(vectors, DTYPES[suffix])
    digest = hashlib.sha256(data.data).hexdigest()
    with replacing(folder / f"{digest[:_NAME]}{suffix}", complaint=None) as temporary:
        temporary.write_bytes(data.data)
    return digest, len(data)


def accept(folder: Path, sha256: str, suffix: str) -> None:
    """Take a segment that a run has written into the folder of an index."""
    target = place(folder, sha256, suffix)
    (folder / INCOMING / target.name).replace(target)
    sync_folder(target.parent)


def rows_for(photos: int, dim: int) -> int:
    """Photos per segment of a run over so many: what a killed run describes again, at most.

    With smaller segments, a fifth of what is written would be metadata and its log.
    """
    return min(max((3 << 18) // (4 * dim), -(-photos // 128)), 16384)
