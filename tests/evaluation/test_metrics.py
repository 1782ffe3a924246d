import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solar.errors import SolarError
from solar.evaluation.metrics import (
    average_precision,
    mean,
    measure,
    precision_at,
    recall_at,
    without_junk,
)

ranking = st.lists(st.sampled_from("+-j"), min_size=1, max_size=40).filter(lambda r: "+" in r)


def cleaned(letters: list[str]) -> list[bool]:
    return [letter == "+" for letter in letters if letter != "j"]


def ranks_of(letters: list[str]) -> np.ndarray:
    places = {kind: [i for i, letter in enumerate(letters) if letter == kind] for kind in "+j"}
    return without_junk(places["+"][::-1], places["j"])


def area_by_hand(hits: list[bool]) -> float:
    """Precision over recall, drawn from the top of the list down, by the trapezoid rule."""
    area, recall, precision, found = 0.0, 0.0, 1.0, 0
    for place, hit in enumerate(hits):
        found += hit
        new_recall, new_precision = found / sum(hits), found / (place + 1)
        area += (new_recall - recall) * (precision + new_precision) / 2
        recall, precision = new_recall, new_precision
    return area


def test_average_precision_of_positives_in_first_and_third_place() -> None:
    ranks = np.array([0, 2])
    assert average_precision(ranks) == pytest.approx(0.791667, abs=1e-6)
    assert average_precision(ranks, "finite") == pytest.approx(0.833333, abs=1e-6)


@given(ranking)
def test_trapezoid_is_the_area_under_the_curve(letters: list[str]) -> None:
    assert average_precision(ranks_of(letters)) == pytest.approx(area_by_hand(cleaned(letters)))


@given(ranking)
def test_finite_is_the_mean_precision_at_hits(letters: list[str]) -> None:
    hits = cleaned(letters)
    by_hand = [sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit]
    assert average_precision(ranks_of(letters), "finite") == pytest.approx(np.mean(by_hand))


@given(ranking, st.integers(1, 12))
def test_precision_counts_the_first_k_or_up_to_the_last_positive(
    letters: list[str], k: int
) -> None:
    hits = cleaned(letters)
    last = max(i for i, hit in enumerate(hits) if hit) + 1
    top = hits[: min(k, last)]
    assert precision_at(ranks_of(letters), k) == pytest.approx(sum(top) / len(top))


@given(ranking, st.integers(1, 12))
def test_recall_asks_for_one_positive_among_the_first_k(letters: list[str], k: int) -> None:
    assert recall_at(ranks_of(letters), k) == float(any(cleaned(letters)[:k]))


def test_a_query_without_positives_is_left_out_of_the_mean() -> None:
    table = measure([np.array([0]), np.array([], np.int64), np.array([1])], recall=(1,))
    assert np.isnan(table["AP"][1])
    assert mean(table["AP"]) == pytest.approx((1 + 0.25) / 2)
    assert mean(table["recall@1"]) == 0.5


def test_a_mean_over_nothing_is_not_a_number() -> None:
    assert np.isnan(mean(measure([np.array([], np.int64)])["P@5"]))


def test_an_unknown_average_is_refused_by_name() -> None:
    with pytest.raises(SolarError, match=r"'voc07'.*trapezoid or finite"):
        average_precision(np.array([0]), "voc07")
