from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from solar.arrays import RowNumbers, Vectors
from solar.ranking.neighbours import exact_neighbours
from solar.ranking.superglobal import refinement, superglobal

GOLDEN = Path(__file__).parents[1] / "golden" / "superglobal.npz"


def unit_rows(count: int, seed: int, dim: int = 12, centre: float = 0.3) -> Vectors:
    x = np.random.default_rng(seed).standard_normal((count, dim)) + centre
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def ranked(database: Vectors, query: Vectors, k: int) -> RowNumbers:
    return exact_neighbours(database)(query[None], k)[0][0]


def oracle(query: Vectors, vectors: Vectors, k: int, beta: float) -> NDArray[np.float64]:
    """The three steps, one result at a time."""
    refined = []
    for i, x in enumerate(vectors.astype(np.float64)):
        others = [(float(x @ other), j) for j, other in enumerate(vectors) if j != i]
        total, weights = x, 1.0
        for score, j in sorted(others, key=lambda pair: -pair[0])[:k]:
            weight = beta * score
            total, weights = total + weight * vectors[j], weights + weight
        refined.append(total / weights)
    products = [float(r @ query) for r in refined]
    best = sorted(range(len(vectors)), key=lambda i: -products[i])[: k + 1]
    second = np.max([refined[i] for i in best], axis=0)
    return np.array([(float(r @ query) + float(r @ second)) / 2 for r in refined])


@pytest.mark.parametrize("setting", [0, 1])
def test_rankings_and_scores_are_those_of_the_published_code(setting: int) -> None:
    with np.load(GOLDEN) as golden:
        gallery, queries = golden["gallery"], golden["queries"]
        top, neighbours, beta = golden[f"{setting}_setting"].tolist()
        initial, expected = golden[f"{setting}_initial"], golden[f"{setting}_ranking"]
        augmented = golden[f"{setting}_augmented_scores"]
    top, neighbours = int(top), int(neighbours)
    for number, query in enumerate(queries):
        rows = ranked(gallery, query, len(gallery))
        np.testing.assert_array_equal(rows[:100], initial[number])
        best = gallery[rows[:top]]
        found = superglobal(query, best, neighbours=neighbours, beta=beta)
        got = rows[:top][np.argsort(-found, kind="stable")]
        np.testing.assert_array_equal([*got, *rows[top:]][:100], expected[number])
        scores = refinement(best, neighbours, beta) @ (best @ query)
        np.testing.assert_allclose(scores[:20], augmented[number], rtol=1e-5)


@pytest.mark.parametrize(("k", "beta"), [(9, 0.15), (3, 1.0), (0, 0.15), (9, 0.0), (500, 0.02)])
def test_scores_equal_the_definition(k: int, beta: float) -> None:
    database, query = unit_rows(80, 0), unit_rows(1, 1)[0]
    scores = superglobal(query, database, neighbours=k, beta=beta)
    np.testing.assert_allclose(scores, oracle(query, database, k, beta), atol=1e-5)
    assert scores.dtype == np.float32


def test_published_defaults() -> None:
    database, query = unit_rows(400, 2), unit_rows(1, 3)[0]
    same = superglobal(query, database, neighbours=9, beta=0.15)
    np.testing.assert_array_equal(superglobal(query, database), same)


def test_a_result_with_good_company_overtakes_a_lonely_one() -> None:
    # Row 5 resembles the query a little more than row 4 does, which is like the four best.
    query = np.eye(8, dtype=np.float32)[0]
    rng = np.random.default_rng(4)
    company = np.tile([0.8, 0.6, 0, 0, 0, 0, 0, 0], (5, 1)) + 0.02 * rng.standard_normal((5, 8))
    company[4] = [0.7, 0.714, 0, 0, 0, 0, 0, 0]
    lonely = np.array([[0.72, 0, 0.694, 0, 0, 0, 0, 0]])
    database = np.concatenate([company, lonely])
    database = (database / np.linalg.norm(database, axis=1, keepdims=True)).astype(np.float32)
    assert ranked(database, query, 6).tolist()[-2:] == [5, 4]
    scores = superglobal(query, database, neighbours=4)
    assert np.argsort(-scores, kind="stable").tolist()[-2:] == [4, 5]


def test_unrelated_results_keep_their_order() -> None:
    # No result resembles another, so each stays itself and the second query favours none.
    query = np.array([0.7, 0.5, 0.4, 0.25, 0.15, 0.1], np.float32)
    scores = superglobal(query / np.linalg.norm(query), np.eye(6, dtype=np.float32))
    assert np.argsort(-scores, kind="stable").tolist() == [0, 1, 2, 3, 4, 5]


def test_the_order_of_the_results_does_not_matter() -> None:
    database, query = unit_rows(60, 5), unit_rows(1, 6)[0]
    order = np.random.default_rng(0).permutation(60)
    scores, again = superglobal(query, database), superglobal(query, database[order])
    np.testing.assert_allclose(again, scores[order], atol=1e-6)


def test_duplicates_share_their_score() -> None:
    database, query = np.repeat(unit_rows(10, 7), 2, axis=0), unit_rows(1, 8)[0]
    scores = superglobal(query, database, neighbours=1)
    np.testing.assert_allclose(scores[::2], scores[1::2], atol=1e-6)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_or_a_single_result_stays(count: int) -> None:
    assert superglobal(unit_rows(1, 11)[0], unit_rows(5, 12)[:count]).shape == (count,)
