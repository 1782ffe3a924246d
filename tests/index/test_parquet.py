import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.unit_rows import unit_rows

from solar.describe.store import Store
from solar.errors import SolarError
from solar.images import Stamp
from solar.index import Index
from solar.index.embeddings import open_described
from solar.index.exchange import check_parquet_target, write_parquet

parquet = pytest.importorskip("pyarrow.parquet", reason='pip install "solar-retrieval[parquet]"')

DIM = 8
NAMES = [f"rome/{number}.jpg" for number in range(10)]
SETTINGS = {"size": 512, "scales": [1.0, 0.5], "mode": "exact", "boxes": {"rome/0.jpg": [1, 2, 3]}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Nine photos in three shards; one failed, and of one nobody knows the file."""
    made = Store.create(
        tmp_path / "photos.store",
        NAMES,
        model="solar-r18",
        fingerprint="abc",
        settings=SETTINGS,
        dim=DIM,
        shard_size=4,
    )
    vectors = unit_rows(0, 10, DIM)
    for shard in made.pending():
        names = [name for name in made.source(shard) if name != NAMES[5]]
        rows = [NAMES.index(name) for name in names]
        stamps = {NAMES[row]: Stamp(100 + row, 0, f"{row:064x}") for row in rows if row}
        failed = {NAMES[5]: "torn"} if NAMES[5] in made.source(shard) else {}
        sizes = [(640 + row, 480) for row in rows]
        made.write_shard(shard, vectors[rows], names, sizes, failed, stamps)
    return made


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solar.index.sources.BATCH", 4)


def test_a_row_has_all_that_a_store_knows(store: Store, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    file = tmp_path / "photos.parquet"
    assert write_parquet(store, file, progress=lambda *one: told.append(one)) == 9
    assert [done for _, done, _ in told] == [0, 4, 8, 9]
    table = parquet.read_table(file)
    described = [name for name in NAMES if name != NAMES[5]]
    assert table["path"].to_pylist() == described
    assert np.array_equal(np.stack(table["vector"].to_pylist()), store.vectors())
    rows = [NAMES.index(name) for name in described]
    assert table["width"].to_pylist() == [640 + row for row in rows]
    assert table["height"].to_pylist() == [480] * 9
    assert table["bytes"].to_pylist() == [None, *(100 + row for row in rows[1:])]
    assert table["sha256"].to_pylist() == [None, *(f"{row:064x}" for row in rows[1:])]


def test_vectors_have_a_fixed_length_and_are_written_piece_by_piece(
    store: Store, tmp_path: Path
) -> None:
    write_parquet(store, tmp_path / "photos.parquet")
    file = parquet.ParquetFile(tmp_path / "photos.parquet")
    assert str(file.schema_arrow.field("vector").type) == "fixed_size_list<element: float>[8]"
    groups = [file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)]
    assert groups == [4, 4, 1]


def test_the_metadata_says_how_vectors_were_made(store: Store, tmp_path: Path) -> None:
    write_parquet(store, tmp_path / "photos.parquet")
    assert json.loads(parquet.read_schema(tmp_path / "photos.parquet").metadata[b"solar"]) == {
        "model": "solar-r18",
        "fingerprint": "abc",
        "dim": DIM,
        "size": 512,
        "scales": [1.0, 0.5],
        "mode": "exact",
    }


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"model": "m", "fingerprint": "f", "settings": {}, "dim": DIM}
    half = Store.create(tmp_path / "half.store", NAMES[:2], dtype="float16", **facts)
    half.write_shard(0, unit_rows(0, 2, DIM), NAMES[:2], [(1, 1)] * 2, {})
    write_parquet(half, tmp_path / "half.parquet")
    vectors = parquet.read_table(tmp_path / "half.parquet")["vector"]
    assert str(vectors.type) == "fixed_size_list<element: float>[8]"
    assert np.array_equal(np.stack(vectors.to_pylist()), half.vectors().astype(np.float32))


def test_an_index_gives_the_same_file_as_its_store(store: Store, tmp_path: Path) -> None:
    write_parquet(store, tmp_path / "store.parquet")
    Index.create(tmp_path / "photos.solar", store).close()
    opened = open_described(tmp_path / "photos.solar")
    assert opened is not None
    with opened as index:
        write_parquet(index, tmp_path / "index.parquet")
    tables = [parquet.read_table(tmp_path / f"{name}.parquet") for name in ("store", "index")]
    assert tables[0].equals(tables[1], check_metadata=True)


def test_photos_without_a_size_have_none(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "plain.solar", unit_rows(0, 2, DIM), ["a.jpg", "b.jpg"])
    write_parquet(index, tmp_path / "plain.parquet")
    table = parquet.read_table(tmp_path / "plain.parquet")
    assert (
        table.drop_columns(["path", "vector"]).to_pylist()
        == [{"width": None, "height": None, "bytes": None, "sha256": None}] * 2
    )


def test_a_store_of_unreadable_photos_becomes_an_empty_table(tmp_path: Path) -> None:
    facts: dict[str, Any] = {"model": "m", "fingerprint": "f", "settings": {}, "dim": DIM}
    empty = Store.create(tmp_path / "empty.store", ["a.jpg"], **facts)
    empty.write_shard(0, [], [], [], {"a.jpg": "torn"})
    assert write_parquet(empty, tmp_path / "empty.parquet") == 0
    assert parquet.read_table(tmp_path / "empty.parquet").num_rows == 0


def test_a_stop_leaves_the_file_of_before(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "photos.parquet"
    file.write_text("before")

    def stop(step: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parquet(store, file, progress=stop)
    assert file.read_text() == "before"
    assert not list(tmp_path.glob(".solar-*"))


def test_what_is_neither_store_nor_index_is_left_to_others(tmp_path: Path) -> None:
    assert open_described(tmp_path) is None
    assert open_described(tmp_path / "nowhere") is None


def test_a_folder_in_the_way_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="folder"):
        check_parquet_target(tmp_path)


def test_without_pyarrow_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SolarError, match=r"pyarrow.*\[parquet\]"):
        check_parquet_target(tmp_path / "photos.parquet")
