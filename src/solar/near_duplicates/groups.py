"""From pairs of related photos to groups, and which photo of a group to keep."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TypeAlias

from solar.errors import SolarError
from solar.images import image_size
from solar.images.exif import exif_facts
from solar.near_duplicates.relation import MOMENT
from solar.near_duplicates.report import (
    COPIES,
    KINDS,
    DuplicateGroup,
    DuplicatePhoto,
    Relation,
)

_COPIED = re.compile(
    r"[ _(~-]*(copy|kopie|copie|edit|small|thumb|resiz|crop|\d+\))|~\d$", re.IGNORECASE
)

KeepRule: TypeAlias = Callable[[DuplicatePhoto], tuple[object, ...]]
"""Of two photos, the one with the lesser value is kept."""


def keep_rule(text: str) -> KeepRule | None:
    """A rule by its name, None for `evidence`; a SolarError if there is no such rule."""
    name, _, folders = text.partition(":")
    among = [PurePath(folder.strip()) for folder in folders.split(",") if folder.strip()]
    if name == "folder" and among:
        return lambda photo: tuple(one not in PurePath(photo.name).parents for one in among)
    match text:
        case "evidence":
            return None
        case "oldest":
            return lambda photo: (photo.taken or photo.modified or "9999",)
        case "largest":
            return lambda photo: (-photo.width * photo.height, -photo.bytes)
    raise SolarError(
        f"There is no rule {text!r} for what to keep: choose evidence, oldest, largest, or "
        "folder:A,B with folders in order of preference."
    )


def photo_facts(name: str, source: Path | bytes | None) -> DuplicatePhoto:
    """Facts about a photo, only its name if it is gone. A SolarError if it is damaged."""
    if source is None:
        return DuplicatePhoto(name, 0, 0, 0)
    width, height = image_size(source)
    if not isinstance(source, Path):
        return DuplicatePhoto(name, width, height, len(source), exif_facts(source).taken)
    state = source.stat()
    modified = datetime.fromtimestamp(state.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return DuplicatePhoto(name, width, height, state.st_size, exif_facts(source).taken, modified)


def groups_of(
    related: Sequence[Relation],
    kinds: Sequence[str],
    facts: Callable[[int], DuplicatePhoto],
    keep: KeepRule | None = None,
) -> Iterator[DuplicateGroup]:
    """Groups by kind: copies and crops of one photo; then moments and places, of what is kept.

    `facts` looks at the photo in a row; `keep` goes before the evidence.
    """
    by_rows = sorted(related, key=lambda pair: (pair.a, pair.b))
    known = cache(facts)
    asked = [kind for kind in COPIES if kind in kinds]
    for members in _joined([pair for pair in by_rows if pair.kind in asked]):
        yield _copies(members, known, keep)[0]
    if not {"burst", "place"} & set(kinds):
        return
    spare = set[int]()  # whichever kinds are wanted
    for members in _joined([pair for pair in by_rows if pair.kind in COPIES]):
        spare |= _copies(members, known, keep)[1]
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
    members: Sequence[Relation], facts: Callable[[int], DuplicatePhoto], keep: KeepRule | None
) -> tuple[DuplicateGroup, set[int]]:
    """A group of copies, those to keep first, and the rows of those that may be removed."""
    rows = _rows(members)
    known = {row: facts(row) for row in rows}
    better = _better(members, known, keep)
    best = {row: _best(row, better) for row in rows}
    inside = [step for pair in members for step in _within(pair)]
    shown = {row: _reached(row, inside) for row in rows if best[row] in (row, None)}
    photos: dict[int, DuplicatePhoto] = {}
    for row in rows:
        if row not in shown:
            other = next((one for one in better[row] if one == best[row]), min(better[row]))
            how = _nearest(members, row, other).how
            why = f"{how}; {known[other].name}: {better[row][other]}"
            photos[row] = replace(known[row], keep=False, why=why)
            continue
        around = shown[row] & shown.keys() - {row}
        wins = Counter(above[row] for above in better.values() if row in above).most_common(1)
        open_ = best[row] is None or any(row in shown[other] for other in around)
        if open_:
            why = "nothing tells which one was made from the other"
        elif around:
            why = "it may show finer detail than the photo that it is a part of"
        else:
            why = wins[0][0] if wins else "no other kept photo shows all of it"
        size = f"{known[row].width}×{known[row].height}, {_bytes(known[row].bytes)}"
        photos[row] = replace(known[row], keep=None if open_ else True, why=f"{why} ({size})")
    order = sorted(rows, key=lambda row: (True, None, False).index(photos[row].keep))
    kind = max((pair.kind for pair in members), key=KINDS.index)
    group = DuplicateGroup(kind, tuple(photos[row] for row in order), _pairs(members, order))
    return group, set(rows) - shown.keys()


def _better(
    members: Sequence[Relation], known: Mapping[int, DuplicatePhoto], keep: KeepRule | None
) -> dict[int, dict[int, str]]:
    """The photos that are better than each and show all of it, and why."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for pair in members:
        name, why = _choice(pair, known[pair.a], known[pair.b], keep)
        winner, loser = (pair.a, pair.b) if name == "a" else (pair.b, pair.a)
        if name and (loser, winner) in _within(pair):
            found[loser][winner] = why
    return found


def _choice(
    pair: Relation, a: DuplicatePhoto, b: DuplicatePhoto, keep: KeepRule | None
) -> tuple[str, str]:
    """The better one of a pair, `a`, `b` or neither, and why."""
    if keep is not None and keep(a) != keep(b):
        return ("a" if keep(a) < keep(b) else "b"), "by the rule for what to keep"
    if pair.better or pair.kind == "crop":
        return pair.better, pair.because
    names = [PurePath(one.name).stem for one in (a, b)]
    for name, own, other in zip("ab", names, names[::-1], strict=True):
        if own != other and other.startswith(own) and _COPIED.match(other[len(own) :]):
            return name, "the other is named as a copy of it"
    if pair.kind != "exact":
        return "", ""
    if a.bytes != b.bytes:
        return ("a" if a.bytes > b.bytes else "b"), "the larger file with the same pixels"
    if a.modified and b.modified and a.modified != b.modified:
        return ("a" if a.modified < b.modified else "b"), "the older file with the same pixels"
    return "a", "the first file with the same pixels"


def _best(row: int, better: Mapping[int, Mapping[int, str]]) -> int | None:
    """A photo that is better and than which none is; None where they are better in a circle."""
    above = {(low, high) for low, highs in better.items() for high in highs}
    return min(_reached(row, above) - {low for low, _ in above}, default=None)


def _reached(row: int, steps: Iterable[tuple[int, int]]) -> set[int]:
    """A row, and those that steps lead to from it."""
    after: dict[int, list[int]] = defaultdict(list)
    for a, b in steps:
        after[a].append(b)
    found, waiting = {row}, [row]
    while waiting:
        new = set(after[waiting.pop()]) - found
        found |= new
        waiting += new
    return found


def _within(pair: Relation) -> list[tuple[int, int]]:
    """Which photo of a pair the other one shows all of, with that other."""
    a_in_b, b_in_a = pair.within
    return [(pair.a, pair.b)] * a_in_b + [(pair.b, pair.a)] * b_in_a


def _nearest(members: Sequence[Relation], row: int, other: int) -> Relation:
    """The pair that best describes a photo: with the same pixels, or else with a certain other."""
    own = [pair for pair in members if row in (pair.a, pair.b)]
    return min(own, key=lambda pair: (pair.kind != "exact", other not in (pair.a, pair.b)))


def _bytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB" if count >= 2**20 else f"{math.ceil(count / 2**10)} KiB"


def _pairs(members: Sequence[Relation], order: Sequence[int]) -> tuple[Relation, ...]:
    places = {row: place for place, row in enumerate(order)}
    found = [replace(pair, a=places[pair.a], b=places[pair.b]) for pair in members]
    return tuple(sorted(found, key=lambda pair: (pair.a, pair.b)))
