"""Vectors on a device: a CPU stands in for GPUs, but in the last test."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from solar.index import Index
from solar.ranking.neighbours import nearest_rows
from solar.sfm.pairs import pairs
from solar.storage import compression, gpu_search, nearest
from solar.storage.gpu_search import GpuVectors, devices_called
from solar.storage.types import Photo

CPU = torch.device("cpu")
NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
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
    scores = np.minimum(scores, 1)  # as cosines are, those of rounded rows, too
    pairs = zip(orders, scores, strict=True)
    return [list(zip(rows[o].tolist(), s[o].tolist(), strict=True)) for o, s in pairs]


def search(
    held: GpuVectors,
    queries: np.ndarray,
    vectors: np.ndarray,
    k: int,
    stamp: tuple[str, ...] = ("all",),
    present: np.ndarray | None = None,
) -> Answers:
    """The candidates, ranked as an index ranks them."""
    candidates = held.candidates(queries, vectors, k, stamp, present)
    assert candidates is not None
    return nearest.rank_all(queries, vectors, candidates, k)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows of 16 numbers, filled by several pieces."""
    monkeypatch.setattr(gpu_search, "_BLOCK", 16 * 320)
    monkeypatch.setattr(gpu_search, "_PIECE", 16 * 100)


@pytest.fixture
def on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called cuda are two shards on the CPU."""
    monkeypatch.setattr(gpu_search, "devices_called", lambda name: [CPU, CPU])


def room_for(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(gpu_search, "free_memory", lambda device: gpu_search._RESERVE + size)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_answers_equal_a_full_sort(devices: int, dtype: type) -> None:
    vectors = clustered(0, 3000, 16, 0.1).astype(dtype)
    vectors[500:900] = vectors[3]  # more ties than anybody asks for
    queries = np.concatenate(
        [unit(1, 5), np.float32(vectors[3:5]), unit(2, 1) / 100, np.zeros((1, 16), np.float32)]
    )
    present = np.random.default_rng(3).random(len(vectors)) < 0.6
    held = GpuVectors([CPU] * devices)
    for k in (1, 40):
        assert search(held, queries, vectors, k) == oracle(queries, vectors, k)
        found = search(held, queries, vectors, k, present=present)
        assert found == oracle(queries, vectors, k, present)
    assert held.bytes == vectors.nbytes


@pytest.mark.parametrize("count", [1, 85, 86, 87])
def test_small_collections_give_all_they_have(count: int) -> None:
    vectors, queries = unit(0, count), unit(1, 300)
    held = GpuVectors([CPU, CPU])
    assert search(held, queries, vectors, 70) == oracle(queries, vectors, 70)
    assert search(held, queries, vectors[:0], 2, stamp=("none",)) == [[]] * 300
    assert search(held, queries[:0], vectors, 2) == []


def test_rows_that_products_cannot_tell_apart_are_ranked_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu_search, "_RANKED", 100)
    vectors = clustered(0, 4000, 64, 3e-5)
    queries = vectors[:5]
    assert search(GpuVectors([CPU]), queries, vectors, 10) == oracle(queries, vectors, 10)


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
    plain = Index.open(address)
    held = Index.open(address, device="cuda")
    moved: list[int] = []
    load = GpuVectors._load_block

    def counted(self: GpuVectors, vectors: np.ndarray) -> None:
        before = len(self)
        load(self, vectors)
        moved.append(len(self) - before)

    monkeypatch.setattr(GpuVectors, "_load_block", counted)

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
    monkeypatch.setattr(compression, "LEAST", 100)
    vectors, queries = unit(0, 400), unit(1, 6)
    names = [f"{row}.jpg" for row in range(400)]
    Index.create(tmp_path / "photos.solar", vectors, names, compress="pq").close()
    monkeypatch.setattr(compression, "read_part", None)
    held = Index.open(tmp_path / "photos.solar", device="cuda")
    found = held.search_vectors(queries, 9)
    truth = [[(names[row], score) for row, score in own] for own in oracle(queries, vectors, 9)]
    assert [[(hit.path, hit.score) for hit in hits] for hits in found] == truth


def test_a_reader_of_an_earlier_state_finds_no_later_photos() -> None:
    vectors, queries = unit(0, 300), unit(1, 4)
    held = GpuVectors([CPU])
    search(held, queries, vectors, 5, stamp=("file", "first", "second"))
    found = search(held, queries, vectors[:200], 5, stamp=("file", "first"))
    assert found == oracle(queries, vectors[:200], 5)
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
        absent = Index.open(tmp_path / "photos.solar", device="cuda:7")
    assert absent.search_vectors(unit(1, 3), 5) == truth
    monkeypatch.setattr(gpu_search, "devices_called", lambda name: [CPU])
    room_for(monkeypatch, 1000)
    small = Index.open(tmp_path / "photos.solar", device="cuda")
    with pytest.warns(UserWarning, match=r"take 0\.0 GB of GPU memory, and 0\.0 GB are free"):
        assert small.search_vectors(unit(1, 3), 5) == truth
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert small.search_vectors(unit(1, 3), 5) == truth


def test_a_device_that_runs_out_of_memory_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    held, vectors = GpuVectors([CPU]), unit(0, 300)
    search(held, unit(1, 2), vectors, 5)
    monkeypatch.setattr(torch.Tensor, "topk", full)
    with pytest.warns(UserWarning, match="GPU memory"):
        assert held.candidates(unit(1, 2), vectors, 5, ("all",)) is None
    assert len(held) == held.bytes == 0


def test_cuda_means_every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert devices_called("cuda") == [torch.device("cuda", number) for number in range(3)]
    assert devices_called("cuda:2") == [torch.device("cuda", 2)]
    for name in ("cuda:3", "cuda:first"):
        with pytest.warns(UserWarning, match=f"no device {name}"):
            assert devices_called(name) == []


# Neighbours


@pytest.mark.usefixtures("on_two")
def test_pairs_and_neighbours_are_the_same_from_a_device(tmp_path: Path) -> None:
    vectors = clustered(0, 300, 16, 0.1)
    vectors[40:80] = vectors[7]
    index = Index.create(
        tmp_path / "photos.solar", vectors, [f"{row:03}.jpg" for row in range(300)]
    )
    plain = list(pairs(index, k=6))
    assert list(pairs(index, k=6, device="cuda")) == plain
    usual, one = (nearest_rows(vectors, device)(vectors, 8) for device in (None, "cuda"))
    assert np.array_equal(usual[0], one[0])
    assert np.array_equal(usual[1], one[1])


@pytest.mark.parametrize("device", [CPU, pytest.param("cuda", marks=NEEDS_CUDA)], ids=str)
@pytest.mark.parametrize("dim", [16, 100, 2048])
def test_a_device_gives_the_answers_of_a_full_sort(dim: int, device: torch.device | str) -> None:
    for spread in (3e-5, 0.02, 1.0):
        vectors = clustered(0, 20_000, dim, spread)
        vectors[500:900] = vectors[3]
        queries = np.concatenate([unit(1, 70, dim), vectors[:10]])
        present = np.random.default_rng(3).random(len(vectors)) < 0.6
        held = GpuVectors(devices_called(str(device)))
        for dtype in (np.float32, np.float16):
            stored, stamp = vectors.astype(dtype), (np.dtype(dtype).name,)
            assert search(held, queries, stored, 100, stamp) == oracle(queries, stored, 100)
            found = search(held, queries, stored, 7, stamp, present)
            assert found == oracle(queries, stored, 7, present)
