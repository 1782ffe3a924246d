"""Solutions and predictions of the challenges, and what is said about wrong ones."""

from pathlib import Path

import pytest

from solar.datasets.public.gldv2_solutions import read_predictions, read_solution
from solar.errors import SolarError

RETRIEVAL = "id,images,Usage\nt1,i1 i2,Public\nt2,None,Ignored\nt3,i3,Private\n"
RECOGNITION = "id,landmarks,Usage\nt1,5 7,Public\nt2,,Public\nt3,9,Private\n"


def write(folder: Path, text: str, name: str = "it.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_solutions_tell_what_counts(tmp_path: Path) -> None:
    retrieval = read_solution(write(tmp_path, RETRIEVAL), "retrieval")
    assert retrieval.right == {"t1": ("i1", "i2"), "t3": ("i3",)}
    assert retrieval.usage == {"t1": "Public", "t3": "Private"}
    assert retrieval.ignored == {"t2"}
    recognition = read_solution(write(tmp_path, RECOGNITION), "recognition")
    assert recognition.right == {"t1": ("5", "7"), "t2": (), "t3": ("9",)}


@pytest.mark.parametrize(
    ("text", "task", "sentence"),
    [
        (RETRIEVAL, "recognition", "Line 1 of .* names no column landmarks"),
        (
            RETRIEVAL.replace("Private", "Secret"),
            "retrieval",
            "Line 4 of .* has the Usage 'Secret'",
        ),
        (RETRIEVAL.replace("t3", "t1"), "retrieval", "Line 4 of .* t1 for the second time"),
        (
            RECOGNITION.replace("9", "x"),
            "recognition",
            "Line 4 of .* landmark that is not a number",
        ),
        (RETRIEVAL.replace(",Private", ""), "retrieval", "Line 4 of .* has 2 cells"),
        ("id,images,Usage\n", "retrieval", "lists no photo with the Usage"),
    ],
)
def test_a_wrong_solution_is_one_sentence(
    tmp_path: Path, text: str, task: str, sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        read_solution(write(tmp_path, text), task)


def test_predictions_are_of_photos_that_count(tmp_path: Path) -> None:
    solution = read_solution(write(tmp_path, RECOGNITION), "recognition")
    path = write(tmp_path, "id,landmarks\nt1,5 0.5 \nt2,\n", "answers.csv")
    assert read_predictions(path, solution) == {"t1": ("5", "0.5")}
    for text, sentence in (
        ("id,landmarks\nt9,5 0.5\n", "t9, which is not in"),
        ("id,landmarks\nt1,5\n", "Line 2 of .* is not a landmark and its score"),
        ("id,landmarks\nt1,5 nan\n", "Line 2 of .* is not a landmark and its score"),
        ("id,landmarks\nt1,5 1\nt1,5 1\n", "t1 for the second time"),
        ("id,images\nt1,5 1\n", "names no column landmarks"),
    ):
        with pytest.raises(SolarError, match=sentence):
            read_predictions(write(tmp_path, text, "answers.csv"), solution)
