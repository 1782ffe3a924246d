"""From photos to an index."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from solar.describe.network import network_of
from solar.errors import SolarError
from solar.images import Photos, collect
from solar.images.known_roots import confirm
from solar.images.scan import is_raw
from solar.index.index import Address, Index, engine_module, is_folder
from solar.index.ingest import apply, plan
from solar.index.metadata import read_metadata
from solar.index.photo_index import PhotoIndex
from solar.storage.folder_base import refuse_place
from solar.storage.folder_engine import refuse_compression
from solar.storage.protocol import NoIndexError
from solar.weights import DEFAULT

if TYPE_CHECKING:
    from solar.describe.progress import Progress
    from solar.models import RetrievalNet


AnIndex = TypeVar("AnIndex", bound=PhotoIndex)


@dataclass(frozen=True)
class BuiltIndex:
    """The open index, and what became of the photos."""

    index: PhotoIndex
    photos: int  # that were added or replaced
    skipped: Mapping[str, str]  # files that could not be indexed, and why
    previews: int = 0  # of the files looked at, RAW files that are known by their preview


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
    """Build an index: find the photos, compute their embeddings, keep them.

    Files that cannot be indexed are listed with the reason in `Index.skipped`. An interrupted build
    continues when called again: what is described is committed piece by piece. Afterwards,
    `solar.sync` keeps the index up to date with its folders.

    Args:
        source: A folder, list or tar shard of photos, or several.
        address: The new index: a folder, or `milvus://host:port/collection`.
        model: The model: a network, or what `solar.load` takes. Default: solar-lite0.
        metadata: A JSON Lines file of tags, times, positions and own fields of photos.
        progress: Called while photos are described.
        compress: As for `solar.storage.folder_engine.begin`.
        **describing: How to describe: fields of `solar.describe.Settings`, such as `size`,
            `scales`, `orient`, `mode`, `device`, `backend` and `max_pixels`; the index records what
            was used. How to work: `throughput`, a `solar.describe.Throughput`; `scheduler`, the
            address of a Dask scheduler whose workers describe, `tcp://host:8786`; or `workers`, to
            start that many here. `boxes`: for some photos by name, the part to describe, in pixels
            of the upright photo.

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
    metadata: str | Path | None = None,
    progress: "Progress | None" = None,
    follow: bool = True,
    describing: Mapping[str, Any] | None = None,
    **options: Any,
) -> BuiltIndex:
    """Make an index as `build` does, and say what became of the photos.

    `follow` follows links to folders. `describing` says how to describe and to work, and `options`
    are for the engine, such as `compress`.
    """
    if is_folder(address):
        refuse_compression(options.get("compress", "none"))
    settings = {name: value for name, value in (describing or {}).items() if value is not None}
    begin = partial(_begun, address, model=model, options=options, **settings)
    retry = settings.get("max_pixels") is not None
    known: dict[str, Any] = {"metadata": metadata, "progress": progress, "follow": follow}
    return built(sources, address, begin, retry=retry, **known)


def built(
    sources: Sequence[str | Path],
    address: Address,
    begin: Callable[[Photos], tuple[AnIndex, dict[str, Any]]],
    *,
    metadata: str | Path | None = None,
    progress: "Progress | None" = None,
    follow: bool = True,
    retry: bool = False,
) -> BuiltIndex:
    """Make an index of any kind; `begin` opens it for photos, and says how to describe these.

    Other arguments are those of `build_index`, and `retry` that of `plan`.
    """
    refuse_taken(address)
    extra = read_metadata(metadata) if metadata else {}
    photos = collect(sources, follow=follow)
    index, how = begin(photos)
    _fill(index, photos, extra=extra, progress=progress, retry=retry, **how)
    confirm(index.place, photos.roots)
    skipped = {**photos.skipped, **index.skipped}
    previews = sum(is_raw(name) and name not in skipped for name in photos.names)
    found = BuiltIndex(index, len(index), skipped, previews)
    warn_of_unknown(metadata, extra, found)
    return found


def fill(
    address: Address,
    photos: Photos,
    *,
    model: "RetrievalNet | str | Path | None" = None,
    progress: "Progress | None" = None,
    options: Mapping[str, Any] | None = None,
    empty: bool = False,
    **describing: Any,
) -> Index:
    """Make an index of photos, or bring one that is there up to date with them.

    Other arguments are those of `build`; `options` are for the engine. A SolarError if there is an
    index that was made otherwise, or no photo could be described, unless it may be `empty`. Where
    the photos are is not confirmed (`solar.images.known_roots`): their roots may be anyone's.
    """
    index, how = _begun(address, photos, model, options or {}, **describing)
    retry = describing.get("max_pixels") is not None
    return _fill(index, photos, progress=progress, empty=empty, retry=retry, **how)


def _begun(
    address: Address,
    photos: Photos,
    model: "RetrievalNet | str | Path | None",
    options: Mapping[str, Any],
    **describing: Any,
) -> tuple[Index, dict[str, Any]]:
    """An index of embeddings, new or as it is, and how to describe photos for it."""
    from solar.index.describing import Describing

    if isinstance(model, str | Path) and Path(model).is_file():
        model = str(Path(model).resolve())  # searches may start elsewhere
    net = network_of(model or DEFAULT, device=describing.get("device"))
    how = Describing.of(net, photos, **describing)
    engines = engine_module(address)
    if engines.finished(address):
        engine = engines.open_index(address)
    else:
        engine = engines.begin(address, how.spec, photos.roots, **options)
    index = Index(engine, net.net if net.loaded else None)
    try:
        index.refuse_other(how.spec)
    except SolarError as error:
        index.close()
        otherwise = str(error).partition(":")[0].removeprefix("The index ")
        raise SolarError(
            f"{address} {otherwise}: use the same again to continue, or delete it to start over."
        ) from error
    return index, {"how": how}


def _fill(
    index: AnIndex, photos: Photos, *, empty: bool = False, retry: bool = False, **how: Any
) -> AnIndex:
    """Bring an index up to date with photos; a SolarError if it is `empty` then, unless allowed."""
    changes = plan(index, photos, index.engine.stamps(), retry=retry)
    made = apply(index, photos, changes, complete=True, **how)
    if not len(index) and not empty:
        why = next(iter(made.skipped.values()), "there is none")
        index.engine.discard()
        raise SolarError(
            f"No photo of {photos.roots or index.place} could be described: {why.rstrip('.')}."
        )
    if index.engine.unfinished:
        index.engine.finish()
    return index


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
        with Index.open(address) as found:
            if found.engine.unfinished:
                return
    except NoIndexError:  # anything else, a server that does not answer say, is told at once
        if is_folder(address):
            refuse_place(Path(address))
        return
    raise SolarError(
        f"{address} is an index already, and whole: bring it up to date with `solar index sync`,"
        " add a folder with `solar index add` (in Python, solar.Index.open opens and solar.sync "
        "updates it), or choose another name."
    )
