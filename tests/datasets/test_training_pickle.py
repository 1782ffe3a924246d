import pickle
from pathlib import Path
from typing import Any

import pytest

from solar.datasets.training import read_training_set
from solar.datasets.training_pickle import read_training_pickle, sfm_path
from solar.errors import SolarError

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
