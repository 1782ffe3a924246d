"""The embeddings of a collection, mapped, and the nearest neighbours of its photos.

Pairs, duplicates and groups compare every photo with every other, in the segments of an index,
which never change. They are compared block by block, which bounds the memory; finished blocks are
kept in a file, and another run continues after them.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles, RowNumbers
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.files import make_folder
from solar.images import Photos, Roots, collect
from solar.images.exif import Position, exif_facts
from solar.images.roots import expanded
from solar.index.build import fill
from solar.index.exchange import SUFFIXES, read_h5
from solar.index.index import Index, filled_engine, is_folder, opened
from solar.index.photo_index import PhotoIndex
from solar.local.cache import own_folder
from solar.ranking.neighbours import nearest_rows
from solar.records import Records
from solar.storage.catalogue import is_index
from solar.storage.rows import Matrix, as_rows
from solar.storage.types import DescriptorSpec, Photo

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from solar.models import RetrievalNet

Described: TypeAlias = "str | Path | PhotoIndex | DescribedCollection"
"""An index or its address, an `.h5` file of hloc's, or photos: a folder, list or shard."""

BLOCK = 1024
"""Photos whose neighbours are written at a time: some seconds of work."""

NeighbourLists: TypeAlias = npt.NDArray[np.void]
"""A record per photo asked for: its neighbours in `rows` (k,), best first, and their `scores`."""

S = TypeVar("S", bound="DataclassInstance")
T = TypeVar("T")


@dataclass(frozen=True)
class DescribedCollection:
    """Photos and their embeddings."""

    names: tuple[str, ...]  # each once, relative to the image folder
    vectors: Matrix  # (n, dim) of unit norm, mapped
    digest: str  # of names and vectors: equal for equal collections
    roots: Roots  # where the photos are, as far as that is known
    local: Path  # the folder of their local features
    skipped: Mapping[str, str] = field(default_factory=dict)  # not described now, and why
    known: Mapping[str, Position] = field(default_factory=dict)  # positions in an index, by name

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each photo, by name."""
        return {name: row for row, name in enumerate(self.names)}

    def row(self, name: str, where: object) -> int:
        """The row of a photo by its name or absolute path.

        A SolarError that begins with `where` if there is no such photo.
        """
        row = self.rows.get(name)
        if row is None and Path(name).is_absolute():
            row = self.rows.get(self.roots.name_of(name) or "")
        if row is None:
            raise SolarError(
                f"{where} names {name!r}, but no photo of the collection has that name: use names "
                f"like {self.names[0] if self.names else 'rome/12.jpg'!r}."
            )
        return row

    def moved_to(self, place: str | Path | None) -> DescribedCollection:
        """The same with its photos in another folder; unchanged for None."""
        return replace(self, roots=self.roots.moved_to(place))

    def folder(self, moved: str | Path | None = None) -> Path | None:
        """The image folder, which names are relative to; None where there is no such thing."""
        folders = [root.folder for root in self.roots.moved_to(moved).roots if not root.name]
        return folders[0] if len(folders) == 1 else None

    def positions(self) -> Doubles:
        """Latitude and longitude of every photo (n, 2), NaN where neither index nor EXIF says.

        A SolarError if no photo has any.
        """
        found = np.full((len(self), 2), np.nan)
        for row, name in enumerate(self.names):
            place = self.known.get(name)
            if place is None and (photo := self.roots.find(name)) is not None:
                place = exif_facts(photo).position
            if place is not None:
                found[row] = place
        if np.isnan(found).all():
            raise SolarError("No photo has a GPS position: leave out `within=`.")
        return found


def refuse_score(min_score: float | None) -> None:
    """A SolarError if no two photos could ever be that similar, or all are."""
    if min_score is not None and not -1 <= min_score <= 1:
        raise SolarError(
            f"`min_score=` is a cosine similarity: give a number from -1 to 1, not {min_score:g}."
        )


def split_options(settings: S, options: Mapping[str, Any]) -> tuple[S, dict[str, Any]]:
    """Settings with those options that are fields of theirs, and the other options."""
    names = {one.name for one in fields(settings)}
    mine = {name: value for name, value in options.items() if name in names}
    rest = {name: value for name, value in options.items() if name not in names}
    return replace(settings, **mine), rest


@contextmanager
def working(work: str | Path | None) -> Iterator[Path]:
    """A folder for unfinished work: the given one, or a temporary one within the block."""
    if work is not None:
        make_folder(Path(work))
        yield Path(work)
        return
    with tempfile.TemporaryDirectory(prefix="solar-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch)


def held(stack: ExitStack, items: Iterable[T]) -> Iterator[T]:
    """The items; what the stack holds is there until the last was given."""
    with stack:
        yield from items


def described(
    source: Described,
    folder: Path,
    *,
    model: RetrievalNet | str | Path | None = None,
    **describing: Any,
) -> DescribedCollection:
    """The embeddings of a collection, mapped.

    Photos are described first, by solar-lite0 if no `model` is given, into an index in the folder,
    which another run continues; `describing` is as for `solar.build`. Of these options, only
    `progress` and `device` go with other sources. A SolarError if there is no such collection or no
    photo in it, it has no vectors, or the disk is full.
    """
    if isinstance(source, DescribedCollection):
        return source
    if (photos := _photos(source)) is not None:
        with fill(folder / "photos.solar", photos, model=model, **describing) as index:
            found = _collection(index, folder / "local")
            skipped = {**photos.skipped, **index.skipped}
            # In the order of the photos, whoever described them first.
            order = sorted(range(len(found)), key=lambda row: photos.numbers[found.names[row]])
            rows = as_rows(found.vectors).select(np.array(order, np.int64))
            names = tuple(found.names[row] for row in order)
            return replace(
                found, names=names, vectors=rows, roots=photos.roots, skipped=skipped, known={}
            )
    for name, value in {"model": model, **describing}.items():
        if name not in ("progress", "device") and value is not None:
            raise SolarError(f"{source} already holds embeddings: leave out `{name}=`.")
    if not isinstance(source, PhotoIndex) and Path(source).suffix.lower() in SUFFIXES:
        return _read(source, folder)
    with opened(source) as index:
        return _collection(index, folder / "local")


def only_named(source: Described, folder: Path) -> DescribedCollection:
    """As `described`, but photos have names and no vectors."""
    if (photos := _photos(source)) is None:
        return described(source, folder)
    nothing = np.empty((len(photos), 0), np.float32)
    return DescribedCollection(photos.names, nothing, "", photos.roots, folder / "local")


def are_photos(source: Described) -> bool:
    """Whether a source must be described first: it is no index, and no file of hloc's."""
    if not isinstance(source, str | Path) or not is_folder(source):
        return False
    path = expanded(source)
    return not (path.suffix.lower() in SUFFIXES or is_index(path))


def _photos(source: Described) -> Photos | None:
    """The photos that a source is; None for an index, or a file of hloc's."""
    if not are_photos(source):
        return None
    assert isinstance(source, str | Path)
    photos = collect([expanded(source)])
    for name in photos.names:
        if Path(name).is_absolute():
            raise SolarError(
                f"{name} is an absolute path, but the names of pairs are relative to one folder: "
                f"write all paths in {source} relative to the folder that it is in."
            )
    return photos


def _collection(index: PhotoIndex, local: Path) -> DescribedCollection:
    """The photos of an index, whose vectors stay where they are."""
    photos, vectors = index.mapped()
    names = tuple(photo.path for photo in photos)
    digest = hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape"))
    for _, part in as_rows(vectors).pieces():
        digest.update(np.ascontiguousarray(part).data)
    return DescribedCollection(
        names,
        vectors,
        digest.hexdigest(),
        index.roots,
        own_folder(index.engine.folder) or local,
        known={photo.path: photo.position for photo in photos if photo.position is not None},
    )


def _read(path: str | Path, folder: Path) -> DescribedCollection:
    """The embeddings of a file of hloc's, as an index in the folder."""
    place = folder / "photos.solar"
    shutil.rmtree(place, ignore_errors=True)
    pieces = read_h5(path)
    first = next(pieces)
    spec = DescriptorSpec(first[1].shape[1])
    batches = (([Photo(n) for n in names], rows) for names, rows in chain([first], pieces))
    with Index(filled_engine(place, spec, batches)) as index:
        return _collection(index, folder / "local")


def neighbour_lists(
    photos: DescribedCollection,
    asked: RowNumbers,
    k: int,
    folder: Path,
    progress: Progress | None = None,
    device: str | None = None,
    step: str = "Comparing",
) -> NeighbourLists:
    """Find the k photos most similar to each of the rows `asked` (m,), themselves excluded.

    Of equally similar photos the first come first; a smaller collection gives fewer. The file in
    `folder` is continued if an earlier run asked the same of the same collection. `step` is its
    name for `progress`; a `device` such as `cuda` gives the same lists sooner. Returns m records. A
    SolarError if the disk is full or read-only.
    """
    k = max(min(k, len(photos) - 1), 0)
    record = np.dtype([("rows", "<i4", (k,)), ("scores", "<f4", (k,))])
    if k == 0 or len(asked) == 0:
        return np.zeros(len(asked), record)
    key = hashlib.sha256(f"{photos.digest} {k} ".encode() + asked.astype("<i8").tobytes())
    file = folder / f"neighbours-{key.hexdigest()[:16]}"
    nearest = nearest_rows(photos.vectors, device)
    spans = [(at, min(at + BLOCK, len(asked))) for at in range(0, len(asked), BLOCK)]
    found = np.zeros(len(asked), record)

    def more(number: int) -> Iterator[tuple[bytes, bool]]:
        for first, last in spans[number:]:
            mine, lists = asked[first:last], np.zeros(last - first, record)
            rows, scores = nearest(np.asarray(photos.vectors[mine], np.float32), k + 1)
            for place, row in enumerate(mine):
                others = np.flatnonzero(rows[place] != row)[:k]
                lists[place] = rows[place, others], scores[place, others]
            yield lists.tobytes(), True

    advance = counted(progress, step, len(asked))
    for (first, last), value in zip(spans, Records(file).blocks(len(spans), more), strict=True):
        found[first:last] = np.frombuffer(value, record)
        advance(last - first)
    return found
