import pickle
import random
from collections import Counter
from pathlib import Path

import pytest

from solar.datasets.labelled.sources import read_training_set
from solar.datasets.public.gl18 import build_gl18, write_gl18
from solar.errors import SolarError

# Landmark 7 has forty photos, 8 three (two for validation), 9 one.
TRAIN = {**{f"a{number:02d}": "7" for number in range(40)}, "b0": "8", "z9": "9"}
VAL = {"b1": "8", "b2": "8", "c0": "5"}


def published(folder: Path, order: int = 0) -> Path:
    """The CSVs, with their lines in some order, and the photos."""
    everybody = list({**TRAIN, **VAL, "gone": "7"}.items())
    random.Random(order).shuffle(everybody)
    (folder / "jpg").mkdir(parents=True)
    lines = [f"{name},http://x/{name},{landmark}" for name, landmark in everybody]
    (folder / "train.csv").write_text("\n".join(["id,url,landmark_id", *lines]))
    (folder / "boxes_split1.csv").write_text("id,box\na00,0.1 0.2 0.3 0.4\na01,\n")
    (folder / "boxes_split2.csv").write_text("id,box\nb1,0.5 0.5 0.75 1\nb2,\nc0,0 0 1 1\n")
    for name, _ in everybody:
        if name != "gone":
            (folder / f"jpg/{name}.jpg").touch()
    return folder


def test_the_published_keys_in_plain_data(tmp_path: Path) -> None:
    database = build_gl18(published(tmp_path / "g"))
    assert set(database) == {"train", "val"}
    val = database["val"]
    assert val == {
        "cids": ["b1", "b2", "c0"],
        "cluster": ["8", "8", "5"],
        "qidxs": [0, 1],
        "pidxs": [[1], [0]],
        "bbxs": [[0.5, 0.5, 0.75, 1.0], None],
    }
    train = database["train"]
    assert train["cids"] == sorted(TRAIN)
    assert train["bbxs"][:3] == [[0.1, 0.2, 0.3, 0.4], None, None]
    write_gl18(tmp_path / "db.pkl", database)
    # As the published code reads it.
    assert pickle.loads((tmp_path / "db.pkl").read_bytes()) == database


def test_the_order_of_lines_changes_nothing_and_the_seed_does(tmp_path: Path) -> None:
    first = build_gl18(published(tmp_path / "one", order=1))
    assert build_gl18(published(tmp_path / "two", order=2)) == first
    assert build_gl18(tmp_path / "two", seed=1)["train"]["pidxs"] != first["train"]["pidxs"]


def test_every_photo_with_a_partner_asks_also_the_last(tmp_path: Path) -> None:
    train = build_gl18(published(tmp_path / "g"))["train"]
    asking = {train["cids"][query] for query in train["qidxs"]}
    assert asking == {name for name, landmark in TRAIN.items() if landmark == "7"}


def test_positives_are_others_of_the_landmark_earlier_ones_too(tmp_path: Path) -> None:
    folder = published(tmp_path / "g")
    drawn = Counter()
    for seed in range(50):
        train = build_gl18(folder, seed=seed)["train"]
        for query, [positive] in zip(train["qidxs"], train["pidxs"], strict=True):
            assert positive != query
            assert train["cluster"][positive] == train["cluster"][query]
        drawn.update(positive for [positive] in train["pidxs"])
        earlier = [p < q for q, [p] in zip(train["qidxs"], train["pidxs"], strict=True)]
        assert 5 < sum(earlier) < 35
    # 50 draws each on average: everybody is somebody's positive about as often.
    assert min(drawn.values()) > 20
    assert len(drawn) == 40


def test_there_and_back(tmp_path: Path) -> None:
    folder = published(tmp_path / "g")
    database = build_gl18(folder)
    write_gl18(folder / "db_gl18.pkl", database)
    found = read_training_set(folder / "db_gl18.pkl")
    assert [Path(name).stem for name in found.photos.names] == database["train"]["cids"]
    assert found.photos.places[0] == folder / "jpg/a00.jpg"
    assert found.queries.tolist() == database["train"]["qidxs"]
    assert [numbers.tolist() for numbers in found.positives] == database["train"]["pidxs"]
    assert found.labels == ("7", "8", "9")
    assert len(read_training_set(folder / "db_gl18.pkl", part="val").photos) == 3


def test_photos_that_are_gone_are_counted_or_dropped(tmp_path: Path) -> None:
    folder = published(tmp_path / "g")
    write_gl18(folder / "db_gl18.pkl", build_gl18(folder))
    for name in ("a00", "z9"):
        (folder / f"jpg/{name}.jpg").unlink()
    with pytest.raises(SolarError, match=r"2 of 42 photos of .*jpg/a00\.jpg"):
        read_training_set(folder / "db_gl18.pkl")
    found = read_training_set(folder / "db_gl18.pkl", missing="drop")
    assert len(found) == 40
    assert found.labels == ("7", "8")


def test_a_folder_without_its_photos_is_told(tmp_path: Path) -> None:
    folder = published(tmp_path / "g")
    for path in (folder / "jpg").iterdir():
        path.unlink()
    with pytest.raises(SolarError, match=r"train\.csv"):
        build_gl18(folder)
