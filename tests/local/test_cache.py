import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.bits import BITS
from support.warped import toy_photo

from solar.local.cache import LocalCache, count_kept, forget_others, pack, unpack
from solar.local.features import LocalFeatures, local_features
from solar.models import PatchNet


@pytest.fixture(scope="module")
def features() -> LocalFeatures:
    return local_features(toy_photo(), keypoints=200)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    Image.fromarray(toy_photo()).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def test_packed_features_are_nearly_the_same(features: LocalFeatures) -> None:
    back = unpack(pack(features))
    assert back is not None
    assert back.shape == features.shape
    assert back.scale == pytest.approx(features.scale)
    np.testing.assert_allclose(back.points, features.points, atol=0.01)
    np.testing.assert_allclose(back.sizes, features.sizes, rtol=1e-3)
    np.testing.assert_allclose(back.angles, features.angles, atol=0.15)
    cosines = (back.descriptors * features.descriptors).sum(axis=1)
    assert cosines.min() > 0.9998


def test_a_keypoint_takes_136_bytes(features: LocalFeatures) -> None:
    none = replace(features, **{
        name: getattr(features, name)[:0] for name in ("points", "sizes", "angles", "descriptors")
    })  # fmt: skip
    assert len(pack(features)) - len(pack(none)) == 136 * len(features)
    back = unpack(pack(none))
    assert back is not None
    assert back.descriptors.shape == (0, 128)


@BITS
def test_bits_are_kept_as_they_are(model: str, width: int) -> None:
    features = local_features(toy_photo(), model, keypoints=100)
    content = pack(features)
    back = unpack(content)
    assert back is not None
    assert back.descriptors.dtype == np.uint8
    np.testing.assert_array_equal(back.descriptors, features.descriptors)
    none = replace(features, **{
        name: getattr(features, name)[:0] for name in ("points", "sizes", "angles", "descriptors")
    })  # fmt: skip
    assert len(content) - len(pack(none)) == (8 + width) * len(features)


def test_damage_is_noticed(tmp_path: Path, photo: Path, features: LocalFeatures) -> None:
    content = pack(features)
    assert unpack(b"") is unpack(content[:-1]) is unpack(content + b"x") is None
    assert unpack(b"x" + content[1:]) is None
    LocalCache(tmp_path / "local", "rootsift").put("a.png", photo, features)
    [file] = (tmp_path / "local").iterdir()
    whole, begin = file.read_bytes(), file.read_bytes().index(content[:8])
    for place in (0, 9, 30, 50, 60, 2000):
        broken = bytearray(whole)
        broken[begin + place] ^= 1
        file.write_bytes(broken)
        assert LocalCache(tmp_path / "local", "rootsift").get("a.png", photo) is None
    LocalCache(tmp_path / "local", "rootsift").put("a.png", photo, features)
    assert LocalCache(tmp_path / "local", "rootsift").get("a.png", photo) is not None


def test_features_are_counted_and_those_of_other_photos_deleted(
    tmp_path: Path, photo: Path, features: LocalFeatures
) -> None:
    for keypoints in (100, 200):
        cache = LocalCache(tmp_path / "local", "rootsift", keypoints=keypoints)
        for name in ("a.png", "b.png"):
            cache.put(name, photo, features)
    assert count_kept(tmp_path / "local") == (4, 4 * len(pack(features)))
    forget_others(tmp_path / "local", ["b.png", "c.png"])
    assert count_kept(tmp_path / "local")[0] == 2
    assert cache.get("a.png", photo) is None
    assert cache.get("b.png", photo) is not None


def test_features_of_another_photo_do_not_count(features: LocalFeatures) -> None:
    assert unpack(pack(features, b"one"), b"one") is not None
    assert unpack(pack(features, b"one"), b"another") is None


def test_a_cache_that_cannot_be_read_is_named_and_holds_nothing(
    tmp_path: Path, photo: Path, features: LocalFeatures
) -> None:
    LocalCache(tmp_path / "local", "rootsift").put("a.png", photo, features)
    [file] = (tmp_path / "local").iterdir()
    file.write_bytes(file.read_bytes()[:5000])
    cache = LocalCache(tmp_path / "local", "rootsift")
    with pytest.warns(UserWarning, match=f"{file} is damaged"):
        assert cache.get("a.png", photo) is None
    cache.put("a.png", photo, features)
    assert not cache.writable
    file.unlink()
    LocalCache(tmp_path / "local", "rootsift").put("a.png", photo, features)
    assert LocalCache(tmp_path / "local", "rootsift").get("a.png", photo) is not None


def test_a_photo_that_changed_is_not_known(
    tmp_path: Path, photo: Path, features: LocalFeatures
) -> None:
    cache = LocalCache(tmp_path / "local", "rootsift", keypoints=200)
    assert cache.get("a.png", photo) is None
    cache.put("a.png", photo, features)
    assert cache.get("a.png", photo) is not None
    os.utime(photo, ns=(1, 1))
    assert cache.get("a.png", photo) is None


def test_models_and_settings_do_not_share_features(
    tmp_path: Path, photo: Path, features: LocalFeatures
) -> None:
    LocalCache(tmp_path / "local", "rootsift", keypoints=200).put("a.png", photo, features)
    for model, keypoints in (("sift", 200), ("rootsift", 100), (PatchNet(), 200)):
        assert (
            LocalCache(tmp_path / "local", model, keypoints=keypoints).get("a.png", photo) is None
        )


def test_a_folder_that_cannot_be_written_keeps_nothing(
    tmp_path: Path, photo: Path, features: LocalFeatures
) -> None:
    (tmp_path / "local").write_text("a file is in the way")
    cache = LocalCache(tmp_path / "local", "rootsift")
    cache.put("a.png", photo, features)
    assert cache.get("a.png", photo) is None
