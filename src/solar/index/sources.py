"""What an index takes in: a finished store, or vectors and the photos they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, cast

import numpy as np
import numpy.typing as npt

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import Root, Roots
from solar.images.known_roots import confirmed_roots
from solar.storage.types import DescriptorSpec, Photo

if TYPE_CHECKING:
    from solar.describe.store import Store
    from solar.index.index import Index


BATCH = 4096


def knows_its_photos(source: object) -> TypeGuard[Store]:
    """Whether a source is a store, which also knows the model."""
    return hasattr(source, "fingerprint")


def spec_of(source: object) -> DescriptorSpec | None:
    """How a store was made; None for plain vectors, which do not know."""
    if not knows_its_photos(source):
        return None
    return DescriptorSpec(source.dim, source.model, source.fingerprint, source.settings)


def roots_of(source: object) -> Roots:
    """Where the photos of a store are; nowhere for plain vectors."""
    return source.roots if knows_its_photos(source) else Roots()


def roots_known(source: object) -> Roots:
    """Those of them that this user gave to the store."""
    return confirmed_roots(source.path, source.roots) if knows_its_photos(source) else Roots()


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
    """What a store knows of its photos, row by row."""
    facts = zip(store.names, store.sizes.tolist(), store.stamps, strict=True)
    return [Photo(name, width, height, stamp=stamp) for name, (width, height), stamp in facts]


def batches(
    source: Store | npt.ArrayLike, photos: Sequence[str | Photo] | None
) -> Iterator[tuple[list[Photo], Vectors]]:
    """Photos and their vectors in pieces; a store is never read into memory whole."""
    if knows_its_photos(source):
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


def described_rows(
    source: Store | Index,
) -> tuple[DescriptorSpec, Iterator[tuple[list[Photo], Vectors]]]:
    """How the vectors of a store or an index were made; photos and vectors in pieces."""
    if knows_its_photos(source):
        spec = DescriptorSpec(source.dim, source.model, source.fingerprint, source.settings)
        return spec, batches(source, None)
    index = cast("Index", source)
    return index.spec, index.engine.batches(BATCH)
