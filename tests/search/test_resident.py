"""Vectors on a device: a CPU stands in for GPUs, but in the last test."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from solar.search import Index, Photo, codes, device_shard, exact, need_vectors, resident
from solar.search.device_shard import DeviceMemoryError, devices_called, largest
from solar.search.diffuse import build_graph
from solar.search.neighbours import nearest_rows
from solar.search.photo_pairs import pairs
from solar.search.resident import ResidentVectors

CPU = torch.device("cpu")
Answers = list[list[tuple[int, float]]]


def unit(seed: int, rows: int, dim: int = 16) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def clustered(seed: int, rows: int, dim: int, spread: float) -> np.ndarray:
    """Rows close to one of five."""
    dice = np.random.default_rng(seed)
    x = unit(seed, 5, dim)[dice.integers(0, 5, rows)]
    x = x + spread * dice.standard_normal(x.shape).astype(np.float32)
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def oracle(
    queries: np.ndarray, vectors: np.ndarray, k: int, present: np.ndarray | None = None
) -> Answers:
    """Sort everything, in double precision, ties by row."""
    rows = np.arange(len(vectors)) if present is None else np.flatnonzero(present)
    scores = (queries.astype(np.float64) @ vectors[rows].astype(np.float64).T).astype(np.float32)
    orders = [np.lexsort((rows, -own))[:k] for own in scores]
    pairs = zip(orders, scores, strict=True)
    return [list(zip(rows[o].tolist(), s[o].tolist(), strict=True)) for o, s in pairs]


def answers(found: resident.Found) -> Answers:
    return [
        [(row, score) for row, score in zip(*pair, strict=True) if row >= 0]
        for pair in zip(*(part.tolist() for part in found), strict=True)
    ]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows of 16 numbers, and several stretches of blocks."""
    monkeypatch.setattr(resident, "_BLOCK", 16 * 320)
    monkeypatch.setattr(device_shard, "_SCORES", 8 * 1000)
    monkeypatch.setattr(device_shard, "_STAGED", 16 * 100)
    monkeypatch.setattr(device_shard, "_EXACT", 16 * 50)


@pytest.fixture
def on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called cuda are two shards on the CPU."""
    monkeypatch.setattr(resident, "devices_called", lambda name: [CPU, CPU])


def room_for(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(resident, "free_memory", lambda device: resident._RESERVE + size)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("whole", [True, False])
def test_answers_equal_a_full_sort(
    shards: int, dtype: type, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = clustered(0, 3000, 16, 0.1).astype(dtype)
    vectors[500:900] = vectors[3]  # more ties than anybody asks for
    queries = np.concatenate(
        [unit(1, 5), np.float32(vectors[3:5]), 100 * unit(2, 1), np.zeros((1, 16), np.float32)]
    )
    present = np.random.default_rng(3).random(len(vectors)) < 0.6
    if not whole:
        room_for(monkeypatch, 3100 * 16 * 2 // shards if dtype == np.float32 else 0)
        if dtype == np.float16:
            monkeypatch.setattr(ResidentVectors, "_room", lambda *_: False)
    held = ResidentVectors([CPU] * shards)
    for k in (1, 40):
        assert answers(held.search(queries, vectors, k)) == oracle(queries, vectors, k)
        found = held.search(queries, vectors, k, present=present)
        assert answers(found) == oracle(queries, vectors, k, present)
    assert held.whole == whole
    numbers = 2 if dtype == np.float16 or not whole else 6
    assert len(vectors) * 16 * numbers <= held.bytes <= 1.1 * len(vectors) * 16 * numbers


@pytest.mark.parametrize("count", [1, 63, 64, 65])
def test_small_collections_give_all_they_have(count: int) -> None:
    vectors, queries = unit(0, count), unit(1, 300)
    found = ResidentVectors([CPU, CPU]).search(queries, vectors, 70)
    assert found[0].shape == (300, 70)
    assert answers(found) == oracle(queries, vectors, 70)
    nothing = ResidentVectors([CPU]).search(queries, vectors[:0], 2)
    assert (nothing[0] == -1).all()


def test_rows_that_float16_cannot_tell_apart_are_ranked_right() -> None:
    vectors = clustered(0, 4000, 64, 3e-5)  # a fifth of a float16's step
    queries = vectors[:5]
    halves = vectors.astype(np.float16).astype(np.float32)
    rounded, truth = oracle(queries, halves, 10), oracle(queries, vectors, 10)
    assert all(
        [row for row, _ in a] != [row for row, _ in b] for a, b in zip(rounded, truth, strict=True)
    )
    assert answers(ResidentVectors([CPU]).search(queries, vectors, 10)) == truth


@pytest.mark.parametrize("dim", [8, 512])
def test_no_product_is_further_from_its_score_than_the_bound(dim: int) -> None:
    vectors, queries = clustered(0, 500, dim, 0.02) * 3, clustered(0, 20, dim, 0.02)
    shard = device_shard.Shard(CPU)
    shard.grow(500, 0, dim, vectors.dtype, whole=False)
    shard.fill(vectors)
    asked = resident._HalfQueries.of(queries, [shard])
    [(_, products)] = shard._products(asked.halves, False)
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1, keepdims=True)
    scores = (queries / lengths) @ vectors.astype(np.float64).T
    errors = np.abs(products[:, :500].half().double().numpy() - scores).max(axis=1)
    slack = asked.slack.numpy()
    assert (2 * errors < slack).all()
    assert (slack < 0.01 * 3).all()  # and yet it leaves few candidates


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**30),
    groups=st.integers(1, 30),
    count=st.integers(1, 40),
    levels=st.integers(1, 500),
)
def test_the_largest_products_are_found_in_groups(
    seed: int, groups: int, count: int, levels: int
) -> None:
    dice = torch.Generator().manual_seed(seed)
    products = torch.randint(levels, (3, 64 * groups), generator=dice).float()
    values, places = largest(products, count)
    assert torch.equal(values, products.topk(min(count, 64 * groups)).values)
    assert torch.equal(products.gather(1, places), values)
    assert all(len(set(own.tolist())) == len(own) for own in places)


# The engine


PHOTOS = [
    Photo(f"{row}.jpg", width=row, tags=("night",) * (row % 2), taken=f"20{row % 20:02}-07-14")
    for row in range(400)
]


@pytest.mark.usefixtures("small_blocks", "on_two")
@pytest.mark.parametrize("compress", ["none", "fp16"])
def test_an_index_on_a_device_follows_every_change(
    tmp_path: Path, compress: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, queries = tmp_path / "photos.solar", unit(1, 6)
    Index.create(address, unit(0, 400), PHOTOS, compress=compress).close()
    plain = need_vectors(Index.open(address))
    held = need_vectors(Index.open(address, device="cuda"))
    moved: list[int] = []
    fill = device_shard.Shard.fill
    monkeypatch.setattr(
        device_shard.Shard, "fill", lambda self, rows: (moved.append(len(rows)), fill(self, rows))
    )

    def alike() -> int:
        for k, where in ((60, None), (5, "tag=night"), (9, ["width>=300", "taken<2009"])):
            found = plain.search_vectors(queries, k, where=where)
            assert held.search_vectors(queries, k, where=where) == found
        assert held.search(queries[0], where="tag=none") == []
        rows, _ = sum(moved), moved.clear()
        return rows

    assert alike() == 400
    held.add(unit(2, 100), [f"new/{row}.jpg" for row in range(100)])
    assert alike() == 100
    held.add(unit(3, 50), [photo.path for photo in PHOTOS[:50]])  # in the place of others
    assert alike() == 50
    plain.remove([f"{row}.jpg" for row in range(60, 90)])
    assert alike() == 0
    held.compact()
    assert alike() == 470
    held.close()
    assert alike() == 470


@pytest.mark.usefixtures("on_two")
def test_codes_are_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "LEAST", 100)
    vectors, queries = unit(0, 400), unit(1, 6)
    names = [f"{row}.jpg" for row in range(400)]
    Index.create(tmp_path / "photos.solar", vectors, names, compress="pq").close()
    monkeypatch.setattr(codes, "read_part", None)
    held = need_vectors(Index.open(tmp_path / "photos.solar", device="cuda"))
    found = held.search_vectors(queries, 9)
    truth = [[(names[row], score) for row, score in own] for own in oracle(queries, vectors, 9)]
    assert [[(hit.path, hit.score) for hit in hits] for hits in found] == truth


@pytest.mark.usefixtures("on_two")
def test_a_reader_of_an_earlier_state_finds_no_later_photos(tmp_path: Path) -> None:
    vectors, queries = unit(0, 300), unit(1, 4)
    held = ResidentVectors([CPU])
    held.search(queries, vectors, 5, stamp=("file", "first", "second"))
    found = held.search(queries, vectors[:200], 5, stamp=("file", "first"))
    assert answers(found) == oracle(queries, vectors[:200], 5)
    assert len(held) == 300


def test_without_room_a_sentence_says_so_and_the_cpu_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors, names = unit(0, 300), [f"{row}.jpg" for row in range(300)]
    index = Index.create(tmp_path / "photos.solar", vectors, names)
    truth = index.search_vectors(unit(1, 3), 5)
    with pytest.warns(
        UserWarning, match=r"^This machine has no device cuda:7: searching on the CPU\.$"
    ):
        absent = need_vectors(Index.open(tmp_path / "photos.solar", device="cuda:7"))
    assert absent.search_vectors(unit(1, 3), 5) == truth
    monkeypatch.setattr(resident, "devices_called", lambda name: [CPU])
    room_for(monkeypatch, 1000)
    small = need_vectors(Index.open(tmp_path / "photos.solar", device="cuda"))
    with pytest.warns(UserWarning, match=r"take 0\.0 GB of GPU memory, and 0\.0 GB are free"):
        assert small.search_vectors(unit(1, 3), 5) == truth
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert small.search_vectors(unit(1, 3), 5) == truth


def test_a_device_that_runs_out_of_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    held, vectors = ResidentVectors([CPU]), unit(0, 300)
    held.search(unit(1, 2), vectors, 5)
    monkeypatch.setattr(device_shard.Shard, "largest", full)
    with pytest.raises(DeviceMemoryError, match="GPU memory"):
        held.search(unit(1, 2), vectors, 5)
    assert len(held) == held.bytes == 0


def test_vectors_too_long_for_float16_are_left_to_the_cpu() -> None:
    with pytest.raises(DeviceMemoryError, match="do not fit into float16"):
        ResidentVectors([CPU]).search(unit(1, 2), unit(0, 300) * 1e6, 5)


def test_cuda_means_every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert devices_called("cuda") == [torch.device("cuda", number) for number in range(3)]
    assert devices_called("cuda:2") == [torch.device("cuda", 2)]
    with pytest.raises(DeviceMemoryError, match="no device cuda:3"):
        devices_called("cuda:3")
    with pytest.raises(DeviceMemoryError, match="no device cuda:first"):
        devices_called("cuda:first")


# Neighbours


@pytest.mark.usefixtures("on_two")
def test_pairs_and_graphs_are_the_same_from_a_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = clustered(0, 300, 16, 0.1)
    vectors[40:80] = vectors[7]
    index = Index.create(
        tmp_path / "photos.solar", vectors, [f"{row:03}.jpg" for row in range(300)]
    )
    plain = list(pairs(index, k=6))
    usual, one = nearest_rows(vectors), nearest_rows(vectors, "cuda")
    monkeypatch.setattr(exact, "scan", None)
    assert list(pairs(index, k=6, device="cuda")) == plain
    monkeypatch.undo()
    graphs = [build_graph(300, search, vectors.__getitem__, k=8) for search in (usual, one)]
    assert np.array_equal(graphs[0].columns, graphs[1].columns)
    assert np.array_equal(graphs[0].weights, graphs[1].weights)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dim", [16, 100, 2048])
def test_a_gpu_gives_the_answers_of_a_full_sort(dim: int) -> None:
    for spread in (3e-5, 0.02, 1.0):
        vectors = clustered(0, 20_000, dim, spread)
        vectors[500:900] = vectors[3]
        queries = np.concatenate([unit(1, 70, dim), vectors[:10]])
        present = np.random.default_rng(3).random(len(vectors)) < 0.6
        held = ResidentVectors(devices_called("cuda"))
        found = (
            held.search(queries, vectors, 100),
            held.search(queries, vectors, 7, present=present),
        )
        assert answers(found[0]) == oracle(queries, vectors, 100)
        assert answers(found[1]) == oracle(queries, vectors, 7, present)
