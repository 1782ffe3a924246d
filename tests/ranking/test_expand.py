import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solar.arrays import Floats, RowNumbers, Vectors
from solar.ranking.expand import NEIGHBOURS, Method, augment, expand_query
from solar.ranking.neighbours import exact_neighbours

METHODS: tuple[Method, ...] = ("average", "alpha", "rank")


def unit_rows(count: int, dim: int, seed: int, centre: float = 0.0) -> Vectors:
    x = np.random.default_rng(seed).standard_normal((count, dim)) + centre
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def expanded(queries: Vectors, database: Vectors, method: Method, n: int | None = None) -> Vectors:
    """Every query, expanded with its own neighbours."""
    count = NEIGHBOURS[method] if n is None else n
    rows, scores = exact_neighbours(database)(queries, count)
    how = {"method": method, "n": n}
    return np.array(
        [
            expand_query(q, database[r], s, **how)
            for q, r, s in zip(queries, rows, scores, strict=True)
        ]
    )


def oracle(x: Vectors, others: Vectors, method: Method, n: int) -> NDArray[np.float64]:
    """The definition, one neighbour at a time."""
    total = x.astype(np.float64)
    best = sorted(others.astype(np.float64), key=lambda other: -float(other @ x))[:n]
    for rank, other in enumerate(best, start=1):
        score = float(other @ x)
        weight = {"average": 1.0, "alpha": max(score, 0) ** 3, "rank": 1 - rank / (n + 1)}
        total = total + (weight[method] if score > 0 else 0) * other
    return total / np.linalg.norm(total)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [1, 7, 200])
def test_expanded_queries_equal_the_definition(method: Method, n: int) -> None:
    database, queries = unit_rows(90, 16, 0, 0.2), unit_rows(70, 16, 1, 0.2)
    lists = zip(queries, *exact_neighbours(database)(queries, n), strict=True)
    how = {"method": method, "n": n}
    found = [expand_query(q, database[r], s, **how) for q, r, s in lists]
    expected = np.array([oracle(q, database, method, n) for q in queries])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_published_defaults() -> None:
    database, query = unit_rows(100, 16, 4, 1.0), unit_rows(1, 16, 5, 1.0)
    for method, n in (("average", 9), ("alpha", 50), ("rank", 20)):
        np.testing.assert_allclose(
            expanded(query, database, method)[0],
            oracle(query[0], database, method, n),
            atol=1e-6,
        )


@pytest.mark.parametrize("n", [1, 6, 100])
def test_augmented_vectors_equal_the_definition(n: int) -> None:
    database = unit_rows(40, 8, 6, 0.3)
    found = augment(np.arange(40), exact_neighbours(database), database, n)
    expected = [
        oracle(x, np.delete(database, i, axis=0), "rank", n) for i, x in enumerate(database)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_augmentation_leaves_the_photo_itself_out_among_duplicates() -> None:
    # Four equal rows: with n = 2 a row need not be in its own list of three.
    database = np.repeat(unit_rows(2, 8, 7, 1.0), 4, axis=0)
    augmented = augment(np.arange(8), exact_neighbours(database), database, n=2)
    np.testing.assert_allclose(augmented, database, atol=1e-6)


def test_augmenting_some_rows_equals_the_same_rows_of_the_whole() -> None:
    database = unit_rows(40, 8, 8, 0.3)
    search = exact_neighbours(database)
    whole = augment(np.arange(40), search, database)
    some = augment(np.array([31, 4]), search, database)
    np.testing.assert_allclose(some, whole[[31, 4]], atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(
    method=st.sampled_from(METHODS),
    scores=st.lists(st.floats(-1, 1, width=32), max_size=12),
    n=st.integers(0, 15),
    seed=st.integers(0, 2**16),
)
def test_always_a_unit_vector(method: Method, scores: list[float], n: int, seed: int) -> None:
    vectors = unit_rows(len(scores) + 1, 5, seed)
    given = np.array(scores, np.float32)
    expanded = expand_query(vectors[0], vectors[1:], given, method, n)
    assert expanded.dtype == np.float32
    assert expanded.shape == (5,)
    assert np.linalg.norm(expanded) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_neighbours_that_point_away_do_not_count(method: Method) -> None:
    query = np.array([1, 0, 0], np.float32)
    away = np.array([[0, 1, 0], [-1, 0, 0], [-0.6, 0.8, 0]], np.float32)
    expanded = expand_query(query, away, away @ query, method)
    np.testing.assert_array_equal(expanded, query)


@pytest.mark.parametrize("method", METHODS)
def test_nothing_to_expand_with_leaves_the_query(method: Method) -> None:
    query = unit_rows(1, 4, 9)
    alone = expand_query(
        query[0], np.empty((0, 4), np.float32), np.empty(0, np.float32), method=method
    )
    none_wanted = augment(np.arange(1), exact_neighbours(query), query, n=0)
    np.testing.assert_allclose(alone, query[0], atol=1e-6)
    np.testing.assert_array_equal(none_wanted, query)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_rows_in_the_index_does_not_matter(method: Method) -> None:
    database, queries = unit_rows(60, 16, 12, 0.3), unit_rows(5, 16, 13, 0.3)
    shuffled = database[np.random.default_rng(0).permutation(60)]
    one, other = (expanded(queries, d, method) for d in (database, shuffled))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_scores_above_one_count_as_one() -> None:
    query, other = np.eye(2, dtype=np.float32)
    expanded = expand_query(query, other[None], np.array([1.5], np.float32))
    np.testing.assert_allclose(expanded, [0.5**0.5, 0.5**0.5], atol=1e-6)


def test_wrong_scores_cannot_make_a_vector_of_length_zero() -> None:
    query = np.array([1, 0], np.float32)
    expanded = expand_query(query, -query[None], np.array([1], np.float32))
    np.testing.assert_array_equal(expanded, query)


@pytest.mark.parametrize("filler", [-np.inf, np.nan, 1.0])
def test_places_that_an_index_could_not_fill_are_ignored(filler: float) -> None:
    database, rows = unit_rows(3, 8, 14, 1.0), np.arange(3)
    search = exact_neighbours(database)

    def short(vectors: Vectors, k: int, /) -> tuple[RowNumbers, Floats]:
        rows, scores = search(vectors, k)
        missing = ((0, 0), (0, k - rows.shape[1]))
        return np.pad(rows, missing, constant_values=-1), np.pad(
            scores, missing, constant_values=np.float32(filler)
        )

    np.testing.assert_allclose(
        augment(rows, short, database, n=10),
        augment(rows, search, database, n=10),
    )
