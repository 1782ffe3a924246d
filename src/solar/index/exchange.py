"""Embeddings in other tools' files: Parquet for data frames and vector databases, HDF5 for hloc.

hloc's `global-feats-*.h5` has a group per photo, called as the photo is, relative to the image
folder (`rome/12.jpg`); its dataset `global_descriptor` is the vector (dim,).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import Vectors
from solar.describe.progress import Progress, counted
from solar.errors import SolarError, optional
from solar.files import replacing, writing
from solar.index.photo_index import PhotoIndex
from solar.index.sources import BATCH
from solar.storage.own_fields import as_json
from solar.storage.types import Photo

DATASET = "global_descriptor"
SUFFIXES = frozenset({".h5", ".hdf5"})
_LONGEST = 1 << 16  # numbers of a vector; more are no descriptor of a photo

KEY = "solar"
"""Of the file's metadata: how the vectors were made, as JSON."""


def write_h5(index: PhotoIndex, path: str | Path, *, progress: Progress | None = None) -> int:
    """Write descriptors for hloc, whole or not at all; a file that is there is replaced.

    No photo is read. Returns how many photos were written. A SolarError if h5py is not installed, a
    photo has a name that no group can have, or the disk is full or read-only.
    """
    h5py = optional("h5py", "sfm")
    advance = counted(progress, "Writing", len(index))
    with replacing(path) as temporary, h5py.File(temporary, "w") as file:
        for photos, vectors in index.batches():
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
    return len(index)


def read_h5(path: str | Path) -> Iterator[tuple[list[str], Vectors]]:
    """Names and unit vectors (n, dim) of a file of hloc's, in pieces, in the order of the file.

    A SolarError if h5py is not installed, or the file is missing, damaged, or holds no global
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
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def write_npy(index: PhotoIndex, path: str | Path, *, progress: Progress | None = None) -> int:
    """Write embeddings (n, dim) as float32, and the paths of their photos beside it, as `.txt`.

    Returns how many rows were written. A SolarError if the disk is full or read-only.
    """
    path = Path(path)
    advance = counted(progress, "Writing", len(index))
    with (
        replacing(path) as temporary,
        temporary.open("wb") as file,
        writing(path.with_suffix(".txt")) as names,
    ):
        shape = {"descr": "<f4", "fortran_order": False, "shape": (len(index), index.spec.dim)}
        np.lib.format.write_array_header_1_0(file, shape)
        for photos, vectors in index.batches():
            file.write(np.ascontiguousarray(vectors, "<f4").data)
            names.writelines(f"{photo.path}\n" for photo in photos)
            advance(len(photos))
    return len(index)


def write_parquet(index: PhotoIndex, path: str | Path, *, progress: Progress | None = None) -> int:
    """Write a row per photo, whole or not at all; a file that is there is replaced.

    Columns are `path`, `vector` (a list of dim float32 of unit length), `width` and `height` of the
    upright photo, `bytes` and `sha256` of its file, `tags` (a list), `taken`, `latitude`,
    `longitude`, `camera` and `fields` (JSON); null where something is not known. The metadata of
    the file has the model, its fingerprint, dim and all settings under `solar`, as JSON.

    No photo is read. Returns how many rows were written. A SolarError if pyarrow is not installed,
    or the disk is full or read-only.
    """
    arrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    columns, spec = _columns(arrow, index.spec.dim), index.spec
    fields = [arrow.field(name, kind, name not in ("path", "vector")) for name, kind, _ in columns]
    # Boxes belong to single photos, and there may be as many.
    settings = {name: value for name, value in spec.settings.items() if name != "boxes"}
    made = {"model": spec.model, "fingerprint": spec.fingerprint, "dim": spec.dim, **settings}
    schema = arrow.schema(fields, {KEY: json.dumps(made)})
    advance = counted(progress, "Writing", len(index))
    with (
        replacing(path) as temporary,
        # Hardly a value comes twice, so a dictionary of them would only take room.
        parquet.ParquetWriter(temporary, schema, use_dictionary=False) as writer,
    ):
        for photos, vectors in index.batches():
            flat = arrow.FixedSizeListArray.from_arrays(vectors.reshape(-1), spec.dim)
            cells = [[of(photo) for photo in photos] if of else flat for *_, of in columns]
            typed = [arrow.array(c, f.type) for c, f in zip(cells, schema, strict=True)]
            writer.write_batch(arrow.record_batch(typed, schema=schema))
            advance(len(photos))
    return len(index)


def _columns(arrow: Any, dim: int) -> list[tuple[str, Any, Callable[[Photo], Any] | None]]:
    """Names and types of the columns, and what each has of a photo, but for its vector."""
    text, count, degrees = arrow.string(), arrow.int32(), arrow.float64()
    return [
        ("path", text, lambda photo: photo.path),
        ("vector", arrow.list_(arrow.float32(), dim), None),
        ("width", count, lambda photo: photo.width or None),
        ("height", count, lambda photo: photo.height or None),
        ("bytes", arrow.int64(), lambda photo: photo.stamp and photo.stamp.bytes),
        ("sha256", text, lambda photo: photo.stamp and photo.stamp.sha256),
        ("tags", arrow.list_(text), lambda photo: photo.tags or None),
        ("taken", text, lambda photo: photo.taken),
        ("latitude", degrees, lambda photo: photo.position and photo.position[0]),
        ("longitude", degrees, lambda photo: photo.position and photo.position[1]),
        ("camera", text, lambda photo: photo.camera),
        ("fields", text, lambda photo: as_json(photo.fields) if photo.fields else None),
    ]
