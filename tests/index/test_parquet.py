import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.running import refused, solar
from support.unit_rows import unit_rows

from solar.errors import SolarError
from solar.images import Stamp
from solar.index import Index
from solar.index.exchange import write_npy, write_parquet
from solar.storage.types import DescriptorSpec, Photo

parquet = pytest.importorskip("pyarrow.parquet", reason='pip install "solar-retrieval[parquet]"')

DIM = 8
NAMES = [f"rome/{number}.jpg" for number in range(10)]
SETTINGS = {"size": 512, "scales": [1.0, 0.5], "mode": "exact", "boxes": {"rome/0.jpg": [1, 2, 3]}}


TOLD = {
    "tags": ("night",),
    "taken": "2019-07-14T18:30:00",
    "position": (45.75, 21.22),
    "camera": "Canon",
    "fields": {"color": "red", "floor": 3},
}
DESCRIBED = [name for name in NAMES if name != NAMES[5]]
VECTORS = unit_rows(0, 10, DIM).numpy().astype(np.float32)[[0, 1, 2, 3, 4, 6, 7, 8, 9]]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Nine photos; of one nobody knows the file."""
    rows = [NAMES.index(name) for name in DESCRIBED]
    stamps = [Stamp(100 + row, 0, f"{row:064x}") if row else None for row in rows]
    photos = [
        Photo(NAMES[row], 640 + row, 480, stamp=s) for row, s in zip(rows, stamps, strict=True)
    ]
    photos[0] = replace(photos[0], **TOLD)
    spec = DescriptorSpec(DIM, "solar-r18", "abc", SETTINGS)
    return Index.create(tmp_path / "photos.solar", VECTORS, photos, spec=spec)


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = Index.batches
    monkeypatch.setattr(Index, "batches", lambda index: batches(index, 4))


def test_a_row_has_all_that_an_index_knows(index: Index, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    file = tmp_path / "photos.parquet"
    assert write_parquet(index, file, progress=lambda *one: told.append(one)) == 9
    assert [done for _, done, _ in told] == [0, 4, 8, 9]
    table = parquet.read_table(file)
    assert table["path"].to_pylist() == DESCRIBED
    assert np.array_equal(np.stack(table["vector"].to_pylist()), VECTORS)
    rows = [NAMES.index(name) for name in DESCRIBED]
    assert table["width"].to_pylist() == [640 + row for row in rows]
    assert table["height"].to_pylist() == [480] * 9
    assert table["bytes"].to_pylist() == [None, *(100 + row for row in rows[1:])]
    assert table["sha256"].to_pylist() == [None, *(f"{row:064x}" for row in rows[1:])]
    told = table.select(["tags", "taken", "latitude", "longitude", "camera", "fields"]).to_pylist()
    assert list(told[0].values())[:5] == [["night"], TOLD["taken"], 45.75, 21.22, "Canon"]
    assert json.loads(told[0]["fields"]) == TOLD["fields"]
    assert set(told[1].values()) == {None}


def test_vectors_have_a_fixed_length_and_are_written_piece_by_piece(
    index: Index, tmp_path: Path
) -> None:
    write_parquet(index, tmp_path / "photos.parquet")
    file = parquet.ParquetFile(tmp_path / "photos.parquet")
    assert str(file.schema_arrow.field("vector").type) == "fixed_size_list<element: float>[8]"
    groups = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert groups == [4, 4, 1]


def test_the_metadata_says_how_vectors_were_made(index: Index, tmp_path: Path) -> None:
    write_parquet(index, tmp_path / "photos.parquet")
    assert json.loads(parquet.read_schema(tmp_path / "photos.parquet").metadata[b"solar"]) == {
        "model": "solar-r18",
        "fingerprint": "abc",
        "dim": DIM,
        "size": 512,
        "scales": [1.0, 0.5],
        "mode": "exact",
    }


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    half = Index.create(tmp_path / "half.solar", VECTORS[:2], NAMES[:2], compress="fp16")
    write_parquet(half, tmp_path / "half.parquet")
    vectors = parquet.read_table(tmp_path / "half.parquet")["vector"]
    assert str(vectors.type) == "fixed_size_list<element: float>[8]"
    halved = VECTORS[:2].astype(np.float16).astype(np.float32)
    assert np.array_equal(np.stack(vectors.to_pylist()), halved)


def test_photos_without_a_size_have_none(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "plain.solar", unit_rows(0, 2, DIM), ["a.jpg", "b.jpg"])
    write_parquet(index, tmp_path / "plain.parquet")
    table = parquet.read_table(tmp_path / "plain.parquet")
    [row, _] = table.drop_columns(["path", "vector"]).to_pylist()
    assert len(row) == 10
    assert set(row.values()) == {None}


def test_an_index_without_photos_becomes_an_empty_table(tmp_path: Path) -> None:
    empty = Index.create(tmp_path / "empty.solar", np.empty((0, DIM), np.float32), [])
    assert write_parquet(empty, tmp_path / "empty.parquet") == 0
    assert parquet.read_table(tmp_path / "empty.parquet").num_rows == 0


def test_a_stop_leaves_the_file_of_before(index: Index, tmp_path: Path) -> None:
    file = tmp_path / "photos.parquet"
    file.write_text("before")

    def stop(step: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parquet(index, file, progress=stop)
    assert file.read_text() == "before"
    assert not list(tmp_path.glob(".solar-*"))


def test_without_pyarrow_a_sentence_says_what_to_install(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SolarError, match=r"pyarrow.*\[parquet\]"):
        write_parquet(index, tmp_path / "photos.parquet")


def test_embeddings_as_an_array_have_their_paths_beside_them(index: Index, tmp_path: Path) -> None:
    assert write_npy(index, tmp_path / "photos.npy") == 9
    assert np.array_equal(np.load(tmp_path / "photos.npy"), VECTORS)
    assert (tmp_path / "photos.txt").read_text().splitlines() == DESCRIBED


def test_the_command_writes_every_kind_and_refuses_a_folder(index: Index, tmp_path: Path) -> None:
    index.close()
    place = tmp_path / "photos.solar"
    kinds = [("--parquet", tmp_path / "a.parquet"), ("--npy", tmp_path / "a.npy")]
    told = solar("index", "export", place, *(one for kind in kinds for one in kind)).stderr
    assert told.count("Wrote 9 rows") == 2
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == len(np.load(tmp_path / "a.npy"))
    assert "folder" in refused("index", "export", place, "--npy", tmp_path)
    assert "--parquet, --h5 or --npy" in refused("index", "export", place)
