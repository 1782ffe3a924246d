import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from solar.arrays import Vectors
from solar.ranking.diffuse import Graph, diffused, mutual_graph

Dense = NDArray[np.float64]


def clouds(seed: int, count: int = 60, dim: int = 6) -> Vectors:
    x = np.random.default_rng(seed).standard_normal((count, dim)) + 0.3
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def dense(graph: Graph, count: int) -> Dense:
    out = np.zeros((count, count))
    out[graph[0], graph[1]] = graph[2]
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


@pytest.mark.parametrize("k", [1, 5, 59, 500])
@pytest.mark.parametrize("gamma", [1.0, 3.0])
def test_graph_equals_the_definition(k: int, gamma: float) -> None:
    vectors = clouds(0)
    expected = oracle_graph(vectors, k, gamma)
    np.testing.assert_allclose(dense(mutual_graph(vectors, k, gamma), 60), expected, atol=1e-5)


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
    np.testing.assert_allclose(dense(mutual_graph(vectors, k - 1), 60), expected, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(count=st.integers(0, 12), k=st.integers(1, 14), seed=st.integers(0, 2**16))
def test_every_graph_is_symmetric_and_contracts(count: int, k: int, seed: int) -> None:
    matrix = dense(mutual_graph(clouds(seed, count), k), count)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-5)
    assert (np.diag(matrix) == 0).all()
    assert (matrix >= 0).all()
    if count:
        assert np.abs(np.linalg.eigvalsh(matrix)).max() < 1 + 1e-5


def ranked(seed: int, count: int, dim: int = 6) -> tuple[Vectors, Vectors]:
    """The results of a search, the best first, and their scores."""
    vectors = clouds(seed, count + 1, dim)
    scores = vectors[1:] @ vectors[0]
    order = np.argsort(-scores, kind="stable")
    return vectors[1:][order], scores[order]


@pytest.mark.parametrize("seeds", [1, 5, 100])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.99])
def test_diffused_scores_equal_dense_inversion(seeds: int, alpha: float) -> None:
    vectors, scores = ranked(2, 60)
    found = diffused(
        scores, mutual_graph(vectors, 8), seeds=seeds, alpha=alpha, steps=500, tolerance=1e-9
    )
    y = np.where(np.arange(60) < seeds, np.maximum(scores.astype(np.float64), 0) ** 3, 0)
    expected = np.linalg.inv(np.eye(60) - alpha * oracle_graph(vectors, 8, 3.0)) @ y
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_default_steps_come_close_to_the_solution() -> None:
    vectors, scores = ranked(3, 300, 8)
    graph = mutual_graph(vectors)
    exact = diffused(scores, graph, steps=500, tolerance=0)
    np.testing.assert_allclose(diffused(scores, graph), exact, rtol=0.01)


def test_a_chain_is_followed_to_its_end() -> None:
    # Rows 0 to 19 lie along an arc of 150 degrees; the query is at its start. Row 20 is nearer to
    # the query than the end of the arc is, but nothing leads to it.
    angles = np.radians(np.linspace(0, 150, 20))
    arc = np.stack([np.cos(angles), np.sin(angles), np.zeros(20)], axis=1)
    apart = np.array([[np.cos(1.3), 0, np.sin(1.3)]])
    vectors = np.concatenate([arc, apart]).astype(np.float32)
    scores = vectors @ vectors[0]
    order = np.argsort(-scores, kind="stable")
    found = diffused(scores[order], mutual_graph(vectors[order], 3), seeds=3)
    assert order.tolist().index(20) < order.tolist().index(19)
    assert [order[row] for row in np.flatnonzero(found == 0)] == [20]


def test_without_any_edge_seeds_keep_their_scores() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, -0.4], np.float32)
    found = diffused(scores, mutual_graph(np.eye(6, dtype=np.float32)), seeds=2)
    np.testing.assert_allclose(found, [0.9**3, 0.8**3, 0, 0, 0, 0], rtol=1e-6)


def test_a_query_unlike_everything_reaches_nothing() -> None:
    found = diffused(-np.linspace(0, 1, 60, dtype=np.float32), mutual_graph(clouds(4)))
    np.testing.assert_array_equal(found, 0)


def test_nothing_found_gives_nothing() -> None:
    found = diffused(np.zeros(0, np.float32), mutual_graph(clouds(8)[:0]))
    assert found.shape == (0,)


def test_duplicates_share_their_score() -> None:
    vectors = np.repeat(clouds(9, 10), 2, axis=0)
    scores = vectors @ clouds(10)[0]
    order = np.argsort(-scores, kind="stable")
    found = diffused(scores[order], mutual_graph(vectors[order], 19), seeds=20)
    np.testing.assert_allclose(found[::2], found[1::2], rtol=1e-4)
