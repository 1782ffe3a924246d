import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from solar.errors import SolarError
from solar.evaluation import ranks as ranks_module
from solar.evaluation.ranks import best, ranks
from solar.storage.rows import Rows


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def gaussian(n: int, dim: int, seed: int = 0) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal((n, dim)))


def by_sorting(queries: np.ndarray, database: np.ndarray, items: list[np.ndarray]) -> list[list]:
    """Ranks from one stable sort of everything, by the float64 dot product."""
    places = []
    for query, wanted in zip(queries.astype(float), items, strict=True):
        scores = (database.astype(float) * query).sum(axis=1)
        order = np.argsort(-scores, kind="stable").tolist()
        places.append([order.index(row) for row in wanted])
    return places


def listed(found: list[np.ndarray]) -> list[list]:
    return [part.tolist() for part in found]


@st.composite
def tied(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Rows of four halves: length one, every score a multiple of a quarter, ties everywhere."""
    n, nq = draw(st.integers(1, 150)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = np.zeros((n + nq, 6), np.float32)
    for row in rows:
        row[rng.permutation(6)[:4]] = rng.choice([-0.5, 0.5], 4)
    items = [rng.permutation(n)[: rng.integers(0, n + 1)] for _ in range(nq)]
    return rows[:nq], rows[nq:], items


@settings(deadline=None, max_examples=60)
@given(tied(), st.sampled_from(["float32", "float64"]), st.integers(0, 3))
def test_ties_go_to_the_lower_row_as_in_a_stable_sort(
    case: tuple[np.ndarray, np.ndarray, list[np.ndarray]], precision: str, distractors: int
) -> None:
    queries, database, items = case
    extra = np.concatenate([database[:40], queries])[: 20 * distractors]
    found = ranks(
        queries,
        database,
        items,
        distractors=extra if distractors else None,
        precision=precision,
        memory=1,  # chunks of 64 rows
    )
    assert listed(found) == by_sorting(queries, np.concatenate([database, extra]), items)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("dim", [3, 32, 300])
def test_rows_that_differ_in_their_last_bits_are_told_apart(dim: int, precision: str) -> None:
    # A hundred rows around each of five, a few units in the last place away, and exact copies.
    rng = np.random.default_rng(dim)
    database = np.repeat(gaussian(5, dim), 100, axis=0)
    steps = rng.integers(-2, 3, database.shape) * rng.integers(0, 2, (len(database), 1))
    database = (database.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    database = database[rng.permutation(len(database))]
    queries = np.concatenate([gaussian(3, dim, 1), database[:2]])
    items = [rng.permutation(len(database))[:60] for _ in queries]
    found = ranks(queries, database, items, precision=precision, memory=1)
    assert listed(found) == by_sorting(queries, database, items)


def test_chunks_and_precision_change_nothing() -> None:
    database, queries = gaussian(3000, 96), gaussian(7, 96, 1)
    items = [np.random.default_rng(i).permutation(3000)[:50] for i in range(7)]
    expected = by_sorting(queries, database, items)
    for memory in (1, 400_000, 2**26):
        for precision in ("float32", "float64"):
            found = ranks(queries, database, items, precision=precision, memory=memory)
            assert listed(found) == expected


def test_rows_that_are_all_alike_keep_their_order() -> None:
    database = np.repeat(gaussian(1, 16), 500, axis=0)
    [found] = ranks(gaussian(1, 16, 1), database, [np.arange(500)[::-1]], memory=1)
    assert found.tolist() == list(range(500))[::-1]


def test_the_queries_may_be_more_than_are_scored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks_module, "_MOST_QUERIES", 3)
    database = gaussian(90, 8)
    items = [np.arange(i % 4) for i in range(10)]
    assert listed(ranks(database[:10], database, items)) == by_sorting(
        database[:10], database, items
    )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_rows_of_several_files_and_a_mapped_file_rank_like_their_array(
    tmp_path: Path, dtype: str
) -> None:
    database, extra = gaussian(200, 12).astype(dtype), gaussian(150, 12, 2).astype(dtype)
    rows = Rows([database[at : at + 64] for at in range(0, 200, 64)], 12)
    np.save(tmp_path / "extra.npy", extra)
    mapped = np.load(tmp_path / "extra.npy", mmap_mode="r")
    queries, items = gaussian(4, 12, 1), [np.arange(0, 200, 7)] * 4
    found = ranks(queries, rows, items, distractors=mapped, memory=1)
    assert listed(found) == by_sorting(queries, np.concatenate([database, extra]), items)


def test_memory_stays_within_its_bounds(tmp_path: Path) -> None:
    np.save(tmp_path / "big.npy", gaussian(40_000, 64).astype(np.float16))
    mapped = np.load(tmp_path / "big.npy", mmap_mode="r")
    queries, items = gaussian(20, 64, 1), [np.arange(30)] * 20
    tracemalloc.start()
    ranks(queries, mapped, items, precision="float32", memory=2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20  # the database is 10 MiB in float32, its scores 3 MiB


def test_progress_is_told_to_the_last_row() -> None:
    told: list[tuple[int, int]] = []
    database = gaussian(150, 4)
    ranks(
        database[:1],
        database,
        [[0]],
        memory=1,
        progress=lambda _, done, total: told.append((done, total)),
    )
    assert told == [(0, 150), (64, 150), (128, 150), (150, 150)]


def broken(row: int, value: float) -> np.ndarray:
    rows = gaussian(100, 8)
    rows[row] *= value
    return rows


good = gaussian(10, 8)


@pytest.mark.parametrize(
    ("queries", "database", "distractors", "sentence"),
    [
        (good, broken(70, np.nan), None, "Row 70 of the database"),
        (good, broken(70, np.inf), None, "Row 70 of the database"),
        (good, broken(99, 3), None, "Row 99 of the database .* 3,"),
        (good, good, broken(80, 0.5), "Row 80 of the distractors .* 0.5"),
        (broken(3, 2), good, None, "Row 3 of the queries .* 2"),
        (good[0], good, None, "queries .*shape"),
        (good, good[0], None, "database .*shape"),
        (good, gaussian(10, 9), None, "8 numbers and rows of the database 9"),
        (good, good, gaussian(10, 7), "8 numbers and rows of the distractors 7"),
    ],
)
def test_what_is_no_set_of_descriptors_is_refused(
    queries: np.ndarray, database: np.ndarray, distractors: np.ndarray | None, sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        ranks(queries, database, [[0]] * len(queries), distractors=distractors, memory=1)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_rows_of_zeros_come_last_as_what_is_not_finite_in_the_published_sort(
    precision: str,
) -> None:
    database, distractors, queries = gaussian(300, 8), gaussian(40, 8), gaussian(4, 8)
    database[::3] = 0
    distractors[:5] = 0
    everything = np.concatenate([database, distractors])
    published = np.where(everything.any(axis=1, keepdims=True), everything, np.nan)
    items = [np.arange(300)] * 4
    found = ranks(queries, database, items, distractors=distractors, precision=precision, memory=1)
    assert listed(found) == by_sorting(queries, published, items)
    [(first, _)] = best(queries[:1], database, 300)
    assert not database[first[200:]].any()


@pytest.mark.parametrize("row", [-1, 10])
def test_an_item_beyond_the_database_is_refused(row: int) -> None:
    with pytest.raises(SolarError, match=f"row {row} .* 10"):
        ranks(good[:1], good, [[row]])


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(SolarError, match=r"'half': .*float32"):
        ranks(good[:1], good, [[0]], precision="half")


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_way_through_torch_gives_the_same_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    # Where there is no GPU, torch's processor stands in for it.
    device = "cuda" if torch.cuda.is_available() else "cpu:0"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    np.save(tmp_path / "db.npy", gaussian(1000, 64))
    mapped = np.load(tmp_path / "db.npy", mmap_mode="r")
    queries, items = gaussian(5, 64, 1), [np.arange(i, 1000, 37) for i in range(5)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ranks(queries, mapped, items, device=device, precision=precision, memory=1)
    assert listed(found) == by_sorting(queries, mapped, items)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_told() -> None:
    with pytest.raises(SolarError, match="cuda"):
        ranks(good[:1], good, [[0]], device="cuda")


@given(tied(), st.integers(1, 200))
@settings(deadline=None, max_examples=40)
def test_the_best_rows_are_the_first_of_the_full_sort(
    drawn: tuple[np.ndarray, np.ndarray, list[np.ndarray]], count: int
) -> None:
    queries, database, _ = drawn
    half = len(database) // 2
    found = best(queries, database[:half], count, distractors=database[half:], memory=4096)
    for query, (rows, their) in zip(queries.astype(float), found, strict=True):
        scores = (database.astype(float) * query).sum(axis=1)
        assert rows.tolist() == np.argsort(-scores, kind="stable")[:count].tolist()
        assert their.tolist() == scores[rows].tolist()
