import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.unit_rows import unit_rows
from torch import Tensor

from solar.errors import SolarError
from solar.evaluation.metrics import finite
from solar.losses import average_precision


def at(similarities: Tensor) -> Tensor:
    """A plane in which the rows are so similar to the query (1, 0)."""
    return torch.stack((similarities, (1 - similarities.square()).sqrt()), 1)


QUERY = torch.tensor([[1.0, 0.0]], dtype=torch.float64)


@settings(max_examples=30, deadline=None)
@given(
    places=st.permutations(range(41)),
    relevant=st.lists(st.booleans(), min_size=1, max_size=12).filter(any),
)
def test_agrees_with_the_exact_measure_when_every_bin_holds_one_photo(
    places: list[int], relevant: list[bool]
) -> None:
    places = places[: len(relevant)]
    similarities = 1 - torch.tensor(places, dtype=torch.float64) / 20
    loss = average_precision(QUERY, at(similarities), torch.tensor([relevant]), bins=41)
    order = np.argsort(places)
    exact = finite(np.flatnonzero(np.array(relevant)[order]))
    assert 1 - loss.item() == pytest.approx(exact, abs=1e-9)


def test_many_bins_tend_to_the_exact_measure_from_below() -> None:
    relevant = torch.arange(40) % 4 == 0
    similarities = unit_rows(0, 40, 3)[:, 0]
    ranks = np.flatnonzero(relevant[similarities.argsort(descending=True)].numpy())
    averages = [
        1 - average_precision(QUERY, at(similarities), relevant[None], bins=bins).item()
        for bins in (10**3, 10**5)
    ]
    assert max(averages) <= finite(ranks)
    assert averages[1] == pytest.approx(finite(ranks), abs=0.05)


def by_loops(similarity: Tensor, relevant: Tensor, bins: int, lowest: float = -1.0) -> float:
    """One query's loss with a triangle around each bin's centre; the last is flat beyond it."""
    width = (1 - lowest) / (bins - 1)
    similarity = similarity.clamp(min=lowest)
    listed = found = average = 0.0
    for b in range(bins):
        centre = 1 - b * width
        weights = [max(0.0, 1 - abs(float(s) - centre) / width) for s in similarity]
        right = sum(w for w, r in zip(weights, relevant, strict=True) if r)
        listed += sum(weights)
        found += right
        average += right * found / listed if listed else 0.0
    return 1 - average / int(relevant.sum())


@settings(max_examples=20, deadline=None)
@given(
    q=st.integers(1, 3),
    m=st.integers(1, 9),
    bins=st.integers(2, 25),
    lowest=st.sampled_from([-1.0, 0.0]),
    seed=st.integers(0, 999),
)
def test_agrees_with_loops_over_the_bins(
    q: int, m: int, bins: int, lowest: float, seed: int
) -> None:
    """From 0 as Revaud et al. have it, from -1 as here unless told."""
    queries, database = unit_rows(seed, q, 4), unit_rows(seed + 1, m, 4)
    relevant = torch.rand(q, m, generator=torch.Generator().manual_seed(seed)) < 0.4
    relevant[:, 0] = True
    pairs = zip(queries @ database.T, relevant, strict=True)
    expected = np.mean([by_loops(s, r, bins, lowest) for s, r in pairs])
    loss = average_precision(queries, database, relevant, bins=bins, lowest=lowest)
    assert loss.item() == pytest.approx(expected, abs=1e-9)


def test_perfect_ranking_costs_nothing_and_the_reverse_much() -> None:
    database = at(torch.tensor([0.95, 0.9, -0.3, -0.5, -0.8], dtype=torch.float64))
    best = torch.tensor([[True, True, False, False, False]])
    assert average_precision(QUERY, database, best).item() == pytest.approx(0, abs=1e-12)
    assert average_precision(QUERY, database, best.flip(1)).item() > 0.5


def test_gradient_is_that_of_the_value() -> None:
    relevant = torch.eye(4, 6, dtype=torch.bool)
    inputs = unit_rows(0, 4, 5).requires_grad_(), unit_rows(1, 6, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, d: average_precision(q, d, relevant), inputs)


def test_following_the_gradient_improves_the_ranking() -> None:
    queries, database = unit_rows(0, 4, 8), unit_rows(1, 12, 8).requires_grad_()
    relevant = torch.arange(12) % 4 == torch.arange(4)[:, None]
    losses = []
    for _ in range(30):
        rows = torch.nn.functional.normalize(database, dim=1)
        loss = average_precision(queries, rows, relevant)
        losses.append(loss.item())
        (gradient,) = torch.autograd.grad(loss, database)
        database = (database - gradient).detach().requires_grad_()
    assert losses[-1] < losses[0] / 2


def test_identical_descriptors_have_finite_gradients() -> None:
    same = unit_rows(0, 1, 8, dtype=torch.float32).repeat(5, 1).requires_grad_()
    average_precision(same, same, torch.eye(5, dtype=torch.bool)).backward()
    assert same.grad is not None
    assert same.grad.isfinite().all()


def test_query_without_answers_counts_for_nothing() -> None:
    queries, database = unit_rows(0, 2, 4), unit_rows(1, 6, 4)
    relevant = torch.zeros(2, 6, dtype=torch.bool)
    relevant[0, 2] = True
    alone = average_precision(queries[:1], database, relevant[:1])
    assert torch.equal(average_precision(queries, database, relevant), alone)
    assert average_precision(queries, database, relevant & False).item() == 0


def test_a_lowest_similarity_that_makes_no_sense_is_told() -> None:
    with pytest.raises(SolarError, match=r"lowest.* 1"):
        average_precision(QUERY, QUERY, torch.ones(1, 1).bool(), lowest=1)


def test_autocast_changes_nothing() -> None:
    queries, database = unit_rows(0, 2, 4).float(), unit_rows(1, 6, 4).float()
    relevant = torch.eye(2, 6, dtype=torch.bool)
    with torch.autocast("cpu", torch.bfloat16):
        inside = average_precision(queries, database, relevant)
    assert torch.equal(inside, average_precision(queries, database, relevant))


@pytest.mark.parametrize(
    ("relevant", "bins", "complaint"),
    [
        ((6, 2), 20, "2 × 6"),
        ((2, 6), 1, "bins.* 1"),
    ],
)
def test_what_does_not_fit_is_refused(relevant: tuple[int, ...], bins: int, complaint: str) -> None:
    mask = torch.zeros(relevant, dtype=torch.bool)
    with pytest.raises(SolarError, match=complaint):
        average_precision(torch.zeros(2, 4), torch.zeros(6, 4), mask, bins=bins)


def test_relevance_that_is_not_truth_values_is_refused() -> None:
    with pytest.raises(SolarError, match=r"torch\.int64"):
        average_precision(torch.eye(2), torch.eye(2), torch.eye(2, dtype=torch.int64))
