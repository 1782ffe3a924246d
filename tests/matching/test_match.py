import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from support.bits import NEEDS_AKAZE
from support.warped import corner_error, toy_photo, turned

import solar
from solar.errors import SolarError
from solar.matching.match import (
    RARER,
    SAME_SCENE,
    estimate,
    inliers_needed,
    match,
    mutual_matches,
    verdict,
)
from solar.models import PatchNet


def unit(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def by_comparing_all(a: np.ndarray, b: np.ndarray, ratio: float) -> list[tuple[int, int]]:
    distances = np.array([[np.linalg.norm(x - y) for y in b] for x in a.astype(np.float64)])
    found = []
    for i, row in enumerate(distances):
        j = int(row.argmin())
        others = np.concatenate([np.delete(row, j), np.delete(distances[:, j], i), [np.inf]])
        if distances[:, j].argmin() == i and (ratio >= 1 or row[j] < ratio * others.min()):
            found.append((i, j))
    return found


sizes = st.integers(1, 24)


@settings(max_examples=60, deadline=None)
@given(sizes, sizes, st.sampled_from([0.7, 0.9, 1.0]), st.integers(0, 999))
def test_matches_are_those_of_comparing_all(n: int, m: int, ratio: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = unit(rng, n, 6), unit(rng, m, 6)
    assert list(map(tuple, mutual_matches(a, b, ratio=ratio))) == by_comparing_all(a, b, ratio)


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.integers(0, 99))
def test_equal_descriptors_are_matched_once_and_not_clearly(n: int, m: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners = np.eye(3, dtype=np.float32)
    a, b = corners[rng.integers(0, 3, n)], corners[rng.integers(0, 3, m)]
    pairs = mutual_matches(a, b, ratio=1)
    clear = mutual_matches(a, b, ratio=0.9)
    assert len(set(pairs[:, 0])) == len(set(pairs[:, 1])) == len(pairs)
    for i, j in clear:
        assert (a == a[i]).all(axis=1).sum() == (b == b[j]).all(axis=1).sum() == 1


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.sampled_from([0.7, 0.9, 1.0]), st.integers(0, 999))
def test_bits_are_matched_by_how_many_differ(n: int, m: int, ratio: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 256, (rows, 5), np.uint8) for rows in (n, m))
    distances = np.bitwise_count(a[:, None] ^ b[None]).sum(axis=2, dtype=np.int64)
    pairs = {(int(i), int(j)) for i, j in mutual_matches(a, b, ratio=ratio)}
    for i, j in np.ndindex(distances.shape):
        others = np.r_[np.delete(distances[i], j), np.delete(distances[:, j], i), 10**6]
        if distances[i, j] < min(ratio, 1) * others.min():
            assert (i, j) in pairs
        elif ratio < 1 or distances[i, j] > others.min():
            assert (i, j) not in pairs


def test_the_order_of_photos_does_not_matter_to_matches() -> None:
    rng = np.random.default_rng(0)
    a = unit(rng, 50, 8)
    b = a[::-1] + 0.2 * unit(rng, 50, 8)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    forth, back = mutual_matches(a, b), mutual_matches(b, a)
    assert sorted(map(tuple, forth)) == sorted((i, j) for j, i in back)
    assert len(forth) > 20


def test_no_features_have_no_matches() -> None:
    nothing, some = np.empty((0, 128), np.float32), np.eye(128, dtype=np.float32)
    assert mutual_matches(nothing, some).shape == mutual_matches(some, nothing).shape == (0, 2)


@pytest.mark.parametrize(
    "model", ["sift", "rootsift", "orb", pytest.param("akaze", marks=NEEDS_AKAZE), None]
)
def test_a_known_homography_is_found(model: str | None) -> None:
    photo = toy_photo()
    other, truth = turned(photo)
    found = match(photo, other, model=model)
    assert found.matrix is not None
    assert corner_error(found.matrix, truth, photo.shape[:2]) < 2
    assert found.descriptor == (model or "rootsift")
    assert found.inliers.sum() > 100
    pairs = found.pairs[found.inliers]
    there = cv2.perspectiveTransform(found.points_a[pairs[:, 0]][:, None], truth)[:, 0]
    assert np.linalg.norm(there - found.points_b[pairs[:, 1]], axis=1).max() < 5


def test_an_untrained_network_is_good_enough_for_a_small_turn() -> None:
    photo = toy_photo()
    other, truth = turned(photo)
    found = match(photo, other, model=PatchNet().eval(), keypoints=250)
    assert found.descriptor == "patch network"
    assert found.matrix is not None
    assert corner_error(found.matrix, truth, photo.shape[:2]) < 5


@pytest.mark.parametrize("larger", [(2, 1), (1, 2), (2, 3)])
def test_the_matrix_is_between_whole_photos(larger: tuple[int, int]) -> None:
    photo = toy_photo()
    other, truth = turned(photo)
    a, b = (
        Image.fromarray(picture).resize(
            (picture.shape[1] * by, picture.shape[0] * by), Image.Resampling.BICUBIC
        )
        for picture, by in zip((photo, other), larger, strict=True)
    )
    found = match(a, b, size=480)
    assert found.matrix is not None
    whole = np.diag([larger[1], larger[1], 1]) @ truth @ np.diag([1 / larger[0], 1 / larger[0], 1])
    assert corner_error(found.matrix, whole, (a.height, a.width)) < 3 * larger[1]


@pytest.mark.parametrize(("geometry", "least"), [("homography", 4), ("fundamental", 8)])
def test_as_many_pairs_as_a_geometry_needs_are_enough(geometry: str, least: int) -> None:
    rng = np.random.default_rng(1)
    scene = rng.uniform((-2, -2, 4), (2, 2, 8), (least, 3))
    scene[:, 2] = 4 if geometry == "homography" else scene[:, 2]
    views = [scene, scene + np.array([0.8, 0.1, 0.4])]
    a, b = (np.float32(500 * view[:, :2] / view[:, 2:] + 320) for view in views)
    matrix, inliers = estimate(a, b, geometry, 1.5)
    assert matrix is not None
    assert inliers.all()
    matrix, inliers = estimate(a[1:], b[1:], geometry, 1.5)
    assert matrix is None
    assert not inliers.any()


def test_points_of_a_rigid_scene_lie_on_epipolar_lines() -> None:
    rng = np.random.default_rng(0)
    scene = rng.uniform((-2, -2, 4), (2, 2, 8), (80, 3))
    turn, _ = cv2.Rodrigues(np.array([0.02, 0.2, 0.01]))
    views = [scene, scene @ turn.T + (0.8, 0.1, 0.1)]
    a, b = (np.float32(500 * view[:, :2] / view[:, 2:] + 320) for view in views)
    b[60:] = rng.uniform(0, 640, (20, 2))
    matrix, inliers = estimate(a, b, "fundamental", 1.5)
    assert matrix is not None
    assert inliers[:60].mean() > 0.95
    ones = np.ones((60, 1))
    lines = np.hstack([a[:60], ones]) @ matrix.T
    off = np.abs((np.hstack([b[:60], ones]) * lines).sum(axis=1))
    assert (off / np.linalg.norm(lines[:, :2], axis=1)).max() < 1.5


def test_the_fundamental_matrix_is_between_whole_photos() -> None:
    photo = toy_photo()
    other, _ = turned(photo)
    large = Image.fromarray(photo).resize((960, 720), Image.Resampling.BICUBIC)
    found = match(large, other, size=480, geometry="fundamental")
    assert found.matrix is not None
    pairs = found.pairs[found.inliers]
    ones = np.ones((len(pairs), 1))
    lines = np.hstack([found.points_a[pairs[:, 0]], ones]) @ found.matrix.T
    off = np.abs((np.hstack([found.points_b[pairs[:, 1]], ones]) * lines).sum(axis=1))
    assert np.median(off / np.linalg.norm(lines[:, :2], axis=1)) < 1.5


@pytest.mark.parametrize("geometry", ["homography", "fundamental"])
def test_the_same_photos_give_the_same_result_in_any_order(geometry: str) -> None:
    """Photos that share a part only: what fits depends on guesses."""
    photo = toy_photo(0, (320, 240))
    other = turned(photo)[0]
    height, width = other.shape[:2]
    other[:, width // 2 :] = toy_photo(5, (320, 240))[:height, width // 2 : width]
    first, second = (match(photo, other, geometry=geometry) for _ in range(2))
    assert first.to_dict() == second.to_dict()
    np.testing.assert_array_equal(first.inliers, second.inliers)
    back = match(other, photo, geometry=geometry)
    assert back.keypoints == first.keypoints[::-1]
    for one, two in ((first, back), (back, first)):
        pairs = {tuple(pair) for pair in one.pairs[one.inliers].tolist()}
        assert pairs == {(i, j) for j, i in two.pairs[two.inliers].tolist()}
        assert (np.diff(one.pairs[:, 0]) > 0).all()
    assert first.matrix is not None
    assert back.matrix is not None
    inverse = np.linalg.inv(first.matrix) if geometry == "homography" else first.matrix.T
    if geometry == "homography":
        inverse = inverse / inverse[2, 2]
    np.testing.assert_allclose(back.matrix, inverse, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("geometry", ["homography", "fundamental"])
def test_nothing_in_common_is_no_crash(geometry: str) -> None:
    grey = np.full((100, 120, 3), 99, np.uint8)
    found = match(toy_photo(), grey, geometry=geometry)
    assert found.to_dict() == {
        "keypoints": [found.keypoints[0], 0],
        "matches": 0,
        "inliers": 0,
        "matrix": None,
        "same_scene": False,
        "threshold": SAME_SCENE["numbers", geometry],
    }


@pytest.mark.parametrize("geometry", ["homography", "fundamental"])
@pytest.mark.parametrize(
    "points",
    [
        np.zeros((3, 2)),
        np.zeros((30, 2)),
        np.arange(60).reshape(30, 2),
        np.repeat([[0, 0], [9, 0], [0, 9], [9, 9]], 5, axis=0),
    ],
    ids=["few", "one place", "a line", "four places"],
)
def test_degenerate_points_are_no_crash(points: np.ndarray, geometry: str) -> None:
    matrix, inliers = estimate(np.float32(points), np.float32(points), geometry, 3.0)
    assert len(inliers) == len(points)
    assert (matrix is not None) or not inliers.any()


@pytest.mark.parametrize("model", ["rootsift", "orb"])
def test_enough_inliers_are_the_same_scene(model: str) -> None:
    photo = toy_photo(0, (320, 240))
    same, different = (match(photo, b, model=model) for b in (turned(photo)[0], toy_photo(1)))
    kind = "bits" if model == "orb" else "numbers"
    assert same.threshold == different.threshold == SAME_SCENE[kind, "homography"]
    assert [same.same_scene, different.same_scene] == [True, False]
    assert different.inliers.sum() < different.threshold <= same.inliers.sum()


@pytest.mark.parametrize("kind", ["numbers", "bits", "dense"])
def test_rarer_mistakes_need_more_inliers(kind: str) -> None:
    shares = [0.5, 1e-3, 1e-3 / RARER, 1e-3 / RARER**2, 1e-6]
    needed = [inliers_needed(kind, wrong=share) for share in shares]
    assert needed[:2] == [SAME_SCENE[kind, "homography"]] * 2
    assert needed[1:4] == [needed[1], needed[1] + 1, needed[1] + 2]
    assert needed[4] == needed[1] + 6


def test_mistakes_become_rarer_as_was_measured() -> None:
    file = Path(__file__).parents[2] / "benchmarks" / "results" / "same_scene.json"
    for row in json.loads(file.read_text())["rows"]:
        reach = np.cumsum(row["counts"]["different"][::-1])[::-1]  # pairs, by least inliers
        tail = reach[(reach > 0) & (reach < row["different_pairs"] / 10)]
        assert (tail[:-1] / tail[1:]).round(1).min(initial=np.inf) >= RARER


def test_the_verdict_is_told_with_its_threshold() -> None:
    assert verdict(1234, 9).startswith("Same place: 1,234 ")
    assert verdict(8, 9).startswith("Not confirmed as the same place: 8 ")


def test_settings_that_make_no_sense() -> None:
    photo = toy_photo()
    for wrong, complaint in (
        ({"geometry": "affine"}, "^The geometry must be homography or fundamental, not 'affine'"),
        ({"ratio": 0.0}, "^The ratio and the threshold of matches must be positive"),
        ({"threshold": -1.0}, "^The ratio and the threshold of matches must be positive"),
    ):
        with pytest.raises(SolarError, match=complaint):
            match(photo, photo, **wrong)


def test_match_is_public() -> None:
    assert solar.match is match


@pytest.mark.skipif("SOLAR_DATA" not in os.environ, reason="SOLAR_DATA does not name real photos")
@pytest.mark.parametrize(
    ("name", "other", "limit"), [("graf", 2, 4), ("ubc", 3, 1), ("bark", 2, 6)]
)
def test_real_homographies(name: str, other: int, limit: float) -> None:
    folder = Path(os.environ["SOLAR_DATA"], "affine", name)
    truth = np.loadtxt(folder / f"H_1_{other}")
    found = match(folder / "1.jpg", folder / f"{other}.jpg")
    height, width = cv2.imread(str(folder / "1.jpg"), 0).shape
    assert found.matrix is not None
    assert corner_error(found.matrix, truth, (height, width)) < limit
