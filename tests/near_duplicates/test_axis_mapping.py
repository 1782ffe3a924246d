import numpy as np
import pytest

from solar.near_duplicates.axis_mapping import fit_axes


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_mapping_along_the_axes_is_found_among_wrong_pairs(mirrored: bool, swapped: bool) -> None:
    random = np.random.default_rng(3)
    true = np.array([[-0.8 if mirrored != swapped else 0.8, 0, 190], [0, 1.1, -20], [0, 0, 1]])
    if swapped:
        true = true[:, [1, 0, 2]]
    a = random.uniform(0, 400, (200, 2))
    b = a @ true[:2, :2].T + true[:2, 2] + random.normal(0, 0.15, a.shape)
    b[150:] = random.uniform(0, 400, (50, 2))
    found = fit_axes(a, b, 2.0, mirrored=mirrored)
    assert found is not None
    matrix, inliers = found
    assert inliers[:150].all()
    assert inliers.sum() < 155
    assert np.allclose(matrix, true, atol=0.3)
