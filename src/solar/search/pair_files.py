"""Lists of pairs as COLMAP and hloc read them, `image1.jpg image2.jpg` a line; lists of photos."""

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from solar.errors import SolarError
from solar.files import reading, replacing
from solar.search.described_collection import DescribedCollection

Pair: TypeAlias = tuple[str, str]
"""Names of two photos."""


def write_pairs(path: str | Path, pairs: Iterable[Pair]) -> int:
    """Write a list of pairs, whole or not at all, and say how many; a warning if names have spaces.

    Photos whose name has several lines are left out, with a warning for each. A SolarError if the
    disk is full or read-only.
    """
    count, spaced, broken = 0, set[str](), set[str]()
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="\n") as out,
    ):
        for pair in pairs:
            if unlisted := {name for name in pair if len(name.splitlines()) != 1}:
                broken |= unlisted
                continue
            spaced |= {name for name in pair if len(name.split()) != 1}
            out.write(" ".join(pair) + "\n")
            count += 1
    for name in sorted(broken):
        warnings.warn(
            f"{name!r} is left out of {path}, because its name contains a line break: rename the "
            "photo.",
            stacklevel=2,
        )
    if spaced:
        warnings.warn(
            f"{len(spaced)} photo{'s'[: len(spaced) != 1]} in {path} have spaces in their names, "
            f"such as {min(spaced)!r}: COLMAP and hloc split lines at spaces, so rename the "
            "photos, or write the matches themselves with `database=`.",
            stacklevel=2,
        )
    return count


def read_pairs(path: str | Path, photos: DescribedCollection) -> Iterator[Pair]:
    """Pairs from a list, each once, by their names in the collection.

    A SolarError if the list cannot be read, or names a photo that is not there.
    """
    seen = set[tuple[int, int]]()
    for line in _lines(path):
        a, b = _split(line, path, photos)
        pair = (min(a, b), max(a, b))
        if a != b and pair not in seen:
            seen.add(pair)
            yield photos.names[a], photos.names[b]


def read_names(path: str | Path, photos: DescribedCollection) -> list[str]:
    """Names of photos from a list; what follows them, as the cameras in hloc's lists, is ignored.

    A SolarError if the list cannot be read, is empty, or names a photo that is not there.
    """
    rows = []
    for line in _lines(path):
        begun = line if line in photos.rows else line.split()[0]
        rows.append(photos.row(line if Path(line).is_absolute() else begun, path))
    if not rows:
        raise SolarError(f"{path} names no photo: write one name per line.")
    return [photos.names[row] for row in rows]


def _split(line: str, path: str | Path, photos: DescribedCollection) -> tuple[int, int]:
    parts = line.split()
    if len(parts) > 2:  # a name has spaces: cut where both sides are photos
        for at in range(1, len(line)):
            a, b = line[:at], line[at + 1 :]
            if line[at] == " " and a in photos.rows and b in photos.rows:
                return photos.rows[a], photos.rows[b]
    if len(parts) != 2:
        raise SolarError(
            f"{path} has a line {line!r}: each line must have the names of two photos of the "
            "collection, separated by a space."
        )
    a, b = parts
    return photos.row(a, path), photos.row(b, path)


def _lines(path: str | Path) -> list[str]:
    with reading(path):
        text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line and not line.startswith("#")]
