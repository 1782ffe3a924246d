import numpy as np
import pytest

from solar.near_duplicates.axis_mapping import fit_axes, tilted


@pytest.mark.parametrize(("degrees", "turned"), [(0.0, False), (0.1, True)])
def test_a_tenth_of_a_degree_makes_another_photo_and_noise_does_not(
    degrees: float, turned: bool
) -> None:
    random = np.random.default_rng(3)
    a = random.uniform(0, 400, (200, 2))
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    b = 0.8 * (a - 200) @ turn.T + 190 + random.normal(0, 0.15, a.shape)
    found = fit_axes(a, b, 2.0, mirrored=False)
    assert found is not None
    assert len(found) > 190
    assert tilted(found, a, b) is turned


def test_few_points_are_not_enough_to_say_so() -> None:
    a = np.array([[0.0, 0], [100, 3], [4, 90], [99, 101]])
    b = a + np.array([[0, 0], [0, 0.6], [0.5, 0], [0, -0.4]])
    found = fit_axes(a, b, 2.0, mirrored=False)
    assert found is not None
    assert not tilted(found, a, b)
