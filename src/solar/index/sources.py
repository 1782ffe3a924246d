"""What an index takes in: photos to be described, a finished store, or vectors and their photos."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from solar.arrays import Vectors
from solar.describe.store import Store
from solar.describe.store_files import OtherPhotosError, OtherSettingsError, is_store
from solar.errors import SolarError
from solar.images import Photos, Root, Roots
from solar.images.exif import ExifFacts, exif_facts
from solar.images.known_roots import confirmed_roots
from solar.storage.types import DescriptorSpec, Photo

if TYPE_CHECKING:
    from solar.describe.progress import Progress
    from solar.models import RetrievalNet


BATCH = 4096

# A killed run describes its unfinished shard again: minutes on a GPU, but an hour on a laptop,
# whose collections are small.
_SMALL_SHARD, _FEW = 64, 16_384
_WORKING = ".extracting"


def spec_of(store: Store) -> DescriptorSpec:
    """How a store was made."""
    return DescriptorSpec(store.dim, store.model, store.fingerprint, store.settings)


def roots_known(store: Store) -> Roots:
    """The roots of a store that this user gave to it."""
    return confirmed_roots(store.path, store.roots)


def joined_roots(roots: Roots, others: Roots) -> tuple[Roots, Callable[[str], str]]:
    """The roots of an index together with those of a store, and what its photos are called then."""
    prefixes: dict[Root, str] = {}
    for root in others.roots:
        folder = root.folder
        holder = roots.folders().holding(folder) if folder is not None else None
        if holder is None or holder.folder is None:
            roots, holder = roots.with_root(Path(root.path), named=bool(roots), whole=root.whole)
        below = "."
        if folder is not None and holder.folder is not None:
            below = folder.relative_to(holder.folder).as_posix()
        prefixes[root] = holder.named("" if below == "." else f"{below}/")

    def name(known: str) -> str:
        root, below = others.owner(known)
        return known if root is None else prefixes[root] + below

    return roots, name


def photos_of(store: Store) -> list[Photo]:
    """The photos of a store, row by row."""
    facts = zip(store.names, store.sizes.tolist(), store.stamps, strict=True)
    return [Photo(name, width, height, stamp=stamp) for name, (width, height), stamp in facts]


def details(
    store: Store, photos: Photos | None, extra: Mapping[str, Mapping[str, Any]]
) -> list[Photo]:
    """The photos of a store, row by row, with what their files and `extra` say of them."""
    known = []
    for photo in photos_of(store):
        name = photo.path
        file = photos.read(photos.numbers[name]) if photos else store.roots.find(name)
        full = detail(name, photo.width, photo.height, file, extra.get(name, {}))
        known.append(replace(full, stamp=photo.stamp))
    return known


def detail(
    name: str, width: int, height: int, file: Path | bytes | None, extra: Mapping[str, Any]
) -> Photo:
    """A photo with the time, position and camera that its file gives, unless `extra` does."""
    facts = exif_facts(file) if file is not None else ExifFacts()
    return Photo(name, width, height, **{**facts._asdict(), **extra})


def batches(
    source: Store | npt.ArrayLike, photos: Sequence[str | Photo] | None
) -> Iterator[tuple[list[Photo], Vectors]]:
    """Photos and their vectors in pieces; a store is never read into memory whole."""
    if isinstance(source, Store):
        known: Sequence[str | Photo] = photos or photos_of(source)
        pieces, rows = source.chunks(BATCH), len(source)
    else:
        array = np.asarray(source)
        known, rows = photos or [], len(array)
        pieces = ((start, array[start : start + BATCH]) for start in range(0, rows, BATCH))
    if len(known) != rows:
        raise SolarError(f"There are {rows} vectors and {len(known)} photos: give one for each.")
    for start, piece in pieces:
        batch = [p if isinstance(p, Photo) else Photo(p) for p in known[start : start + len(piece)]]
        yield batch, np.ascontiguousarray(piece, np.float32)


@contextlib.contextmanager
def working_folder(address: object, keep: str | Path | None = None) -> Iterator[Path]:
    """Where descriptors are until they are in the index: `keep`, or a temporary folder beside it.

    After an error that folder stays, so that the next run continues.
    """
    if keep:
        yield Path(keep)
        return
    _, scheme, rest = str(address).partition("://")
    name = re.sub(r"[^\w.-]+", "-", rest.partition("?")[0]) if scheme else str(address).rstrip("/")
    place = Path(f"{name}{_WORKING}")
    yield place
    shutil.rmtree(place, ignore_errors=True)


def describe_photos(
    photos: Photos,
    model: RetrievalNet | str | Path,
    place: Path,
    progress: Progress | None = None,
    **settings: Any,
) -> Store:
    """Describe photos into the store at `place`, which an earlier run may have begun.

    Settings are those of `solar.extract`.
    """
    from solar.describe import extract

    if isinstance(model, str | Path) and Path(model).is_file():
        model = str(Path(model).resolve())  # searches may start elsewhere
    shard = _SMALL_SHARD if len(photos) <= _FEW and not is_store(place) else None
    known: dict[str, Any] = {"model": model, "shard_size": shard, "progress": progress, **settings}
    try:
        try:
            return extract(photos, place, **known)
        except (OtherPhotosError, OtherSettingsError) as error:
            if not _leftover(place, error):
                raise
            shutil.rmtree(place)
            return describe_photos(photos, model, place, progress, **settings)
    except OtherSettingsError as error:
        raise SolarError(
            f"{str(error).partition(';')[0]}: use the same again to continue, or delete the "
            "folder to start over."
        ) from error


def _leftover(place: Path, error: SolarError) -> bool:
    """Whether a store that does not fit is what a stopped command left, and nothing is lost.

    Embeddings that were computed with other settings are kept: those settings may come back.
    """
    if not place.name.endswith(_WORKING):
        return False
    return isinstance(error, OtherPhotosError) or not len(Store.open(place, allow_partial=True))
