"""Photos described into an index, in segments of any size."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from solar.errors import SolarError
from solar.images import Photos, find_photos
from solar.index import Index
from solar.index.build import fill
from solar.storage.catalogue import Metadata
from solar.storage.catalogue_view import Segment
from solar.storage.types import DescriptorSpec, Photo, Skipped


def filled(source: Any, place: str | Path, *, rows: int | None = None, **options: Any) -> Index:
    """Fill an index, `rows` photos per segment, or bring it up to date."""
    photos = source if isinstance(source, Photos) else find_photos(source)
    if rows is None:
        return fill(place, photos, **options)
    with patch("solar.index.index.rows_for", lambda *_: rows):
        return fill(place, photos, **options)


def content(place: str | Path) -> dict[str, tuple[Photo, tuple[Any, ...], bytes] | Skipped]:
    """What an index holds, and what it has left out."""
    with Index.open(place) as index:
        assert index.check() == []
        found: dict[str, tuple[Photo, tuple[Any, ...], bytes] | Skipped] = {}
        for photos, vectors in index.batches():
            for photo, vector in zip(photos, vectors, strict=True):
                found[photo.path] = photo, tuple(photo.stamp or ()), vector.tobytes()
        return found | index.engine.skipped()


def written(place: Path) -> dict[str, int]:
    """The segments that are there, and when they were written."""
    return {file.name: file.stat().st_mtime_ns for file in place.glob("segments/*.f??")}


def segments(place: Path) -> list[Segment]:
    """What the catalogue says of the files of vectors."""
    with Metadata(place).reading() as view:
        return view.segments()


def named(place: Path) -> set[str]:
    """The files of the segments that the catalogue names; none before it is begun."""
    if not (place / "catalogue.sqlite").exists():
        return set()
    try:
        return {f"{segment.sha256[:32]}.f32" for segment in segments(place)}
    except SolarError:
        return set()


def index_of(
    place: Path, names: list[str], vectors: np.ndarray, facts: Mapping[str, Any] | None = None
) -> Index:
    """An index of vectors that a model with these `facts` could have made."""
    known = {"dim": vectors.shape[1], **(facts or {})}
    return Index.create(place, vectors, names, spec=DescriptorSpec(**known))
