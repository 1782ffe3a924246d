"""Embeddings in other tools' files: Parquet for data frames and vector databases, HDF5 for hloc.

hloc's `global-feats-*.h5` has a group per photo, called as the photo is, relative to the image
folder (`rome/12.jpg`); its dataset `global_descriptor` is the vector (dim,).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import Vectors
from solar.describe.progress import Progress, counted
from solar.errors import SolarError, optional
from solar.files import replacing
from solar.index.photo_index import PhotoIndex
from solar.index.sources import BATCH
from solar.storage.own_fields import as_json
from solar.storage.types import DescriptorSpec, Photo

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
        replacing(path.with_suffix(".txt")) as listed,
        temporary.open("wb") as file,
        listed.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as names,
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
    schema = _schema(arrow, index.spec)
    advance = counted(progress, "Writing", len(index))
    with (
        replacing(path) as temporary,
        # Hardly a value comes twice, so a dictionary of them would only take room.
        parquet.ParquetWriter(temporary, schema, use_dictionary=False) as writer,
    ):
        for photos, vectors in index.batches():
            writer.write_batch(_rows(arrow, schema, photos, vectors))
            advance(len(photos))
    return len(index)


def _schema(arrow: Any, spec: DescriptorSpec) -> Any:
    # Boxes belong to single photos, and there may be as many.
    settings = {name: value for name, value in spec.settings.items() if name != "boxes"}
    made = {"model": spec.model, "fingerprint": spec.fingerprint, "dim": spec.dim, **settings}
    fields = [
        arrow.field("path", arrow.string(), nullable=False),
        arrow.field("vector", arrow.list_(arrow.float32(), spec.dim), nullable=False),
        arrow.field("width", arrow.int32()),
        arrow.field("height", arrow.int32()),
        arrow.field("bytes", arrow.int64()),
        arrow.field("sha256", arrow.string()),
        arrow.field("tags", arrow.list_(arrow.string())),
        arrow.field("taken", arrow.string()),
        arrow.field("latitude", arrow.float64()),
        arrow.field("longitude", arrow.float64()),
        arrow.field("camera", arrow.string()),
        arrow.field("fields", arrow.string()),
    ]
    return arrow.schema(fields, {KEY: json.dumps(made)})


def _rows(arrow: Any, schema: Any, photos: Sequence[Photo], vectors: Vectors) -> Any:
    stamps = [photo.stamp for photo in photos]
    columns = [
        [photo.path for photo in photos],
        arrow.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1]),
        [photo.width or None for photo in photos],
        [photo.height or None for photo in photos],
        [stamp and stamp.bytes for stamp in stamps],
        [stamp and stamp.sha256 for stamp in stamps],
        [photo.tags or None for photo in photos],
        [photo.taken for photo in photos],
        [photo.position and photo.position[0] for photo in photos],
        [photo.position and photo.position[1] for photo in photos],
        [photo.camera for photo in photos],
        [as_json(photo.fields) if photo.fields else None for photo in photos],
    ]
    typed = [arrow.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return arrow.record_batch(typed, schema=schema)
