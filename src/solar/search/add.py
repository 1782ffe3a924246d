"""More photos for an index of either kind: of vectors, or of local features."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.images import Photos, find_photos
from solar.search import asmk_build
from solar.search.addresses import Address
from solar.search.asmk_index import AsmkIndex
from solar.search.index import Index, need_vectors
from solar.search.index_build import BuiltIndex, described_photos, details
from solar.search.photo_index import PhotoIndex

if TYPE_CHECKING:
    from solar.describe.pipeline import Progress

# Of the settings that an index remembers, those that new photos must be described with.
_DESCRIBING = ("size", "scales", "orient", "mode", "backend")


def add(
    source: str | Path,
    address: Address,
    *,
    new: bool = False,
    store: str | Path | None = None,
    metadata: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> BuiltIndex:
    """Add photos to an index, or replace those of the same path; see `solar.search.index_build`.

    Photos inside the folder that the index was built from are called by their path below that, as
    they would have been then; others by their path below `source`.

    Args:
        source: A folder, a list or a tar shard of photos, or a finished store of descriptors.
        address: The index.
        new: Leave out photos whose path is in the index already.
        store: Keep the descriptors there; otherwise they are deleted when they are in the index.
        metadata: A file of tags and times, see `solar.search.index_build.read_metadata`.
        progress: Called while photos are described.
        **options: For the engine.

    Raises:
        SolarError: There is no index, there are no photos, or another writer is at work.
    """
    index = Index.open(address, **options)
    if is_store(source) and not isinstance(index, AsmkIndex):
        if new:
            raise SolarError(f"{source} holds descriptors, which are added all: leave out --new.")
        photos = None
    else:
        photos = _wanted(source, index, new=new)
        if not photos:
            return BuiltIndex(index, 0, {})
    known: dict[str, Any] = {"store": store, "metadata": metadata, "progress": progress}
    if isinstance(index, AsmkIndex):
        assert photos is not None
        return asmk_build.add(photos, index, **known)
    vectors = need_vectors(index)
    spec = vectors.spec
    settings = {name: spec.settings[name] for name in _DESCRIBING if name in spec.settings}
    with described_photos(
        source,
        address,
        spec.model or None,
        photos=photos,
        keep=store,
        progress=progress,
        **settings,
    ) as (described, photos):
        count = vectors.add(described, details(described, photos, metadata))
        return BuiltIndex(index, count, described.failures)


def _wanted(source: str | Path, index: PhotoIndex, *, new: bool) -> Photos:
    """The photos of a source under the names that the index has for them."""
    photos = _called_as_in(index, Path(source), find_photos(source))
    if not new:
        return photos
    known = {photo.path for batch in index.engine.photos() for photo in batch}
    return photos.select(number for number, name in enumerate(photos.names) if name not in known)


def _called_as_in(index: PhotoIndex, source: Path, photos: Photos) -> Photos:
    root = index.spec.root
    if root is None or not Path(root).is_dir():
        return photos
    place = source.resolve() if source.is_dir() else source.resolve().parent
    if source.suffix == ".tar" or not place.is_relative_to(root):
        warnings.warn(
            f"{source} is not in {root}, where pages and verification look for the photos of the "
            "index, and will not find these.",
            stacklevel=2,
        )
        return photos
    below = place.relative_to(root)
    return Photos(tuple((below / name).as_posix() for name in photos.names), photos.places)
