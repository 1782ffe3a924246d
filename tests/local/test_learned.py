"""Local features of HOW and DELF networks: the golden ones, where they are, how they are kept."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from support.drawn import relative_error
from support.golden2 import FOLDER, drawn, golden2

from solar.errors import SolarError
from solar.local.cache import pack, unpack
from solar.local.features import local_features, local_model
from solar.local.learned import kept_features, local_maps
from solar.models import RetrievalConfig, RetrievalNet, load, save

GOLDEN = golden2("how")


@pytest.fixture(scope="module")
def how(tmp_path_factory: pytest.TempPathFactory) -> RetrievalNet:
    """HOW's ResNet-18 from a file as it is published."""
    path = tmp_path_factory.mktemp("how") / "how_r18.pth"
    keys = json.loads((FOLDER / "how_r18_keys.json").read_text())
    state = {key: drawn(key, tuple(shape)) for key, shape in keys.items()}
    torch.save({"state_dict": state, "net_params": {"architecture": "resnet18"}}, path)
    return load(path, device="cpu")


def test_how_gives_the_golden_numbers(how: RetrievalNet) -> None:
    pixels = torch.from_numpy(GOLDEN["how_image"])[None]
    images = how.normalise(pixels)
    with torch.inference_mode():
        raw = how.forward_features(images)[0]
        assert relative_error(raw[:8], GOLDEN["how_raw_scale1_8ch"]) < 1e-5
        assert relative_error(how(images)[0], GOLDEN["how_global_train"]) < 1e-5
    [single] = how.describe(pixels.numpy())
    assert relative_error(single, GOLDEN["how_global_train"]) < 1e-5
    maps = local_maps(how, images)
    assert [one.scale for one in maps] == pytest.approx(GOLDEN["how_scales"].tolist())
    assert [list(one.strengths.shape) for one in maps] == GOLDEN["how_map_sizes"].tolist()
    at_one = maps[2]
    assert relative_error(at_one.strengths, GOLDEN["how_attention_scale1"]) < 1e-5
    reduced = np.moveaxis(at_one.descriptors, -1, 0)
    assert relative_error(reduced, GOLDEN["how_reduced_scale1"]) < 1e-5
    largest = max(one.strengths.max() for one in maps)
    total = sum((one.strengths[..., None] / largest * one.descriptors).sum((0, 1)) for one in maps)
    assert relative_error(total / np.linalg.norm(total), GOLDEN["how_global_multi"]) < 1e-5


def test_the_strongest_features_come_in_the_golden_order(how: RetrievalNet) -> None:
    images = how.normalise(torch.from_numpy(GOLDEN["how_image"])[None])
    maps = local_maps(how, images)
    count = len(GOLDEN["how_local_xy"])
    of, rows = kept_features(how.pool, maps, 32, count)
    places = [
        divmod(row, maps[m].strengths.shape[1])[::-1] for m, row in zip(of, rows, strict=True)
    ]
    assert [list(place) for place in places] == GOLDEN["how_local_xy"].tolist()
    scales = np.array([maps[m].scale for m in of], np.float16).astype(np.float32)
    assert np.array_equal(scales, GOLDEN["how_local_scale"])
    largest = max(one.strengths.max() for one in maps)
    strengths = [maps[m].strengths.ravel()[row] / largest for m, row in zip(of, rows, strict=True)]
    assert relative_error(np.array(strengths), GOLDEN["how_local_attention"]) < 1e-5
    features = local_features(GOLDEN["how_image"], how, keypoints=count)
    assert relative_error(features.descriptors, GOLDEN["how_local_desc"]) < 1e-5


def test_places_are_in_pixels_of_the_photo_and_features_survive_being_kept(
    how: RetrievalNet,
) -> None:
    photo = np.zeros((192, 256, 3), np.uint8)
    photo[130:160, 190:220] = np.random.default_rng(0).integers(0, 256, (30, 30, 3))
    features = local_features(photo, how, keypoints=400)
    height, width = photo.shape[:2]
    assert features.shape == (height, width)
    assert (features.points > -1).all()
    assert (features.points < (width, height)).all()
    at_one = features.points[features.sizes == 64]  # 6 × 8 locations, 32 pixels apart
    assert sorted(at_one.tolist()) == [[32.0 * x, 32.0 * y] for x in range(8) for y in range(6)]
    kept = unpack(pack(features))
    assert kept is not None
    assert (kept.unit, kept.dense) == (False, True)
    step = float(np.ptp(features.descriptors)) / 255
    assert np.abs(kept.descriptors - features.descriptors).max() <= step
    assert np.allclose(np.linalg.norm(kept.directions, axis=1), 1, atol=1e-5)


def test_a_box_is_cut_out_and_its_features_stay_inside(how: RetrievalNet) -> None:
    photo = np.random.default_rng(1).integers(0, 256, (200, 240, 3), np.uint8)
    box = (40, 20, 168, 148)
    features = local_features(photo, how, box=box)
    assert features.shape == (200, 240)
    assert (features.points >= (39.5, 19.5)).all()
    assert (features.points <= (167.5, 147.5)).all()
    alone = local_features(photo[20:148, 40:168], how)
    assert np.array_equal(alone.descriptors, features.descriptors)


def test_a_small_photo_has_features_of_the_scales_at_which_it_exists(how: RetrievalNet) -> None:
    assert len(local_features(np.full((8, 9, 3), 99, np.uint8), how)) >= 7


@pytest.mark.parametrize("pooling", ["delf", "delg"])
def test_learnt_attention_keeps_descriptors_of_unit_norm(pooling: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = RetrievalConfig("resnet18-conv4", pooling=pooling, whitening=False, scales=(1.0,))
    save(RetrievalNet(config), tmp_path / "net.safetensors")
    model = local_model(tmp_path / "net.safetensors")
    photo = np.random.default_rng(1).integers(0, 256, (96, 128, 3), np.uint8)
    features = local_features(photo, model, keypoints=50)
    assert features.descriptors.shape == (50, {"delf": 128, "delg": 512}[pooling])
    assert features.unit
    assert np.allclose(np.linalg.norm(features.descriptors, axis=1), 1, atol=1e-5)


def test_a_network_without_local_features_is_refused() -> None:
    with pytest.raises(SolarError, match="whole photos"):
        local_model(RetrievalNet(RetrievalConfig("resnet18")))
