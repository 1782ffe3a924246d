import math
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from PIL import Image
from support.bits import BITS
from support.warped import toy_photo

from solar.errors import SolarError
from solar.local.features import akaze, local_features, local_model, patch_cutter
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet


@pytest.fixture(scope="module")
def photo() -> np.ndarray:
    return toy_photo()


@pytest.fixture(scope="module")
def grey(photo: np.ndarray) -> np.ndarray:
    return cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)


def test_demo_patches_are_those_of_the_published_code(grey: np.ndarray) -> None:
    found = cv2.SIFT_create(300).detect(grey)
    expected = []
    for keypoint in found:
        step, turn = 3 * keypoint.size / 32, math.radians(keypoint.angle)
        cosine, sine = step * math.cos(turn), step * math.sin(turn)
        x, y = keypoint.pt
        frame = np.array(
            [[cosine, -sine, x - 16 * (cosine - sine)], [sine, cosine, y - 16 * (sine + cosine)]]
        )
        how = cv2.WARP_INVERSE_MAP + cv2.INTER_CUBIC + cv2.WARP_FILL_OUTLIERS
        expected.append(cv2.warpAffine(grey, frame, (32, 32), flags=how))
    keypoints = np.array([(*k.pt, k.size, k.angle) for k in found])
    ours = patch_cutter(grey, keypoints, "demo")(slice(None)).numpy()[:, 0]
    # OpenCV rounds to whole grey levels.
    assert np.abs(ours - np.stack(expected)).max() < 0.6


def test_wide_patches_are_centred_on_keypoints_and_turned_with_them() -> None:
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8), (200, 200)).copy()
    patches = patch_cutter(ramp, np.array([[90.0, 80.0, 8, 0], [90, 80, 8, 90]]))(slice(None))
    steps = (np.arange(32) - 15.5) * 6 * 8 / 32
    np.testing.assert_allclose(patches[0, 0], np.tile(90 + steps, (32, 1)), atol=0.6)
    np.testing.assert_allclose(patches[1, 0], np.tile(90 - steps[:, None], (1, 32)), atol=0.6)


def test_keypoints_are_strongest_first_and_the_same_every_time(photo: np.ndarray) -> None:
    all_of_them = local_features(photo, "sift", keypoints=500)
    few = local_features(photo, "sift", keypoints=50)
    assert len(few) == 50
    np.testing.assert_array_equal(few.points, all_of_them.points[:50])
    np.testing.assert_array_equal(few.descriptors, all_of_them.descriptors[:50])


def test_places_are_pixels_of_the_whole_photo(photo: np.ndarray) -> None:
    large = Image.fromarray(photo).resize((960, 720), Image.Resampling.BICUBIC)
    small, shrunk = local_features(photo), local_features(large, size=480)
    assert (shrunk.shape, shrunk.scale) == ((720, 960), 2.0)
    expected = small.points[:100] * 2 + 0.5
    apart = np.linalg.norm(expected[:, None] - shrunk.points[None], axis=2)
    assert np.median(apart.min(axis=1)) < 0.5
    times = shrunk.sizes[apart.argmin(axis=1)] / small.sizes[:100]
    assert np.median(times) == pytest.approx(2, rel=0.1)


def test_a_box_keeps_the_keypoints_inside_unchanged(photo: np.ndarray) -> None:
    box = (100.0, 80.0, 300.0, 260.0)
    inside, everywhere = local_features(photo, box=box), local_features(photo, keypoints=10**6)
    assert 10 < len(inside) < len(everywhere)
    assert (inside.points >= (99.5, 79.5)).all()
    assert (inside.points <= (299.5, 259.5)).all()
    known = {tuple(row) for row in everywhere.descriptors}
    assert all(tuple(row) in known for row in inside.descriptors)


@BITS
def test_binary_descriptors_are_bytes_of_keypoints_of_their_own(
    photo: np.ndarray, model: str, width: int
) -> None:
    features = local_features(photo, model, keypoints=40)
    assert (features.descriptors.shape, features.descriptors.dtype) == ((40, width), np.uint8)
    assert len(np.unique(features.descriptors, axis=0)) > 30
    sift = local_features(photo, "sift", keypoints=40)
    assert not np.isin(features.points[:, 0], sift.points[:, 0]).any()
    again = local_features(photo, model, keypoints=40)
    np.testing.assert_array_equal(features.points, again.points)
    np.testing.assert_array_equal(features.descriptors, again.descriptors)


@BITS
def test_a_box_has_binary_keypoints_inside_alone(photo: np.ndarray, model: str, width: int) -> None:
    inside = local_features(photo, model, keypoints=100, box=(100.0, 80.0, 300.0, 260.0))
    assert 50 < len(inside) <= 100
    assert (inside.points >= (99.5, 79.5)).all()
    assert (inside.points <= (299.5, 259.5)).all()


@BITS
@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (64, 64)])
def test_a_photo_of_nothing_has_no_bits(shape: tuple[int, int], model: str, width: int) -> None:
    features = local_features(np.full((*shape, 3), 120, np.uint8), model)
    assert (len(features), features.descriptors.shape) == (0, (0, width))


def test_akaze_is_found_wherever_opencv_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(cv2, "AKAZE_create", raising=False)
    monkeypatch.setattr(cv2, "xfeatures2d", None, raising=False)
    with pytest.raises(SolarError, match="AKAZE"):
        local_model("akaze")
    extra = SimpleNamespace(AKAZE_create=lambda: "of the extra modules")
    monkeypatch.setattr(cv2, "xfeatures2d", extra)
    assert akaze() == "of the extra modules"
    assert local_model("akaze") == "akaze"


@pytest.mark.parametrize("model", ["sift", "rootsift", PatchNet().eval()])
def test_descriptors_are_unit_rows(photo: np.ndarray, model: PatchNet | str) -> None:
    features = local_features(photo, model, keypoints=40)
    assert features.descriptors.shape == (40, 128)
    np.testing.assert_allclose(np.linalg.norm(features.descriptors, axis=1), 1, atol=1e-5)


def test_a_network_describes_the_patches_of_the_keypoints(photo: np.ndarray) -> None:
    model = PatchNet(PatchConfig(attention={5: 2})).eval()
    found = local_features(photo, model, keypoints=30, frames="demo")
    grey = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY)
    keypoints = np.column_stack([found.points, found.sizes, found.angles])
    patches = patch_cutter(grey, keypoints, "demo")(slice(None))
    np.testing.assert_allclose(found.descriptors, model.describe(patches.numpy()), atol=1e-3)


@pytest.mark.parametrize("model", ["rootsift", PatchNet().eval()])
@pytest.mark.parametrize("shape", [(1, 1), (2, 300), (64, 64)])
def test_a_photo_of_nothing_has_no_features(shape: tuple[int, int], model: PatchNet | str) -> None:
    features = local_features(np.full((*shape, 3), 120, np.uint8), model)
    assert (len(features), features.descriptors.shape) == (0, (0, 128))


def test_models_by_name_and_file(tmp_path: Path) -> None:
    from solar.models import save

    assert local_model(None) == local_model("rootsift") == "rootsift"
    save(PatchNet(), tmp_path / "patches.safetensors")
    assert isinstance(local_model(tmp_path / "patches.safetensors"), PatchNet)


def test_a_model_for_whole_photos_is_refused() -> None:
    with pytest.raises(SolarError, match="whole photos"):
        local_model(RetrievalNet(RetrievalConfig("resnet18")))


@pytest.mark.parametrize("wrong", [{"keypoints": 0}, {"size": 0}, {"frames": "narrow"}])
def test_settings_that_make_no_sense(photo: np.ndarray, wrong: dict[str, object]) -> None:
    with pytest.raises(SolarError):
        local_features(photo, **wrong)
