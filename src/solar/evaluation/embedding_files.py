"""Descriptors from files: our own stores and arrays, and the layouts that papers published."""

from __future__ import annotations

import importlib
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import AnyFloats
from solar.describe.store import Store
from solar.errors import SolarError

_PLAUSIBLE_SAMPLE = 32  # columns of a mapped file are scattered reads: look at few
_UNIT = 1e-2  # far above float16 rounding, far below a wrong axis


def read_vectors(
    path: str | os.PathLike[str], *, key: str | None = None, columns: bool | None = None
) -> AnyFloats:
    """Read descriptors as (n, dim), one row an image, from any file that may hold them.

    A store is copied into memory (walk a large one with `Store.chunks`); `.npy` and newer `.pt`
    files are mapped, so an array of any size opens at once. The array may be a transposed or
    read-only view. A SolarError if the file is missing, damaged, of another kind, or does not say
    which array.

    Args:
        path: A store, `.npy`, `.pt` (one tensor, or a dict of them) or `.mat`. `file.mat:X` means
            `key="X"`, likewise for `.pt`.
        key: Which array of a `.pt` or `.mat` that holds several.
        columns: Whether the file holds an image a column, (dim, n). When None, `.pt` and `.mat` do,
            as published, and `.npy` does not; but if that way the vectors are not of unit length
            and the other way they are, it is the other way.
    """
    path, key = _split_key(path, key)
    if path.is_dir():
        return Store.open(path).vectors()
    if not path.exists():
        raise SolarError(
            f"{path} does not exist; give a store, .npy, .pt or .mat file of descriptors."
        )
    readers = {".npy": _read_npy, ".pt": _read_pt, ".mat": _read_mat}
    kind = path.suffix.lower()
    if kind not in readers:
        raise SolarError(f"{path} is not a store, .npy, .pt or .mat file; convert it to .npy.")
    array = readers[kind](path, key)
    if array.ndim != 2 or not np.issubdtype(array.dtype, np.floating):
        raise SolarError(
            f"{path} holds {array.dtype} of shape {array.shape}, not a matrix of descriptors."
        )
    if columns is None:
        columns = _guess_columns(array, published=kind != ".npy")
    return array.T if columns else array


def _split_key(path: str | os.PathLike[str], key: str | None) -> tuple[Path, str | None]:
    match = re.fullmatch(r"(.+\.(?:mat|pt)):([^/\\:]+)", os.fspath(path), re.IGNORECASE | re.DOTALL)
    if match and key is None and not Path(path).exists():
        return Path(match[1]), match[2]
    return Path(path), key


def _guess_columns(array: AnyFloats, *, published: bool) -> bool:
    as_guessed, otherwise = (array.T, array) if published else (array, array.T)
    return published if _unit(as_guessed) or not _unit(otherwise) else not published


def _unit(rows: AnyFloats) -> bool:
    """Whether most of the first rows have length one; a few may be zero, for unreadable images."""
    sample = np.asarray(rows[:_PLAUSIBLE_SAMPLE], np.float32)
    return bool(sample.size and np.median(np.abs(np.linalg.norm(sample, axis=1) - 1)) < _UNIT)


def _read_npy(path: Path, key: str | None) -> AnyFloats:
    try:
        array: AnyFloats = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _unreadable(path, "a complete .npy array of numbers") from error
    return array


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
        raise SolarError(f"{path} holds a {type(content).__name__}, not a tensor of descriptors.")
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
