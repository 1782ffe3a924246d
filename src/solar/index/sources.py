"""What an index takes in: vectors and their photos; and where unfinished work is."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images.exif import ExifFacts, exif_facts
from solar.storage.types import Photo

BATCH = 4096

_WORKING = ".extracting"


def detail(
    name: str, width: int, height: int, file: Path | bytes | None, extra: Mapping[str, Any]
) -> Photo:
    """A photo with the time, position and camera that its file gives, unless `extra` does."""
    facts = exif_facts(file) if file is not None else ExifFacts()
    return Photo(name, width, height, **{**facts._asdict(), **extra})


def batches(
    vectors: npt.ArrayLike, photos: Sequence[str | Photo] | None
) -> Iterator[tuple[list[Photo], Vectors]]:
    """Photos and their vectors in pieces."""
    array = np.asarray(vectors)
    known = photos or []
    if len(known) != len(array):
        raise SolarError(
            f"There are {len(array)} vectors and {len(known)} photos: give one for each."
        )
    for start in range(0, len(array), BATCH):
        piece = array[start : start + BATCH]
        batch = [p if isinstance(p, Photo) else Photo(p) for p in known[start : start + len(piece)]]
        yield batch, np.ascontiguousarray(piece, np.float32)


@contextlib.contextmanager
def working_folder(address: object) -> Iterator[Path]:
    """A folder beside an index or a file, for unfinished work.

    After an error that folder stays, so that the next run continues.
    """
    _, scheme, rest = str(address).partition("://")
    name = re.sub(r"[^\w.-]+", "-", rest.partition("?")[0]) if scheme else str(address).rstrip("/")
    place = Path(f"{name}{_WORKING}")
    yield place
    shutil.rmtree(place, ignore_errors=True)
