"""Rows that lie in several mapped arrays, read as if they were one array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from solar.arrays import AnyFloats, Flags, RowNumbers
from solar.errors import SolarError
from solar.files import regular

DTYPES: dict[str, np.dtype[np.floating[Any]]] = {".f32": np.dtype("<f4"), ".f16": np.dtype("<f2")}
"""What vectors files hold, by their suffix."""

WhichRows: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | Flags

_GATHERED = 4096  # rows in another order are copied this many at a time


def mapped(path: Path, rows: int, dim: int) -> AnyFloats:
    """Map the first rows (rows, dim) of a vectors file; a SolarError if it is too short."""
    dtype = DTYPES[path.suffix]
    if rows == 0:
        return np.empty((0, dim), dtype)
    try:
        return np.asarray(np.memmap(regular(path), dtype, "r", shape=(rows, dim)))
    except ValueError as error:
        raise SolarError(f"{path} is cut short: restore it or build it again.") from error


class Rows:
    """Rows (n, dim) of several arrays; a slice is a view, and only what is asked for is copied.

    `order` chooses some of the rows, in any order.
    """

    ndim = 2

    def __init__(
        self, parts: Sequence[AnyFloats], dim: int, order: RowNumbers | None = None
    ) -> None:
        self.parts = [part for part in parts if len(part)] or [np.empty((0, dim), np.float32)]
        self.dtype = self.parts[0].dtype
        self.starts = np.cumsum([0, *map(len, self.parts)])
        self._order = order
        self.shape = (int(self.starts[-1]) if order is None else len(order), dim)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return self.shape[0] * self.shape[1]

    @property
    def itemsize(self) -> int:
        """Bytes per number."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.size * self.itemsize

    @property
    def whole(self) -> AnyFloats | None:
        """All rows in one array, if they lie in one."""
        return self.parts[0] if len(self.parts) == 1 and self._order is None else None

    def pieces(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, AnyFloats]]:
        """The rows from first to last as arrays, each with the number of its first row."""
        last = len(self) if last is None else min(last, len(self))
        if self._order is not None:
            for at in range(first, last, _GATHERED):
                yield at, self[np.arange(at, min(at + _GATHERED, last))]
            return
        number = int(np.searchsorted(self.starts, first, "right")) - 1
        while first < last:
            start, end = int(self.starts[number]), min(int(self.starts[number + 1]), last)
            yield first, self.parts[number][first - start : end - start]
            first, number = end, number + 1

    def __iter__(self) -> Iterator[AnyFloats]:
        for _, part in self.pieces():
            yield from part

    @overload
    def __getitem__(self, rows: slice) -> Rows: ...
    @overload
    def __getitem__(self, rows: int | WhichRows) -> AnyFloats: ...
    def __getitem__(self, rows: slice | int | WhichRows) -> Rows | AnyFloats:
        if isinstance(rows, int | np.integer):
            row: AnyFloats = self[[int(rows)]][0]
            return row
        if isinstance(rows, slice):
            first, last, step = rows.indices(len(self))
            if step != 1:
                return self.select(np.arange(first, last, step))
            if self._order is not None:
                return self.select(np.arange(first, last))
            return Rows([part for _, part in self.pieces(first, last)], self.shape[1])
        wanted = self._numbers(np.asarray(rows))
        if self._order is not None:
            wanted = self._order[wanted]
        if len(self.parts) == 1:
            return self.parts[0][wanted]
        out: AnyFloats = np.empty((len(wanted), self.shape[1]), self.dtype)
        places = np.argsort(wanted, kind="stable")
        ends = np.searchsorted(wanted[places], self.starts)
        for number in np.flatnonzero(np.diff(ends)):
            mine = places[ends[number] : ends[number + 1]]
            out[mine] = self.parts[number][wanted[mine] - self.starts[number]]
        return out

    def _numbers(self, rows: npt.NDArray[Any]) -> RowNumbers:
        """Numbers of rows, counted from the end where they are negative, or a mask as numbers."""
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(f"a mask of {rows.shape} for {len(self)} rows")
            return np.flatnonzero(rows)
        numbers = rows.astype(np.int64, copy=False)
        first, last = (numbers.min(), numbers.max()) if numbers.size else (0, -1)
        if first < -len(self) or last >= len(self):
            raise IndexError(f"row {first if last < len(self) else last} of {len(self)}")
        return numbers if first >= 0 else np.where(numbers < 0, numbers + len(self), numbers)

    def select(self, rows: RowNumbers) -> Rows:
        """Some of the rows, in this order; nothing is copied."""
        order = rows if self._order is None else self._order[rows]
        everything = len(order) == self.starts[-1] and (np.diff(order) == 1).all()
        return Rows(self.parts, self.shape[1], None if everything else order)

    def columns(self, first: int, last: int) -> Rows:
        """Some numbers of every row; nothing is copied."""
        return Rows([part[:, first:last] for part in self.parts], last - first, self._order)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> AnyFloats:
        array: AnyFloats = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for at, part in self.pieces():
            array[at : at + len(part)] = part
        return array


Matrix: TypeAlias = AnyFloats | Rows
"""Vectors (n, dim) in memory, in a mapped file, or in several."""


def as_rows(vectors: Matrix) -> Rows:
    """The same vectors as `Rows`."""
    return vectors if isinstance(vectors, Rows) else Rows([vectors], vectors.shape[1])
