import pickle
from pathlib import Path
from typing import Any

from solar.datasets.sfm120k import photo_path
from solar.datasets.training import read_training_set

CIDS = ["abcdef123456", "bbcdef123456", "cccdef654321", "dddd00112233"]


def pickled(path: Path, content: Any) -> Path:
    path.write_bytes(pickle.dumps(content, protocol=2))
    return path


def test_a_photo_is_in_folders_named_by_its_end() -> None:
    assert photo_path("abcdef123456") == "ims/56/34/12/abcdef123456"


def test_a_database_has_one_positive_a_query(tmp_path: Path) -> None:
    part = {"cids": CIDS, "cluster": [4, 4, 9, 9], "qidxs": [3, 0], "pidxs": [2, 1]}
    path = pickled(tmp_path / "retrieval-SfM-120k.pkl", {"train": part, "val": part})
    for cid in CIDS:
        (tmp_path / photo_path(cid)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / photo_path(cid)).touch()
    found = read_training_set(path)
    assert found.queries.tolist() == [0, 3]
    assert [numbers.tolist() for numbers in found.positives] == [[1], [2]]
    assert found.landmarks.tolist() == [0, 0, 1, 1]
    assert found.photos.places[3] == tmp_path / "ims/33/22/11/dddd00112233"
