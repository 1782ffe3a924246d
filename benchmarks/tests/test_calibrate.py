"""The command that fits probabilities, on drawn results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solar.ranking.calibration import Calibration, Evidence

ROOT = Path(__file__).parents[2]


@pytest.fixture
def calibrate(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import calibrate

    return calibrate


def drawn(calibrate: Any, truth: Calibration, *, matched: bool, count: int = 20_000) -> list[Any]:
    """Results that are right as often as a calibration says."""
    draw, results = np.random.default_rng(0), []
    for number in range(count):
        score, rank = float(draw.uniform(-0.2, 1)), number % 50 + 1
        inliers = int(draw.integers(0, 30))
        evidence = Evidence(inliers, inliers + 20, float(draw.uniform())) if matched else None
        right = bool(draw.uniform() < truth.probability(score, rank, evidence))
        results.append(calibrate.Result(number // 50, rank, score, evidence, right))
    return results


def test_weights_are_found_again(calibrate: Any) -> None:
    truth = Calibration((-4.0, 10.0, -0.3), (-4.0, 10.0, -0.3, 1.0, 0.5, 0.5))
    found = calibrate.fit(drawn(calibrate, truth, matched=False), matched=False)
    assert found == pytest.approx(truth.similar, abs=0.5)
    results = drawn(calibrate, truth, matched=True)
    fitted = Calibration(found, calibrate.fit(results, matched=True))
    both = [*results, *drawn(calibrate, truth, matched=False)]
    told = calibrate.reliability(both, fitted)
    assert told["matched, best 50"]["ece"] < 0.02
    assert told["similar, best 50"]["ece"] < 0.02


def test_a_weight_of_the_wrong_sign_is_none(calibrate: Any) -> None:
    truth = Calibration((-4.0, 10.0, 0.8), ())  # where a later rank speaks for a photo
    constant, score, rank = calibrate.fit(drawn(calibrate, truth, matched=False), matched=False)
    assert rank == 0
    assert score > 0 > constant


def test_errors_of_calibration_are_means_over_photos(calibrate: Any) -> None:
    p, right = np.array([0.9, 0.9, 0.1, 0.1]), np.array([1.0, 0.0, 0.0, 0.0])
    told = calibrate.binned(p, right)
    assert told["ece"] == pytest.approx((0.4 + 0.1) / 2)
    assert [one["photos"] for one in told["bins"]] == [2, 2]
    picture = calibrate.drawn({"landmarks": {"matched, best 10": told}})
    assert picture.startswith("<svg")
    assert picture.count("<circle") == 2
