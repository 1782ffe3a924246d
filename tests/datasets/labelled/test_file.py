import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from solar.datasets.labelled.file import (
    Landmark,
    TrainingFile,
    read_training_file,
    read_training_pickle,
    sfm_path,
    write_training_file,
)
from solar.datasets.labelled.sources import read_training_set
from solar.errors import SolarError

COMPARED = (
    Landmark("a", ("a/1.jpg", "a/2.jpg", "a/3.jpg"), "train", ((0, 1, 40), (1, 2, 12))),
    Landmark("b", ("b/1.jpg", "b/2.jpg"), "val", ((0, 1, 9),)),
    Landmark("ç", ("c/1.jpg",), "val", ()),
)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for one in COMPARED:
        for name in one.photos:
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return tmp_path / "photos"


def test_there_and_back(photos: Path, tmp_path: Path) -> None:
    content = TrainingFile((photos,), COMPARED, 12)
    write_training_file(tmp_path / "set.json", content)
    assert read_training_file(tmp_path / "set.json") == content
    text = (tmp_path / "set.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert len(text.splitlines()) == 5


def test_file_and_photos_may_move_together(photos: Path, tmp_path: Path) -> None:
    write_training_file(tmp_path / "set.json", TrainingFile((photos,), COMPARED, 12))
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    assert read_training_set(moved / "set.json", part="all").photos.places[0] == (
        moved / "photos/a/1.jpg"
    )


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (9, {0: [1], 1: [0, 2], 2: [1], 3: [4], 4: [3]}),
        (12, {0: [1], 1: [0, 2], 2: [1]}),
        (13, {0: [1], 1: [0]}),
        (None, {0: [1, 2], 1: [0, 2], 2: [0, 1], 3: [4], 4: [3]}),
    ],
)
def test_positives_are_pairs_that_enough_points_agree_on(
    photos: Path, least: int | None, expected: dict[int, list[int]]
) -> None:
    found = TrainingFile((photos,), COMPARED, least).training_set("x")
    asked = zip(found.queries.tolist(), found.positives, strict=True)
    assert {query: sorted(numbers.tolist()) for query, numbers in asked} == expected
    assert len(found) == 6  # the others stay, to be told from


def test_each_part_alone(photos: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    write_training_file(path, TrainingFile((photos,), COMPARED, 9))
    held = read_training_set(path, part="val")
    assert held.labels == ("b", "ç")
    assert held.queries.tolist() == [0, 1]
    with pytest.raises(SolarError, match="has 1 landmark"):
        read_training_set(path)


def test_photos_that_are_gone_are_counted(photos: Path, tmp_path: Path) -> None:
    write_training_file(tmp_path / "set.json", TrainingFile((photos,), COMPARED, 9))
    (photos / "a/2.jpg").unlink()
    with pytest.raises(SolarError, match=r"1 of 6 photos of .*set\.json are missing .*2\.jpg"):
        read_training_set(tmp_path / "set.json", part="all")
    found = read_training_set(tmp_path / "set.json", part="all", missing="drop")
    # Nobody agreed with a/1 and a/3 but a/2.
    assert [found.photos.names[query] for query in found.queries] == ["b/1.jpg", "b/2.jpg"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "other"}, "is not a training set"),
        ({"version": 2}, "of version 2"),
        ({"landmarks": [{"name": "a"}]}, "damaged"),
        ({"landmarks": [{"name": "a", "part": "train", "photos": ["x"], "matches": [[0, 1, 9]]}]},
         "damaged"),
        ({"least": "many"}, "damaged"),
    ],
)  # fmt: skip
def test_another_file_is_refused(
    photos: Path, tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    path = tmp_path / "set.json"
    write_training_file(path, TrainingFile((photos,), COMPARED, 9))
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}))
    with pytest.raises(SolarError, match=sentence):
        read_training_file(path)


def test_no_pair_that_agrees_is_told(photos: Path) -> None:
    with pytest.raises(SolarError, match="match in 100 points: lower `least=`"):
        TrainingFile((photos,), COMPARED, 100).training_set("x")


CIDS = ["abcdef123456", "bbcdef123456", "cccdef654321", "dddd00112233"]


def pickled(path: Path, content: Any) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=2))
    return path


def test_a_photo_is_in_folders_named_by_its_end() -> None:
    assert sfm_path("abcdef123456") == "ims/56/34/12/abcdef123456"


def test_a_database_has_one_positive_a_query(tmp_path: Path) -> None:
    part = {"cids": CIDS, "cluster": [4, 4, 9, 9], "qidxs": [3, 0], "pidxs": [2, 1]}
    path = pickled(tmp_path / "retrieval-SfM-120k.pkl", {"train": part, "val": part})
    for cid in CIDS:
        (tmp_path / sfm_path(cid)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / sfm_path(cid)).touch()
    found = read_training_set(path)
    assert found.queries.tolist() == [0, 3]
    assert [numbers.tolist() for numbers in found.positives] == [[1], [2]]
    assert found.landmarks.tolist() == [0, 0, 1, 1]
    assert found.photos.places[3] == tmp_path / "ims/33/22/11/dddd00112233"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"train": {"cids": []}}, "is not a database of photos"),
        ([1], "is not a database of photos"),
        (
            {"train": {"cids": ["a"], "cluster": ["1"], "qidxs": [0], "pidxs": [[1]]}},
            "names photos that it does not have",
        ),
        (
            {"train": {"cids": ["a"], "cluster": ["1"], "qidxs": [0], "pidxs": []}},
            "names photos that it does not have",
        ),
    ],
)
def test_another_pickle_is_refused(tmp_path: Path, content: object, sentence: str) -> None:
    (tmp_path / "db.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(SolarError, match=sentence):
        read_training_pickle(tmp_path / "db.pkl")
