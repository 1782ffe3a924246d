"""Groups of photos of a collection that are one photo, one moment, or one place.

Every photo is opened once for a small picture. Embeddings and small pictures name candidates; the
relation of each is decided from pixels and keypoints, and written to a file, so that a stopped run
resumes and ends with the same report.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from solar import __version__
from solar.describe.progress import Progress, counted
from solar.errors import SolarError, and_more
from solar.index.embeddings import (
    Described,
    DescribedCollection,
    are_photos,
    described,
    held,
    refuse_score,
    split_options,
    working,
)
from solar.near_duplicates.candidates import DuplicateCandidates, candidates
from solar.near_duplicates.groups import groups_of, keep_rule, photo_facts
from solar.near_duplicates.relation import SETTINGS, PhotoComparer
from solar.near_duplicates.report import (
    KINDS,
    DuplicateGroup,
    DuplicatePhoto,
    DuplicateReport,
    Relation,
)
from solar.near_duplicates.small_pictures import small_pictures
from solar.ranking.verify import verifier_of
from solar.records import Records

_BLOCK = 128  # pairs that a stop costs at the most
_SEEN_FILE = "duplicates.seen"
_KEY = 32


@dataclass(frozen=True)
class DuplicateSettings:
    """What `duplicates` looks for.

    Attributes:
        kinds: Which groups to give: `exact`, `copy`, `crop`, `burst`, `place`.
        k: Number of nearest neighbours to compare each photo with.
        min_score: Minimum cosine similarity of two photos of one place.
        new: Only groups with photos that were added to the index since the last time.
        keep: What to keep of copies: by `evidence`, or first the `oldest`, the `largest`, or those
            in `folder:A,B`, in order of preference.
    """

    kinds: Sequence[str] = KINDS
    k: int = 20
    min_score: float = 0.7
    new: bool = False
    keep: str = "evidence"

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise SolarError(f"There is no kind {kind!r}: choose from {', '.join(KINDS)}.")
        if not self.kinds:
            raise SolarError(f"Name a kind to look for: {', '.join(KINDS)}.")
        if self.k < 1:
            raise SolarError("Duplicates need neighbours: k must be 1 or more.")
        refuse_score(self.min_score)
        keep_rule(self.keep)


def duplicates(
    source: Described,
    settings: DuplicateSettings | None = None,
    *,
    photos: str | Path | None = None,
    work: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> DuplicateReport:
    """Group photos that are copies of each other, or show the same place.

    Nothing is deleted or moved. Memory holds small pictures and a few blocks of embeddings.

    Example:
        >>> for group in duplicates("photos.solar", kinds=["exact", "copy"]):  # doctest: +SKIP
        ...     print(group.kind, group.keep, group.rest)

    Args:
        source: An index or its address, or photos: a folder, a list or a tar shard.
        settings: What to look for.
        photos: Where the photos of an index are, if they have moved.
        work: A folder for unfinished work, from which another run can resume. Default: temporary.
        progress: Called with the step, what is done, and the total.
        **options: Fields of `DuplicateSettings` by name; others say how to describe photos, as for
            `solar.build`: `model`, `device`, `size`, ….

    Returns:
        A report whose groups are made while they are iterated over, once; `write` keeps it. After
        the last one, the photos count as seen for `new`.

    Raises:
        SolarError: There is no such collection, kind or model, it is unknown where the photos are,
            or the disk is full.
    """
    settings, describing = split_options(settings or DuplicateSettings(), options)
    refuse_new(source, settings)
    with ExitStack() as stack:
        folder = stack.enter_context(working(work))
        found = described(source, folder, **describing).moved_to(photos)
        groups = held(stack.pop_all(), _groups(found, settings, folder, progress))
    return DuplicateReport(len(found), groups, found.roots, tuple(settings.kinds))


def refuse_new(source: Described, settings: DuplicateSettings) -> None:
    """Raise a SolarError if only new photos are asked for, and there is no index."""
    if settings.new and are_photos(source):
        raise SolarError(
            f"`new=True` needs an index, but {source} is not one: leave it out, or make an index "
            "with `solar index build`."
        )


def _groups(
    photos: DescribedCollection,
    settings: DuplicateSettings,
    folder: Path,
    progress: Progress | None,
) -> Iterable[DuplicateGroup]:
    if not len(photos):
        _note_seen(photos.local, [])
        return
    verifier = verifier_of(photos.roots, photos.local, SETTINGS)  # fails before any work
    seen = _seen(photos) if settings.new else set[bytes]()
    small = small_pictures(photos.names, photos.roots.find, photos.local, progress)
    asked = np.array([row for row, key in enumerate(small.keys) if key not in seen], np.int64)
    places = bool({"burst", "place"} & set(settings.kinds))
    pairs = candidates(
        photos,
        small,
        asked,
        folder,
        k=settings.k,
        place_score=settings.min_score if places else None,
        progress=progress,
    )
    comparer = PhotoComparer(verifier, places=places)
    related = list(_decided(photos, pairs, comparer, folder, progress))

    def facts(row: int) -> DuplicatePhoto:
        name = photos.names[row]
        try:
            return photo_facts(name, photos.roots.find(name))
        except SolarError:
            width, height = small.sizes[row].tolist()
            return DuplicatePhoto(name, width, height, 0)

    yield from groups_of(related, settings.kinds, facts, keep_rule(settings.keep))
    _note_seen(photos.local, small.keys)


def _decided(
    photos: DescribedCollection,
    pairs: DuplicateCandidates,
    comparer: PhotoComparer,
    folder: Path,
    progress: Progress | None,
) -> Iterator[Relation]:
    """The related ones of the pairs; decisions of an earlier run are read from a file."""
    names = photos.names
    errors: dict[int, str] = {}

    def decide(number: int) -> dict[str, Any] | None:
        a, b, way, part, place, score = pairs[number].item()
        try:
            first, second = comparer.photo(names[a]), comparer.photo(names[b])
            found = comparer.relation(first, second, way, part=part, place=place)
        except SolarError as error:
            errors[number] = str(error)
            return None
        return None if found is None else asdict(replace(found, a=a, b=b, score=round(score, 4)))

    def more(number: int) -> Iterator[tuple[bytes, bool]]:
        for block in blocks[number:]:
            found = list(threads.map(decide, block))
            # A photo that cannot be read may be back in another run.
            yield json.dumps(found).encode(), errors.keys().isdisjoint(block)

    settings = f"{__version__} {photos.digest} {photos.roots.stored()} {comparer.places}"
    digest = hashlib.sha256(settings.encode("utf-8", "surrogateescape"))
    digest.update(pairs.tobytes())
    records = Records(folder / f"relations-{digest.hexdigest()[:16]}")
    starts = range(0, len(pairs), _BLOCK)
    blocks = [range(first, min(first + _BLOCK, len(pairs))) for first in starts]
    advance = counted(progress, "Deciding", len(pairs))
    with (
        threadpool_limits(1, user_api="blas"),  # threads of a shared product wait by spinning
        ThreadPoolExecutor(os.cpu_count()) as threads,
    ):
        for block, value in zip(blocks, records.blocks(len(blocks), more), strict=True):
            yield from (Relation.from_dict(found) for found in json.loads(value) if found)
            advance(len(block))
    if errors:
        warnings.warn(f"Not compared: {and_more(errors.values())}", stacklevel=3)


def _seen(photos: DescribedCollection) -> set[bytes]:
    """The keys of photos of the last finished run."""
    content = Records(photos.local / _SEEN_FILE).get(0)
    if content is None:
        raise SolarError(
            "`new=True` needs an index in a folder that was searched for duplicates before: run "
            "without it the first time."
        )
    return {content[at : at + _KEY] for at in range(0, len(content), _KEY)}


def _note_seen(folder: Path, keys: Sequence[bytes]) -> None:
    Records(folder / _SEEN_FILE).put([(0, b"".join(keys))])
