import csv
from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.evaluation import Evaluation

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
