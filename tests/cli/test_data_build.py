import json
import pickle
from pathlib import Path

import pytest
from support.running import refused, solar

from solar.datasets.labelled.sources import read_training_set
from solar.demo import toy


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    toy.write(tmp_path / "photos", landmarks=3, views=3)
    return tmp_path / "photos"


def test_a_folder_with_a_wrong_and_a_broken_photo(photos: Path, tmp_path: Path) -> None:
    (photos / "landmark-001/broken.jpg").write_bytes(b"no photo")
    wrong = photos / "landmark-000/wrong.jpg"
    wrong.write_bytes((photos / "landmark-002/view-000.jpg").read_bytes())
    done = solar("data", "build", photos, "-o", tmp_path / "set.json", "--verify")
    counts = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[:-1])
    assert counts["photos"] == "10"
    assert counts["landmarks"] == "3"
    assert counts["photos that cannot be read"] == "1"
    assert done.stdout.splitlines()[-1] == f"Written to {tmp_path / 'set.json'}."
    assert "broken.jpg" in done.stderr
    found = read_training_set(tmp_path / "set.json")
    asking = {found.photos.names[query] for query in found.queries}
    assert "landmark-000/wrong.jpg" not in asking
    assert len(asking) >= 6
    assert int(counts["photos with positives"]) == len(asking)


def test_as_json_then_chosen_again(photos: Path, tmp_path: Path) -> None:
    built = json.loads(solar("data", "build", photos, "-o", tmp_path / "a.json", "--json").stdout)
    assert built == {
        "photos": 9,
        "landmarks": 3,
        "queries": 9,
        "positives": 9,
        "singletons": 0,
        "held_out": 0,
        "unreadable": {},
    }
    told = refused(
        "data", "build", tmp_path / "a.json", "-o", tmp_path / "b.json", "--min-inliers", 9
    )
    assert "was not verified" in told


def test_no_labels_is_one_sentence(tmp_path: Path) -> None:
    toy.landmark(0, 0, size=(32, 32)).save(tmp_path / "loose.jpg")
    told = refused("data", "build", tmp_path, "-o", tmp_path / "set.json")
    assert told.startswith("solar: The photo loose.jpg of")


def test_google_landmarks_as_the_published_code_reads_it(tmp_path: Path) -> None:
    (tmp_path / "jpg").mkdir()
    for name in "abcd":
        (tmp_path / f"jpg/{name}.jpg").touch()
    (tmp_path / "train.csv").write_text("id,url,landmark_id\na,x,1\nb,x,1\nc,x,2\nd,x,2\n")
    (tmp_path / "boxes_split2.csv").write_text("id,box\nc,0 0 1 1\nd,0 0 1 1\n")
    done = solar("data", "build", tmp_path, "-o", tmp_path / "db_gl18.pkl")
    assert done.stdout == "train: 2 photos, 2 queries.\nval: 2 photos, 2 queries.\n"
    database = pickle.loads((tmp_path / "db_gl18.pkl").read_bytes())
    assert database["train"]["pidxs"] == [[1], [0]]
