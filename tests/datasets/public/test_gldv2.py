from pathlib import Path

import numpy as np
import pytest

from solar.datasets.public.gldv2 import (
    photo_ids,
    photo_path,
    read_clean,
    read_predictions,
    read_solution,
    selection,
)
from solar.errors import SolarError

A, B, C, D = "0a1b2c3d4e5f6071", "0a1b2c3d4e5f6072", "fedcba9876543210", "fed0000000000000"
CLEAN = f"landmark_id,images\n20,{C} {A}\n3,{B} {D}\n"
FULL = (
    f'id,url,landmark_id\n{C},http://a/1.jpg,20\n{B},"http://a/2,3.jpg",3\n'
    f"{A},http://a/4.jpg,20\n{D},,3\n"
)


def published(folder: Path, *photos: str, clean: str = CLEAN, full: str = FULL) -> Path:
    """A folder with both lists, and some photos."""
    folder.mkdir(exist_ok=True)
    (folder / "train_clean.csv").write_text(clean)
    (folder / "train.csv").write_text(full)
    for photo in photos:
        file = folder / "train" / photo_path(photo)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return folder


def test_the_clean_list_is_read_in_its_order_with_labels_in_the_order_of_numbers(
    tmp_path: Path,
) -> None:
    found = read_clean(published(tmp_path, A, B, C, D))
    assert list(found.photos.names) == [f"train/{photo_path(photo)}" for photo in (C, A, B, D)]
    assert found.photos.names[0] == "train/f/e/d/fedcba9876543210.jpg"
    assert all(Path(str(found.photos.read(number))).is_file() for number in range(4))
    assert found.labels == ("3", "20")
    assert found.landmarks.dtype == np.int64
    assert found.landmarks.tolist() == [1, 1, 0, 0]


def test_the_list_may_have_any_line_ends_a_mark_and_shorter_ids(tmp_path: Path) -> None:
    clean = "\ufefflandmark_id,images\r\n1,abcd abc \r\n\r\n2,xyz\r\n"
    found = read_clean(published(tmp_path, "abcd", "abc", "xyz", clean=clean))
    assert list(found.photos.names) == [
        "train/a/b/c/abcd.jpg",
        "train/a/b/c/abc.jpg",
        "train/x/y/z/xyz.jpg",
    ]


def test_missing_photos_are_counted_or_dropped_with_the_landmarks_left_empty(
    tmp_path: Path,
) -> None:
    clean = f"{CLEAN}4,{'0' * 16}\n"
    folder = published(tmp_path, A, C, D, clean=clean)
    with pytest.raises(SolarError, match=r"2 of 5 photos of .*csv are missing \(train/0/a/1/0a1b"):
        read_clean(folder)
    found = read_clean(folder, missing="drop")
    assert [Path(name).stem for name in found.photos.names] == [C, A, D]
    assert (found.labels, found.landmarks.tolist()) == (("3", "20"), [1, 1, 0])


def test_one_landmark_is_told_from_nothing(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="one landmark"):
        read_clean(published(tmp_path, A, C), missing="drop")


def test_dropping_every_photo_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="4 of 4 photos"):
        read_clean(published(tmp_path), missing="drop")


@pytest.mark.parametrize(
    ("clean", "sentence"),
    [
        (f"{CLEAN}4,../../secret\n", "Line 4"),
        (f"{CLEAN}4,/etc/passwd\n", "Line 4"),
        (f"{CLEAN}4,ab\n", "Line 4"),
        (f"{CLEAN}4,{'a' * 17}\n", "Line 4"),
        (f"{CLEAN}four,{'a' * 16}\n", "Line 4"),
        (f"{CLEAN}4\n", "Line 4"),
        (f"{CLEAN}4,{'a' * 16} {A}\n", f"Line 4 .*{A}"),
        (f"{CLEAN}3,{'a' * 16}\n", "Line 4 .*landmark 3"),
        ("landmark_id,images\n", "no photo"),
        ("", "Line 1 .* id"),
        (f"id\n{A}\n", "no column landmark_id"),
    ],
)
def test_a_bad_clean_list_is_one_sentence(tmp_path: Path, clean: str, sentence: str) -> None:
    with pytest.raises(SolarError, match=sentence) as caught:
        read_clean(published(tmp_path, clean=clean))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("../../secret,u,3", "Line 6"),
        (f"{'a' * 16},3", "Line 6"),
        (f"{'a' * 16},u,x", "Line 6 .*landmark_id"),
        (f"{A},u,3", f"Line 6 .*{A}"),
    ],
)
def test_a_bad_full_list_is_one_sentence(tmp_path: Path, row: str, sentence: str) -> None:
    with pytest.raises(SolarError, match=sentence):
        photo_ids(published(tmp_path, full=f"{FULL}{row}\n") / "train.csv")


def test_a_list_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"train_clean\.csv"):
        read_clean(tmp_path)


def test_any_list_gives_its_ids_and_a_test_for_them(tmp_path: Path) -> None:
    (tmp_path / "index.csv").write_text(f"id\n{A}\n{B}\n")
    assert photo_ids(tmp_path / "index.csv").tolist() == [A.encode(), B.encode()]
    chosen = selection(tmp_path / "index.csv")
    assert chosen(photo_path(A))
    assert not chosen(photo_path(C))


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
        (RETRIEVAL, "recognition", "Line 1 .*landmarks"),
        (
            RETRIEVAL.replace("Private", "Secret"),
            "retrieval",
            "Line 4 .*'Secret'",
        ),
        (RETRIEVAL.replace("t3", "t1"), "retrieval", "Line 4 .*t1"),
        (
            RECOGNITION.replace("9", "x"),
            "recognition",
            "Line 4 .*landmark",
        ),
        (RETRIEVAL.replace(",Private", ""), "retrieval", "Line 4 .* 2 cells"),
        ("id,images,Usage\n", "retrieval", "Usage"),
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
        ("id,landmarks\nt9,5 0.5\n", "t9"),
        ("id,landmarks\nt1,5\n", "Line 2 .*score"),
        ("id,landmarks\nt1,5 nan\n", "Line 2 .*score"),
        ("id,landmarks\nt1,5 1\nt1,5 1\n", "Line 3 .*t1"),
        ("id,images\nt1,5 1\n", "landmarks"),
    ):
        with pytest.raises(SolarError, match=sentence):
            read_predictions(write(tmp_path, text, "answers.csv"), solution)
