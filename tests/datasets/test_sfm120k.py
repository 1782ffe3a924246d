import pickle
from pathlib import Path
from typing import Any

import pytest

from solar.datasets.sfm120k import photo_path, read_whitening
from solar.datasets.training import read_training_set
from solar.errors import SolarError

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


def test_pairs_to_learn_a_whitening_from(tmp_path: Path) -> None:
    content = {"cids": CIDS, "qidxs": [0, 3], "pidxs": [1, 2]}
    pairs = read_whitening(pickled(tmp_path / "w.pkl", content), root=tmp_path / "r")
    assert pairs.queries.tolist() == [0, 3]
    assert pairs.positives.tolist() == [1, 2]
    assert pairs.photos.places[0] == tmp_path / "r/ims/56/34/12/abcdef123456"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"cids": CIDS, "qidxs": [0, 3], "pidxs": [1]}, "of the same length"),
        ({"cids": CIDS, "qidxs": [0]}, "it needs cids"),
        ({"cids": CIDS, "qidxs": [0], "pidxs": [4]}, "photos that it does not have"),
    ],
)
def test_pairs_that_are_none_are_refused(tmp_path: Path, content: Any, sentence: str) -> None:
    with pytest.raises(SolarError, match=sentence):
        read_whitening(pickled(tmp_path / "w.pkl", content))
