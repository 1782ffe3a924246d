"""Where photos were taken: from `@UTM_E@UTM_N@` in their names, or from a CSV.

Positions are whole centimetres, so that "25 m away" is decided exactly and not by rounding.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from solar.datasets.labelled.photo_labels import headed_rows
from solar.errors import SolarError

Position: TypeAlias = tuple[int, int]
"""East and north in centimetres."""

_COLUMNS = {
    "name": ("name", "path", "photo", "file", "image", "key"),
    "east": ("east", "easting", "utm_e", "utm_east", "x"),
    "north": ("north", "northing", "utm_n", "utm_north", "y"),
}
_FURTHEST = 10**9  # metres: more than any projection has, and centimetres fit 64 bits
_FRAME = re.compile(r"(.*?)(\d*)", re.DOTALL)


def name_positions(names: Sequence[str], source: object) -> dict[str, Position]:
    """Positions from names such as `@0543256.96@4178906.70@…@.jpg`, in metres.

    A SolarError if a name has none, which says that it is of `source`.
    """
    found = {}
    for name in names:
        parts = PurePosixPath(name).name.split("@")
        try:
            found[name] = _centimetres(parts[1]), _centimetres(parts[2])
        except (IndexError, ValueError) as error:
            raise SolarError(
                f"The name of the photo {name} in {source} contains no position: rename it to "
                "@UTM_E@UTM_N@.jpg, or give `positions=FILE.csv` or `frames=N`."
            ) from error
    return found


def read_positions(path: str | Path) -> dict[str, Position]:
    """Read a CSV with a heading that names a photo, its east and its north in metres.

    Args:
        path: The columns that count are called `name` (`path`, `photo`, `file`, `image`, `key`),
            `east` (`easting`, `utm_e`, `utm_east`, `x`) and `north` (`northing`, …).

    Returns:
        Name to east and north in centimetres, in the order of the file.

    Raises:
        SolarError: The file cannot be read, has no such columns, a position is no number, a photo
            is named twice, or some names are absolute and others are not.
    """
    path = Path(path)
    heading, rows = headed_rows(path)
    columns = _find_columns(path, heading)
    found: dict[str, Position] = {}
    for number, row in rows:
        name, east, north = (row[column] for column in columns)
        if name in found:
            raise SolarError(f"Line {number} of {path} names the photo {name} for the second time.")
        try:
            found[name] = _centimetres(east), _centimetres(north)
        except ValueError as error:
            raise SolarError(
                f"Line {number} of {path} has no position in metres: {east!r}, {north!r}."
            ) from error
    if not found:
        raise SolarError(f"{path} names no photo.")
    absolute = [PurePosixPath(name).is_absolute() for name in found]
    if any(absolute) and not all(absolute):
        names = list(found)
        raise SolarError(
            f"{path} has both absolute and relative names ({names[absolute.index(True)]}, "
            f"{names[absolute.index(False)]}): write all of them in one way."
        )
    return found


def listed_positions(
    table: Mapping[str, Position], sides: Sequence[tuple[Path, Sequence[str]]], source: object
) -> list[dict[str, Position]]:
    """The positions of the photos below some folders, by name.

    Args:
        table: What `read_positions` gives. Its names are absolute, or relative to the folder that
            all are in (`queries/1.jpg`) or to their own (`1.jpg`).
        sides: Folders, and the names of the photos in each.
        source: What the table was read from, for a complaint.

    Raises:
        SolarError: A photo has no position, or a position no photo.
    """
    used: set[str] = set()
    found = []
    for folder, names in sides:
        own = {}
        for name in names:
            keys = (f"{folder.name}/{name}", name, str((folder / name).absolute()))
            key = next((one for one in keys if one in table), None)
            if key is None:
                raise SolarError(f"{source} has no position for the photo {keys[0]}.")
            used.add(key)
            own[name] = table[key]
        found.append(own)
    for name in table:
        if name not in used:
            where = " or ".join(str(folder) for folder, _ in sides)
            raise SolarError(f"{source} names the photo {name}, which is not in {where}.")
    return found


def frame_of(name: str) -> tuple[str, int]:
    """What a photo's name says without its ending: what is before the frame's number, and that.

    A name that ends in no digit is a place of its own, with number -1.
    """
    match = _FRAME.fullmatch(str(PurePosixPath(name).with_suffix("")))
    assert match is not None
    before, number = match.groups()
    return before, int(number[-18:]) if number else -1


def _find_columns(path: Path, heading: Sequence[str]) -> list[int]:
    cells = [cell.lower() for cell in heading]
    columns = []
    for wanted, names in _COLUMNS.items():
        there = [cells.index(name) for name in names if name in cells]
        if not there:
            raise SolarError(
                f"Line 1 of {path} names no column {wanted}: positions are name,east,north, in "
                "metres."
            )
        columns.append(there[0])
    return columns


def _centimetres(metres: str) -> int:
    try:
        value = Decimal(metres)
    except InvalidOperation as error:
        raise ValueError(metres) from error
    if not (value.is_finite() and abs(value) < _FURTHEST):
        raise ValueError(metres)
    return round(value * 100)
