"""The small pictures of a collection in one file, so that every photo is opened for them once.

The file lies beside the local features, and may be deleted. A value names the state of the photo's
file, so that another run, also over more photos, reuses it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Floats, Pixels
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.images import load
from solar.images.readable import Source
from solar.images.roots import Finder
from solar.local.cache import file_identity, name_digest
from solar.near_duplicates.orientations import SHAPE, invariant
from solar.records import Key, Records

SIDE = 32
"""Pixels of a side of a small picture."""

_FILE = "pictures.small"
_SOME = 4096  # pictures whose shapes are computed at a time
_BLOCK = 1024  # photos that a stop loses at most
_VALUE = struct.Struct("<16sii")  # the state of the file, width, height; then the pixels
_LENGTH = _VALUE.size + SIDE * SIDE


def small_picture(photo: Source) -> tuple[Pixels, int, int]:
    """The upright photo squeezed into (32, 32) grey pixels, and its width and height."""
    image = load(photo, 2 * SIDE, mode="fast")
    grey = Image.fromarray(image.pixels).convert("L")
    pixels = np.asarray(grey.resize((SIDE, SIDE), Image.Resampling.BOX))
    return pixels, image.width, image.height


@dataclass(frozen=True, eq=False)
class SmallPictures:
    """The small pictures of some photos, row by row.

    Attributes:
        all: (n, 32, 32); those of photos that cannot be read are black.
        sizes: (n, 2) widths and heights; 0 for these.
        keys: 32 bytes per photo that identify it and the state of its file.
    """

    all: Pixels
    sizes: npt.NDArray[np.int32]
    keys: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.all)

    def shapes(self) -> Floats:
        """The vectors (n, 63) of the pictures, see `orientations.invariant`."""
        blocks = [invariant(self.all[at : at + _SOME]) for at in range(0, len(self), _SOME)]
        return np.concatenate([np.empty((0, SHAPE), np.float32), *blocks])


def small_pictures(
    names: Sequence[str], find: Finder, folder: Path, progress: Progress | None = None
) -> SmallPictures:
    """Read the small pictures that the file in a folder does not have yet.

    A photo that is gone or cannot be read has a black one. A SolarError if the disk is full or
    read-only.
    """
    records = Records(folder / _FILE)
    keys = [_state_key(name, find(name)) for name in names]
    rows = {key[:16]: row for row, key in enumerate(keys)}
    found = SmallPictures(
        np.zeros((len(names), SIDE, SIDE), np.uint8), np.zeros((len(names), 2), np.int32), keys
    )
    missing = set(range(len(names)))

    def take(key: Any, value: bytes) -> None:
        row = rows.get(key)
        if row is not None and value[:16] == keys[row][16:] and len(value) == _LENGTH:
            found.all[row] = np.frombuffer(value, np.uint8, offset=_VALUE.size).reshape(SIDE, SIDE)
            found.sizes[row] = _VALUE.unpack_from(value)[1:]
            missing.discard(row)

    for key, value in records.every():
        take(key, value)
    advance = counted(progress, "Reading photos", len(names), len(names) - len(missing))
    for block in _read([(names[row], keys[row]) for row in sorted(missing)], find):
        records.put(block)
        for key, value in block:
            take(key, value)
        advance(len(block))
    return found


def _state_key(name: str, photo: Path | bytes | None) -> bytes:
    """32 bytes that identify a photo and the state of its file."""
    state = b"" if photo is None else file_identity(photo)
    return name_digest(name) + state.ljust(16, b"\0")


def _read(missing: Sequence[tuple[str, bytes]], find: Finder) -> Iterator[list[tuple[Key, bytes]]]:
    """New values in blocks of photos, given their names and keys.

    Photos are found one by one: those of a tar shard come with their bytes.
    """

    def value(photo: tuple[str, bytes]) -> tuple[Key, bytes]:
        name, key = photo
        pixels, width, height = np.zeros((SIDE, SIDE), np.uint8), 0, 0
        with suppress(SolarError):
            if (source := find(name)) is not None:
                pixels, width, height = small_picture(source)
        return key[:16], _VALUE.pack(key[16:], width, height) + pixels.tobytes()

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for first in range(0, len(missing), _BLOCK):
            yield list(threads.map(value, missing[first : first + _BLOCK]))
