from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from solar.arrays import RowNumbers, Vectors
from solar.errors import SolarError
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
        got, _ = superglobal(
            query, rows, gallery.__getitem__, top=top, neighbours=neighbours, beta=beta
        )
        np.testing.assert_array_equal([*got, *rows[top:]][:100], expected[number])
        best = gallery[rows[:top]]
        scores = refinement(best, neighbours, beta) @ (best @ query)
        np.testing.assert_allclose(scores[:20], augmented[number], rtol=1e-5)


@pytest.mark.parametrize("top", [30, 400])
@pytest.mark.parametrize(("k", "beta"), [(9, 0.15), (3, 1.0), (0, 0.15), (9, 0.0), (500, 0.02)])
def test_scores_equal_the_definition(top: int, k: int, beta: float) -> None:
    database, query = unit_rows(80, 0), unit_rows(1, 1)[0]
    rows = ranked(database, query, 80)
    got, scores = superglobal(query, rows, database.__getitem__, top=top, neighbours=k, beta=beta)
    best = rows[:top]
    expected = dict(zip(best, oracle(query, database[best], k, beta), strict=True))
    assert sorted(got) == sorted(best)
    np.testing.assert_allclose(scores, [expected[row] for row in got], atol=1e-5)
    assert (np.diff(scores) <= 0).all()


def test_published_defaults() -> None:
    database, query = unit_rows(450, 2), unit_rows(1, 3)[0]
    rows = ranked(database, query, 450)
    same = superglobal(query, rows, database.__getitem__, top=400, neighbours=9, beta=0.15)
    for got, expected in zip(superglobal(query, rows, database.__getitem__), same, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_result_with_good_company_overtakes_a_lonely_one() -> None:
    # Row 5 resembles the query a little more than row 4 does, which is like the four best.
    query = np.eye(8, dtype=np.float32)[0]
    rng = np.random.default_rng(4)
    company = np.tile([0.8, 0.6, 0, 0, 0, 0, 0, 0], (5, 1)) + 0.02 * rng.standard_normal((5, 8))
    company[4] = [0.7, 0.714, 0, 0, 0, 0, 0, 0]
    lonely = np.array([[0.72, 0, 0.694, 0, 0, 0, 0, 0]])
    database = np.concatenate([company, lonely])
    database = (database / np.linalg.norm(database, axis=1, keepdims=True)).astype(np.float32)
    rows = ranked(database, query, 6)
    assert rows.tolist()[-2:] == [5, 4]
    got, _ = superglobal(query, rows, database.__getitem__, neighbours=4)
    assert got.tolist()[-2:] == [4, 5]


def test_unrelated_results_keep_their_order() -> None:
    # No result resembles another, so each stays itself and the second query favours none.
    database = np.eye(6, dtype=np.float32)
    query = np.array([0.7, 0.5, 0.4, 0.25, 0.15, 0.1], np.float32)
    query /= np.linalg.norm(query)
    got, _ = superglobal(query, np.arange(6), database.__getitem__)
    assert got.tolist() == [0, 1, 2, 3, 4, 5]


def test_the_numbering_of_rows_does_not_matter() -> None:
    database, query = unit_rows(60, 5), unit_rows(1, 6)[0]
    order = np.random.default_rng(0).permutation(60)
    got, scores = superglobal(query, ranked(database, query, 40), database.__getitem__)
    again, same = superglobal(
        query, ranked(database[order], query, 40), database[order].__getitem__
    )
    np.testing.assert_allclose(same, scores, atol=1e-6)
    np.testing.assert_array_equal(order[again], got)


def test_duplicates_share_their_score() -> None:
    database, query = np.repeat(unit_rows(10, 7), 2, axis=0), unit_rows(1, 8)[0]
    got, scores = superglobal(
        query, ranked(database, query, 20), database.__getitem__, neighbours=1
    )
    of_row = dict(zip(got, scores, strict=True))
    for row in range(0, 20, 2):
        assert of_row[row] == pytest.approx(of_row[row + 1], abs=1e-6)


def test_only_the_best_rows_are_fetched_and_missing_ones_never() -> None:
    database, query = unit_rows(20, 9), unit_rows(1, 10)[0]
    fetched: list[int] = []

    def vectors_of(rows: RowNumbers, /) -> Vectors:
        fetched.extend(rows.tolist())
        return database[rows]

    got, _ = superglobal(query, np.array([7, 3, 7, -1, 5, 2]), vectors_of, top=3)
    assert fetched == [7, 3, 5]
    assert sorted(got) == [3, 5, 7]


@pytest.mark.parametrize("rows", [[], [-1, -1]])
def test_nothing_found_gives_nothing(rows: list[int]) -> None:
    database = unit_rows(5, 11)
    got, scores = superglobal(database[0], np.array(rows, np.int64), database.__getitem__)
    assert got.shape == scores.shape == (0,)


def test_a_single_result_stays() -> None:
    database = unit_rows(5, 12)
    got, scores = superglobal(database[0], np.array([4]), database.__getitem__)
    assert got.tolist() == [4]
    assert scores.dtype == np.float32


@pytest.mark.parametrize("setting", ["top", "neighbours", "beta"])
def test_negative_settings_are_refused(setting: str) -> None:
    database = unit_rows(5, 13)
    with pytest.raises(SolarError, match="negative"):
        superglobal(database[0], np.arange(5), database.__getitem__, **{setting: -1})  # type: ignore[arg-type]
