import json
import sys
from pathlib import Path

import numpy as np
import pytest
from support.running import solar

from solar.cli import app
from solar.demo import toy
from solar.describe import Store
from solar.errors import SolarError

parquet = pytest.importorskip("pyarrow.parquet", reason='pip install "solar-retrieval[parquet]"')


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collection") / "photos"
    toy.write(folder, landmarks=3, views=2, size=(64, 48))
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 nothing more")
    return folder


def run(*arguments: object) -> None:
    app(["extract", *map(str, arguments)], standalone_mode=False)


@pytest.mark.parametrize("mode", ["fast", "exact"])
def test_the_store_says_how_photos_were_decoded(
    mode: str, photos: Path, model: Path, tmp_path: Path
) -> None:
    run(photos, "-o", tmp_path / "s", "--model", model, "--device", "cpu", f"--{mode}")
    assert Store.open(tmp_path / "s").settings["mode"] == mode


def test_photos_become_a_parquet_file_and_go_on_after_a_stop(
    photos: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "photos.parquet"
    run(photos, "--parquet", file, "--model", model, "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["store"] == str(tmp_path / "photos.store")
    assert (told["processed_now"], told["parquet"]) == (told["photos"], str(file))
    table = parquet.read_table(file)
    assert table["path"].to_pylist() == Store.open(told["store"]).names
    vectors = np.stack(table["vector"].to_pylist())
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    file.unlink()
    run(photos, "--parquet", file, "--model", model, "--json")
    assert json.loads(capsys.readouterr().out)["processed_now"] == 0
    assert parquet.read_table(file).equals(table)


def test_stores_and_indices_become_parquet_files_as_they_are(
    photos: Path, model: Path, tmp_path: Path
) -> None:
    store, index = tmp_path / "photos.store", tmp_path / "photos.solar"
    run(photos, "-o", store, "--model", model)
    app(["index", "build", str(store), "-o", str(index)], standalone_mode=False)
    told = json.loads(solar("extract", index, "--parquet", tmp_path / "i.parquet", "--json").stdout)
    assert told["described"] == 6
    run(store, "--parquet", tmp_path / "s.parquet")
    tables = [parquet.read_table(tmp_path / f"{name}.parquet") for name in "si"]
    assert tables[0].equals(tables[1])
    with pytest.raises(
        SolarError, match=r"photos\.store already holds embeddings: leave out --size"
    ):
        run(store, "--parquet", tmp_path / "s.parquet", "--size", 32)


def test_an_unfinished_store_is_refused(tmp_path: Path) -> None:
    facts = {"model": "m", "fingerprint": "f", "settings": {}, "dim": 4}
    Store.create(tmp_path / "photos.store", ["a.jpg"], **facts)
    with pytest.raises(SolarError, match=r"is unfinished \(0 of 1 shards\)"):
        run(tmp_path / "photos.store", "--parquet", tmp_path / "photos.parquet")
    assert not (tmp_path / "photos.parquet").exists()


def test_the_store_needs_a_name_of_its_own(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"Name the store to write: -o photos\.store\."):
        run(photos)
    with pytest.raises(SolarError, match="store and Parquet"):
        run(photos, "--parquet", tmp_path / "both.store")


def test_without_pyarrow_nothing_is_described(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SolarError, match="pyarrow"):
        run(photos, "--parquet", tmp_path / "photos.parquet")
    assert not list(tmp_path.iterdir())


def test_photos_become_a_file_of_hloc_beside_a_parquet_file(
    photos: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    h5py = pytest.importorskip("h5py", reason='pip install "solar-retrieval[sfm]"')
    table, file = tmp_path / "photos.parquet", tmp_path / "feats.h5"
    run(photos, "--parquet", table, "--h5", file, "--model", model, "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["parquet"], told["h5"]) == (str(table), str(file))
    store = Store.open(tmp_path / "photos.store")
    with h5py.File(file) as found:
        rows = [found[name]["global_descriptor"][()] for name in store.names]
    assert np.array_equal(rows, store.vectors())
    run(tmp_path / "photos.store", "--h5", tmp_path / "again.h5")
    assert (tmp_path / "again.h5").exists()
    with pytest.raises(SolarError, match=r"Parquet file and \.h5"):
        run(photos, "-o", tmp_path / "other.store", "--h5", file, "--parquet", file)


def test_without_h5py_nothing_is_described(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(SolarError, match="h5py"):
        run(photos, "--h5", tmp_path / "feats.h5")
    assert not list(tmp_path.iterdir())
