"""Descriptors as a Parquet file, which vector databases and data frames of all kinds read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.arrays import Vectors
from solar.describe.progress import Progress, counted
from solar.errors import optional
from solar.files import refuse_folder, replacing
from solar.index.sources import described_rows
from solar.storage.types import DescriptorSpec, Photo

if TYPE_CHECKING:
    from solar.describe.store import Store
    from solar.index.index import Index


KEY = "solar"
"""Of the file's metadata: how the vectors were made, as JSON."""


def check_target(path: Path) -> None:
    """Say before hours of describing what would go wrong after them.

    A SolarError if pyarrow is not installed, or a folder is in the way.
    """
    optional("pyarrow", "parquet")
    refuse_folder(path, "the Parquet file")


def write_parquet(
    source: Store | Index,
    path: str | Path,
    *,
    progress: Progress | None = None,
) -> int:
    """Write a row per photo, whole or not at all; a file that is there is replaced.

    Columns are `path`, `vector` (a list of dim float32 of unit length), `width` and `height` of the
    upright photo, `bytes` and `sha256` of its file; null where something is not known. The metadata
    of the file has the model, its fingerprint, dim and all settings under `solar`, as JSON.

    Args:
        source: A finished store, or an index of vectors. No photo is read.
        path: The file.
        progress: Called after every batch.

    Returns:
        How many rows were written.

    Raises:
        SolarError: pyarrow is not installed, or the disk is full or read-only.
    """
    arrow, parquet = optional("pyarrow", "parquet"), optional("pyarrow.parquet", "parquet")
    spec, pieces = described_rows(source)
    schema = _schema(arrow, spec)
    advance = counted(progress, "Writing", len(source))
    with (
        replacing(path) as temporary,
        # Hardly a value comes twice, so a dictionary of them would only take room.
        parquet.ParquetWriter(temporary, schema, use_dictionary=False) as writer,
    ):
        for photos, vectors in pieces:
            writer.write_batch(_rows(arrow, schema, photos, vectors))
            advance(len(photos))
    return len(source)


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
