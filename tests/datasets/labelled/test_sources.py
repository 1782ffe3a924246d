import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solar.datasets.labelled.sources import (
    Landmark,
    TrainingFile,
    read_training_file,
    read_training_pickle,
    read_training_set,
    sfm_path,
    write_training_file,
)
from solar.datasets.labelled.training_set import Positives, TrainingSet, label_photos
from solar.errors import SolarError
from solar.images import Photos

NAMES = ("b/1.jpg", "a/1.jpg", "b/2.jpg", "c/1.jpg", "a/2.jpg", "a/3.jpg")


def photos(*names: str) -> Photos:
    return Photos(names, tuple(Path(name) for name in names))


def folder(path: Path, *names: str) -> Path:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(name.encode())
    return path


def asked(found: TrainingSet) -> dict[str, set[str]]:
    """Names of the queries to those of their positives."""
    names = found.photos.names
    return {
        names[query]: {names[number] for number in positives}
        for query, positives in zip(found.queries, found.positives, strict=True)
    }


EVERYBODY = {
    "a/1.jpg": {"a/2.jpg", "a/3.jpg"},
    "a/2.jpg": {"a/1.jpg", "a/3.jpg"},
    "a/3.jpg": {"a/1.jpg", "a/2.jpg"},
    "b/1.jpg": {"b/2.jpg"},
    "b/2.jpg": {"b/1.jpg"},
}


def test_everybody_with_a_partner_asks_for_all_others() -> None:
    found = label_photos(photos(*NAMES), [name[0] for name in NAMES], "x")
    assert asked(found) == EVERYBODY
    assert found.labels == ("a", "b", "c")
    assert found.landmarks.tolist() == [1, 0, 1, 2, 0, 0]
    assert found.queries.tolist() == [0, 1, 2, 4, 5]
    assert found.singletons == 1


def test_a_folder_at_any_depth(tmp_path: Path) -> None:
    found = read_training_set(folder(tmp_path, *(f"train/{name}" for name in NAMES)))
    assert {query.removeprefix("train/") for query in asked(found)} == set(EVERYBODY)
    assert found.labels == ("a", "b", "c")
    assert found.landmarks.dtype == found.queries.dtype == np.int64
    assert found.photos.read(0) == tmp_path / "train/a/1.jpg"


def test_shards_are_one_set_and_read_in_place(tmp_path: Path) -> None:
    made = folder(tmp_path / "made", *NAMES)
    for number in (0, 1):
        with tarfile.open(tmp_path / f"{number}.tar", "w") as shard:
            for name in NAMES[number::2]:
                shard.add(made / name, f"train/{name}")
    found = read_training_set([tmp_path / "0.tar", tmp_path / "1.tar"])
    assert len(asked(found)) == 5
    for number, name in enumerate(found.photos.names):
        assert found.photos.read(number) == name.removeprefix("train/").encode()


def test_the_positives_of_a_large_landmark_take_little_memory() -> None:
    groups = [np.arange(50_000), np.arange(50_000, 50_002)]
    positives = Positives.all_others(groups)
    assert len(positives.numbers) < 110_000
    assert len(positives) == 50_002
    assert sorted([7, *positives[7].tolist()]) == list(range(50_000))
    assert positives[50_000].tolist() == [50_001]


def test_positives_without_some_photos_take_little_memory_too() -> None:
    keep = np.ones(50_002, bool)
    keep[[0, 3, 50_001]] = False
    left = Positives.all_others([np.arange(50_000), np.arange(50_000, 50_002)]).kept(keep)
    assert len(left.numbers) < 110_000
    assert sorted([6, *left[8].tolist()]) == list(range(49_998))  # 8 is the sixth now
    assert left[50_000].tolist() == []


def test_positives_hold_lists_as_they_are() -> None:
    positives = Positives.of([[3, 1], [2], [0, 1, 2]])
    assert [numbers.tolist() for numbers in positives] == [[3, 1], [2], [0, 1, 2]]
    assert [numbers.tolist() for numbers in positives[1:]] == [[2], [0, 1, 2]]
    assert len(Positives.of([])) == 0


def many(order: np.ndarray) -> TrainingSet:
    names = [f"{number % 10}/{number}.jpg" for number in order.tolist()]
    return label_photos(photos(*names), [name[0] for name in names], "x")


def test_a_split_holds_out_whole_landmarks_whatever_the_order_of_photos() -> None:
    train, held = many(np.arange(40)).split(0.3, seed=1)
    assert (len(train.labels), len(held.labels)) == (7, 3)
    assert not set(train.labels) & set(held.labels)
    assert len(train) == len(train.queries) == 28
    assert {name[0] for name in held.photos.names} == set(held.labels)
    for query, positives in asked(held).items():
        assert {name[0] for name in positives} == {query[0]}
        assert len(positives) == 3
    again = many(np.random.default_rng(0).permutation(40)).split(0.3, seed=1)[1]
    assert again.labels == held.labels
    assert any(many(np.arange(40)).split(0.3, seed=s)[1].labels != held.labels for s in range(4))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("1.jpg", "a/1.jpg"), "label"),
        (("a/1.jpg", "a/2.jpg"), "has 1 landmark"),
        (("a/1.jpg", "b/2.jpg"), "No two photos"),
        ((), "no photo"),
    ],
)
def test_nothing_to_learn_from_is_one_sentence(
    tmp_path: Path, names: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        read_training_set(folder(tmp_path, *names))


@pytest.mark.parametrize(
    ("landmarks", "fraction", "sentence"), [(3, 0.5, "too few"), (9, 1.0, "not 1")]
)
def test_a_split_that_cannot_be_made_is_refused(
    landmarks: int, fraction: float, sentence: str
) -> None:
    names = [f"{number}/{view}.jpg" for number in range(landmarks) for view in range(2)]
    found = label_photos(photos(*names), [name[0] for name in names], "x")
    with pytest.raises(SolarError, match=sentence):
        found.split(fraction)


def test_unverified_photos_can_be_left_out_and_lone_ones_stay() -> None:
    """Of tower a and b agree and c is anybody's guess; park has one photo."""
    names = ("tower/a", "tower/b", "tower/c", "park/d")
    data = TrainingSet(
        photos(*names),
        np.array([0, 0, 0, 1]),
        ("tower", "park"),
        np.array([0]),
        Positives.of([np.array([1])]),
    )
    kept = data.verified("a test")
    assert kept.photos.names == ("tower/a", "tower/b", "park/d")
    assert [one.tolist() for one in kept.positives] == [[1]]


COMPARED = (
    Landmark("a", ("a/1.jpg", "a/2.jpg", "a/3.jpg"), "train", ((0, 1, 40), (1, 2, 12))),
    Landmark("b", ("b/1.jpg", "b/2.jpg"), "val", ((0, 1, 9),)),
    Landmark("ç", ("c/1.jpg",), "val", ()),
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    for one in COMPARED:
        for name in one.photos:
            path = tmp_path / "photos" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    return tmp_path / "photos"


def test_there_and_back(written: Path, tmp_path: Path) -> None:
    content = TrainingFile((written,), COMPARED, 12)
    write_training_file(tmp_path / "set.json", content)
    assert read_training_file(tmp_path / "set.json") == content
    text = (tmp_path / "set.json").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert len(text.splitlines()) == 5


def test_file_and_photos_may_move_together(written: Path, tmp_path: Path) -> None:
    write_training_file(tmp_path / "set.json", TrainingFile((written,), COMPARED, 12))
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
    written: Path, least: int | None, expected: dict[int, list[int]]
) -> None:
    found = TrainingFile((written,), COMPARED, least).training_set("x")
    asked = zip(found.queries.tolist(), found.positives, strict=True)
    assert {query: sorted(numbers.tolist()) for query, numbers in asked} == expected
    assert len(found) == 6  # the others stay, to be told from


def test_each_part_alone(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    write_training_file(path, TrainingFile((written,), COMPARED, 9))
    held = read_training_set(path, part="val")
    assert held.labels == ("b", "ç")
    assert held.queries.tolist() == [0, 1]
    with pytest.raises(SolarError, match="has 1 landmark"):
        read_training_set(path)


def test_photos_that_are_gone_are_counted(written: Path, tmp_path: Path) -> None:
    write_training_file(tmp_path / "set.json", TrainingFile((written,), COMPARED, 9))
    (written / "a/2.jpg").unlink()
    with pytest.raises(SolarError, match=r"1 of 6 photos of .*set\.json are missing .*2\.jpg"):
        read_training_set(tmp_path / "set.json", part="all")
    found = read_training_set(tmp_path / "set.json", part="all", missing="drop")
    # Nobody agreed with a/1 and a/3 but a/2.
    assert [found.photos.names[query] for query in found.queries] == ["b/1.jpg", "b/2.jpg"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "other"}, "training set"),
        ({"version": 2}, "version 2"),
        ({"landmarks": [{"name": "a"}]}, "damaged"),
        ({"landmarks": [{"name": "a", "part": "train", "photos": ["x"], "matches": [[0, 1, 9]]}]},
         "damaged"),
        ({"least": "many"}, "damaged"),
    ],
)  # fmt: skip
def test_another_file_is_refused(
    written: Path, tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    path = tmp_path / "set.json"
    write_training_file(path, TrainingFile((written,), COMPARED, 9))
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}))
    with pytest.raises(SolarError, match=sentence):
        read_training_file(path)


def test_no_pair_that_agrees_is_told(written: Path) -> None:
    with pytest.raises(SolarError, match=r"100 .*least="):
        TrainingFile((written,), COMPARED, 100).training_set("x")


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
        ({"train": {"cids": []}}, "database"),
        ([1], "database"),
        (
            {"train": {"cids": ["a"], "cluster": ["1"], "qidxs": [0], "pidxs": [[1]]}},
            "photos",
        ),
        (
            {"train": {"cids": ["a"], "cluster": ["1"], "qidxs": [0], "pidxs": []}},
            "photos",
        ),
    ],
)
def test_another_pickle_is_refused(tmp_path: Path, content: object, sentence: str) -> None:
    (tmp_path / "db.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(SolarError, match=sentence):
        read_training_pickle(tmp_path / "db.pkl")
