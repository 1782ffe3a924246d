import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from solar.errors import SolarError
from solar.ranking.calibration import (
    BY_CHANCE,
    FEWEST,
    FILE,
    MATCHED_SIGNS,
    SIGNS,
    SURE,
    UNVERIFIED,
    Background,
    Calibration,
    Evidence,
    Judged,
    calibration_error,
    calibration_of,
    fitted,
    told,
)
from solar.ranking.results import rated
from solar.storage.types import Hit
from solar.weights import probabilities

CLEAR = Evidence(inliers=40, matches=50, coverage=0.6, threshold=9)
BACKGROUND = Background(1000, 0.1, 0.08, (0.6, 0.5, 0.35, 0.6, 0.5, 0.35))
TRUTH = Calibration(
    (-4.0, 10.0, -0.3, *(0.0,) * (len(SIGNS) - 2)),
    (-0.5, 1.0, 1.0, 0.5, 0.5, *(0.0,) * (len(MATCHED_SIGNS) - 4)),
)


@pytest.fixture(params=list(probabilities()))
def calibration(request: pytest.FixtureRequest) -> Calibration:
    found = calibration_of(probabilities()[request.param]["fingerprint"])
    assert found is not None
    return found


def one(calibration: Calibration, score: float, evidence: Evidence | None = None) -> float:
    """The probability of the only result."""
    [found] = calibration.probabilities([score], BACKGROUND, [evidence])
    return found


def test_the_bundled_models_are_calibrated_and_others_are_not() -> None:
    assert "solar-lite0" in probabilities()
    assert calibration_of("another") is None
    assert calibration_of("") is None


def test_the_fingerprints_are_those_of_the_bundled_weights() -> None:
    from solar.models import fingerprint, retrieval_model

    for name, facts in probabilities().items():
        assert facts["fingerprint"] == fingerprint(retrieval_model(name))


def test_more_similar_and_better_matching_photos_are_more_probable(
    calibration: Calibration,
) -> None:
    for evidence in (None, Evidence(BY_CHANCE, 50, 0.3), CLEAR):
        probable = [one(calibration, score, evidence) for score in (0.0, 0.2, 0.5, 0.8)]
        assert probable == sorted(probable)
        assert 0 < probable[0] < probable[-1] <= 1
    better = (replace(CLEAR, inliers=60), replace(CLEAR, coverage=0.9), replace(CLEAR, matches=45))
    clear = one(calibration, 0.3, CLEAR)
    assert all(one(calibration, 0.3, evidence) >= clear for evidence in better)
    assert clear > one(calibration, 0.3, Evidence(5, 60, 0.2))


def test_nothing_is_certain_without_verification(calibration: Calibration) -> None:
    for evidence in (None, replace(CLEAR, threshold=None), replace(CLEAR, threshold=50)):
        assert one(calibration, 1.0, evidence) <= UNVERIFIED
    assert one(calibration, 1.0, CLEAR) <= SURE < 0.995  # never shown as 100 %


def test_inliers_that_chance_explains_say_nothing() -> None:
    none, some = (one(TRUTH, 0.4, Evidence(n, 10**6, 0.5)) for n in (0, BY_CHANCE))
    assert none == pytest.approx(some, abs=1e-4)


def test_probabilities_follow_the_regression() -> None:
    scores, count = [0.6, 0.5, 0.2], BACKGROUND.count
    odds = [-4 + 10 * s - 0.3 * np.log((r + 0.5) / count) for r, s in enumerate(scores)]
    expected = np.minimum(1 / (1 + np.exp(-np.array(odds))), UNVERIFIED)
    assert TRUTH.probabilities(scores, BACKGROUND) == pytest.approx(expected)
    points = np.log1p(40 - BY_CHANCE)
    verified = min(1 / (1 + np.exp(0.5 - odds[2] - points * (1 + 0.3 + 0.4))), SURE)
    found = TRUTH.probabilities(scores, BACKGROUND, [None, None, CLEAR])
    assert found == pytest.approx([*expected[:2], verified])


def test_the_background_is_the_lower_half_of_the_collection() -> None:
    """Right photos, which may be a third of a small collection, hardly move it."""
    draw = np.random.default_rng(0)
    others = draw.normal(0.1, 0.05, 600)
    near = np.array([[0.7, 0.5, 0.3]])
    plain = Background.of(others, 600, near, near)
    mixed = Background.of([*others, *draw.normal(0.6, 0.1, 100)], 700, near, near)
    assert plain is not None
    assert mixed is not None
    assert plain.middle == pytest.approx(0.1, abs=0.01)
    assert plain.spread == pytest.approx(0.05, abs=0.01)
    assert mixed.middle == pytest.approx(plain.middle, abs=0.02)
    assert plain.near == (0.7, 0.3, 0.3) * 2  # with fewer neighbours, the last


def test_too_few_photos_say_nothing() -> None:
    near = np.array([[0.5]])
    assert Background.of([0.1] * (FEWEST - 1), FEWEST - 1, near, near) is None
    assert Background.of([0.1] * FEWEST, FEWEST, near, near) is not None
    assert Background.of([0.1] * FEWEST, FEWEST, near[:0], near) is None


def test_no_photo_is_rated_above_one_before_it() -> None:
    calibration = replace(TRUTH, similar=(0.0, 1.0, *TRUTH.similar[2:]))
    hits = [Hit("a", 0.2, 9, probability=0.4), Hit("b", 0.9), Hit("c", -5.0)]
    found = [hit.probability for hit in rated(hits, calibration, BACKGROUND)]
    assert found[:2] == [0.4, 0.4]
    assert found[2] is not None
    assert found[2] < 0.1
    assert rated(hits, None, BACKGROUND) == hits
    assert rated(hits, calibration, None) == hits


def drawn(*, matched: bool, queries: int = 400) -> list[Judged]:
    """Results that are right as often as `TRUTH` says; of every tenth that is unknown."""
    draw, results = np.random.default_rng(matched), []
    for query in range(queries):
        scores = np.sort(draw.uniform(-0.2, 1, 50))[::-1].tolist()
        evidence = None
        if matched:
            inliers = draw.integers(0, 30, 50).tolist()
            evidence = [Evidence(n, n + 20, float(draw.uniform()), 9) for n in inliers]
        p = TRUTH.probabilities(scores, BACKGROUND, evidence)
        right = (draw.uniform(size=50) < p).astype(np.float64)
        right[::10] = np.nan
        results.append(Judged(query, scores, BACKGROUND, right, evidence))
    return results


def test_weights_are_found_again() -> None:
    results = [*drawn(matched=False), *drawn(matched=True)]
    found = fitted(results)
    assert found.similar[1] == pytest.approx(10.0, abs=3.0)  # the largest probability is cut
    for some in (results[:400], results[400:]):
        p, right = told(some, found, 50)
        assert len(p) == 400 * 45
        assert calibration_error(p, right) < 0.05
        p, _ = told(some, found, 10)
        assert len(p) < 400 * 10  # those that are unknown are not counted


def test_a_weight_of_the_wrong_sign_is_none() -> None:
    worse = [replace(one, right=1 - one.right) for one in drawn(matched=False)]
    found = fitted([*worse, *drawn(matched=True)])
    assert found.similar[1] == 0


def test_errors_of_calibration_are_means_over_photos() -> None:
    error = calibration_error([0.9, 0.9, 0.1, 0.1], [1.0, 0.0, 0.0, 0.0])
    assert error == pytest.approx((0.4 + 0.1) / 2)


def test_a_folder_has_its_own_calibration(tmp_path: Path) -> None:
    own = {"fingerprint": "print", "similar": TRUTH.similar, "matched": TRUTH.matched}
    (tmp_path / FILE).write_text(json.dumps(own))
    assert calibration_of("print", tmp_path) == TRUTH
    assert calibration_of("of another model", tmp_path) is None
    for damaged in ("", "[]", json.dumps(own | {"similar": [1.0]})):
        (tmp_path / FILE).write_text(damaged)
        with pytest.raises(SolarError, match=FILE):
            calibration_of("print", tmp_path)
