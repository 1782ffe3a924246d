"""What only Milvus has: partitions, indexes, servers that are away."""

import json
import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.milvus_server import MilvusServer
from support.running import python

from solar.errors import SolarError
from solar.index import Index
from solar.storage.milvus import connection as milvus_connection
from solar.storage.milvus.engine import MilvusEngine
from solar.storage.milvus.options import Options, parse_address
from solar.storage.milvus.schema import rows_of
from solar.storage.types import Photo

DIM = 16


def unit(seed: int, rows: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def names(rows: int) -> list[str]:
    return [f"{row}.jpg" for row in range(rows)]


@pytest.fixture
def lite(tmp_path: Path) -> str:
    pytest.importorskip("milvus_lite", reason='pip install "solar-retrieval[milvus]"')
    return f"milvus://{tmp_path}/photos.db"


# Partitions, shards and indexes


@pytest.fixture(scope="module")
def indexes(milvus_address) -> Iterator[tuple[Index, Index]]:
    """DescriptorSpec at the same time: a server spends most of it waiting."""

    def by_country() -> Index:
        address = milvus_address("countries", partition="tag:country/", partitions=4, shards=2)
        countries = ("it", "fr", "jp")
        photos = [Photo(f"{n}.jpg", tags=(f"country/{countries[n % 3]}", "x")) for n in range(60)]
        return Index.create(address, unit(0, 60), photos)

    def graph() -> Index:
        options = {"index": "HNSW", "M": 8, "ef": 200, "partition": "hash", "partitions": 8}
        return Index.create(milvus_address("graph", **options), unit(0, 4000), names(4000))

    with ThreadPoolExecutor() as threads:
        one, other = threads.submit(by_country), threads.submit(graph)
    with one.result() as first, other.result() as second:
        yield first, second


@pytest.fixture(scope="module")
def by_country(indexes: tuple[Index, Index]) -> Index:
    return indexes[0]


@pytest.fixture(scope="module")
def graph(indexes: tuple[Index, Index]) -> Index:
    return indexes[1]


def test_a_search_for_the_tag_of_the_partition_finds_its_photos(by_country: Index) -> None:
    hits = by_country.search(unit(0, 1)[0], 60, where="tag=country/it")
    assert {hit.path for hit in hits} == {f"{n}.jpg" for n in range(0, 60, 3)}
    assert len(by_country.search(unit(0, 1)[0], 60, where="tag=x")) == 60


def test_a_photo_that_moves_to_another_partition_is_there_once(by_country: Index) -> None:
    by_country.add(unit(7, 1), [Photo("0.jpg", tags=("country/jp",))])
    by_country.add(unit(7, 1), [Photo("none.jpg")])
    every = [hit.path for hit in by_country.search(unit(7, 1)[0], 100)]
    assert every.count("0.jpg") == 1
    assert "0.jpg" in {h.path for h in by_country.search(unit(7, 1)[0], 99, where="tag=country/jp")}
    assert by_country.check() == []
    by_country.remove("none.jpg")


def test_a_photo_belongs_to_one_partition(by_country: Index) -> None:
    with pytest.raises(SolarError, match=r"2 tags that begin with 'country/'"):
        by_country.add(unit(0, 1), [Photo("a", tags=("country/it", "country/fr"))])


def test_the_server_made_what_was_asked_for(by_country: Index) -> None:
    facts = by_country.info()
    assert (facts["shards"], facts["partition"]) == (2, "tag:country/")
    if "lite" not in facts["server"].split("-")[0]:
        described = by_country.engine._call("describe_collection")
        assert (described["num_shards"], described["num_partitions"]) == (2, 4)


def test_a_graph_finds_what_exact_search_finds(graph: Index, tmp_path: Path) -> None:
    with graph.copy(tmp_path / "exact.solar") as exact:
        truth = exact.search_vectors(unit(1, 10), 10)
    ours = graph.search_vectors(unit(1, 10), 10)
    both = [{h.path for h in a} & {h.path for h in b} for a, b in zip(truth, ours, strict=True)]
    assert sum(map(len, both)) >= 95


def test_more_photos_than_the_beam_of_the_graph_can_be_asked_for(graph: Index) -> None:
    assert len(graph.search(unit(1, 1)[0], 300)) == 300


def test_the_index_is_built_when_creation_ends(graph: Index) -> None:
    facts = graph.engine._call("describe_index", "vector")
    assert facts["index_type"] == "HNSW"
    assert int(facts["indexed_rows"]) == 4000
    assert graph.info()["rows_not_yet_indexed"] == 0


def test_photos_are_found_by_path_in_partitions_by_hash(graph: Index) -> None:
    for path in names(10):  # one at a time: only its own partition is looked at
        assert path in graph
    assert set(graph.engine.lookup([*names(700), "none.jpg"])) == set(names(700))


def test_who_opens_a_graph_may_search_it_wider(graph: Index, milvus_address) -> None:
    with Index.open(milvus_address("graph", ef=400, consistency="Bounded")) as opened:
        facts = opened.info()
    assert (facts["index"], facts["search"], facts["consistency"]) == (
        "HNSW",
        {"ef": 400},
        "Bounded",
    )
    assert facts["build"] == {"M": 8}


@pytest.mark.parametrize("index", ["IVF_FLAT", "IVF_SQ8", "HNSW_SQ"])
def test_other_indexes_find_a_photo_too(lite: str, index: str) -> None:
    with Index.create(lite, unit(0, 2000), names(2000), index=index, nlist=16) as made:
        assert made.search(unit(0, 9)[8], 1)[0].path == "8.jpg"


def test_an_index_that_the_server_does_not_know_is_one_sentence(milvus_address) -> None:
    with pytest.raises(SolarError, match=r"^Milvus at \S+ refused \(.*\): .*\.$") as failure:
        Index.create(milvus_address("unknown", index="CARDS"), unit(0, 3), names(3))
    assert "\n" not in str(failure.value)
    with pytest.raises(SolarError, match="exist"):
        Index.open(milvus_address("unknown"))


# What was made by others, killed or damaged


def test_a_foreign_collection_is_left_alone(by_country: Index, milvus_address) -> None:
    connection = by_country.engine._connection
    schema = connection.pymilvus.MilvusClient.create_schema(description="holiday")
    schema.add_field("id", connection.pymilvus.DataType.INT64, is_primary=True)
    schema.add_field("vector", connection.pymilvus.DataType.FLOAT_VECTOR, dim=4)
    connection.call("create_collection", "theirs", schema=schema)
    with pytest.raises(SolarError, match="made by solar"):
        Index.open(milvus_address("theirs"))
    with pytest.raises(SolarError, match="already"):
        Index.create(milvus_address("theirs"), unit(0, 1), ["a"])


def test_a_collection_of_another_format_is_one_sentence(by_country: Index, milvus_address) -> None:
    connection = by_country.engine._connection
    facts = json.dumps({"format": 99})
    schema = connection.pymilvus.MilvusClient.create_schema(description=facts)
    schema.add_field("id", connection.pymilvus.DataType.INT64, is_primary=True)
    schema.add_field("vector", connection.pymilvus.DataType.FLOAT_VECTOR, dim=4)
    connection.call("create_collection", "newer", schema=schema, properties={"solar": facts})
    with pytest.raises(SolarError, match=r"has format 99.* format 2"):
        Index.open(milvus_address("newer"))


def test_an_unfinished_collection_is_no_index_and_is_begun_again(
    lite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Index.create(lite, unit(0, 3), names(3)) as index:
        monkeypatch.setattr(milvus_connection.Connection, "close", lambda self: None)
        real = milvus_connection.Connection.call
        monkeypatch.setattr(  # as a killed process, it cleans nothing up
            milvus_connection.Connection,
            "call",
            lambda self, name, *a, **k: (
                None if name == "drop_collection" else real(self, name, *a, **k)
            ),
        )
        with pytest.raises(SolarError, match="finite"):
            Index.create(f"{lite}?collection=photos2", np.full((1, DIM), np.nan), ["a"])
        monkeypatch.undo()
        with pytest.raises(SolarError, match="exist"):
            Index.open(f"{lite}?collection=photos2")
        with Index.create(f"{lite}?collection=photos2", unit(0, 3), names(3)) as second:
            assert (len(second), second.check()) == (3, [])
        assert (len(index), index.check()) == (3, [])


def test_check_finds_a_changed_vector(lite: str) -> None:
    with Index.create(lite, unit(0, 30), names(30)) as index:
        engine = index.engine
        assert isinstance(engine, MilvusEngine)
        [row] = rows_of([Photo("3.jpg")], unit(0, 4)[3:], None)
        engine._call("upsert", [{**row, "vector": unit(5, 1)[0]}])
        assert index.check() == [f"The vector of 3.jpg in {engine._place} is damaged."]


def test_adding_that_breaks_off_says_what_was_written(lite: str) -> None:
    with Index.create(lite, unit(0, 3), names(3)) as index:
        batches = [
            ([Photo("a")], unit(1, 1)),
            ([Photo("b")], np.full((1, DIM), np.nan, np.float32)),
        ]
        with pytest.raises(
            SolarError, match=r"^The vector of b .*; 1 photos were already written.*\.$"
        ):
            index.engine.add(batches)
        assert index.engine.add([batches[0]]) == 1
        assert len(index) == 4


@pytest.mark.parametrize(
    "photo", [Photo("a" * 5000), Photo("a", tags=("x" * 2000,)), Photo("a", tags=("x",) * 300)]
)
def test_what_is_too_long_for_milvus_is_one_sentence(lite: str, photo: Photo) -> None:
    with pytest.raises(SolarError, match=r"(longer|more) than .*\.$"):
        Index.create(lite, unit(0, 1), [photo])


def test_more_photos_than_milvus_finds_is_one_sentence(lite: str) -> None:
    with (
        Index.create(lite, unit(0, 1), ["a"]) as index,
        pytest.raises(SolarError, match="at most 16384"),
    ):
        index.search(unit(0, 1)[0], 20_000)


# Servers that are away


def test_calls_are_repeated_until_the_server_answers(
    milvus_server: MilvusServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = parse_address(f"milvus://{milvus_server.address}/sleepy")
    connection = milvus_connection.Connection(place, Options(timeout=0.3, retries=50))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            milvus_server.wake()

    monkeypatch.setattr(milvus_connection.time, "sleep", pause)
    with milvus_server.frozen():
        assert connection.call("has_collection", "sleepy") is False
    connection.close()
    assert len(pauses) >= 3
    assert pauses[2] > pauses[0]


def test_a_server_that_does_not_answer_is_one_sentence(milvus_server: MilvusServer) -> None:
    place = parse_address(f"milvus://{milvus_server.address}/sleepy")
    connection = milvus_connection.Connection(place, Options(timeout=0.3, retries=1))
    with (
        milvus_server.frozen(),
        pytest.raises(SolarError, match=rf"^No Milvus server answers at {place.server}: .*\.$"),
    ):
        connection.call("has_collection", "sleepy")
    connection.close()


def test_a_server_that_is_down_is_one_sentence() -> None:
    pytest.importorskip("pymilvus")
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SolarError, match=rf"^No Milvus server answers at {address}: .*\.$"):
            Index.open(f"milvus://{address}/photos?timeout=0.5")


def test_failures_are_not_logged_with_tracebacks(
    lite: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SolarError, match="exist"):
        Index.open(lite)
    assert not logging.getLogger("pymilvus").isEnabledFor(logging.ERROR)
    assert capfd.readouterr().err == ""


def test_without_pymilvus_a_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(SolarError, match=r"solar-retrieval\[milvus\]"):
        Index.open("milvus://127.0.0.1/photos")


# Milvus Lite


def test_a_closed_file_may_be_opened_by_another_process(lite: str) -> None:
    first = Index.create(lite, unit(0, 5), names(5))
    second = Index.open(lite)
    first.close()
    assert len(second) == 5  # closing one leaves the other
    code = f"from solar.index import Index; print(len(Index.open({lite!r})))"
    held = subprocess.run([*python(), "-c", code], capture_output=True, text=True, timeout=120)
    assert "another process may use it" in held.stderr
    second.close()
    free = subprocess.run([*python(), "-c", code], capture_output=True, text=True, timeout=120)
    assert free.stdout == "5\n", free.stderr


def test_a_file_in_no_folder_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("milvus_lite")
    with pytest.raises(SolarError, match="opened"):
        Index.open(f"milvus://{tmp_path}/none/photos.db")


def test_names_in_a_file_of_milvus_lite_change_one_after_the_other(
    lite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pymilvus import MilvusClient

    rename, inside, most = MilvusClient.rename_collection, list[str](), list[int]()

    def slow(client: MilvusClient, old: str, *rest: object, **named: object) -> None:
        inside.append(old)
        most.append(len(inside))
        time.sleep(0.05)
        rename(client, old, *rest, **named)
        inside.remove(old)

    monkeypatch.setattr(MilvusClient, "rename_collection", slow)

    def create(name: str) -> None:
        Index.create(f"{lite}?collection={name}", unit(0, 3), names(3)).close()

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(create, "xyz"))
    assert most == [1, 1, 1]
