import csv
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.evaluation import Evaluation, compare, interval

EASY = {"AP": np.array([0.5, np.nan]), "P@1": np.array([1.0, np.nan])}
HARD = {"AP": np.array([np.nan, np.nan]), "P@1": np.array([np.nan, np.nan])}


def test_means_are_in_percent_and_null_without_queries() -> None:
    found = Evaluation(("a", "b"), {"easy": EASY, "hard": HARD}).to_dict()
    assert found == {"easy": {"mAP": 50, "mP@1": 100}, "hard": {"mAP": None, "mP@1": None}}


def test_a_set_without_protocols_is_flat() -> None:
    found = Evaluation(("a", "b"), {"all": EASY}).to_dict(per_query=True)
    assert found["mAP"] == 50
    assert found["queries"] == [
        {"query": "a", "AP": 50, "P@1": 100},
        {"query": "b", "AP": None, "P@1": None},
    ]


def test_each_query_is_listed_with_its_protocols() -> None:
    found = Evaluation(("a", "b"), {"easy": EASY, "hard": HARD}).to_dict(per_query=True)
    assert found["queries"][0] == {
        "query": "a",
        "easy": {"AP": 50, "P@1": 100},
        "hard": {"AP": None, "P@1": None},
    }


def test_csv_has_a_line_a_query_and_protocol(tmp_path: Path) -> None:
    Evaluation(("a", "b"), {"easy": EASY, "hard": HARD}).write_csv(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["query", "protocol", "AP", "P@1"],
        ["a", "easy", "50.0", "100.0"],
        ["a", "hard", "", ""],
        ["b", "easy", "", ""],
        ["b", "hard", "", ""],
    ]


def test_a_csv_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SolarError, match="cannot be written"):
        Evaluation(("a", "b"), {"all": EASY}).write_csv(tmp_path / "file" / "out.csv")


def test_a_csv_is_read_back(tmp_path: Path) -> None:
    before = Evaluation(("a", "a"), {"easy": EASY, "hard": HARD})  # two boxes of one photo
    before.write_csv(tmp_path / "out.csv")
    after = Evaluation.read_csv(tmp_path / "out.csv")
    assert after.queries == before.queries
    for level, measures in before.protocols.items():
        for name, values in measures.items():
            np.testing.assert_allclose(after.protocols[level][name], values)


def test_a_csv_of_something_else_is_refused(tmp_path: Path) -> None:
    Evaluation(("a", "b"), {"easy": EASY, "hard": HARD}).write_csv(tmp_path / "out.csv")
    whole = (tmp_path / "out.csv").read_text()
    for content, sentence in (
        ("name,label\na,b\n", "is not what `Evaluation.write_csv` writes"),
        ("", "is not what `Evaluation.write_csv` writes"),
        (whole.replace("50.0", "half"), "is not what `Evaluation.write_csv` writes"),
        (whole.rpartition("b,hard")[0], "is cut short"),
    ):
        (tmp_path / "bad.csv").write_text(content)
        with pytest.raises(SolarError, match=sentence):
            Evaluation.read_csv(tmp_path / "bad.csv")
    with pytest.raises(SolarError, match="cannot be read"):
        Evaluation.read_csv(tmp_path / "none.csv")


RANDOM = np.random.default_rng(0)


def evaluation(values: np.ndarray) -> Evaluation:
    return Evaluation(tuple(map(str, range(len(values)))), {"all": {"AP": values}})


def test_an_interval_is_as_wide_as_the_standard_error_says() -> None:
    values = RANDOM.normal(0.5, 0.1, 400)
    low, high = interval(np.append(values, np.nan))
    error = values.std() / np.sqrt(len(values))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.15 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.15 * error)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    hits = 0
    for _ in range(40):
        low, high = interval(RANDOM.uniform(0, 1, 70), confidence=0.8)
        hits += low < 0.5 < high
    assert 24 <= hits <= 39  # 80 % of 40 is 32


def test_a_small_gain_on_every_query_is_no_noise() -> None:
    first = RANDOM.uniform(0, 1, 70)
    found = compare(evaluation(first), evaluation(first + RANDOM.normal(0.02, 0.02, 70)))
    assert found.difference == pytest.approx(0.02, abs=0.01)
    assert 0 < found.low < found.difference < found.high
    assert found.p < 0.001


def test_scatter_is_noise() -> None:
    first = RANDOM.uniform(0, 1, 70)
    found = compare(evaluation(first), evaluation(RANDOM.permutation(first)))
    assert found.low < 0 < found.high
    assert found.p > 0.05


def test_no_difference_has_p_one() -> None:
    same = evaluation(RANDOM.uniform(0, 1, 20))
    assert compare(same, same).p == 1


def test_three_queries_can_prove_nothing() -> None:
    # All eight ways to exchange names: the observed one and its opposite are the largest.
    found = compare(evaluation(np.zeros(3)), evaluation(np.full(3, 0.5)))
    assert found.p == pytest.approx(0.25, abs=0.02)


def test_other_queries_cannot_be_compared() -> None:
    with pytest.raises(SolarError, match="same queries"):
        compare(evaluation(np.zeros(3)), evaluation(np.zeros(4)))


def test_queries_without_answers_tell_nothing() -> None:
    with pytest.raises(SolarError, match="no query"):
        interval(np.array([np.nan]))


def test_many_queries_take_little_memory() -> None:
    values = RANDOM.uniform(0, 1, 20_000)
    tracemalloc.start()
    try:
        interval(values)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()
