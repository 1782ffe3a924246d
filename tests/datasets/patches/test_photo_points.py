from pathlib import Path

import numpy as np
import pytest

from solar.datasets.patches.photo_points import PointSettings, collect_points, find_points
from solar.demo import toy
from solar.errors import SolarError
from solar.images import find_photos


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    toy.write(folder, landmarks=2, views=1, size=(160, 120))
    return folder


def grey(identity: int) -> np.ndarray:
    return np.asarray(toy.landmark(identity, 0, size=(160, 120)).convert("L"))


def test_no_two_keypoints_show_nearly_the_same_patch() -> None:
    spacing = 0.3
    points = find_points(grey(0), PointSettings(spacing=spacing))
    assert len(points) > 20
    for i, (x, y, side, _) in enumerate(points):
        for other_x, other_y, other_side, _ in points[:i]:
            small, large = sorted((side, other_side))
            assert np.hypot(x - other_x, y - other_y) >= spacing * small or large >= 1.5 * small


def test_patches_are_six_keypoints_wide_and_at_least_twenty_pixels() -> None:
    import cv2

    photo = grey(1)
    sizes = {round(6 * k.size, 3) for k in cv2.SIFT_create().detect(photo, None)}
    sides = find_points(photo)[:, 2]
    assert sides.min() == 20
    assert {round(float(side), 3) for side in sides if side > 20} <= sizes


def test_only_the_strongest_are_kept() -> None:
    every, some = find_points(grey(0)), find_points(grey(0), PointSettings(most=7))
    np.testing.assert_array_equal(some, every[:7])


def test_photos_that_cannot_be_read_are_left_out(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"no photo")
    found = collect_points(find_photos([folder, broken]))
    assert "broken.jpg" not in found.names
    assert len(found.points) == 2
    with pytest.raises(SolarError, match="None of 1"):
        collect_points(find_photos(broken))
