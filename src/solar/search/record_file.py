"""A file of equal records that grows block by block: a stop costs no more than the last of them."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.files import unwritable

Records: TypeAlias = npt.NDArray[np.void]

Watch: TypeAlias = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def grown_records(
    file: Path,
    record: np.dtype[Any],
    total: int,
    block: int,
    more: Callable[[int], Iterable[Records]],
    watch: Watch | None = None,
) -> Records:
    """Finish a file of records, of which an earlier run may have written some.

    Args:
        file: Its name says what it holds: whoever asks for something else names another.
        record: The layout of one.
        total: How many there are to be.
        block: How many are written at a time.
        more: Gives those after the first so many, in blocks.
        watch: Told after every block.

    Returns:
        (total,) records, mapped.

    Raises:
        SolarError: The disk is full or read-only.
    """
    try:
        with file.open("r+b" if file.exists() else "w+b") as out:
            # The last block may be torn where the power failed.
            blocks = out.seek(0, os.SEEK_END) // (record.itemsize * block)
            done = max(blocks - 1, 0) * block
            out.truncate(done * record.itemsize)
            out.seek(done * record.itemsize)
            for some in more(done):
                out.write(some.tobytes())
                out.flush()
                os.fsync(out.fileno())
                done += len(some)
                if watch is not None:
                    watch(done, total)
    except OSError as error:
        raise unwritable(file, error) from error
    return np.memmap(file, record, "r", shape=(total,))
