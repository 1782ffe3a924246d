"""A file of equal records that grows block by block: a stop costs no more than the last of them."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.describe.counting import Progress, counted
from solar.files import unwritable

Records: TypeAlias = npt.NDArray[np.void]


def grown_records(
    file: Path,
    record: np.dtype[Any],
    total: int,
    block: int,
    more: Callable[[int], Iterable[Records]],
    step: str,
    progress: Progress | None = None,
) -> Records:
    """Finish a file of records, of which an earlier run may have written some.

    Args:
        file: Its name says what it holds: whoever asks for something else names another.
        record: The layout of one.
        total: How many there are to be.
        block: How many are written at a time.
        more: Gives those after the first so many, in blocks.
        step: Its name for `progress`.
        progress: Called after every block.

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
            advance = counted(progress, step, total, done)
            for some in more(done):
                out.write(some.tobytes())
                out.flush()
                os.fsync(out.fileno())
                advance(len(some))
    except OSError as error:
        raise unwritable(file, error) from error
    return np.memmap(file, record, "r", shape=(total,))
