"""The forces of t-SNE against a slow oracle that goes through all pairs."""

import numpy as np
import pytest

from solar.show import tsne as module
from solar.show.tsne import tsne


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 6)).astype(np.float32)


def test_neighbours_have_the_entropy_that_is_asked_for() -> None:
    squares = np.sort(np.random.default_rng(1).uniform(0, 9, (20, 30)), axis=1)
    shares = module._shares(squares, np.log(7.0))
    entropy = -(shares * np.log(shares)).sum(axis=1)
    np.testing.assert_allclose(np.exp(entropy), 7, rtol=1e-6)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (np.diff(shares, axis=1) <= 0).all()  # the nearer the more


def test_edges_go_both_ways_and_sum_to_one() -> None:
    i, j, weights = module._edges(rows(40), 5.0)
    dense = np.zeros((40, 40))
    dense[i, j] = weights
    np.testing.assert_array_equal(dense, dense.T)
    assert dense.sum() == pytest.approx(1, abs=1e-5)
    assert not dense.diagonal().any()


def test_forces_are_those_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 64)
    places = 3 * rows(25, 2)[:, :2]
    i, j, weights = module._edges(rows(25), 4.0)
    shares = np.zeros((25, 25))
    shares[i, j] = weights
    away = places[:, None].astype(np.float64) - places[None]
    near = 1 / (1 + (away**2).sum(axis=2))
    np.fill_diagonal(near, 0)
    pull = ((shares * near)[..., None] * away).sum(axis=1)
    push = ((near / near.sum() * near)[..., None] * away).sum(axis=1)
    np.testing.assert_allclose(module._attraction(places, i, j, weights), pull, atol=1e-6)
    np.testing.assert_allclose(module._repulsion(places), push, atol=1e-6)


def test_copies_are_no_trouble() -> None:
    start = 1e-4 * rows(20, 3)[:, :2]
    places = tsne(np.zeros((20, 6), np.float32), start, 5.0)
    assert np.isfinite(places).all()
