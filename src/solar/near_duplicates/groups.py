"""From pairs of related photos to groups, and which photo of a group to keep."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from solar.images import load
from solar.images.exif import exif_facts
from solar.near_duplicates.report import (
    COPIES,
    KINDS,
    MOMENT,
    WHOLE,
    DuplicateGroup,
    DuplicatePhoto,
    Relation,
)

_COPIED = re.compile(r"copy|kopie|copie|edit|small|thumb|resiz|crop|screenshot|\(\d+\)|~\d", re.I)
_SIDE = 384


def photo_facts(name: str, source: Path | bytes | None) -> DuplicatePhoto:
    """Facts about a photo, only its name if it is gone. A SolarError if it is damaged."""
    if source is None:
        return DuplicatePhoto(name, 0, 0, 0)
    facts = exif_facts(source)
    image = load(source, _SIDE, mode="fast")
    size = source.stat().st_size if isinstance(source, Path) else len(source)
    sharpness = _sharpness(image.pixels)
    exif = facts.taken is not None or facts.camera is not None
    return DuplicatePhoto(name, image.width, image.height, size, facts.taken, sharpness, exif=exif)


def groups_of(
    related: Sequence[Relation],
    kinds: Sequence[str],
    facts: Callable[[int], DuplicatePhoto],
) -> Iterator[DuplicateGroup]:
    """Groups by kind: copies and crops of one photo; then moments and places, of what is kept.

    `facts` looks at the photo in a row.
    """
    by_rows = sorted(related, key=lambda pair: (pair.a, pair.b))
    known = cache(facts)
    asked = [kind for kind in COPIES if kind in kinds]
    for members in _joined([pair for pair in by_rows if pair.kind in asked]):
        yield _copies(members, known)[0]
    if not {"burst", "place"} & set(kinds):
        return
    spare = set[int]()  # whichever kinds are wanted
    for members in _joined([pair for pair in by_rows if pair.kind in COPIES]):
        spare |= _copies(members, known)[1]
    for kind in ("burst", "place"):
        if kind not in kinds:
            continue
        allowed = KINDS[3 : KINDS.index(kind) + 1]
        loose = [
            pair
            for pair in by_rows
            if pair.kind in allowed and pair.a not in spare and pair.b not in spare
        ]
        for members in _moments(loose, known) if kind == "burst" else _joined(loose):
            # What is joined by bursts alone and is no moment is a place.
            if any(pair.kind == kind for pair in members) or _apart(members, known):
                rows = _rows(members)
                shown = [replace(known(row), why="another photo") for row in rows]
                yield DuplicateGroup(kind, tuple(shown), _pairs(members, rows))


def _moments(
    bursts: Sequence[Relation], facts: Callable[[int], DuplicatePhoto]
) -> Iterator[list[Relation]]:
    """Bursts by moment.

    A photo without a capture time may look like others that were taken years apart: it joins no
    moment then.
    """
    for members in _joined(bursts):
        if not _apart(members, facts):
            yield members
            continue
        timed = {row for row in _rows(members) if facts(row).taken is not None}
        yield from _joined([pair for pair in members if {pair.a, pair.b} <= timed])


def _apart(members: Iterable[Relation], facts: Callable[[int], DuplicatePhoto]) -> bool:
    """Whether a gap between consecutive photos of a group is longer than a moment."""
    taken = [facts(row).taken for row in _rows(members)]
    times = sorted(datetime.fromisoformat(time) for time in taken if time is not None)
    return any((late - early).total_seconds() > MOMENT for early, late in pairwise(times))


def _joined(pairs: Sequence[Relation]) -> list[list[Relation]]:
    """Connected components of pairs, ordered by the first photo of each."""
    above: dict[int, int] = {}

    def top(row: int) -> int:
        while above.setdefault(row, row) != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    for pair in pairs:
        low, high = sorted((top(pair.a), top(pair.b)))
        above[high] = low
    found: dict[int, list[Relation]] = defaultdict(list)
    for pair in pairs:
        found[top(pair.a)].append(pair)
    return [found[row] for row in sorted(found)]


def _rows(pairs: Iterable[Relation]) -> list[int]:
    return sorted({row for pair in pairs for row in (pair.a, pair.b)})


def _copies(
    members: Sequence[Relation], facts: Callable[[int], DuplicatePhoto]
) -> tuple[DuplicateGroup, set[int]]:
    """A group of copies, those to keep first, and the rows of the others, which they contain."""
    rows = _rows(members)
    known = {row: facts(row) for row in rows}
    lesser = _lesser(members)
    order = sorted(rows, key=lambda row: (row in lesser, *_rank(known[row]), row))
    shown_by = _shown_by(members, order)
    kept = [row for row in order if shown_by[row] == row]
    rest = [row for row in order if shown_by[row] != row]
    best = known[kept[0]]
    why = _why(best, [known[row] for row in order[1:]])
    photos = [replace(best, keep=True, why=why)]
    for row in kept[1:]:
        photos.append(replace(known[row], keep=True, why="no other kept photo shows all of it"))
    for row in rest:
        how = _nearest(members, row, shown_by[row]).how
        photos.append(replace(known[row], keep=False, why=how or "a copy"))
    kind = max((pair.kind for pair in members), key=KINDS.index)
    return DuplicateGroup(kind, tuple(photos), _pairs(members, [*kept, *rest])), set(rest)


def _shown_by(members: Sequence[Relation], order: Sequence[int]) -> dict[int, int]:
    """The photo that shows all of each, along a chain of pairs; itself for those to keep."""
    inside: dict[int, list[int]] = defaultdict(list)
    for pair in members:
        a_in_b, b_in_a = pair.within
        if a_in_b:
            inside[pair.b].append(pair.a)
        if b_in_a:
            inside[pair.a].append(pair.b)
    shown_by: dict[int, int] = {}
    for first in order:
        if first in shown_by:
            continue
        shown_by[first] = first
        waiting = [first]
        while waiting:
            for row in inside[waiting.pop()]:
                if row not in shown_by:
                    shown_by[row] = first
                    waiting.append(row)
    return shown_by


def _nearest(members: Sequence[Relation], row: int, kept: int) -> Relation:
    """The pair that best describes a photo, with the photo to keep if there is one."""
    own = [pair for pair in members if row in (pair.a, pair.b)]
    return min(own, key=lambda pair: (kept not in (pair.a, pair.b), KINDS.index(pair.kind)))


def _lesser(members: Iterable[Relation]) -> set[int]:
    """Photos that are a part of another of the group, or another in a frame."""
    found = set()
    for pair in members:
        first, second = pair.covers
        a_in_b, b_in_a = pair.within
        if pair.kind == "crop" and a_in_b != b_in_a:
            found.add(pair.a if a_in_b else pair.b)
        elif pair.kind == "copy" and min(first, second) < WHOLE:
            found.add(pair.a if first < second else pair.b)  # around it there is a frame
    return found


def _rank(photo: DuplicatePhoto) -> tuple[object, ...]:
    name = photo.name.rpartition("/")[2]
    return (
        -photo.width * photo.height,
        not photo.exif,
        _COPIED.search(name) is not None,
        -_sharp(photo),
        -photo.bytes,
        len(name),
    )


def _why(best: DuplicatePhoto, others: Sequence[DuplicatePhoto]) -> str:
    size = f"{best.width}×{best.height}, {_bytes(best.bytes)}"
    for reason, merit in _MERITS.items():
        if all(merit(best) > merit(one) for one in others):
            return f"{reason} ({size})"
    return f"the original, as far as that shows ({size})"


_MERITS: dict[str, Callable[[DuplicatePhoto], float]] = {
    "most pixels": lambda one: one.width * one.height,
    "its file says when or with what it was taken": lambda one: one.exif,
    "sharpest": lambda one: _sharp(one),
    "largest file": lambda one: one.bytes,
}


def _sharp(photo: DuplicatePhoto) -> int:
    """Sharpness in steps of a third: less is noise, or something written over a photo."""
    return round(math.log(max(photo.sharpness, 1.0), 4 / 3))


def _bytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{math.ceil(count / 2**10)} KiB"


def _pairs(members: Sequence[Relation], order: Sequence[int]) -> tuple[Relation, ...]:
    places = {row: place for place, row in enumerate(order)}
    found = [replace(pair, a=places[pair.a], b=places[pair.b]) for pair in members]
    return tuple(sorted(found, key=lambda pair: (pair.a, pair.b)))


def _sharpness(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> float:
    grey = pixels.astype(np.float32).mean(axis=2)
    steps = np.abs(np.diff(grey, axis=1)).ravel()
    strongest = max(len(steps) // 20, 1)
    return round(float(np.partition(steps, -strongest)[-strongest:].mean()), 2)
