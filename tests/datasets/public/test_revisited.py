import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ground_truth

from solar.datasets.public.registry import GROUND_TRUTHS
from solar.datasets.public.revisited import (
    find_ground_truth,
    locate_photos,
    photo_folders,
    read_ground_truth,
)
from solar.errors import SolarError


@pytest.mark.parametrize("dataset", ["roxford5k", "rparis6k"])
def test_the_real_ground_truth_is_read(dataset: str) -> None:
    truth = read_ground_truth(ground_truth.real(f"revisited/gnd_{dataset}.pkl"), dataset)
    assert len(truth.database) == GROUND_TRUTHS[dataset]
    assert len(truth.queries) == 70
    assert all(query.box for query in truth.queries)


def test_the_published_form_is_read(tmp_path: Path) -> None:
    truth = read_ground_truth(ground_truth.write(tmp_path / "gnd.pkl"), "roxford5k")
    entry = ground_truth.entries()[4]
    assert truth.database[3] == "db_003"
    assert truth.queries[4].photo == "query_4"
    assert truth.queries[4].box == (1.5, 2.0, 30.0, 20.5)
    assert {kind: rows.tolist() for kind, rows in truth.queries[4].answers.items()} == {
        kind: entry[kind] for kind in ("easy", "hard", "junk")
    }


def test_the_older_form_has_one_protocol(tmp_path: Path) -> None:
    old = [{"bbx": [0, 0, 9, 9], "ok": [3, 1], "junk": [2]}] * ground_truth.QUERIES
    truth = read_ground_truth(ground_truth.write(tmp_path / "gnd.pkl", gnd=old))
    assert list(truth.protocols) == ["all"]
    assert truth.queries[0].answers["ok"].tolist() == [3, 1]


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_a_pickle_that_would_run_something_is_refused_and_does_not(tmp_path: Path) -> None:
    path = ground_truth.write(tmp_path / "gnd.pkl", extra=Trap(tmp_path / "sprung"))
    with pytest.raises(SolarError, match=r"\w+\.mkdir"):
        read_ground_truth(path)
    assert not (tmp_path / "sprung").exists()
    pickle.loads(path.read_bytes())
    assert (tmp_path / "sprung").exists()  # the trap works


def test_even_harmless_classes_are_refused(tmp_path: Path) -> None:
    path = ground_truth.write(tmp_path / "gnd.pkl", extra=np.arange(3))
    with pytest.raises(SolarError, match="not loaded"):
        read_ground_truth(path)


@pytest.mark.parametrize("data", [b"", b"\x80\x02}q\x00.", b"hello", pickle.dumps([1])[:-2]])
def test_what_is_no_ground_truth_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "gnd.pkl").write_bytes(data)
    with pytest.raises(SolarError, match=r"gnd\.pkl"):
        read_ground_truth(tmp_path / "gnd.pkl")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="No such file"):
        read_ground_truth(tmp_path / "gnd.pkl")


def changed(number: int, **changes: Any) -> list[dict[str, Any]]:
    found = ground_truth.entries()
    found[number].update(changes)
    return found


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gnd": ground_truth.entries()[:-1]}, "for each query"),
        ({"imlist": []}, "empty"),
        ({"imlist": ["a"] * 60}, "twice"),
        ({"imlist": ["a", "b"]}, " 2 photos"),
        ({"gnd": changed(2, junk=[60])}, "junk answer 60 of query 2"),
        ({"gnd": changed(2, easy=[-1])}, "easy answer -1 of query 2"),
        ({"gnd": changed(2, easy=[True])}, "easy answer True"),
        ({"gnd": changed(2, hard="12")}, "hard answers of query 2"),
        ({"gnd": changed(1, easy=[5], junk=[5])}, "query 1 .*twice"),
        ({"gnd": changed(1, bbx=[1, 2, 3])}, "box of query 1"),
        ({"gnd": changed(1, bbx=[5, 2, 3, 9])}, "empty"),
        ({"gnd": [{"bbx": [0, 0, 9, 9]}] * 5}, "query 0 .*easy"),
        ({"gnd": changed(0, ok=[1])}, "easy and hard, or ok"),
        ({"qimlist": [1, 2, 3, 4, 5]}, "query 0 .*photo"),
    ],
)
def test_a_ground_truth_that_contradicts_itself_is_refused(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        read_ground_truth(ground_truth.write(tmp_path / "gnd.pkl", **changes))


def test_the_ground_truth_of_another_named_set_is_refused(tmp_path: Path) -> None:
    names = [f"paris_{i}" for i in range(GROUND_TRUTHS["rparis6k"])]
    path = ground_truth.write(tmp_path / "gnd.pkl", imlist=names)
    with pytest.raises(SolarError, match="rparis6k, not of roxford5k"):
        read_ground_truth(path, "roxford5k")


def test_ones_own_in_json_names_or_numbers_photos(tmp_path: Path) -> None:
    query = {"photo": "q.jpg", "box": [1, 2, 3, 4], "easy": ["b.jpg", 0], "junk": ["c.jpg"]}
    data = {"database": ["a.jpg", "b.jpg", "c.jpg"], "queries": [query, {"photo": "p", "hard": []}]}
    (tmp_path / "own.json").write_text(json.dumps(data))
    truth = read_ground_truth(tmp_path / "own.json")
    assert truth.queries[0].answers["easy"].tolist() == [1, 0]
    assert truth.queries[0].answers["junk"].tolist() == [2]
    assert truth.queries[0].box == (1, 2, 3, 4)
    assert truth.queries[1].box is None


def test_a_name_that_is_not_in_the_database_is_refused(tmp_path: Path) -> None:
    data = {"database": ["a.jpg"], "queries": [{"photo": "q.jpg", "ok": ["z.jpg"]}]}
    (tmp_path / "own.json").write_text(json.dumps(data))
    with pytest.raises(SolarError, match=r"'z\.jpg' of query 0"):
        read_ground_truth(tmp_path / "own.json")


@pytest.mark.parametrize("text", ["{", "[]", '{"database": ["a"]}', '{"queries": []}'])
def test_json_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(SolarError, match="JSON"):
        read_ground_truth(tmp_path / "own.json")


@pytest.mark.parametrize("home", ["", "roxford5k", "test/roxford5k"])
def test_a_named_set_is_found_in_its_root(tmp_path: Path, home: str) -> None:
    folder = tmp_path / home
    (folder / "jpg").mkdir(parents=True)
    (folder / "gnd_roxford5k.pkl").touch()
    for name in ("a", "b"):
        (folder / "jpg" / f"{name}.jpg").touch()
    assert find_ground_truth("roxford5k", tmp_path) == folder / "gnd_roxford5k.pkl"
    photos = locate_photos(["b", "a"], photo_folders("roxford5k", tmp_path))
    assert photos.places == (folder / "jpg/b.jpg", folder / "jpg/a.jpg")
    with pytest.raises(SolarError, match=r"1 of 2 .*c\.jpg"):
        locate_photos(["a", "c"], photo_folders("roxford5k", tmp_path))
    with pytest.raises(SolarError, match="photo x"):
        locate_photos(["x"], photo_folders("roxford5k", tmp_path))


def test_a_root_without_ground_truth_is_told(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"gnd_rparis6k\.pkl"):
        find_ground_truth("rparis6k", tmp_path)
