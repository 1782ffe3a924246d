"""Labelled photos: which landmark each shows, from its folder's name or from a CSV."""

import csv
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from solar.errors import SolarError
from solar.images import Photos, find_photos


def labelled_photos(
    source: str | Path | Sequence[str | Path], root: str | Path | None = None
) -> tuple[Photos, list[str]]:
    """Photos sorted as `landmark/photo.jpg`, or listed in a CSV, and what each shows.

    Args:
        source: A folder, a tar shard, several of these, or one CSV.
        root: The folder that the names of a CSV are relative to; its own if not given.

    Raises:
        SolarError: There is no such thing, or it does not say what a photo shows.
    """
    parts = [Path(source)] if isinstance(source, str | Path) else [Path(part) for part in source]
    if len(parts) == 1 and parts[0].suffix.lower() == ".csv":
        return read_csv(parts[0], root)
    photos = find_photos(parts)
    return photos, folder_labels(photos.names, ", ".join(map(str, parts)))


def folder_labels(names: Sequence[str], source: object) -> list[str]:
    """Take each photo's label from the folder it is in: `landmark/photo.jpg`, at any depth.

    Args:
        names: Names of photos as `solar.images.find_photos` gives them.
        source: Where they are from, for the complaint.

    Returns:
        A label a name: the name of the folder it is in.

    Raises:
        SolarError: A photo is in no folder.
    """
    labels = [PurePosixPath(name).parent.name for name in names]
    if "" in labels:
        loose = names[labels.index("")]
        raise SolarError(
            f"The photo {loose} of {source} is in no folder that would say what it shows: "
            "sort the photos as landmark/photo.jpg, or give a CSV of name,label."
        )
    return labels


def read_csv(path: str | Path, root: str | Path | None = None) -> tuple[Photos, list[str]]:
    """Read a CSV of `name,label`: photos, and what each shows.

    Args:
        path: UTF-8, a photo a line; a first line that reads `name,label` is a heading.
        root: The folder that names are relative to; the CSV's own if not given.

    Returns:
        The photos in the order of the file (whether they exist shows when they are read), and
        their labels.

    Raises:
        SolarError: The file cannot be read, a line is not a name and a label, or a name is
            there twice.
    """
    path = Path(path)
    folder = path.parent if root is None else Path(root)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [(number, row) for number, row in enumerate(csv.reader(file), 1) if row]
    except OSError as error:
        raise SolarError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise SolarError(f"{path} is not a CSV file in UTF-8.") from error
    if lines and [cell.strip() for cell in lines[0][1]] == ["name", "label"]:
        lines = lines[1:]
    labels: dict[str, str] = {}
    for number, row in lines:
        cells = [cell.strip() for cell in row]
        if len(cells) != 2 or not all(cells):
            raise SolarError(f"Line {number} of {path} is not a photo's name and its label.")
        if cells[0] in labels:
            raise SolarError(f"{path} names the photo {cells[0]} twice.")
        labels[cells[0]] = cells[1]
    if not labels:
        raise SolarError(f"{path} names no photo.")
    return Photos(tuple(labels), tuple(folder / name for name in labels)), list(labels.values())
