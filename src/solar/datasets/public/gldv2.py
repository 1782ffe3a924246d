"""Google Landmarks v2 and its clean list, read as labelled places.

A photo is known by an id of 16 letters and digits and lies in `train/a/b/c/abc….jpg`, in folders
named after the first three. Landmarks are labelled in the order of their numbers, as Google's own
training code does it, and not in the order of the list.

The clean list has 1,580,470 photos of 81,313 landmarks.
"""

import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from solar.arrays import Ints
from solar.datasets.labelled.photo_labels import read_columns
from solar.datasets.labelled.training_set import Places, present
from solar.errors import SolarError
from solar.files import reading
from solar.images import Photos

CLEAN_LIST = "train_clean.csv"

Ids = npt.NDArray[np.bytes_]

# Nothing that could lead out of the folder; three letters at least, which name the folders.
_ID = "[0-9A-Za-z_-]{3,16}"
_PLACE = re.compile(rf"(\d{{1,18}}),({_ID}(?: +{_ID})*)\s*".encode())
_CLEAN = "landmark_id,images"


@dataclass(frozen=True)
class _PhotoTable:
    path: Path
    ids: Ids
    landmarks: Ints
    lines: Ints  # where it says so

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise SolarError(f"{self.path} names no photo.")
        order = np.argsort(self.ids, kind="stable")
        again = order[1:][self.ids[order[1:]] == self.ids[order[:-1]]]
        if len(again):
            first = again.min()
            photo = self.ids[first].decode()
            line = self.lines[first]
            raise SolarError(f"Line {line} of {self.path} names the photo {photo} again.")


def read_clean(folder: str | Path, *, missing: Literal["refuse", "drop"] = "refuse") -> Places:
    """Read the photos of `train_clean.csv`, in its order; they are in `train/`.

    `missing="drop"` leaves out photos that are not there, and landmarks that have none left. Labels
    count the landmarks from 0 in the order of their numbers, which are their names. A SolarError if
    the list is damaged, names a photo or landmark twice, or photos are missing.
    """
    folder = Path(folder)
    found = _labelled(folder / CLEAN_LIST)
    paths = (f"train/{photo_path(one.decode())}" for one in found.ids.tolist())
    names, landmarks = np.unique(found.landmarks, return_inverse=True)
    labels = tuple(map(str, names.tolist()))
    places = Places(Photos.in_folder(folder, paths), landmarks.astype(np.int64), labels)
    cure = "`solar data check gldv2` says how to get them, or drop them"
    places = present(places, found.path, missing, cure)
    if len(places.labels) < 2:
        raise SolarError(f"{found.path} has one landmark: training needs at least two.")
    return places


def photo_ids(path: Path) -> Ids:
    """The ids in a list of Google Landmarks v2, in its order."""
    return _read(path).ids


def photo_landmarks(path: Path) -> dict[str, int]:
    """Photo to landmark, of a list that has both."""
    found = _labelled(path)
    return {
        photo.decode(): landmark
        for photo, landmark in zip(found.ids.tolist(), found.landmarks.tolist(), strict=True)
    }


def photo_path(photo: str) -> str:
    """Where a photo lies below `train`, `index` or `test`."""
    return f"{'/'.join(photo[:3])}/{photo}.jpg"


def selection(path: Path) -> Callable[[str], bool]:
    """A test for whether a photo, by its path, is in a list."""
    chosen = frozenset(photo_ids(path).tolist())
    return lambda photo: Path(photo).stem.encode() in chosen


def _labelled(path: Path) -> _PhotoTable:
    found = _read(path)
    if found.landmarks.min() < 0:
        raise SolarError(f"{found.path} has no column landmark_id: it is a list without labels.")
    return found


def _read(path: Path) -> _PhotoTable:
    with reading(path), path.open("rb") as file:
        heading = file.readline(1000).decode("utf-8-sig", "replace").strip()
    return _read_clean(path) if heading == _CLEAN else _read_photos(path)


def _read_clean(path: Path) -> _PhotoTable:
    places: list[Ids] = []
    landmarks: dict[int, int] = {}  # and their lines
    with reading(path), path.open("rb") as file:
        next(file)
        for number, line in enumerate(file, 2):
            if not (parts := _PLACE.fullmatch(line)):
                if line.strip():
                    raise SolarError(
                        f"Line {number} of {path} is not a landmark_id and its images."
                    )
                continue
            if landmarks.setdefault(landmark := int(parts[1]), number) != number:
                raise SolarError(f"Line {number} of {path} names landmark {landmark} again.")
            places.append(np.array(parts[2].split(), "S16"))
    counts = [len(ids) for ids in places]
    names, lines = (np.array([*one], np.int64) for one in (landmarks, landmarks.values()))
    ids = np.concatenate([np.zeros(0, "S16"), *places])
    return _PhotoTable(path, ids, np.repeat(names, counts), np.repeat(lines, counts))


def _read_photos(path: Path) -> _PhotoTable:
    """A photo per line, in any columns that are called `id` and `landmark_id`; or `id` alone."""
    landmarks, lines = array("q"), array("q")

    def photos() -> Iterator[bytes]:
        allowed, columns = re.compile(_ID).fullmatch, {key: [key] for key in ("id", "landmark_id")}
        for number, cells in read_columns(path, columns, ("landmark_id",)):
            if not allowed(cells["id"]):
                raise SolarError(f"Line {number} of {path} has an id that no photo can have.")
            shown = cells.get("landmark_id")
            if shown is not None and not (shown.isdecimal() and len(shown) <= 18):
                raise SolarError(f"Line {number} of {path} has a landmark_id that is not a number.")
            landmarks.append(-1 if shown is None else int(shown))
            lines.append(number)
            yield cells["id"].encode()

    ids = np.fromiter(photos(), "S16")
    return _PhotoTable(path, ids, *(np.frombuffer(one, np.int64) for one in (landmarks, lines)))


RETRIEVAL, RECOGNITION = "retrieval", "recognition"
USAGES = ("Public", "Private")
_COLUMNS = {RETRIEVAL: "images", RECOGNITION: "landmarks"}
_IGNORED = "Ignored"


@dataclass(frozen=True)
class Solution:
    """The answers of one challenge."""

    path: Path
    task: str  # `retrieval` (answers are index photos) or `recognition` (landmarks)
    right: dict[str, tuple[str, ...]]  # test photo to its answers; in recognition perhaps none
    usage: dict[str, str]  # test photo to `Public` or `Private`
    ignored: frozenset[str]  # test photos that do not count


def solution_file(task: str) -> str:
    """Name of the published file."""
    return f"{task}_solution_v2.1.csv"


def read_solution(path: str | Path, task: str) -> Solution:
    """Read `retrieval_solution_v2.1.csv` (id,images,Usage) or that of `recognition`."""
    path = Path(path)
    column = _COLUMNS[task]
    right: dict[str, tuple[str, ...]] = {}
    usage: dict[str, str] = {}
    ignored = set()
    for number, (photo, answers, use) in _cells(path, "id", column, "Usage"):
        if use == _IGNORED or (task == RETRIEVAL and answers in ("", "None")):
            ignored.add(photo)
            continue
        if use not in USAGES:
            allowed = ", ".join((*USAGES, _IGNORED))
            raise SolarError(f"Line {number} of {path} has the Usage {use!r}: choose {allowed}.")
        right[photo], usage[photo] = tuple(answers.split()), use
        if task == RECOGNITION and not all(one.isdecimal() for one in right[photo]):
            raise SolarError(f"Line {number} of {path} has a landmark that is not a number.")
    if not right:
        raise SolarError(f"{path} lists no photo with the Usage Public or Private.")
    return Solution(path, task, right, usage, frozenset(ignored))


def read_predictions(path: str | Path, solution: Solution) -> dict[str, tuple[str, ...]]:
    """Read answers in the form of the challenges: `id,images`, or `id,landmarks` for `5 0.93`.

    Returns test photo to its answers: index photos, best first; or a landmark and its score.
    """
    path = Path(path)
    found: dict[str, tuple[str, ...]] = {}
    for number, (photo, text) in _cells(path, "id", _COLUMNS[solution.task]):
        if photo in solution.ignored:
            continue
        if photo not in solution.right:
            raise SolarError(
                f"Line {number} of {path} names the photo {photo}, which is not in {solution.path}."
            )
        answers = tuple(text.split())
        if answers and solution.task == RECOGNITION and not _scored(answers):
            raise SolarError(f"Line {number} of {path} is not a landmark and its score.")
        if answers:
            found[photo] = answers
    return found


def _scored(answers: tuple[str, ...]) -> bool:
    try:
        landmark, score = answers
        return landmark.isdecimal() and float(score) == float(score)
    except ValueError:
        return False


def _cells(path: Path, *columns: str) -> Iterator[tuple[int, list[str]]]:
    seen: set[str] = set()
    for number, cells in read_columns(path, {column: [column.lower()] for column in columns}):
        if cells["id"] in seen:
            raise SolarError(f"Line {number} of {path} names the photo {cells['id']} again.")
        seen.add(cells["id"])
        yield number, list(cells.values())
