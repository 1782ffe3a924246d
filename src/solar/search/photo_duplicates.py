"""The same photo, the same moment, the same place: groups of related photos in a collection.

Every photo is opened once for a small picture. Descriptors and small pictures name candidates; the
relation of each is decided from pixels and keypoints, and noted in a file, so that a run that was
stopped goes on and ends with the same report.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from solar import __version__
from solar.errors import SolarError, and_more
from solar.files import make_folder, regular, replacing, unwritable
from solar.search.blas_threads import one_core_each
from solar.search.described_collection import (
    Described,
    DescribedCollection,
    are_photos,
    walk_described,
)
from solar.search.duplicate_candidates import DuplicateCandidates, candidates
from solar.search.duplicate_groups import PhotoFacts, RelatedPair, groups_of, photo_facts
from solar.search.duplicate_report import KINDS, DuplicateGroup, DuplicatePhoto
from solar.search.photo_pairs import refuse_score
from solar.search.photo_relation import SETTINGS, PhotoComparer, Relation
from solar.search.small_pictures import small_pictures

Told: TypeAlias = Callable[[str, int, int], None]
"""Told what is being done, how much of it is, and of how much."""

K = 20
"""Neighbours of each photo that are looked at."""

PLACE_SCORE = 0.7
"""From this cosine similarity on, two photos may show one place."""

_BLOCK = 128  # pairs that a stop costs at the most
_SEEN_FILE = "duplicates-seen.bin"
_KEY = 32
_UNREADABLE = "unreadable"


@dataclass(frozen=True)
class DuplicateSettings:
    """What to look for; see `duplicates`."""

    kinds: tuple[str, ...] = KINDS
    k: int = K
    min_score: float = PLACE_SCORE
    new: bool = False

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise SolarError(f"There is no kind {kind!r}: choose from {', '.join(KINDS)}.")
        if not self.kinds:
            raise SolarError(f"Name a kind to look for: {', '.join(KINDS)}.")
        if self.k < 1:
            raise SolarError("Duplicates need neighbours: k must be 1 or more.")
        refuse_score(self.min_score)


def duplicates(
    source: Described,
    *,
    kinds: Sequence[str] = KINDS,
    k: int = K,
    min_score: float = PLACE_SCORE,
    new: bool = False,
    photos: str | Path | None = None,
    work: str | Path | None = None,
    watch: Told | None = None,
    **describing: Any,
) -> Iterator[DuplicateGroup]:
    """Group photos that are copies of each other, or show the same place.

    Nothing is deleted or moved. Memory holds small pictures and a few blocks of descriptors.

    Example:
        >>> for group in duplicates("photos.solar", kinds=["exact", "copy"]):  # doctest: +SKIP
        ...     print(group.kind, group.keep, group.rest)

    Args:
        source: An index or its address, a store, or photos: a folder, a list or a tar shard.
        kinds: Which groups to give: `exact`, `copy`, `crop`, `burst`, `place`.
        k: Number of nearest neighbours to compare each photo with.
        min_score: Minimum cosine similarity of two photos of one place.
        new: Only groups with photos that were added to the index since the last time.
        photos: Where the photos of an index or a store are, if they have moved.
        work: A folder for unfinished work, from which another run can resume. Default: temporary.
        watch: Told of the progress.
        **describing: How to describe photos, as for `solar.extract`: `model`, `device`, `size`, ….

    Raises:
        SolarError: There is no such collection, kind or model, nobody knows where the photos are,
            OpenCV is not installed, or the disk is full.
    """
    settings = DuplicateSettings(tuple(kinds), k, min_score, new)
    refuse_new(source, settings)
    return walk_described(
        source,
        work,
        lambda found, folder: find_duplicates(found.moved_to(photos), settings, folder, watch),
        **describing,
    )


def refuse_new(source: Described, settings: DuplicateSettings) -> None:
    """A SolarError if only new photos are asked for of photos that no index remembers."""
    if settings.new and are_photos(source):
        raise SolarError(
            f"`new=True` needs an index, but {source} is not one: leave it out, or make an index "
            "with `solar index build`."
        )


def find_duplicates(
    photos: DescribedCollection,
    settings: DuplicateSettings,
    folder: Path,
    watch: Told | None = None,
) -> Iterator[DuplicateGroup]:
    """The same for a collection that is at hand, with unfinished work in a folder.

    When the last group was given, the photos count as seen for `new`.
    """
    make_folder(folder)
    if not len(photos):  # of which nothing can be mapped
        _note_seen(photos.local, [])
        return
    verifier = photos.verifier(SETTINGS)  # what would go wrong is told before any work
    seen = _seen(photos) if settings.new else set[bytes]()
    told = None if watch is None else lambda done, of: watch("Reading photos", done, of)
    small = small_pictures(photos.names, photos.roots.find, photos.local, told)
    asked = np.array([row for row, key in enumerate(small.keys) if key not in seen], np.int64)
    places = bool({"burst", "place"} & set(settings.kinds))
    pairs = candidates(
        photos,
        small,
        asked,
        folder,
        k=settings.k,
        place_score=settings.min_score if places else None,
        watch=watch,
    )
    comparer = PhotoComparer(verifier, places=places)
    related = sorted(
        _decided(photos, pairs, comparer, folder, watch), key=lambda one: (one.a, one.b)
    )

    def facts(row: int) -> PhotoFacts:
        name = photos.names[row]
        try:
            return photo_facts(name, photos.roots.find(name))
        except SolarError:
            return PhotoFacts(DuplicatePhoto(name, *small.size(row), 0), False)

    yield from groups_of(related, settings.kinds, facts)
    _note_seen(photos.local, small.keys)


def _decided(
    photos: DescribedCollection,
    pairs: DuplicateCandidates,
    comparer: PhotoComparer,
    folder: Path,
    watch: Told | None,
) -> Iterator[RelatedPair]:
    """The related ones of the pairs; what an earlier run decided is read from a file."""
    names = photos.names
    errors: dict[str, str] = {}

    def decide(number: int) -> dict[str, Any] | str | None:
        a, b = (names[row] for row in pairs.pairs[number].tolist())
        way = int(pairs.ways[number])
        try:
            found = comparer.relation(
                comparer.photo(a),
                comparer.photo(b),
                way if way >= 0 else None,
                part=bool(pairs.parts[number]),
                place=bool(pairs.places[number]),
            )
        except SolarError as error:
            errors[f"{a} {b}"] = str(error)
            return _UNREADABLE
        return None if found is None else asdict(found)

    where = photos.roots.stored()
    settings = f"{__version__} {photos.digest} {where} {pairs.digest} {comparer.places}"
    key = hashlib.sha256(settings.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    file = folder / f"relations-{key}.jsonl"
    try:
        with (
            file.open("a+b") as out,
            one_core_each(),
            ThreadPoolExecutor(os.cpu_count() or 1) as threads,
        ):
            done = _resumed(out)
            for first in range(done, len(pairs), _BLOCK):
                block = range(first, min(first + _BLOCK, len(pairs)))
                lines = [
                    json.dumps([number, found])
                    for number, found in zip(block, threads.map(decide, block), strict=True)
                ]
                out.write(("\n".join(lines) + "\n").encode())
                out.flush()
                if watch is not None:
                    watch("Deciding", block[-1] + 1, len(pairs))
    except OSError as error:
        raise unwritable(file, error) from error
    with file.open("rb") as lines_of:
        for line in lines_of:
            number, found = json.loads(line)
            if found == _UNREADABLE and number < done:  # in an earlier run; it may be back
                found = decide(number)
            if isinstance(found, dict):
                a, b = pairs.pairs[number].tolist()
                yield RelatedPair(a, b, float(pairs.scores[number]), _relation(found))
    if errors:
        warnings.warn(f"Not compared: {and_more(errors.values())}", stacklevel=3)


def _resumed(file: Any) -> int:
    """How many pairs a file has whole lines for; what follows them is cut off."""
    file.seek(0)
    whole, count = 0, 0
    for line in file:
        if not line.endswith(b"\n") or not line.startswith(f"[{count},".encode()):
            break
        whole += len(line)
        count += 1
    file.truncate(whole)
    file.seek(0, os.SEEK_END)
    return count


def _relation(stored: dict[str, Any]) -> Relation:
    mapping = stored["mapping"]
    stored["mapping"] = None if mapping is None else tuple(map(tuple, mapping))
    return Relation(**{**stored, "covers": tuple(stored["covers"])})


def _seen(photos: DescribedCollection) -> set[bytes]:
    """The keys of photos that a finished run has looked at; a SolarError if there was none."""
    file = photos.local / _SEEN_FILE
    try:
        content = regular(file).read_bytes()
    except FileNotFoundError:
        raise SolarError(
            "`new=True` needs an index in a folder that was searched for duplicates before: run "
            "without it the first time."
        ) from None
    except OSError as error:
        raise SolarError(f"{file} cannot be read: {error.strerror or error}.") from error
    return {content[at : at + _KEY] for at in range(0, len(content), _KEY)}


def _note_seen(folder: Path, keys: Sequence[bytes]) -> None:
    make_folder(folder)
    with replacing(folder / _SEEN_FILE, durable=False) as temporary:
        temporary.write_bytes(b"".join(keys))
