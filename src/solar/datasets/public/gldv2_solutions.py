"""Solutions and submissions of the Google Landmarks v2 challenges."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solar.datasets.labelled.photo_labels import headed_rows
from solar.errors import SolarError

RETRIEVAL, RECOGNITION = "retrieval", "recognition"
USAGES = ("Public", "Private")
_COLUMNS = {RETRIEVAL: "images", RECOGNITION: "landmarks"}
_IGNORED = "Ignored"


@dataclass(frozen=True)
class Solution:
    """The answers of one challenge.

    Attributes:
        path: The file.
        task: `retrieval`, where answers are index photos, or `recognition`, where they are
            landmarks.
        right: Test photo to its answers; in recognition there may be none.
        usage: Test photo to `Public` or `Private`.
        ignored: Test photos that do not count.
    """

    path: Path
    task: str
    right: dict[str, tuple[str, ...]]
    usage: dict[str, str]
    ignored: frozenset[str]


def solution_file(task: str) -> str:
    """What the published file is called."""
    return f"{task}_solution_v2.1.csv"


def read_solution(path: str | Path, task: str) -> Solution:
    """Read `retrieval_solution_v2.1.csv` (id,images,Usage) or `recognition_…` (id,landmarks,Usage).

    Raises:
        SolarError: The file cannot be read, lacks a column, or a line is not what it should be.
    """
    path = Path(path)
    column = _COLUMNS[task]
    right: dict[str, tuple[str, ...]] = {}
    usage: dict[str, str] = {}
    ignored = set()
    for number, (photo, answers, use) in _cells(path, ("id", column, "Usage")):
        if photo in right or photo in ignored:
            raise SolarError(
                f"Line {number} of {path} names the photo {photo} for the second time."
            )
        if use == _IGNORED or (task == RETRIEVAL and answers in ("", "None")):
            ignored.add(photo)
            continue
        if use not in USAGES:
            raise SolarError(
                f"Line {number} of {path} has the Usage {use!r}, not Public, Private or Ignored."
            )
        right[photo], usage[photo] = tuple(answers.split()), use
        if task == RECOGNITION and not all(one.isdecimal() for one in right[photo]):
            raise SolarError(f"Line {number} of {path} has a landmark that is not a number.")
    if not right:
        raise SolarError(f"{path} lists no photo with the Usage Public or Private.")
    return Solution(path, task, right, usage, frozenset(ignored))


def read_predictions(path: str | Path, solution: Solution) -> dict[str, tuple[str, ...]]:
    """Read answers in the form of the challenges: `id,images`, or `id,landmarks` for `5 0.93`.

    Returns:
        Test photo to its answers: index photos, best first; or a landmark and its score.

    Raises:
        SolarError: The file cannot be read, lacks a column, names a photo twice or one that is not
            in the solution, or a landmark or score is no number.
    """
    path = Path(path)
    found: dict[str, tuple[str, ...]] = {}
    for number, (photo, text) in _cells(path, ("id", _COLUMNS[solution.task])):
        if photo in found:
            raise SolarError(
                f"Line {number} of {path} names the photo {photo} for the second time."
            )
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


def _cells(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    heading, rows = headed_rows(path)
    for column in columns:
        if column not in heading:
            raise SolarError(
                f"Line 1 of {path} names no column {column}: write {','.join(columns)}."
            )
    places = [heading.index(column) for column in columns]
    for number, row in rows:
        yield number, tuple(row[place] for place in places)
