"""Ground truth of retrieval sets: Revisited Oxford and Paris, their older forms, and your own.

The published files are pickles, of which only plain data is read. Your own ground truth is JSON:

    {"database": ["a.jpg", "b.jpg", "c.jpg"],
     "queries": [{"photo": "q.jpg", "box": [41, 30, 280, 201],
                  "easy": ["a.jpg"], "hard": [1], "junk": []}]}

`box` may be left out, and so may any of the lists. Photos are named or numbered from 0. A set
without difficulties has `ok` (and `junk`) in place of `easy` and `hard`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from solar.datasets.plain_pickle import read_plain_pickle
from solar.datasets.public.registry import GROUND_TRUTHS
from solar.errors import SolarError
from solar.files import reading
from solar.images import Box, Photos

PROTOCOLS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}
"""What is right and what is ignored."""

OLD_PROTOCOL = {"all": (("ok",), ("junk",))}  # the same for Oxford5k and Paris6k

_SUFFIXES = (".jpg", ".jpeg", ".png", "")


@dataclass(frozen=True)
class Query:
    """A photo, its part that is searched for, and the numbers of its answers by difficulty."""

    photo: str
    box: Box | None
    answers: Mapping[str, npt.NDArray[np.int64]]


@dataclass(frozen=True)
class GroundTruth:
    """A database by the names of its photos, and queries with their answers."""

    path: Path  # the file it was read from
    database: tuple[str, ...]  # names, in the order of the descriptors
    queries: tuple[Query, ...]
    # Name to the difficulties that are right and those that are ignored.
    protocols: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]


def read_ground_truth(path: str | Path, dataset: str | None = None) -> GroundTruth:
    """Read a published `.pkl` or your own `.json`, and check that it is of `dataset`."""
    path = Path(path)
    truth = _from_json(path) if path.suffix.lower() == ".json" else _from_pickle(path)
    others = [name for name, size in GROUND_TRUTHS.items() if size == len(truth.database)]
    if dataset in GROUND_TRUTHS and others and dataset not in others:
        raise SolarError(f"{path} is the ground truth of {others[0]}, not of {dataset}.")
    return truth


def _from_pickle(path: Path) -> GroundTruth:
    content = read_plain_pickle(path)
    try:
        names, photos, entries = content["imlist"], content["qimlist"], content["gnd"]
        queries = [{"photo": p, **e} for p, e in zip(photos, entries, strict=True)]
    except (KeyError, TypeError, ValueError) as error:
        raise SolarError(
            f"{path} is not a ground truth: it needs imlist, qimlist and, for each query, gnd."
        ) from error
    return _ground_truth(path, names, queries, box="bbx")


def _from_json(path: Path) -> GroundTruth:
    wrong = "is not a ground truth in JSON: it needs a database and queries"
    with reading(path, wrong, ValueError, KeyError, TypeError, RecursionError):
        content = json.loads(path.read_bytes())
        names, queries = content["database"], content["queries"]
    return _ground_truth(path, names, queries, box="box")


def _ground_truth(path: Path, names: Any, entries: Any, box: str) -> GroundTruth:
    if not _all_of(names, str) or not _all_of(entries, dict):
        raise SolarError(f"{path} needs lists of photo names and of queries, neither empty.")
    if len(set(names)) < len(names):
        raise SolarError(f"{path} lists a photo of the database twice.")
    numbers = {name: number for number, name in enumerate(names)}
    old = any("ok" in entry for entry in entries)
    kinds = ("ok", "junk") if old else ("easy", "hard", "junk")
    queries = []
    for number, entry in enumerate(entries):
        where = f"query {number} of {path}"
        if not isinstance(entry.get("photo"), str):
            raise SolarError(f"The {where} names no photo.")
        if not set(entry) & {"ok", "easy", "hard"} or (old and set(entry) & {"easy", "hard"}):
            raise SolarError(f"The {where} needs easy and hard, or ok, like the other queries.")
        answers = {kind: _answers(entry.get(kind, ()), kind, where, numbers) for kind in kinds}
        together = np.concatenate(list(answers.values()))
        if len(np.unique(together)) < len(together):
            raise SolarError(f"The {where} lists an answer twice.")
        queries.append(Query(entry["photo"], _box(entry.get(box), where), answers))
    return GroundTruth(path, tuple(names), tuple(queries), OLD_PROTOCOL if old else PROTOCOLS)


def _all_of(values: Any, kind: type) -> bool:
    listed = isinstance(values, list | tuple) and len(values) > 0
    return listed and all(isinstance(value, kind) for value in values)


def _answers(
    values: Any, kind: str, where: str, numbers: Mapping[str, int]
) -> npt.NDArray[np.int64]:
    if not isinstance(values, list | tuple):
        raise SolarError(f"The {kind} answers of {where} are not a list.")
    found = [numbers.get(value, -1) if isinstance(value, str) else value for value in values]
    for value, number in zip(values, found, strict=True):
        if type(number) is not int or not 0 <= number < len(numbers):
            raise SolarError(
                f"The {kind} answer {value!r} of {where} is not one of its {len(numbers)} "
                "photos: the ground truth is for another database."
            )
    return np.array(found, np.int64)


def _box(values: Any, where: str) -> Box | None:
    if values is None:
        return None
    try:
        x1, y1, x2, y2 = (float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise SolarError(f"The box of {where} is not four numbers.") from error
    if not (all(map(math.isfinite, (x1, y1, x2, y2))) and x1 < x2 and y1 < y2):
        raise SolarError(f"The box of {where} is empty.")
    return x1, y1, x2, y2


def find_ground_truth(dataset: str, root: str | Path) -> Path:
    """The published file of a named set: in `root`, `root/NAME` or `root/test/NAME`."""
    name = f"gnd_{dataset}.pkl"
    for folder in _homes(dataset, root):
        if (folder / name).is_file():
            return folder / name
    raise SolarError(
        f"There is no {name} in {root}: fetch it with `solar data get {dataset}` or name it with "
        "`ground_truth=`."
    )


def locate_photos(names: Sequence[str], folders: Sequence[Path]) -> Photos:
    """The files of photos with unique names, given with or without their ending.

    All must be in the first folder that has the first photo.
    """
    for folder, suffix in product(folders, _SUFFIXES):
        if (folder / f"{names[0]}{suffix}").is_file():
            places = tuple(folder / f"{name}{suffix}" for name in names)
            if missing := [place for place in places if not place.is_file()]:
                raise SolarError(
                    f"{len(missing)} of {len(places)} photos are missing, such as {missing[0]}."
                )
            return Photos(tuple(names), places)
    looked = ", ".join(str(folder) for folder in folders)
    raise SolarError(f"The photo {names[0]} is in none of {looked}: name its folder with `root=`.")


def photo_folders(dataset: str, root: str | Path) -> list[Path]:
    """Where the photos of a set may be."""
    return [folder / part for folder in _homes(dataset, root) for part in ("jpg", "")]


def _homes(dataset: str, root: str | Path) -> list[Path]:
    return [Path(root), Path(root, dataset), Path(root, "test", dataset)]
