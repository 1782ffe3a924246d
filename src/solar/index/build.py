"""From photos to an index: describe them, read their metadata, fill the index."""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solar.describe.store import Store
from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.files import reading
from solar.images import Photos, collect
from solar.images.exif import valid_position
from solar.index.index import Address, Index, is_folder
from solar.index.photo_index import PhotoIndex
from solar.index.sources import describe_photos, details, working_folder
from solar.storage.catalogued_folder import refuse_place
from solar.storage.folder import refuse_compression
from solar.storage.protocol import NoIndexError
from solar.storage.types import REMOVED, Amendment, Photo, Skipped
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.describe.progress import Progress
    from solar.models import RetrievalNet


@dataclass(frozen=True)
class BuiltIndex:
    """The open index, and what became of the photos."""

    index: PhotoIndex
    photos: int  # that were added or replaced
    skipped: Mapping[str, str]  # files that could not be indexed, and why


def build(
    source: str | Path | Sequence[str | Path],
    address: Address,
    *,
    model: "RetrievalNet | str | Path | None" = None,
    metadata: str | Path | None = None,
    progress: "Progress | None" = None,
    compress: str | None = None,
    **describing: Any,
) -> Index:
    """Build an index: find the photos, compute their embeddings, store them.

    Files that cannot be indexed are listed with the reason in `Index.skipped`. An interrupted build
    continues when called again. Afterwards, `solar.sync` keeps the index up to date with its
    folders.

    Args:
        source: A folder, list or tar shard of photos, or several; or a store of descriptors.
        address: The new index: a folder, or `milvus://host:port/collection`.
        model: The model: a network, or what `solar.load` takes. Default: solar-r18. Not for a
            store, which holds embeddings already.
        metadata: A file of tags and times, see `read_metadata`.
        progress: Called while photos are described.
        compress: As for `solar.storage.folder.create`.
        **describing: As for `solar.extract`: `size`, `device`, `backend`, `max_pixels`, ….

    Raises:
        SolarError: There is an index already, or there are no photos, or no such model.
    """
    options: dict[str, Any] = {} if compress is None else {"compress": compress}
    places = [source] if isinstance(source, str | Path) else list(source)
    known: dict[str, Any] = {"model": model, "metadata": metadata, "progress": progress}
    index = build_index(places, address, describing=describing, **known, **options).index
    assert isinstance(index, Index)
    return index


def build_index(
    sources: Sequence[str | Path],
    address: Address,
    *,
    model: "RetrievalNet | str | Path | None" = None,
    store: str | Path | None = None,
    metadata: str | Path | None = None,
    progress: "Progress | None" = None,
    follow: bool = True,
    describing: Mapping[str, Any] | None = None,
    **options: Any,
) -> BuiltIndex:
    """Make an index as `build` does, and say what became of the photos.

    Embeddings are kept in `store`, or deleted when the index is done; `follow` follows links to
    folders. `describing` is for `solar.extract`, and `options` for the engine, such as `compress`.
    """
    refuse_taken(address)
    if is_folder(address):
        refuse_compression(options.get("compress", "none"))
    shown = ", ".join(map(str, sources))
    settings = {name: value for name, value in (describing or {}).items() if value is not None}
    extra = read_metadata(metadata) if metadata else {}
    if len(sources) == 1 and is_store(sources[0]):
        for name in settings:
            raise SolarError(f"{shown} already holds embeddings: leave out `{name}=`.")
        found = Store.open(sources[0])
        index = _filled(address, found, details(found, None, extra), shown, options)
        built = BuiltIndex(index, len(found), found.failures)
        warn_of_unknown(metadata, extra, built)
        return built
    photos = collect(sources, follow=follow)
    given = None if model is None or isinstance(model, str | Path) else model
    options = {"model": given, **options}
    with working_folder(address, store) as place:
        found = describe_photos(photos, model or DEFAULT, place, progress, **settings)
        known = details(found, photos, extra)
        index = _filled(address, found, known, shown, {"roots": photos.roots, **options})
        note_skipped(index, photos, found.failures)
    built = BuiltIndex(index, len(found), {**photos.skipped, **found.failures})
    warn_of_unknown(metadata, extra, built)
    return built


def _filled(
    address: Address, store: Store, known: Sequence[Photo], shown: str, options: dict[str, Any]
) -> Index:
    if not len(store):
        why = next(iter(store.failures.values()), "there is none")
        raise SolarError(f"No photo of {shown} could be described: {why.rstrip('.')}.")
    return Index.create(address, store, known, **options)


def note_skipped(
    index: PhotoIndex, photos: Photos, failures: Mapping[str, str], *, complete: bool = False
) -> None:
    """Record skipped files, so that they are not tried again unless they change.

    With `complete`, files skipped before that are not among the photos are gone; those removed by
    hand stay out also when they come back.
    """
    seen = dict(zip(photos.names, photos.seen, strict=True))
    now = {name: Skipped(reason) for name, reason in photos.skipped.items()}
    now |= {
        name: Skipped(reason, seen[name].bytes, seen[name].modified)
        for name, reason in failures.items()
    }
    before = index.engine.skipped()
    kept = {
        name: one
        for name, one in before.items()
        if one.reason == REMOVED or not (complete or name in seen)
    }
    if before != kept | now:
        index.engine.amend(Amendment(skipped=kept | now))


def read_metadata(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read a JSON Lines file of metadata, by photo.

    Each line has a `path`, and any of `tags`, `taken`, `position` (degrees north and east) and
    `camera`.
    """
    known = {}
    with reading(path, "is not text in UTF-8: save it as that", UnicodeDecodeError):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            facts = json.loads(line)
            details: dict[str, Any] = {}
            if "tags" in facts:
                details["tags"] = tuple(str(tag) for tag in facts["tags"])
            if facts.get("taken"):
                details["taken"] = datetime.fromisoformat(facts["taken"]).isoformat()
            if facts.get("position"):
                latitude, longitude = map(float, facts["position"])
                if not valid_position(latitude, longitude):
                    raise ValueError("no place on earth")
                details["position"] = latitude, longitude
            if facts.get("camera"):
                details["camera"] = str(facts["camera"])
            known[str(facts["path"])] = details
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SolarError(
                f'Line {number} of {path} is not like {{"path": "a.jpg", "tags": ["night"], '
                '"taken": "2019-07-14T18:30:00", "position": [48.858, 2.294]}.'
            ) from error
    return known


def warn_of_unknown(
    path: str | Path | None, extra: Mapping[str, Mapping[str, Any]], built: BuiltIndex
) -> None:
    """Warn if a file of metadata names photos that are not in the index."""
    known = {**built.index.engine.find(list(extra)), **built.skipped} if extra else {}
    if unknown := [name for name in extra if name not in known]:
        count = len(unknown)
        what = "a photo that is" if count == 1 else f"{count:,} photos that are"
        first = unknown[0] if count == 1 else f"the first is {unknown[0]}"
        warnings.warn(
            f"{path} names {what} not in the index ({first}): write paths as `solar search` "
            "prints them.",
            stacklevel=3,
        )


def refuse_taken(address: Address) -> None:
    """Raise a SolarError where there is an index already, or no place for one."""
    try:
        Index.open(address).close()
    except NoIndexError:  # anything else, a server that does not answer say, is told at once
        if is_folder(address):
            refuse_place(Path(address))
        return
    raise SolarError(
        f"{address} is an index already: add photos with `solar index add`, or choose another "
        "name; in Python, solar.Index.open opens it, and solar.sync adds new photos."
    )
