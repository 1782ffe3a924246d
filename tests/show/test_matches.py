import numpy as np
import pytest
from PIL import Image
from support.warped import toy_photo, turned

from solar.errors import SolarError
from solar.matching.match import Matches
from solar.show.matches import caption, draw_lines, draw_matches


def matches(
    points_a: np.ndarray, points_b: np.ndarray, inliers: list[bool], threshold: int = 1
) -> Matches:
    pairs = np.stack([np.arange(len(inliers))] * 2, axis=1)
    a, b = (np.reshape(points, (-1, 2)).astype(np.float32) for points in (points_a, points_b))
    return Matches(
        *((len(a), len(b)), a, b, pairs, np.array(inliers, bool), np.eye(3), "homography", "sift"),
        threshold=threshold,
    )


def drawn_on(picture: Image.Image) -> np.ndarray:
    """Where a picture of two black photos is coloured."""
    pixels = np.array(picture).astype(int)
    return pixels.max(axis=2) - pixels.min(axis=2) > 60


def test_lines_join_inliers_and_nothing_else() -> None:
    black = np.zeros((200, 300, 3), np.uint8)
    found = matches([[50, 60], [50, 150]], [[250, 60], [250, 150]], [True, False])
    coloured = drawn_on(draw_matches(black, black, [found], height=200))
    rows = np.flatnonzero(coloured.any(axis=1))
    assert 0 < np.ptp(rows) < 12  # one level line
    columns = np.flatnonzero(coloured.any(axis=0))
    assert np.ptp(columns) == pytest.approx(500 + 7 + 6, abs=4)  # 300 − 50, the gap, 250, the dots


def test_lines_from_distant_points_have_different_colours() -> None:
    starts = np.array([[10.0, 20], [12, 20], [90, 20], [10, 80]])
    ends = starts + np.array([100, 0])
    drawn = np.array(draw_lines(Image.new("RGB", (200, 100)), starts, ends, 2)).astype(int)
    first, near, *far = (drawn[int(y), int(x)] for x, y in starts)
    assert np.abs(first - near).max() < 30
    assert min(np.abs(first - other).max() for other in far) > 60


def test_photos_get_the_same_height() -> None:
    first, second = np.zeros((100, 100, 3), np.uint8), np.zeros((400, 200, 3), np.uint8)
    picture = draw_matches(first, second, [matches([], [], [])], height=240)
    assert picture.width == 240 + 7 + 120 + 2 * 14
    assert picture.height == 240 + 28 + 2 * 14


def test_results_are_drawn_one_below_the_other() -> None:
    photo = toy_photo(size=(160, 120))
    other, _ = turned(photo)
    found = matches([[1, 1]], [[2, 2]], [True])
    one = draw_matches(photo, other, [found], height=120)
    three = draw_matches(photo, other, [found] * 3, height=120)
    assert (three.width, three.height - one.height) == (one.width, 2 * (one.height - 14))


def test_of_many_lines_some_spread_ones_are_drawn() -> None:
    black = np.zeros((200, 300, 3), np.uint8)
    crowd = np.stack([np.full(500, 20), np.linspace(10, 20, 500)], axis=1)
    points = np.concatenate([crowd, [[20, 190]]])
    picture = draw_matches(black, black, [matches(points, points, [True] * 501)], most=5)
    rows = np.flatnonzero(drawn_on(picture).any(axis=1))
    assert np.ptp(rows) > 400  # the lone one, far from the crowd, is among the five


def test_the_caption_counts() -> None:
    found = matches(np.zeros((2, 2)), np.zeros((2, 2)), [True, False])
    assert caption(found) == (
        "sift",
        "Same place: 1 matching details, 1 are needed (homography, 2 matches, 2 and 2 keypoints)",
    )


def test_unrelated_photos_get_no_lines() -> None:
    black = np.zeros((200, 300, 3), np.uint8)
    found = matches([[50, 60], [50, 150]], [[250, 60], [250, 150]], [True, True], threshold=3)
    assert not drawn_on(draw_matches(black, black, [found], height=200)).any()
    assert caption(found)[1].startswith(
        "Not confirmed as the same place: 2 matching details, 3 are needed"
    )


def test_nothing_to_draw() -> None:
    with pytest.raises(SolarError, match="matches"):
        draw_matches(np.zeros((9, 9, 3), np.uint8), np.zeros((9, 9, 3), np.uint8), [])
