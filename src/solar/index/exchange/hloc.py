"""Descriptors in the files of hloc: `global-feats-*.h5`, a group per photo with one dataset.

The group is called as the photo is, relative to the image folder (`rome/12.jpg`), and its dataset
`global_descriptor` has the vector (dim,).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from solar.arrays import Vectors
from solar.describe.progress import Progress, counted
from solar.errors import SolarError, optional
from solar.files import refuse_folder, replacing
from solar.index.sources import BATCH, described_rows

if TYPE_CHECKING:
    from solar.describe.store import Store
    from solar.index.index import Index


DATASET = "global_descriptor"
SUFFIXES = frozenset({".h5", ".hdf5"})
_LONGEST = 1 << 16  # numbers of a vector; more are no descriptor of a photo


def check_h5_target(path: Path) -> None:
    """Say before hours of describing what would go wrong after them.

    A SolarError if h5py is not installed, or a folder is in the way.
    """
    optional("h5py", "sfm")
    refuse_folder(path, "the .h5 file")


def write_h5(source: Store | Index, path: str | Path, *, progress: Progress | None = None) -> int:
    """Write descriptors for hloc, whole or not at all; a file that is there is replaced.

    Args:
        source: A finished store, or an index of vectors. No photo is read.
        path: The file.
        progress: Called after every batch.

    Returns:
        How many photos were written.

    Raises:
        SolarError: h5py is not installed, a photo has a name that no group can have, or the disk
            is full or read-only.
    """
    h5py = optional("h5py", "sfm")
    _, pieces = described_rows(source)
    advance = counted(progress, "Writing", len(source))
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for photos, vectors in pieces:
            for photo, vector in zip(photos, vectors, strict=True):
                try:
                    if photo.path.startswith("/"):
                        raise ValueError("an absolute name")
                    file.create_group(photo.path)[DATASET] = vector
                except ValueError as error:  # the group is there, or the name is no text
                    raise SolarError(
                        f"A group of an .h5 file cannot be called {photo.path!r}: rename the "
                        "photo, or run the command on the folder that it is in."
                    ) from error
            advance(len(photos))
    return len(source)


def read_h5(path: str | Path) -> Iterator[tuple[list[str], Vectors]]:
    """Names and unit vectors (n, dim) of a file of hloc's, in pieces, in the order of the file.

    Raises:
        SolarError: h5py is not installed, or the file is missing, damaged, or holds no global
            descriptors or several kinds of them.
    """
    h5py = optional("h5py", "sfm")
    if not Path(path).is_file():
        raise SolarError(f"There is no file {path}.")
    try:
        with h5py.File(path, "r") as file:
            groups: list[str] = []

            def note(name: str, item: Any) -> None:
                group, _, last = name.rpartition("/")
                if last == DATASET and isinstance(item, h5py.Dataset):
                    groups.append(group)

            file.visititems(note)
            if not groups:
                raise SolarError(
                    f"{path} holds no dataset {DATASET!r}: give the global features of hloc, "
                    "global-feats-….h5."
                )
            dim = None
            for start in range(0, len(groups), BATCH):
                names = groups[start : start + BATCH]
                rows = []
                for name in names:
                    rows.append(_vector(file[name][DATASET], path, name, dim))
                    dim = len(rows[0])
                yield names, np.stack(rows)
    except SolarError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise SolarError(
            f"{path} is not a complete .h5 file: download or create it again."
        ) from error


def _vector(data: Any, path: str | Path, name: str, dim: int | None) -> Vectors:
    """A unit vector from a dataset of shape (dim,), or (1, dim)."""
    size = int(np.prod(data.shape))
    if data.dtype.kind != "f" or size != max(data.shape, default=0) or not 0 < size <= _LONGEST:
        raise SolarError(
            f"{path} holds {data.dtype} of shape {data.shape} for {name!r}, not a descriptor."
        )
    if dim is not None and size != dim:
        raise SolarError(
            f"{path} holds descriptors of length {dim}, but {name!r} has length {size}: describe "
            "all photos with one model."
        )
    vector = np.asarray(data[()], np.float32).reshape(-1)
    if not np.isfinite(vector).all():
        raise SolarError(
            f"{path} holds a descriptor of {name!r} that is not finite: describe it again."
        )
    unit: Vectors = vector / max(float(np.linalg.norm(vector)), 1e-12)
    return unit
