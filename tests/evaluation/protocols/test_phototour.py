from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.patch_sets import write_subset

from solar.datasets.patches.phototour import read_phototour
from solar.errors import SolarError
from solar.evaluation.protocols.phototour import evaluate_phototour, fpr95


def test_the_golden_rate(golden: dict[str, np.ndarray], golden_values: dict[str, Any]) -> None:
    found = fpr95(golden["fpr95_distances"], golden["fpr95_labels"])
    assert found == pytest.approx(golden_values["fpr95"], abs=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 60))
def test_the_rate_is_what_a_loop_says(seed: int, near: int, far: int) -> None:
    rng = np.random.default_rng(seed)
    distances = rng.permutation(near + far).astype(float)
    same = rng.permutation(np.arange(near + far) < near)
    found = wrong = 0
    for number in np.argsort(distances):
        found += int(same[number])
        if found >= 0.95 * near:
            break
        wrong += int(not same[number])
    assert fpr95(distances, same) == pytest.approx(wrong / far)


def test_the_other_convention_goes_one_positive_further() -> None:
    distances = np.concatenate([np.arange(40), [36.5, 37.5, 38.5, 50]])
    same = np.arange(44) < 40
    assert fpr95(distances, same) == 0.25
    assert fpr95(distances, same, "hynet") == 0.5


def test_ties_count_against_the_descriptor_in_any_order() -> None:
    for same in ([True, False], [False, True]):
        assert fpr95([1.0, 1.0], same) == 1.0


@pytest.mark.parametrize("same", [[True, True], [False, False]])
def test_pairs_of_one_kind_are_refused(same: list[bool]) -> None:
    with pytest.raises(SolarError, match="pairs"):
        fpr95([1.0, 2.0], same)


def test_an_unknown_convention_is_refused() -> None:
    with pytest.raises(SolarError, match="'sift'"):
        fpr95([1.0, 2.0], [True, False], "sift")


def test_a_subset_is_measured_on_its_pairs(tmp_path: Path) -> None:
    patches = write_subset(tmp_path / "liberty")
    data = read_phototour(tmp_path, "liberty")
    # Every other pixel of one row: bad enough to make mistakes.
    found = evaluate_phototour(data, lambda p: p[:, 32, ::8].astype(np.float32), pairs=200)
    rows, pairs = patches[:, 32, ::8].astype(float), data.pairs(200)
    expected = fpr95(((rows[pairs.left] - rows[pairs.right]) ** 2).sum(1), pairs.same)
    assert (found.subset, found.pairs) == ("liberty", 200)
    assert found.fpr95 == pytest.approx(expected)
    assert 0 < found.fpr95 < 0.5
    assert found.to_dict()["FPR95"] == 100 * found.fpr95
