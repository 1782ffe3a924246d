"""What an index takes in: vectors and their photos; and where unfinished work is."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.files import make_folder, unwritable
from solar.storage.types import Photo

BATCH = 4096

_WORKING = ".extracting"


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
    """The `working_place`, which stays after an error, so that the next run continues.

    A SolarError names the address if no folder can be made beside it.
    """
    place = working_place(address)
    make_folder(place, complaint=lambda _, error: unwritable(Path(str(address)), error))
    try:
        yield place
    except BaseException:
        with contextlib.suppress(OSError):  # there is work in it
            place.rmdir()
        raise
    shutil.rmtree(place, ignore_errors=True)


def working_place(address: object) -> Path:
    """Where unfinished work on an index or a file is: a folder beside it."""
    _, scheme, rest = str(address).partition("://")
    name = re.sub(r"[^\w.-]+", "-", rest.partition("?")[0]) if scheme else str(address).rstrip("/")
    return Path(f"{name}{_WORKING}")
