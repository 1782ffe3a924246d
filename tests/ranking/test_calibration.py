import math
from dataclasses import replace

import pytest

from solar.ranking.calibration import (
    BY_CHANCE,
    Calibration,
    Evidence,
    calibrated_models,
    calibration_of,
)
from solar.ranking.results import rated
from solar.storage.types import Hit
from solar.weights import probabilities

SURE = Evidence(inliers=40, matches=50, coverage=0.6)


@pytest.fixture(params=calibrated_models())
def calibration(request: pytest.FixtureRequest) -> Calibration:
    found = calibration_of(probabilities()[request.param]["fingerprint"])
    assert found is not None
    return found


def test_the_bundled_models_are_calibrated_and_others_are_not() -> None:
    assert "solar-r18" in calibrated_models()
    assert calibration_of("another") is None
    assert calibration_of("") is None


def test_the_fingerprints_are_those_of_the_bundled_weights() -> None:
    from solar.models import fingerprint, retrieval_model

    for name, facts in probabilities().items():
        assert facts["fingerprint"] == fingerprint(retrieval_model(name))


def test_more_similar_and_better_matching_photos_are_more_probable(
    calibration: Calibration,
) -> None:
    for evidence in (None, Evidence(BY_CHANCE, 50, 0.3), SURE):
        probable = [calibration.probability(s, 1, evidence) for s in (0.0, 0.2, 0.5, 0.8)]
        assert probable == sorted(probable)
        assert 0 < probable[0] < probable[-1] <= 1
    better = (
        replace(SURE, inliers=60),
        replace(SURE, coverage=0.9),
        replace(SURE, matches=45),
    )
    sure = calibration.probability(0.3, 5, SURE)
    assert all(calibration.probability(0.3, 5, one) >= sure for one in better)
    assert sure > 0.9 > calibration.probability(0.3, 5, Evidence(5, 60, 0.2))


def test_inliers_that_chance_explains_say_nothing(calibration: Calibration) -> None:
    none, some = (calibration.probability(0.4, 1, Evidence(n, 60, 0.5)) for n in (0, BY_CHANCE))
    assert none == some


def test_a_similarity_beats_a_few_more_points(calibration: Calibration) -> None:
    """Eleven matching points do not come before eight whatever the photos look like."""
    eleven = calibration.probability(0.3, 2, Evidence(11, 60, 0.2))
    eight = calibration.probability(0.7, 1, Evidence(8, 60, 0.2))
    assert eight > eleven


def test_probabilities_follow_the_regression() -> None:
    calibration = Calibration((-1.0, 2.0, -0.5), (-1.0, 2.0, -0.5, 1.0, 0.5, 0.25))
    odds = -1 + 2 * 0.6 - 0.5 * math.log(3)
    assert calibration.probability(0.6, 3) == pytest.approx(1 / (1 + math.exp(-odds)))
    points = math.log1p(40 - BY_CHANCE)
    odds += points * (1 + 0.5 * 0.6 + 0.25 * 0.8)
    assert calibration.probability(0.6, 3, SURE) == pytest.approx(1 / (1 + math.exp(-odds)))


def test_no_photo_is_rated_above_one_before_it() -> None:
    calibration = Calibration((0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 0.0, 0.0, 0.0))
    hits = [Hit("a", 0.2, 9, probability=0.4), Hit("b", 0.9), Hit("c", -5.0)]
    found = [hit.probability for hit in rated(hits, calibration)]
    assert found[:2] == [0.4, 0.4]
    assert found[2] == pytest.approx(1 / (1 + math.exp(5)))
    assert rated(hits, None) == hits
