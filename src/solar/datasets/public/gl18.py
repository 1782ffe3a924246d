"""Google Landmarks 2018, as the paper trains on it: from its CSVs to the published pickle.

The pickle is a dictionary of `train` and `val`, each with `cids` (names of photos, which are in
`jpg/<cid>.jpg`), `cluster` (the landmark each shows), `qidxs` (the queries), and for each query
`pidxs` (its positives) and `bbxs` (the box around the landmark, or None). We and the published code
read each other's files, but the published code leaves out the last photo of every landmark, draws
positives only among later photos, and gives another result every time.
"""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solar.datasets.labelled.photo_labels import read_columns, read_rows
from solar.errors import SolarError
from solar.files import reading, replacing

Boxes = Mapping[str, tuple[float, float, float, float] | None]


def build_gl18(folder: str | Path, *, seed: int = 42) -> dict[str, dict[str, list[Any]]]:
    """Make the database of the photos that are here, as `write_gl18` takes it.

    The folder has `train.csv`, `boxes_split2.csv` (whose photos are for validation),
    `boxes_split1.csv` if need be, and photos in `jpg/`. A query has one positive, drawn from all
    other photos of its landmark, as published; readers may draw another from `cluster` in each
    epoch. The result depends only on the names of the photos and the seed.
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
        # One to n - 1 steps round the circle of n: never the query itself.
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
    columns = {key: [key] for key in ("id", "landmark_id")}
    for number, cells in read_columns(path, columns):
        if not all(cells.values()):
            raise SolarError(f"Line {number} of {path} has no id and landmark_id.")
        yield cells["id"], cells["landmark_id"]


def _read_boxes(path: Path) -> dict[str, tuple[float, float, float, float] | None]:
    boxes: dict[str, tuple[float, float, float, float] | None] = {}
    for number, row in read_rows(path):
        if row[0] == "id":
            continue
        try:
            values = [float(value) for value in row[1].split()] if len(row) > 1 else []
        except ValueError as error:
            raise SolarError(
                f"Line {number} of {path} has a box that is not four numbers."
            ) from error
        # Photos without a box are listed with an empty one.
        boxes[row[0]] = (values[0], values[1], values[2], values[3]) if len(values) == 4 else None
    return boxes


def write_gl18(path: str | Path, database: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """Write the published format: lists, text and numbers only."""
    with replacing(path) as temporary:
        temporary.write_bytes(pickle.dumps(database, protocol=4))
