"""Embeddings to evaluate: read from files, checked, converted, and read one block ahead."""

from __future__ import annotations

import importlib
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import AnyFloats
from solar.describe.prefetch import ahead
from solar.errors import SolarError
from solar.storage.rows import Matrix

NAMES = ("the queries", "the database", "the distractors")

# Deviation from length one: far above float16 rounding, far below a wrong axis or missing norm.
_UNIT = 1e-2
_PLAUSIBLE_SAMPLE = 32  # columns of a mapped file are scattered reads: look at few


def read_vectors(path: str | os.PathLike[str]) -> AnyFloats:
    """Read embeddings as (n, dim), from `.npy`, `.pt` or `.mat`.

    `file.mat:X` or `file.pt:X` names one of several arrays. `.npy` and newer `.pt` files are
    mapped, so an array of any size opens at once. A `.pt` or `.mat` holds (dim, n), as
    published, and `.npy` (n, dim), unless only the other way gives vectors of unit length. The
    array may be a transposed or read-only view.
    """
    match = re.fullmatch(r"(.+\.(?:mat|pt)):([^/\\:]+)", os.fspath(path), re.IGNORECASE | re.DOTALL)
    named = match is not None and not Path(path).exists()
    path, key = (Path(match[1]), match[2]) if match and named else (Path(path), None)
    if not path.exists():
        raise SolarError(f"{path} does not exist; give an index, .npy, .pt or .mat file.")
    kind = path.suffix.lower()
    if kind == ".npy":
        array = _read_npy(path)
    elif kind in (".pt", ".mat"):
        array = (_read_pt if kind == ".pt" else _read_mat)(path, key)
    else:
        raise SolarError(f"{path} is not an index, .npy, .pt or .mat file; convert it to .npy.")
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
        raise SolarError(f"{path} holds {array.dtype} {array.shape}, not a matrix of floats.")
    usual, other = (array, array.T) if kind == ".npy" else (array.T, array)
    return usual if _unit(usual) or not _unit(other) else other


def _unit(rows: AnyFloats) -> bool:
    """Whether most of the first rows have length one; a few may be zero, for unreadable images."""
    sample = np.asarray(rows[:_PLAUSIBLE_SAMPLE], np.float32)
    return bool(sample.size and np.median(np.abs(np.linalg.norm(sample, axis=1) - 1)) < _UNIT)


def _read_npy(path: Path) -> AnyFloats:
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, "a complete .npy array of numbers") from error


def _read_pt(path: Path, key: str | None) -> AnyFloats:
    import torch

    try:
        # Only torch's zip layout can be mapped; files from before torch 1.6 are read whole.
        content: Any = torch.load(
            path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path)
        )
    except Exception as error:  # a damaged file fails in torch in many ways; a pickle is refused
        raise _unreadable(path, "a complete .pt file of plain tensors") from error
    if isinstance(content, dict):
        content = content[_choose(path, [k for k in content if torch.is_tensor(content[k])], key)]
    if not torch.is_tensor(content):
        raise SolarError(f"{path} holds a {type(content).__name__}, not a tensor of embeddings.")
    tensor = content.detach()
    array: AnyFloats = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _read_mat(path: Path, key: str | None) -> AnyFloats:
    try:
        mat: Any = importlib.import_module("scipy.io")  # optional, and it has no types
    except ImportError as error:
        raise SolarError(f"Reading {path} needs scipy; install it or convert to .npy.") from error
    try:
        name = _choose(path, [name for name, _, _ in mat.whosmat(path)], key)
        array: AnyFloats = mat.loadmat(path, variable_names=[name])[name]
    except SolarError:
        raise
    except Exception as error:  # scipy raises whatever the bytes lead it to
        raise _unreadable(path, "a complete .mat file up to version 7.2") from error
    return array


def _choose(path: Path, names: list[str], key: str | None) -> str:
    if key in names:
        return key
    if key is None and len(names) == 1:
        return names[0]
    listed = ", ".join(map(str, names)) or "no array"
    raise SolarError(f"{path} holds {listed}; say which to read, such as {path.name}:X.")


def _unreadable(path: Path, expected: str) -> SolarError:
    return SolarError(f"{path} is not {expected}, or is damaged: download or create it again.")


class RowBlocks:
    """Rows to search in, `total` of `dim` numbers: the database's, then the distractors'.

    A SolarError if they are no matrix as wide as the queries.
    """

    def __init__(
        self,
        queries: AnyFloats,
        database: Matrix,
        distractors: Matrix | None,
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
        # One block is read while the one before it is used.
        yield from ahead(lambda job: _read(*job, dtype), jobs, 1, 1)


def _read(
    first: int, name: str, part: Matrix, start: int, stop: int, dtype: np.dtype[Any]
) -> tuple[int, AnyFloats]:
    block: AnyFloats = np.ascontiguousarray(part[start:stop], dtype)
    check_rows(name, block, start)  # reads every number, and so brings a mapped file into memory
    return first, block


def check_rows(name: str, rows: AnyFloats, start: int = 0) -> None:
    """Refuse rows (n, dim), numbered from `start`, not finite or of a length neither 1 nor 0."""
    vecdot = getattr(np, "vecdot", None)  # twice as fast, but only from numpy 2 on
    with np.errstate(over="ignore", invalid="ignore"):
        squares = vecdot(rows, rows) if vecdot else np.einsum("ij,ij->i", rows, rows)
    good = (np.abs(squares - 1) < 2 * _UNIT) | (squares == 0)
    if good.all():
        return
    bad = int(np.argmin(good))
    row = f"Row {start + bad} of {name}"
    if not np.isfinite(rows[bad]).all():
        raise SolarError(f"{row} holds NaN or infinity: describe that photo again.")
    length = np.linalg.norm(rows[bad].astype(np.float64))
    raise SolarError(f"{row} has length {length:.3g}, not 1: divide every row by its length first.")


def _width(name: str, part: Matrix, has: str) -> int:
    if part.ndim != 2:
        raise SolarError(f"Embeddings must be a matrix, but {name} {has} shape {part.shape}.")
    return int(part.shape[1])
