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
    """Add photos to an index, or replace those of the same path.

    Photos inside the folder that the index was built from are called by their path below that, as
    they would have been then; others by their path below `source`. With `new`, those whose path is
    in the index already are left out; other arguments are as for `solar.search.index_build.build`.
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
    if isinstance(index, AsmkIndex):
        assert photos is not None
        return asmk_build.add(photos, index, store=store, metadata=metadata, progress=progress)
    vectors, settings = need_vectors(index), index.spec.settings
    known: dict[str, Any] = {"photos": photos, "keep": store, "progress": progress}
    known |= {name: settings[name] for name in _DESCRIBING if name in settings}
    with described_photos(source, address, index.spec.model or None, **known) as (found, photos):
        count = vectors.add(found, details(found, photos, metadata))
        return BuiltIndex(index, count, found.failures)


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
