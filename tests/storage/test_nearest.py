import numpy as np
import pytest

from solar.storage import nearest
from solar.storage.rows import Rows


def unit(seed: int, rows: int, dim: int = 16) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def oracle(query: np.ndarray, vectors: np.ndarray, rows: np.ndarray, k: int) -> list[int]:
    """Sort everything, in double precision, ties by row."""
    scores = (vectors[rows].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
    return rows[np.lexsort((rows, -scores))][:k].tolist()


def found(queries: np.ndarray, vectors: np.ndarray, k: int, *rest: object) -> list[list[int]]:
    rows = nearest.scan(queries, vectors, k, *rest)
    return [[row for row, _ in best] for best in nearest.rank_all(queries, vectors, rows, k)]


@pytest.mark.parametrize("count", [0, 1, 7, 4096, 4097, 20_000])
@pytest.mark.parametrize("k", [1, 10, 300])
def test_scan_and_rank_equal_a_full_sort(count: int, k: int) -> None:
    vectors, queries = unit(0, count), unit(1, 5)
    everything = np.arange(count)
    assert found(queries, vectors, k) == [oracle(q, vectors, everything, k) for q in queries]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.4, 0.9])
def test_only_selected_rows_are_found(share: float) -> None:
    vectors, queries = unit(0, 20_000), unit(1, 3)
    allowed = np.flatnonzero(np.random.default_rng(2).random(len(vectors)) < share)

    def selection(first: int, last: int) -> np.ndarray:
        return allowed[(allowed >= first) & (allowed < last)]

    assert found(queries, vectors, 20, selection) == [
        oracle(q, vectors, allowed, 20) for q in queries
    ]


def test_equal_rows_come_in_the_order_of_their_rows() -> None:
    vectors = np.tile(unit(0, 3, 100), (7000, 1))
    [rows] = found(unit(1, 1, 100), vectors, 40)
    assert rows == sorted(rows)
    assert len({row % 3 for row in rows}) == 1
    assert rows == list(range(rows[0], rows[0] + 120, 3))


def test_many_queries_are_each_answered() -> None:
    vectors, queries = unit(0, 500), unit(1, 600)
    assert found(queries, vectors, 3) == [oracle(q, vectors, np.arange(500), 3) for q in queries]


def test_a_start_leaves_out_what_is_before() -> None:
    vectors, queries = unit(0, 9000), unit(1, 2)
    rows = nearest.scan(queries, vectors, 5, lambda first, last: None, 8990)
    assert all(mine.min() >= 8990 for mine in rows)


@pytest.mark.parametrize("large", [0, 1 << 25], ids=["by torch", "by numpy"])
def test_half_precision_is_ranked_by_what_is_stored(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "LARGE", large)
    vectors, queries = unit(0, 5000).astype(np.float16), unit(1, 4)
    assert found(queries, vectors, 10) == [oracle(q, vectors, np.arange(5000), 10) for q in queries]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("width", [0, 9, 200])
def test_candidates_of_many_queries_are_ranked_as_those_of_each(
    width: int, dtype: type[np.floating]
) -> None:
    vectors, queries = np.repeat(unit(0, 100), 3, axis=0).astype(dtype), unit(1, 7)
    dice = np.random.default_rng(2)
    rows = np.array([dice.permutation(300)[:width] for _ in queries], np.int64)
    rows[dice.random(rows.shape) < 0.2] = -1
    ranked = nearest.rank_all(queries, vectors, rows, 5)
    for query, own, best in zip(queries, rows, ranked, strict=True):
        assert [row for row, _ in best] == oracle(query, vectors, own[own >= 0], 5)
        assert [best] == nearest.rank_all(query[None], vectors, own[None], 5)


def test_a_row_that_is_not_there_is_an_error_and_not_the_end_of_the_process() -> None:
    rows = np.arange(80)[None] + 10**9
    with pytest.raises(IndexError):
        nearest.rank_all(unit(1, 1), unit(0, 100), rows, 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("distinct", [9000, 40], ids=["all different", "many equal"])
def test_one_query_among_many_rows_equals_a_full_sort(
    distinct: int, dtype: type[np.floating], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "LARGE", 0)
    monkeypatch.setattr(nearest, "LARGE", 0)
    monkeypatch.setattr(nearest, "_ALONE", 4096)
    vectors = unit(0, distinct)[np.arange(9000) % distinct].astype(dtype)
    gone = np.array([0, 3, 4100])

    def present(first: int, last: int) -> np.ndarray | None:
        inside = gone[(gone >= first) & (gone < last)]
        return np.setdiff1d(np.arange(first, last), inside) if len(inside) else None

    for query in unit(1, 4):
        kept = np.setdiff1d(np.arange(9000), gone)
        assert found(query[None], vectors, 30, present) == [oracle(query, vectors, kept, 30)]
        [rows] = nearest.scan(query[None], vectors, 30, present, 8990)
        assert rows.min() >= 8990


def test_a_row_behind_the_last_is_refused() -> None:
    vectors, queries = unit(0, 6), unit(1, 2)
    rows = np.array([[0, 5], [3, -1]])
    products = nearest.with_own_rows(queries, vectors, rows)
    expected = np.where(rows < 0, -np.inf, np.einsum("qd,qrd->qr", queries, vectors[rows]))
    np.testing.assert_allclose(products, expected, rtol=1e-5)
    with pytest.raises(IndexError, match="row 6 of 6"):
        nearest.with_own_rows(queries, vectors, rows + (rows == 5))


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("looked_up", [True, False], ids=["in place", "together"])
def test_rows_of_several_arrays_are_multiplied_as_those_of_one(
    queries: int, looked_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 0 if looked_up else 1 << 40
    monkeypatch.setattr(nearest, "_OWN", limit)
    monkeypatch.setattr(nearest, "_OWN_NUMBERS", limit)
    whole, asked = unit(0, 60), unit(1, queries)
    parts = Rows([whole[:7], whole[7:8], whole[8:40], whole[40:]], whole.shape[1])
    rows = np.random.default_rng(2).integers(-1, 60, (queries, 30))
    expected = np.where(rows < 0, -np.inf, np.einsum("qd,qrd->qr", asked, whole[rows]))
    np.testing.assert_allclose(nearest.with_own_rows(asked, parts, rows), expected, rtol=1e-5)
