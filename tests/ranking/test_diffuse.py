import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.ranking.diffuse import Graph, build_graph, diffuse, mutual_graph
from solar.ranking.neighbours import exact_neighbours

Dense = NDArray[np.float64]


def clouds(seed: int, count: int = 60, dim: int = 6) -> Vectors:
    x = np.random.default_rng(seed).standard_normal((count, dim)) + 0.3
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def dense(graph: Graph) -> Dense:
    out = np.zeros((len(graph), len(graph)))
    for i in range(len(graph)):
        edges = slice(graph.starts[i], graph.starts[i + 1])
        out[i, graph.columns[edges]] = graph.weights[edges]
    return out


def oracle_graph(vectors: Vectors, k: int, gamma: float) -> Dense:
    """The definition, pair by pair."""
    similar = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    np.fill_diagonal(similar, -np.inf)
    near = [set(np.argsort(-s, kind="stable")[:k].tolist()) for s in similar]
    affinity = np.zeros_like(similar)
    for i in range(len(similar)):
        for j in range(len(similar)):
            if i != j and i in near[j] and j in near[i] and similar[i, j] > 0:
                affinity[i, j] = similar[i, j] ** gamma
    degree = affinity.sum(axis=1)
    degree[degree == 0] = 1
    return affinity / np.sqrt(degree[:, None] * degree[None, :])


def graph_of(vectors: Vectors, k: int = 8, gamma: float = 3.0, chunk: int = 1024) -> Graph:
    search = exact_neighbours(vectors)
    return build_graph(len(vectors), search, vectors.__getitem__, k=k, gamma=gamma, chunk=chunk)


@pytest.mark.parametrize("k", [1, 5, 59, 500])
@pytest.mark.parametrize("gamma", [1.0, 3.0])
def test_graph_equals_the_definition(k: int, gamma: float) -> None:
    vectors = clouds(0)
    expected = oracle_graph(vectors, k, gamma)
    np.testing.assert_allclose(dense(graph_of(vectors, k, gamma)), expected, atol=1e-5)


def test_one_neighbour_less_is_the_published_graph() -> None:
    """There a row is the first of its own k neighbours, and then taken off the diagonal."""
    vectors, k = clouds(3), 9
    similar = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    near = np.argsort(-similar, axis=1, kind="stable")[:, :k]
    assert (near[:, 0] == np.arange(len(near))).all()
    listed = np.zeros(similar.shape, bool)
    np.put_along_axis(listed, near, values=True, axis=1)
    affinity = np.where(listed & listed.T & (similar > 0), np.abs(similar) ** 3, 0)
    np.fill_diagonal(affinity, 0)
    degree = np.maximum(affinity.sum(axis=1), 1e-100)
    expected = affinity / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(dense(graph_of(vectors, k - 1)), expected, atol=1e-5)


def test_graph_does_not_depend_on_the_chunks() -> None:
    vectors = clouds(1)
    one, other = graph_of(vectors, chunk=7), graph_of(vectors, chunk=1000)
    np.testing.assert_array_equal(one.columns, other.columns)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-5)


@settings(deadline=None, max_examples=40)
@given(count=st.integers(0, 12), k=st.integers(1, 14), seed=st.integers(0, 2**16))
def test_graph_of_any_lists_is_symmetric_and_contracts(count: int, k: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Approximate indexes: repeats, missing rows, a pair scored differently from its two ends.
    rows = rng.integers(-1, max(count, 1), (count, k))
    scores = rng.uniform(-1, 1, (count, k)).astype(np.float32)
    matrix = dense(mutual_graph(rows, scores, k=k))
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (np.diag(matrix) == 0).all()
    assert (matrix >= 0).all()
    if count:
        assert np.abs(np.linalg.eigvalsh(matrix)).max() < 1 + 1e-5


def test_only_the_first_k_of_longer_lists_count() -> None:
    vectors = clouds(14)
    rows, scores = exact_neighbours(vectors)(vectors, 30)
    np.testing.assert_allclose(
        dense(mutual_graph(rows, scores, k=5)), oracle_graph(vectors, 5, 3.0), atol=1e-5
    )


def test_the_lower_of_two_scores_of_a_pair_counts() -> None:
    rows = np.array([[1, 2], [0, 2], [0, 1]])
    scores = np.array([[0.9, 0.5], [0.7, 0.5], [0.5, 0.5]], np.float32)
    graph = dense(mutual_graph(rows, scores, gamma=1))
    assert graph[0, 1] == pytest.approx(0.7 / 1.2)
    assert graph[1, 0] == graph[0, 1]


def test_scores_too_small_for_their_power_do_not_spoil_the_graph() -> None:
    graph = mutual_graph(np.array([[1], [0]]), np.full((2, 1), 1e-30, np.float32), gamma=20)
    np.testing.assert_allclose(dense(graph), [[0, 1], [1, 0]])


def search(vectors: Vectors, query: Vectors, k: int) -> tuple[NDArray[np.int64], Vectors]:
    rows, scores = exact_neighbours(vectors)(query[None], k)
    return rows[0], scores[0]


@pytest.mark.parametrize("truncate", [60, 25])
@pytest.mark.parametrize("seeds", [1, 5, 100])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_diffused_scores_equal_dense_inversion(truncate: int, seeds: int, alpha: float) -> None:
    vectors = clouds(2, 61)
    query, vectors = vectors[60], vectors[:60]
    rows, scores = search(vectors, query, truncate)
    ranked, diffused = diffuse(
        rows, scores, graph_of(vectors), seeds=seeds, alpha=alpha, iterations=500, tolerance=1e-9
    )
    y = np.where(np.arange(truncate) < seeds, np.maximum(scores.astype(np.float64), 0) ** 3, 0)
    part = oracle_graph(vectors, 8, 3.0)[np.ix_(rows, rows)]
    expected = dict(zip(rows, np.linalg.inv(np.eye(truncate) - alpha * part) @ y, strict=True))
    assert sorted(ranked) == sorted(rows)
    np.testing.assert_allclose(diffused, [expected[row] for row in ranked], atol=1e-4)
    assert (np.diff(diffused) <= 0).all()


def test_default_steps_come_close_to_the_solution() -> None:
    vectors = clouds(3, 301, 8)
    query, vectors = vectors[300], vectors[:300]
    graph = graph_of(vectors, 50)
    rows, scores = search(vectors, query, 300)
    quick, exact = (
        diffuse(rows, scores, graph, **more) for more in ({}, {"iterations": 500, "tolerance": 0})
    )
    in_order = [dict(zip(*result, strict=True)) for result in (quick, exact)]
    a, b = ([scores_of[row] for row in range(300)] for scores_of in in_order)
    np.testing.assert_allclose(a, b, rtol=0.01)


def test_a_chain_is_followed_to_its_end() -> None:
    # Rows 0 to 19 lie along an arc of 150 degrees; the query is near its start. Row 20 is nearer to
    # the query than the end of the arc is, but nothing leads to it.
    angles = np.radians(np.linspace(0, 150, 20))
    arc = np.stack([np.cos(angles), np.sin(angles), np.zeros(20)], axis=1)
    apart = np.array([[np.cos(1.3), 0, np.sin(1.3)]])
    vectors = np.concatenate([arc, apart]).astype(np.float32)
    rows, scores = search(vectors, vectors[0], 21)
    ranked, diffused = diffuse(rows, scores, graph_of(vectors, 3), seeds=3)
    assert list(rows).index(20) < list(rows).index(19)
    assert ranked[-1] == 20
    assert diffused[-1] == 0


def test_without_any_edge_seeds_lead_and_the_order_stays() -> None:
    vectors = np.eye(6, dtype=np.float32)
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, -0.4], np.float32)
    rows = np.array([3, 1, 0, 5, 2, 4])
    ranked, diffused = diffuse(rows, scores, graph_of(vectors), seeds=2)
    np.testing.assert_array_equal(ranked, rows)
    np.testing.assert_allclose(diffused, [0.9**3, 0.8**3, 0, 0, 0, 0], rtol=1e-6)


def test_a_query_unlike_everything_keeps_its_ranking() -> None:
    vectors = clouds(4)
    rows = np.random.default_rng(0).permutation(60)
    ranked, diffused = diffuse(rows, -np.linspace(0, 1, 60, dtype=np.float32), graph_of(vectors))
    np.testing.assert_array_equal(ranked, rows)
    np.testing.assert_array_equal(diffused, 0)


def test_the_numbering_of_rows_does_not_matter() -> None:
    vectors = clouds(5, 61)
    query, vectors = vectors[60], vectors[:60]
    order = np.random.default_rng(1).permutation(60)
    ranked, diffused = diffuse(*search(vectors, query, 40), graph_of(vectors))
    again, same = diffuse(*search(vectors[order], query, 40), graph_of(vectors[order]))
    np.testing.assert_allclose(same, diffused, rtol=1e-4)
    np.testing.assert_array_equal(order[again], ranked)


def test_missing_and_repeated_rows_are_dropped() -> None:
    vectors = clouds(6)
    rows, scores = search(vectors, clouds(7)[0], 20)
    padded = np.concatenate([rows[:5], rows[:2], rows[5:], [-1, -1]])
    filled = np.concatenate([scores[:5], scores[:2], scores[5:], [np.nan, -np.inf]])
    graph = graph_of(vectors)
    for got, expected in zip(
        diffuse(padded, filled, graph), diffuse(rows, scores, graph), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_nothing_found_gives_nothing() -> None:
    ranked, diffused = diffuse(
        np.full(3, -1, np.int64), np.zeros(3, np.float32), graph_of(clouds(8))
    )
    assert ranked.shape == diffused.shape == (0,)


def test_duplicates_share_their_score() -> None:
    vectors = np.repeat(clouds(9, 10), 2, axis=0)
    ranked, diffused = diffuse(*search(vectors, clouds(10)[0], 20), graph_of(vectors, 19), seeds=20)
    of_row = dict(zip(ranked, diffused, strict=True))
    for row in range(0, 20, 2):
        assert of_row[row] == pytest.approx(of_row[row + 1], rel=1e-4)


@pytest.mark.parametrize("alpha", [1.0, 1.5, -0.1, float("nan")])
def test_an_alpha_that_has_no_solution_is_refused(alpha: float) -> None:
    with pytest.raises(SolarError, match=r"use 0 to 0\.99"):
        diffuse(np.array([0]), np.ones(1, np.float32), graph_of(clouds(11)), alpha=alpha)


def test_a_graph_that_is_out_of_date_is_told() -> None:
    with pytest.raises(SolarError, match="Row 60 is not among the 60 of the graph"):
        diffuse(np.array([3, 60]), np.ones(2, np.float32), graph_of(clouds(12)))


def test_a_graph_of_no_neighbours_is_refused() -> None:
    with pytest.raises(SolarError, match="k must be 1 or more"):
        graph_of(clouds(13), 0)
