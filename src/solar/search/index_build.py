"""From photos to an index: describe them, gather what is known of them, fill the index."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import ExifTags, Image

from solar.defaults import SHARD_SIZE
from solar.describe.store import Store
from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.images import Photos, find_photos
from solar.search.addresses import Address
from solar.search.engine import NoIndexError, Photo
from solar.search.index import Index
from solar.search.ingest import spec_of
from solar.search.photo_index import PhotoIndex
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.describe.pipeline import Progress

# A killed run describes its unfinished shard again: minutes on a GPU, but an hour on a laptop,
# whose collections are small.
_SMALL_SHARD, _FEW = 64, 16_384


@dataclass(frozen=True)
class BuiltIndex:
    """The open index, and what became of the photos."""

    index: PhotoIndex
    photos: int  # that were added or replaced
    failures: Mapping[str, str]  # those that could not be described, and why


def build(
    source: str | Path,
    address: Address,
    *,
    model: str | None = None,
    size: int | None = None,
    store: str | Path | None = None,
    metadata: str | Path | None = None,
    progress: "Progress | None" = None,
    **options: Any,
) -> BuiltIndex:
    """Make an index of photos; a killed run continues where it was when called again.

    Args:
        source: A folder, a list or a tar shard of photos, or a finished store of descriptors.
        address: The new index: a folder, or `milvus://host:port/collection`.
        model: What describes the photos, solar-r18 if not given; a store was described already.
        size: Photos with a longer side are shrunk to it first; default: the model's.
        store: Keep the descriptors there; otherwise they are deleted when the index is done.
        metadata: A file of tags and times, see `read_metadata`.
        progress: Called while photos are described.
        **options: For the engine, such as `compress="pq"`.

    Raises:
        SolarError: There is an index already, or there are no photos, or no such model.
    """
    refuse_taken(address)
    if size is not None and is_store(source):
        raise SolarError(f"{source} was described at the size it has: leave out --size.")
    with described_photos(
        source, address, model or DEFAULT, keep=store, progress=progress, size=size
    ) as (described, photos):
        if not len(described):
            why = next(iter(described.failures.values()), "there is none")
            raise SolarError(f"No photo of {source} could be described: {why.rstrip('.')}.")
        known = details(described, photos, metadata)
        spec = spec_of(described)
        if spec is not None and photos is not None:
            spec = replace(spec, root=str(Path(source).resolve()))
        index = Index.create(address, described, known, spec=spec, **options)
        return BuiltIndex(index, len(described), described.failures)


def taken_at(photo: str | Path | bytes) -> str | None:
    """When a photo was taken, as `2019-07-14T18:30:00`, if its EXIF says so."""
    try:
        with Image.open(BytesIO(photo) if isinstance(photo, bytes) else photo) as image:
            facts = image.getexif().get_ifd(ExifTags.IFD.Exif)
        text = facts.get(ExifTags.Base.DateTimeOriginal)
        return datetime.strptime(str(text).strip("\0 "), "%Y:%m:%d %H:%M:%S").isoformat()
    except Exception:  # damaged facts are not known; the photo is described all the same
        return None


def read_metadata(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read what else is known of photos: a JSON object a line, with `path`, `tags` and `taken`."""
    known = {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SolarError(f"{path} cannot be read: {error}.") from error
    for number, line in enumerate(lines, 1):
        try:
            facts = json.loads(line)
            details: dict[str, Any] = {}
            if "tags" in facts:
                details["tags"] = tuple(str(tag) for tag in facts["tags"])
            if facts.get("taken"):
                details["taken"] = datetime.fromisoformat(facts["taken"]).isoformat()
            known[str(facts["path"])] = details
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SolarError(
                f'Line {number} of {path} is not like {{"path": "a.jpg", "tags": ["night"], '
                '"taken": "2019-07-14T18:30:00"}.'
            ) from error
    return known


@contextlib.contextmanager
def described_photos(
    source: str | Path,
    address: Address,
    model: str | None,
    *,
    photos: Photos | None = None,
    keep: str | Path | None = None,
    progress: "Progress | None" = None,
    **settings: Any,
) -> Iterator[tuple[Store, Photos | None]]:
    """The finished store of a source, and its photos, which a store does not have.

    Args:
        source: A folder, a list or a tar shard of photos, or a finished store.
        address: The index that they are for.
        model: What describes them; None where the index does not name one.
        photos: Those of the source, where they were looked for before.
        keep: A folder for the store, which is otherwise gone after the block.
        progress: Called while photos are described.
        **settings: How to describe, for `solar.extract`.
    """
    if is_store(source):
        yield Store.open(source), None
        return
    if photos is None:
        photos = find_photos(source)
    if model is None:
        raise SolarError(
            f"{address} does not name its model, so {source} cannot be described like the photos "
            "in it: describe them with that model, and add the store."
        )
    if Path(model).is_file():
        model = str(Path(model).resolve())  # searches may start elsewhere
    name = str(address).partition("://")[2] or address
    place = Path(keep) if keep else Path(f"{name}.extracting")
    from solar.describe import extract

    shard = _SMALL_SHARD if len(photos) <= _FEW else SHARD_SIZE
    described = extract(photos, place, model=model, shard_size=shard, progress=progress, **settings)
    yield described, photos
    if not keep:
        shutil.rmtree(place, ignore_errors=True)


def details(store: Store, photos: Photos | None, metadata: str | Path | None) -> list[Photo]:
    """What is known of the photos of a store, row by row."""
    extra = read_metadata(metadata) if metadata else {}
    places = {name: number for number, name in enumerate(photos.names)} if photos else {}
    known = []
    for name, (width, height) in zip(store.names, store.sizes.tolist(), strict=True):
        file = photos.read(places[name]) if photos else None
        known.append(detail(name, width, height, file, extra.get(name, {})))
    return known


def detail(
    name: str, width: int, height: int, file: Path | bytes | None, extra: Mapping[str, Any]
) -> Photo:
    """What is known of a photo: its file may say when it was taken, unless `extra` does."""
    taken = taken_at(file) if file is not None else None
    return Photo(name, width, height, **{"taken": taken, **extra})


def refuse_taken(address: Address) -> None:
    """Raise a SolarError where there is an index already."""
    try:
        Index.open(address).close()
    except NoIndexError:  # anything else, a server that does not answer say, is told at once
        return
    raise SolarError(f"{address} is an index already: add to it, or choose another name.")
