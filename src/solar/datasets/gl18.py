"""Google Landmarks 2018, as the paper trains on it: from its CSVs, and as the published pickle.

The pickle is a dictionary of `train` and `val`, each with `cids` (names of photos, which are in
`jpg/<cid>.jpg`), `cluster` (the landmark each shows), `qidxs` (the queries), and for each query
`pidxs` (its positives) and `bbxs` (the box around the landmark, or None). Ours is read by the
published code and theirs by ours, but it is not the same: theirs leaves out the last photo of every
landmark, chooses positives only among photos that come later, and comes out different every time.
"""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solar.datasets.folders import read_rows
from solar.datasets.plain_pickle import read_plain_pickle
from solar.datasets.training_set import Positives, TrainingSet, checked
from solar.errors import SolarError
from solar.files import reading, replacing
from solar.images import Photos

Boxes = Mapping[str, tuple[float, float, float, float] | None]
_PARTS = ("train", "val")


def build_gl18(folder: str | Path, *, seed: int = 42) -> dict[str, dict[str, list[Any]]]:
    """Make the database of the photos that are here.

    A query has one positive, drawn from all other photos of its landmark, as published; readers
    may draw another from `cluster` in each epoch. The result depends on the names of the photos
    and on the seed, and on nothing else.

    Args:
        folder: With `train.csv`, `boxes_split2.csv` (whose photos are for validation),
            `boxes_split1.csv` if it is there, and photos in `jpg/`.
        seed: For the positives.

    Returns:
        Plain data, as `write_gl18` takes it.

    Raises:
        SolarError: A CSV is missing or damaged, or none of its photos is here.
    """
    folder = Path(folder)
    held, boxes = _read_boxes(folder / "boxes_split2.csv"), {}
    if (folder / "boxes_split1.csv").is_file():
        boxes.update(_read_boxes(folder / "boxes_split1.csv"))
    here = _names(folder / "jpg")
    labels = {name: label for name, label in _read_labels(folder / "train.csv") if name in here}
    if not labels:
        raise SolarError(f"None of the photos of {folder / 'train.csv'} is in {folder / 'jpg'}.")
    chance = np.random.default_rng(seed)
    return {
        "train": _part({n: x for n, x in labels.items() if n not in held}, boxes, chance),
        "val": _part({n: x for n, x in labels.items() if n in held}, {**boxes, **held}, chance),
    }


def _part(labels: Mapping[str, str], boxes: Boxes, chance: np.random.Generator) -> dict[str, Any]:
    names = sorted(labels)
    members: dict[str, list[int]] = {}
    place = []  # of each photo in its landmark
    for number, name in enumerate(names):
        together = members.setdefault(labels[name], [])
        place.append(len(together))
        together.append(number)
    queries = [number for number, name in enumerate(names) if len(members[labels[name]]) > 1]
    # `random` alone: NumPy may change what its other distributions draw.
    drawn = chance.random(len(queries)).tolist()
    positives = []
    for query, luck in zip(queries, drawn, strict=True):
        together = members[labels[names[query]]]
        # One step to all the way round the circle, which never ends where it began.
        steps = 1 + int(luck * (len(together) - 1))
        positives.append([together[(place[query] + steps) % len(together)]])
    found = [boxes.get(names[query]) for query in queries]
    return {
        "cids": names,
        "cluster": [labels[name] for name in names],
        "qidxs": queries,
        "pidxs": positives,
        "bbxs": [None if box is None else list(box) for box in found],
    }


def _names(folder: Path) -> set[str]:
    with reading(folder):
        return {path.stem for path in folder.iterdir() if path.suffix == ".jpg"}


def _read_labels(path: Path) -> Iterable[tuple[str, str]]:
    for number, row in read_rows(path):
        if row[0] == "id":
            continue
        if len(row) < 2 or not row[0] or not row[-1]:
            raise SolarError(f"Line {number} of {path} has no id and landmark_id.")
        yield row[0], row[-1]


def _read_boxes(path: Path) -> dict[str, tuple[float, float, float, float] | None]:
    """The boxes of photos; None where a photo is listed without one."""
    boxes: dict[str, tuple[float, float, float, float] | None] = {}
    for number, row in read_rows(path):
        if row[0] == "id":
            continue
        try:
            values = [float(value) for value in row[1].split()] if len(row) > 1 else []
        except ValueError as error:
            raise SolarError(f"Line {number} of {path} has a box that is no numbers.") from error
        # Photos that nobody drew a box in are listed with an empty one.
        boxes[row[0]] = (values[0], values[1], values[2], values[3]) if len(values) == 4 else None
    return boxes


def write_gl18(path: str | Path, database: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """Write the published format: lists, text and numbers only, so that anybody may read it."""
    with replacing(path) as temporary:
        temporary.write_bytes(pickle.dumps(database, protocol=4))


def read_database(path: str | Path, *, part: str) -> dict[str, list[Any]]:
    """One part of a published database, of Google Landmarks or of retrieval-SfM.

    Args:
        path: The pickle; nothing in it is executed.
        part: `train` or `val`.

    Returns:
        `cids`, `cluster`, `qidxs`, `pidxs` (a list for each query), and what else there is.

    Raises:
        SolarError: The file cannot be read, is no such database, or contradicts itself.
    """
    content = read_plain_pickle(path)
    if part not in _PARTS:
        raise SolarError(f"{path} has the parts train and val, not {part}.")
    found = content.get(part) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key), list) for key in ("cids", "cluster", "qidxs", "pidxs")
    ):
        raise SolarError(f"{path} is no database of photos: its {part} lacks cids, cluster, "
                         "qidxs or pidxs.")  # fmt: skip
    positives = [[one] if isinstance(one, int) else one for one in found["pidxs"]]
    photos = len(found["cids"])
    fits = len(found["cluster"]) == photos and len(found["qidxs"]) == len(positives)
    numbers = [*found["qidxs"], *(number for one in positives for number in one)] if fits else [-1]
    if not all(isinstance(number, int) and 0 <= number < photos for number in numbers):
        raise SolarError(f"{path} is damaged: its {part} names photos that it does not have.")
    return {**found, "pidxs": positives}


def database_set(
    database: Mapping[str, Sequence[Any]], photos: Photos, source: object
) -> TrainingSet:
    """A part of a published database with its own positives, to train on.

    Raises:
        SolarError: There is nothing to learn from.
    """
    shown, landmarks = np.unique(np.array(database["cluster"], np.str_), return_inverse=True)
    order = np.argsort(np.asarray(database["qidxs"], np.int64), kind="stable")
    return checked(
        TrainingSet(
            photos,
            landmarks.astype(np.int64),
            tuple(shown.tolist()),
            np.asarray(database["qidxs"], np.int64)[order],
            Positives.of(database["pidxs"])[order],
        ),
        source,
    )


def read_gl18(
    path: str | Path, *, root: str | Path | None = None, part: str = "train"
) -> TrainingSet:
    """Read `db_gl18.pkl`, published or our own, with the positives it has.

    Args:
        path: The pickle.
        root: The folder with `jpg/`; the pickle's own if not given.
        part: `train` or `val`.

    Raises:
        SolarError: The file cannot be read, or is no such database.
    """
    folder = Path(path).parent if root is None else Path(root)
    database = read_database(path, part=part)
    photos = Photos.in_folder(folder, (f"jpg/{cid}.jpg" for cid in database["cids"]))
    return database_set(database, photos, path)
