import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.unit_rows import unit_rows

from solar.errors import SolarError
from solar.index import Index, exchange
from solar.index.exchange import read_h5, write_h5
from solar.sfm.pairs import pairs

h5py: Any = pytest.importorskip("h5py", reason='pip install "solar-retrieval[sfm]"')

NAMES = ["a.jpg", "query/night/1 2.jpg", "Straße/塔.jpg", "b.jpg", "c.jpg"]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "BATCH", 2)


@pytest.fixture
def vectors() -> np.ndarray:
    return unit_rows(0, len(NAMES), 8).numpy().astype(np.float32)


def hloc(path: Path, rows: dict[str, Any], dataset: str = "global_descriptor") -> Path:
    """A file as hloc's extract_features writes it."""
    with h5py.File(path, "a") as file:
        for name, row in rows.items():
            file.create_group(name).create_dataset(dataset, data=row)
    return path


def read(path: Path) -> dict[str, np.ndarray]:
    return {
        name: row for names, rows in read_h5(path) for name, row in zip(names, rows, strict=True)
    }


def test_hloc_reads_what_is_written(tmp_path: Path, vectors: np.ndarray) -> None:
    told: list[tuple[str, int, int]] = []
    with Index.create(tmp_path / "photos.solar", vectors, NAMES) as index:
        file = tmp_path / "global-feats-solar.h5"
        assert write_h5(index, file, progress=lambda *one: told.append(one)) == 5
    assert told[-1] == ("Writing", 5, 5)
    with h5py.File(file) as found:
        for name, vector in zip(NAMES, vectors, strict=True):
            assert np.array_equal(found[name]["global_descriptor"].__array__(), vector)
    assert {name: row.tolist() for name, row in read(file).items()} == {
        name: pytest.approx(row.tolist()) for name, row in zip(NAMES, vectors, strict=True)
    }


def test_what_hloc_wrote_gives_the_pairs_of_an_index(tmp_path: Path, vectors: np.ndarray) -> None:
    halves = {name: (3 * row).astype(np.float16) for name, row in zip(NAMES, vectors, strict=True)}
    file = hloc(tmp_path / "global-feats-netvlad.h5", halves)
    assert np.allclose([np.linalg.norm(row) for row in read(file).values()], 1)
    Index.create(tmp_path / "photos.solar", vectors, NAMES).close()
    ours, theirs = (
        {frozenset(pair) for pair in pairs(source, k=2)}
        for source in (tmp_path / "photos.solar", file)
    )
    assert ours == theirs


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ({}, "holds no dataset 'global_descriptor'"),
        ({"a.jpg": np.ones(4), "b.jpg": np.ones(5)}, "of length 4, but 'b.jpg' has length 5"),
        ({"a.jpg": np.ones((4, 2))}, r"holds float64 of shape \(4, 2\) for 'a.jpg'"),
        ({"a.jpg": np.arange(4)}, "holds int64 of shape"),
        ({"a.jpg": np.float32("nan") * np.ones(4)}, "of 'a.jpg' that is not finite"),
    ],
)
def test_other_files_are_told_of(tmp_path: Path, rows: dict[str, Any], sentence: str) -> None:
    file = hloc(tmp_path / "feats.h5", rows)
    with pytest.raises(SolarError, match=sentence):
        read(file)


def test_local_features_are_not_taken_for_global_ones(tmp_path: Path) -> None:
    file = hloc(tmp_path / "feats-superpoint.h5", {"a.jpg": np.ones((3, 2))}, "keypoints")
    with pytest.raises(SolarError, match="global_descriptor"):
        read(file)


@pytest.mark.parametrize("kept", [0, 100, 1500])
def test_a_damaged_file_is_told_of(tmp_path: Path, kept: int) -> None:
    file = hloc(tmp_path / "feats.h5", {f"{n}.jpg": np.ones(64) for n in range(40)})
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(SolarError, match=r"feats\.h5"):
        read(file)


def test_damage_inside_is_told_of(tmp_path: Path) -> None:
    file = hloc(tmp_path / "feats.h5", {f"{n}.jpg": np.ones(64) for n in range(40)})
    content = bytearray(file.read_bytes())
    content[600:] = bytes(len(content) - 600)
    file.write_bytes(content)
    with pytest.raises(SolarError, match=r"feats\.h5 "):
        read(file)


def test_a_missing_file_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="There is no file"):
        read(tmp_path / "gone.h5")


@pytest.mark.parametrize("name", ["/photos/a.jpg", "a/./b.jpg"])
def test_a_name_that_no_group_can_have_leaves_no_file(tmp_path: Path, name: str) -> None:
    index = Index.create(tmp_path / "i", np.eye(2, dtype=np.float32), ["a/b.jpg", name])
    with index, pytest.raises(SolarError, match="group"):
        write_h5(index, tmp_path / "feats.h5")
    assert not (tmp_path / "feats.h5").exists()


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.create(tmp_path / "i", np.eye(2, dtype=np.float32), ["a.jpg", "b.jpg"])
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(SolarError, match=r"\[sfm\]"):
        write_h5(index, tmp_path / "feats.h5")
