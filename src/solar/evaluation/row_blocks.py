"""The rows of a database and its distractors: checked, converted, and read one block ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from solar.arrays import AnyFloats
from solar.describe.store import Store
from solar.errors import SolarError

Database: TypeAlias = AnyFloats | Store

NAMES = ("the queries", "the database", "the distractors")
_UNIT = 1e-2  # far above float16 rounding, far below a forgotten normalisation


def select_rows(
    database: Database, rows: slice | Sequence[int] | npt.NDArray[np.int64]
) -> AnyFloats:
    """Some rows of an array or a store."""
    return database.vectors(rows) if isinstance(database, Store) else database[rows]


class RowBlocks:
    """Descriptors to search in, numbered from the database's first to the distractors' last.

    `total` rows of `dim` numbers each; a SolarError if they are no matrix as wide as the queries.
    """

    def __init__(
        self,
        queries: AnyFloats,
        database: Database,
        distractors: Database | None,
        names: tuple[str, str, str],
    ) -> None:
        self._parts = [(names[1], database)]
        if distractors is not None:
            self._parts.append((names[2], distractors))
        self.total = sum(len(part) for _, part in self._parts)
        self.dim = _width(names[0], queries, "have")
        for name, part in self._parts:
            if (width := _width(name, part, "has")) != self.dim:
                raise SolarError(
                    f"Rows of {names[0]} have {self.dim} numbers and rows of {name} {width}: "
                    "they come from different models."
                )

    def read(self, chunk: int, dtype: np.dtype[Any], stop: int) -> Iterator[tuple[int, AnyFloats]]:
        """Read and check rows 0 to `stop` in order: the number of a block's first, and its rows."""
        jobs, first = [], 0
        for name, part in self._parts:
            starts = range(0, min(len(part), stop - first), chunk)
            jobs += [(first + start, name, part, start, start + chunk) for start in starts]
            first += len(part)
        # One block is read while the one before it is used. 8,000 rows of 2,048 take 2 ms if they
        # are float32 in memory, 80 ms as float16, and whatever the disk takes; their product with
        # 70 queries takes 32 ms.
        with ThreadPoolExecutor(1) as reader:
            ahead = None
            for job in (*jobs, None):
                following = None if job is None else reader.submit(_read, *job, dtype)
                if ahead is not None:
                    yield ahead.result()
                ahead = following


def _read(
    first: int, name: str, part: Database, start: int, stop: int, dtype: np.dtype[Any]
) -> tuple[int, AnyFloats]:
    block: AnyFloats = np.ascontiguousarray(select_rows(part, slice(start, stop)), dtype)
    check_rows(name, block, start)  # reads every number, and so brings a mapped file into memory
    return first, block


def check_rows(name: str, rows: AnyFloats, start: int = 0) -> None:
    """Refuse rows (n, dim), numbered from `start`, not finite or of a length neither 1 nor 0.

    The SolarError names the first bad one.
    """
    vecdot = getattr(np, "vecdot", None)  # twice as fast, but only from numpy 2 on
    with np.errstate(over="ignore", invalid="ignore"):
        squares = vecdot(rows, rows) if vecdot else np.einsum("ij,ij->i", rows, rows)
    good = (np.abs(squares - 1) < 2 * _UNIT) | (squares == 0)
    if good.all():
        return
    bad = int(np.argmin(good))
    if not np.isfinite(rows[bad]).all():
        raise SolarError(
            f"Row {start + bad} of {name} holds NaN or infinity: describe that photo again."
        )
    length = np.linalg.norm(rows[bad].astype(np.float64))
    raise SolarError(
        f"Row {start + bad} of {name} has length {length:.3g}, not 1: "
        "divide every row by its length first."
    )


def _width(name: str, part: Database, has: str) -> int:
    if isinstance(part, Store):
        return part.dim
    if part.ndim != 2:
        raise SolarError(
            f"Descriptors must be a matrix with one row each, but {name} {has} shape {part.shape}."
        )
    return int(part.shape[1])
