"""The small pictures of a collection in one file, so that every photo is opened for them once.

The file lies beside the local features, is only ever appended to, and may be deleted. A record
names the photo and the state of its file, so that another run, also over more photos, reuses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import RowNumbers
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.files import locked, make_folder, unwritable
from solar.images import load
from solar.images.opening import Source
from solar.images.roots import Finder
from solar.local.cache import file_identity, name_digest
from solar.near_duplicates.orientations import invariant

SIDE = 32
"""Pixels of a side of a small picture."""

_FILE = "small-pictures.bin"
_SOME = 4096  # pictures in memory at a time
_BLOCK = 1024  # photos that a stop loses at most
_RECORD = np.dtype(
    [
        ("whose", "V16"),
        ("file", "V16"),
        ("pixels", "u1", (SIDE, SIDE)),
        ("width", "<i4"),
        ("height", "<i4"),
    ]
)


def small_picture(photo: Source) -> tuple[npt.NDArray[np.uint8], int, int]:
    """The upright photo squeezed into (32, 32) grey pixels, and its width and height."""
    image = load(photo, 2 * SIDE, mode="fast")
    grey = Image.fromarray(image.pixels).convert("L")
    pixels = np.asarray(grey.resize((SIDE, SIDE), Image.Resampling.BOX))
    return pixels, image.width, image.height


@dataclass(frozen=True, eq=False)
class SmallPictures:
    """The small pictures of some photos, row by row.

    Attributes:
        records: The whole file, mapped.
        rows: (n,) the record of each photo; -1 for one that is gone.
        keys: 32 bytes per photo that identify it and the state of its file.
    """

    records: npt.NDArray[np.void]
    rows: RowNumbers
    keys: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.rows)

    def pixels(self, rows: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """Pictures (m, 32, 32) of some photos; unreadable ones are black."""
        found = self.rows[np.asarray(rows)]
        pixels: npt.NDArray[np.uint8] = np.array(self.records["pixels"][found])
        pixels[found < 0] = 0
        return pixels

    def shapes(self) -> Iterator[npt.NDArray[np.float32]]:
        """The vectors (m, 63) of the pictures in blocks, see `orientations.invariant`."""
        for at in range(0, len(self), _SOME):
            yield invariant(self.pixels(np.arange(at, min(at + _SOME, len(self)))))

    def size(self, row: int) -> tuple[int, int]:
        """Width and height of a photo; 0 if it could not be read."""
        record = self.rows[row]
        if record < 0:
            return 0, 0
        return int(self.records["width"][record]), int(self.records["height"][record])


def small_pictures(
    names: Sequence[str],
    find: Finder,
    folder: Path,
    progress: Progress | None = None,
) -> SmallPictures:
    """Read the small pictures that the file in a folder does not have yet.

    A photo that is gone or cannot be read has a black one. A SolarError if the disk is full or
    read-only.
    """
    make_folder(folder)
    file = folder / _FILE
    with locked(folder / f"{_FILE}.lock"):
        try:
            with file.open("r+b" if file.exists() else "w+b") as out:
                whole = out.seek(0, os.SEEK_END) // _RECORD.itemsize
                out.truncate(whole * _RECORD.itemsize)
                known = _known(file, whole)
                keys = [_state_key(name, find(name)) for name in names]
                missing = [row for row, key in enumerate(keys) if key not in known]
                out.seek(0, os.SEEK_END)
                advance = counted(progress, "Reading photos", len(names), len(names) - len(missing))
                for block in _read([(names[row], keys[row]) for row in missing], find):
                    out.write(block.tobytes())
                    out.flush()
                    advance(len(block))
                whole = out.tell() // _RECORD.itemsize
        except OSError as error:
            raise unwritable(file, error) from error
    known = _known(file, whole)
    records = np.memmap(file, _RECORD, "r", shape=(whole,)) if whole else np.zeros(1, _RECORD)
    return SmallPictures(records, np.array([known.get(key, -1) for key in keys], np.int64), keys)


def _known(file: Path, count: int) -> dict[bytes, int]:
    """The record of each photo and state of its file; the newest counts."""
    if not count:
        return {}
    records = np.memmap(file, _RECORD, "r", shape=(count,))
    keys = zip(records["whose"].tolist(), records["file"].tolist(), strict=True)
    return {whose + state: row for row, (whose, state) in enumerate(keys)}


def _state_key(name: str, photo: Path | bytes | None) -> bytes:
    """32 bytes that identify a photo and the state of its file."""
    state = b"" if photo is None else file_identity(photo)
    return bytes.fromhex(name_digest(name)) + state.ljust(16, b"\0")


def _read(missing: Sequence[tuple[str, bytes]], find: Finder) -> Iterator[npt.NDArray[np.void]]:
    """New records in blocks of photos, given their names and keys.

    Photos are found one by one: those of a tar shard come with their bytes.
    """

    def picture(photo: tuple[str, bytes]) -> tuple[npt.NDArray[np.uint8], int, int] | None:
        try:
            source = find(photo[0])
            return None if source is None else small_picture(source)
        except SolarError:
            return None

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for first in range(0, len(missing), _BLOCK):
            some = missing[first : first + _BLOCK]
            block = np.zeros(len(some), _RECORD)
            pictures = threads.map(picture, some)
            for record, (_, key), found in zip(block, some, pictures, strict=True):
                record["whose"], record["file"] = key[:16], key[16:]
                if found is not None:
                    record["pixels"], record["width"], record["height"] = found
            yield block
