"""Labelled photos: which landmark each shows, from its folder's name or from a CSV."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from solar.errors import SolarError
from solar.files import reading
from solar.images import Photos, find_photos

_NAMES = ("name", "path", "photo", "file", "image", "id")
_LABELS = ("label", "landmark", "landmark_id")


def labelled_photos(
    source: str | Path | Sequence[str | Path], root: str | Path | None = None
) -> tuple[Photos, list[str]]:
    """Photos and their labels: sorted as `landmark/photo.jpg` in folders or tar shards, or one CSV.

    `root` is the folder that the names of a CSV are relative to; default: its own.
    """
    parts = [Path(source)] if isinstance(source, str | Path) else [Path(part) for part in source]
    if len(parts) == 1 and parts[0].suffix.lower() == ".csv":
        return read_csv(parts[0], root)
    photos = find_photos(parts)
    return photos, folder_labels(photos.names, ", ".join(map(str, parts)))


def folder_labels(names: Sequence[str], source: object) -> list[str]:
    """Each photo's label: the folder it is in, `landmark/photo.jpg`, at any depth.

    A SolarError about `source` if a photo is in no folder.
    """
    labels = [PurePosixPath(name).parent.name for name in names]
    if "" in labels:
        loose = names[labels.index("")]
        raise SolarError(
            f"The photo {loose} of {source} has no folder whose name could be its label: "
            "sort the photos as landmark/photo.jpg, or give a CSV of name,label."
        )
    return labels


def read_csv(path: str | Path, root: str | Path | None = None) -> tuple[Photos, list[str]]:
    """Read photos and their labels from a CSV, in its order, whether the photos exist or not.

    The CSV is in UTF-8, one `name,label` per line; or it has a heading and perhaps other columns:
    `name`, `path`, `photo`, `file` or `image`, and `label`, `landmark` or `landmark_id`. In a
    column `id`, as in Google Landmarks, photos are named without folder and ending. `root` is the
    folder of the photos; default: the CSV's own. A SolarError if a line is not a name and a label,
    or a name occurs twice.
    """
    path = Path(path)
    folder = path.parent if root is None else Path(root)
    heading: list[str] | None = None
    columns = (0, 1)
    labels: dict[str, str] = {}
    for number, row in read_rows(path):
        if not labels and heading is None and (named := _columns(row)):
            heading, columns = row, named
            continue
        if len(row) != len(heading or columns) or not all(row[column] for column in columns):
            raise SolarError(f"Line {number} of {path} is not a photo's name and its label.")
        name, label = (row[column] for column in columns)
        if name in labels:
            raise SolarError(f"{path} names the photo {name} twice.")
        labels[name] = label
    if not labels:
        raise SolarError(f"{path} names no photo.")
    names = list(labels)
    if heading and heading[columns[0]].lower() == "id":
        names = photo_paths(names, folder)
    return Photos.in_folder(folder, names), list(labels.values())


def read_labels(path: str | Path) -> dict[str, str]:
    """Labels of photos by name, from a CSV as for `read_csv` or from a JSON object."""
    path = Path(path)
    if path.suffix.lower() != ".json":
        photos, labels = read_csv(path)
        return dict(zip(photos.names, labels, strict=True))
    wrong = 'is not a JSON object of names and labels, {"rome/1.jpg": "colosseum", …}'
    with reading(path, wrong, ValueError, TypeError, AttributeError, RecursionError):
        known = json.loads(path.read_text(encoding="utf-8-sig"))
        if not all(isinstance(label, str | int) for label in known.values()):
            raise TypeError
        return {name: str(label) for name, label in known.items()}


def read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines of a CSV in UTF-8 that are not empty: number, and cells without outer spaces."""
    with (
        reading(path, "is not a CSV file in UTF-8", UnicodeDecodeError, csv.Error),
        path.open(encoding="utf-8-sig", newline="") as file,
    ):
        for number, row in enumerate(csv.reader(file), 1):
            if row:
                yield number, [cell.strip() for cell in row]


def read_columns(
    path: Path, columns: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, str]]]:
    """The lines below the heading of a CSV: number, and the cells of some columns.

    Each column goes by any of the names given, in lower case; all but the optional ones must be
    there. A SolarError if a line has more or fewer cells than the heading.
    """
    rows = read_rows(path)
    _, heading = next(rows, (0, []))
    cells = [cell.lower() for cell in heading]
    places: dict[str, int] = {}
    for column, names in columns.items():
        there = [cells.index(name) for name in names if name in cells]
        if there:
            places[column] = there[0]
        elif column not in optional:
            wanted = ",".join(columns)
            raise SolarError(f"Line 1 of {path} names no column {column}: write {wanted}.")
    for number, row in rows:
        if len(row) != len(heading):
            raise SolarError(
                f"Line {number} of {path} has {len(row)} cells under a heading of {len(heading)}."
            )
        yield number, {column: row[place] for column, place in places.items()}


def _columns(cells: Sequence[str]) -> tuple[int, int] | None:
    heading = [cell.lower() for cell in cells]
    names, labels = (
        [heading.index(name) for name in known if name in heading] for known in (_NAMES, _LABELS)
    )
    return (names[0], labels[0]) if names and labels else None


def photo_paths(ids: Sequence[str], folder: Path) -> list[str]:
    """Where photos known by an id are: `id.jpg`, `jpg/id.jpg`, or `0/1/2/012….jpg`.

    Relative to the folder, in which the first thousand are looked for; `id.jpg` if none is there.
    """
    ways: list[Callable[[str], str]] = [
        lambda name: f"{name}.jpg",
        lambda name: f"jpg/{name}.jpg",
        lambda name: f"{'/'.join(name[:3])}/{name}.jpg",
        lambda name: f"train/{'/'.join(name[:3])}/{name}.jpg",
    ]
    with reading(folder):  # a name may be too long for a file
        for way in ways:
            if any((folder / way(name)).is_file() for name in ids[:1000]):
                return [way(name) for name in ids]
    return [ways[0](name) for name in ids]
