from pathlib import Path

import numpy as np
import pytest
from support.patch_sets import write_sequence

from solar.datasets.patches import hpatches_cut
from solar.datasets.patches.hpatches import STRIPS, read_hpatches
from solar.datasets.patches.hpatches_cut import (
    JITTERS,
    Jitter,
    carried,
    cut_patches,
    distinct,
    jittered,
    make_hpatches,
    read_sequences,
)
from solar.errors import SolarError


def test_reads_every_sequence_of_a_folder_by_name(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_b", seed=1)
    expected = write_sequence(tmp_path / "v_a")
    (tmp_path / "notes").mkdir()
    found = read_sequences(tmp_path)
    assert [one.name for one in found] == ["v_a", "v_b"]
    assert [path.name for path in found[0].photos] == [f"{n}.png" for n in range(1, 7)]
    np.testing.assert_allclose(found[0].homographies, [np.eye(3), *expected])


def test_a_folder_may_be_a_sequence_itself(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_a")
    assert [one.name for one in read_sequences(tmp_path / "v_a")] == ["v_a"]


@pytest.mark.parametrize(
    "text", ["", "1 0 0 0 1 0 0 0", "1 0 0 0 1 0 0 0 x", "nan 0 0 0 1 0 0 0 1", "0 " * 9]
)
def test_a_damaged_homography_is_named(tmp_path: Path, text: str) -> None:
    write_sequence(tmp_path / "v_a")
    (tmp_path / "v_a" / "H_1_3").write_text(text)
    with pytest.raises(SolarError, match="H_1_3"):
        read_sequences(tmp_path)


def test_a_missing_homography_is_named(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_a")
    (tmp_path / "v_a" / "H_1_3").unlink()
    with pytest.raises(SolarError, match="H_1_3"):
        read_sequences(tmp_path)


def test_a_folder_without_sequences_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="sequence"):
        read_sequences(tmp_path)


@pytest.fixture(scope="module")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sequences")
    write_sequence(folder / "v_a")
    return folder


def frame(x: float, y: float, half: float, angle: float = 0.0) -> np.ndarray:
    linear = half * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.concatenate([linear, [[x], [y]]], axis=1)


def test_a_set_is_complete_and_comes_back_from_its_folder(sequences: Path, tmp_path: Path) -> None:
    made = make_hpatches(sequences, tmp_path, keypoints=30)
    found = read_hpatches(tmp_path)
    assert found.counts == made.counts
    assert 5 < made.counts["v_a"] <= 30
    for kind in STRIPS:
        np.testing.assert_array_equal(found.strip("v_a", kind), made.strip("v_a", kind))


def test_the_seed_decides_the_jitter_and_nothing_else(sequences: Path) -> None:
    one, same, other = (make_hpatches(sequences, seed=seed, keypoints=20) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.strip("v_a", "t3"), same.strip("v_a", "t3"))
    np.testing.assert_array_equal(one.strip("v_a", "ref"), other.strip("v_a", "ref"))
    assert (one.strip("v_a", "t3") != other.strip("v_a", "t3")).any()


def test_without_jitter_all_photos_show_the_reference_patch(
    sequences: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hpatches_cut, "JITTERS", dict.fromkeys("eht", Jitter(0, 0, 0, 0)))
    made = make_hpatches(sequences, keypoints=30)
    reference = made.strip("v_a", "ref").astype(float)
    for image in range(1, 6):
        apart = np.abs(reference - made.strip("v_a", f"e{image}"))
        assert np.median(apart) < 4
    unlike = np.abs(reference - np.roll(reference, 1, axis=0))
    assert np.median(unlike) > 10


def test_tougher_jitter_is_further_from_the_reference(sequences: Path) -> None:
    made = make_hpatches(sequences)
    reference = made.strip("v_a", "ref").astype(float)
    apart = [np.abs(reference - made.strip("v_a", f"{noise}1")).mean() for noise in "eht"]
    assert apart[0] < apart[1] < apart[2]


@pytest.mark.parametrize("noise", ["e", "h", "t"])
def test_jitter_fills_its_ranges_and_stays_in_them(noise: str) -> None:
    jitter = JITTERS[noise]
    units = np.broadcast_to(frame(0, 0, 1), (4000, 2, 3))
    found = jittered(units, jitter, np.random.default_rng(0))
    sizes = np.log2(np.abs(np.linalg.det(found[:, :, :2]))) / 2
    stretches = np.linalg.svd(found[:, :, :2], compute_uv=False)
    u, _, v = np.linalg.svd(found[:, :, :2])
    turned = u @ v
    angles = np.degrees(np.arctan2(turned[:, 1, 0], turned[:, 0, 0]))
    for values, end in (
        (sizes, jitter.scale),
        (np.log2(stretches[:, 0] / stretches[:, 1]), jitter.anisotropy),
        (angles, jitter.rotation),
        (found[:, :, 2], jitter.translation),
    ):
        assert 0.98 * end < np.abs(values).max() <= end * (1 + 1e-9)


def test_a_frame_is_carried_as_the_homography_carries_points_near_it() -> None:
    homography = np.array([[0.9, 0.2, 5], [-0.1, 1.1, -3], [4e-4, -2e-4, -1]])
    small = frame(40, 60, 1e-4, 0.3)
    found = carried(np.stack([small, small]), homography)[0]
    for corner in ([0, 0, 1], [1, 0, 1], [0, 1, 1], [-1, 1, 1]):
        mapped = homography @ [*(small @ corner), 1]
        np.testing.assert_allclose(found @ corner, mapped[:2] / mapped[2], atol=1e-8)


def test_a_frame_behind_the_camera_is_nowhere() -> None:
    homography = np.array([[1, 0, 0], [0, 1, 0], [-0.01, 0, 1]])
    found = carried(np.stack([frame(10, 5, 3), frame(20, 5, 3), frame(200, 5, 3)]), homography)
    assert np.isfinite(found).all(axis=(1, 2)).tolist() == [True, True, False]


def test_a_patch_of_its_own_size_is_copied() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (90, 100)).astype(np.uint8)
    # A square of 65 pixels whose first pixel is (20, 10) has its middle in the middle of (52, 42).
    found = cut_patches(picture, frame(52, 42, 32.5)[None])
    np.testing.assert_array_equal(found[0], picture[10:75, 20:85])


def test_a_large_patch_is_blurred_before_it_is_shrunk() -> None:
    stripes = np.tile(np.array([0, 255], np.uint8), (520, 260))
    found = cut_patches(stripes, frame(259.5, 259.5, 250)[None])
    assert np.ptp(found[0].astype(int)) < 20


def test_of_points_that_overlap_by_more_than_half_the_first_is_kept() -> None:
    frames = np.stack(
        [
            frame(50, 50, 10),
            frame(52, 50, 10, 1.0),
            frame(58, 50, 10),
            frame(50, 50, 40),
            frame(50, 50, 12),
        ]
    )
    np.testing.assert_array_equal(distinct(frames, 9), frames[[0, 2, 3]])
    np.testing.assert_array_equal(distinct(frames, 2), frames[[0, 2]])


def test_a_sequence_of_five_photos_is_refused(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_a")
    (tmp_path / "v_a" / "6.png").unlink()
    with pytest.raises(SolarError, match=r"v_a.* 5 photos"):
        make_hpatches(tmp_path)


def test_a_sequence_without_keypoints_is_refused(tmp_path: Path) -> None:
    write_sequence(tmp_path / "v_a")
    from PIL import Image

    Image.new("L", (240, 240), 99).save(tmp_path / "v_a" / "1.png")
    with pytest.raises(SolarError, match="v_a"):
        make_hpatches(tmp_path)
