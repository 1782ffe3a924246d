"""Descriptors as a Parquet file, which vector databases and data frames of all kinds read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.errors import SolarError
from solar.files import refuse_folder, replacing
from solar.search.engine import DescriptorSpec, Photo, Vectors
from solar.search.ingest import described_rows

if TYPE_CHECKING:
    from solar.describe.store import Store
    from solar.search.index import Index

KEY = "solar"
"""Of the file's metadata: how the vectors were made, as JSON."""


def check_target(path: Path) -> None:
    """Say before hours of describing what would go wrong after them.

    A SolarError if pyarrow is not installed, or a folder is in the way.
    """
    _libraries()
    refuse_folder(path, "the Parquet file")


def write_parquet(
    source: Store | Index,
    path: str | Path,
    *,
    watch: Callable[[int, int], None] | None = None,
) -> int:
    """Write a row per photo, whole or not at all; a file that is there is replaced.

    Columns are `path`, `vector` (a list of dim float32 of unit length), `width` and `height` of the
    upright photo, `bytes` and `sha256` of its file; null where something is not known. The metadata
    of the file has the model, its fingerprint, dim and all settings under `solar`, as JSON.

    Args:
        source: A finished store, or an index of vectors. No photo is read.
        path: The file.
        watch: Told after every row group how many rows are written, and of how many.

    Returns:
        How many rows were written.

    Raises:
        SolarError: pyarrow is not installed, or the disk is full or read-only.
    """
    arrow, parquet = _libraries()
    spec, pieces = described_rows(source)
    schema = _schema(arrow, spec)
    done, total = 0, len(source)
    with (
        replacing(path) as temporary,
        # Hardly a value comes twice, so a dictionary of them would only take room.
        parquet.ParquetWriter(temporary, schema, use_dictionary=False) as writer,
    ):
        for photos, vectors in pieces:
            writer.write_batch(_rows(arrow, schema, photos, vectors))
            done += len(photos)
            if watch is not None:
                watch(done, total)
    return done


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
    ]
    return arrow.schema(fields, {KEY: json.dumps(made)})


def _rows(arrow: Any, schema: Any, photos: Sequence[Photo], vectors: Vectors) -> Any:
    """A record batch, which the writer makes a row group of."""
    stamps = [photo.stamp for photo in photos]
    columns = [
        [photo.path for photo in photos],
        arrow.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1]),
        [photo.width or None for photo in photos],
        [photo.height or None for photo in photos],
        [stamp and stamp.bytes for stamp in stamps],
        [stamp and stamp.sha256 for stamp in stamps],
    ]
    typed = [arrow.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return arrow.record_batch(typed, schema=schema)


def _libraries() -> tuple[Any, Any]:
    """`pyarrow`, and its module for Parquet files."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise SolarError(
            'Parquet files are written with pyarrow: pip install "solar-retrieval[parquet]".'
        ) from error
