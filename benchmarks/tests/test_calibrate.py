"""The command that fits probabilities, on drawn vectors of places."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solar.ranking.calibration import Evidence, fitted

ROOT = Path(__file__).parents[2]


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import calibrate

    return calibrate


@pytest.fixture
def world(calibrate: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Two sets of places to learn from, one to judge by, and distractors."""
    draw = np.random.default_rng(0)

    def described(_: object, names: list[str]) -> dict[str, np.ndarray]:
        centres: dict[str, np.ndarray] = {}
        found = {}
        for name in names:
            place = name.rsplit("/", 1)[0]
            centre = centres.setdefault(place, draw.normal(size=32))
            row = draw.normal(size=32) + (0 if "distractors" in name else 1) * centre
            found[name] = row / np.linalg.norm(row)
        return found

    for name, places, photos in (("one", 12, 8), ("two", 20, 4), ("val", 10, 6)):
        for place in range(places):
            for photo in range(photos):
                file = tmp_path / name / f"{place}" / f"{photo}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
    (tmp_path / "distractors" / "x").mkdir(parents=True)
    for photo in range(60):
        (tmp_path / "distractors" / "x" / f"{photo}.jpg").touch()
    monkeypatch.setattr(calibrate, "described", described)
    options = argparse.Namespace(photos=tmp_path, judge=["val"], jobs=2, queries=20)
    return calibrate.World(options)


def test_probabilities_learnt_in_drawn_collections_hold_in_another(
    calibrate: Any, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evidence(own: Any, query: int, row: int) -> Evidence:
        same = world.places[query] == world.places[row]
        return Evidence(20 if same and (query + row) % 2 else 5, 60, 0.5, 9)

    monkeypatch.setattr(calibrate.Collection, "evidence", evidence)
    learnt = [*world.learn("plain"), *world.learn("matched")]
    assert {one.evidence is None for one in learnt} == {True, False}
    calibration = fitted(learnt)
    names = [name for name, _ in world.judged()]
    assert names == ["val", "val and distractors"]
    for _, sets in world.judged():
        results = world.searched([("", world.rows(sets))], "judge")
        assert len(results) == 40  # plain and verified
        found = calibrate.reliability(results[1::2], calibration)
        assert found["best 10"]["ece"] < 0.15
        assert found["likely"]["of_right"] > 0.5


def test_collections_are_drawn_from_what_is_not_judged(world: Any) -> None:
    for kind in ("one", "mixed", "small"):
        for seed in range(5):
            rows = world.drawn(kind, ["one", "two"], np.random.default_rng(seed))
            assert "val" not in world.sets[rows]
            assert kind != "small" or len(rows) <= 30
    assert set(world.places[world.sets == "distractors"]) == {""}


def test_bins_and_their_picture(calibrate: Any) -> None:
    p, right = np.array([0.9, 0.9, 0.1, 0.1]), np.array([1.0, 0.0, 0.0, 0.0])
    told = calibrate.binned(p, right)
    assert told["ece"] == pytest.approx((0.4 + 0.1) / 2)
    assert [one["photos"] for one in told["bins"]] == [2, 2]
    picture = calibrate.drawn({"landmarks": {"verified": {"best 10": told}}})
    assert picture.startswith("<svg")
    assert picture.count("<circle") == 2
