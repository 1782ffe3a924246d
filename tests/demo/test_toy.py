import hashlib
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from solar.demo import toy
from solar.demo.building import Building, Dice
from solar.demo.scene import Scene
from solar.errors import SolarError


def fingerprint(photo):
    return hashlib.sha256(photo.tobytes()).hexdigest()


def gradients(photo):
    """Twelve gradient orientations in each cell of a 4x3 grid, in unit length."""
    grey = np.asarray(photo.convert("L").resize((160, 120)), dtype=np.float32)
    dy, dx = np.gradient(grey)
    strength = np.hypot(dx, dy)
    bins = (np.arctan2(dy, dx) % np.pi / np.pi * 12).astype(int) % 12
    cells = [
        np.bincount(
            bins[y : y + 40, x : x + 40].ravel(), strength[y : y + 40, x : x + 40].ravel(), 12
        )
        for y in range(0, 120, 40)
        for x in range(0, 160, 40)
    ]
    return np.sqrt(np.concatenate(cells))


def pixels(photo):
    return np.asarray(photo.resize((32, 24)), dtype=np.float32).ravel()


def similarities(photos, descriptor):
    rows = np.stack([descriptor(photo) for photo in photos])
    rows = rows - rows.mean(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows @ rows.T


@pytest.fixture(scope="module")
def album():
    """Twelve landmarks, five photos of each, and whose they are."""
    photos = [toy.landmark(i, v) for i in range(12) for v in range(5)]
    return photos, np.repeat(np.arange(12), 5)


@pytest.mark.parametrize(("identity", "view"), [(0, 0), (3, 2), (toy.DISTRACTORS, 0)])
def test_the_same_numbers_give_the_same_photo(identity, view):
    photos = [toy.landmark(identity, view, size=(96, 72), seed=5) for _ in range(2)]
    assert fingerprint(photos[0]) == fingerprint(photos[1])


def test_a_fresh_process_gives_the_same_photo_without_loading_torch():
    program = (
        "import hashlib, sys; from solar.demo import toy;"
        "print(hashlib.sha256(toy.landmark(7, 3, size=(96, 72)).tobytes()).hexdigest());"
        "print('torch' in sys.modules or 'cv2' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [fingerprint(toy.landmark(7, 3, size=(96, 72))), "False"]


def building(identity, seed=0):
    return vars(Building(Dice(seed, identity)))


def scenes(identity, count):
    return [Scene(Dice(0, identity, view)) for view in range(count)]


def test_buildings_never_change_between_releases():
    b = building(3)
    assert (b["floors"], b["bays"], b["roof"], b["texture"], b["window"]) == (
        6,
        8,
        "stepped",
        "timber",
        "rectangular",
    )
    assert b["floor_height"] == pytest.approx(3.385649787)
    assert b["grain"] == 555513880


def test_scenes_never_change_between_releases():
    s = scenes(3, 3)[2]
    assert (s.hour, s.clutter) == ("day", 288515358)
    assert s.angle == pytest.approx(40.983720828)


def test_another_seed_is_another_world():
    assert building(0, seed=1) != building(0)


def test_two_hundred_buildings_are_all_different():
    assert len({repr(building(i) | {"grain": 0}) for i in range(200)}) == 200


def test_views_of_a_landmark_differ():
    assert len({fingerprint(toy.landmark(1, v, size=(64, 48))) for v in range(8)}) == 8


def test_views_cover_every_light_and_both_sides():
    views = scenes(0, 60)
    assert {s.hour for s in views} == {"day", "morning", "overcast", "dusk", "night"}
    assert min(s.angle for s in views) < -35
    assert max(s.angle for s in views) > 35


def test_landmarks_share_wall_colours():
    walls = np.array([building(i)["colours"]["wall"] for i in range(40)])
    apart = np.abs(walls[:, None] - walls[None]).max(axis=2) + 255 * np.eye(40, dtype=int)
    assert (apart.min(axis=1) <= 16).mean() > 0.7


def test_gradients_tell_that_photos_show_the_same_landmark(album):
    photos, whose = album
    close = similarities(photos, gradients)
    same = (whose[:, None] == whose) & ~np.eye(len(whose), dtype=bool)
    other = whose[:, None] != whose
    assert close[same].mean() > close[other].mean() + 0.05


def test_raw_pixels_do_not_solve_the_task(album):
    photos, whose = album
    close = similarities(photos, pixels)
    np.fill_diagonal(close, -2)
    assert (whose[close.argmax(axis=1)] == whose).mean() < 0.5


@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(16, 130), st.integers(16, 130)),
    identity=st.integers(0, 10**9),
    view=st.integers(0, 10**9),
)
def test_any_size_and_number_gives_a_colour_photo_of_that_size(size, identity, view):
    photo = toy.landmark(identity, view, size=size)
    assert (photo.size, photo.mode) == (size, "RGB")


@pytest.mark.parametrize("size", [(321, 241), (240, 320), (101, 333)])
def test_odd_and_portrait_sizes_show_the_building(size):
    bare = toy.landmark(2, 3, size=size)
    assert bare.size == size
    assert np.asarray(bare.convert("L"), dtype=float).std() > 20


def test_global_random_state_is_left_alone():
    before = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    toy.landmark(0, 0, size=(64, 48))
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # noqa: NPY002


@pytest.mark.parametrize(
    "numbers", [{"identity": -1, "view": 0}, {"identity": 0, "view": -1}, {"seed": -1}]
)
def test_negative_numbers_are_refused(numbers):
    with pytest.raises(SolarError, match="from 0 upwards"):
        toy.landmark(**{"identity": 0, "view": 0} | numbers)


def test_tiny_sizes_are_refused():
    with pytest.raises(SolarError, match="at least 16x16"):
        toy.landmark(0, 0, size=(15, 200))


def test_write_lays_out_landmarks_and_distractors(tmp_path):
    files = toy.write(tmp_path / "new", landmarks=2, views=2, size=(48, 36), first=9, distractors=1)
    assert [f.relative_to(tmp_path / "new").as_posix() for f in files] == [
        "landmark-009/view-000.jpg",
        "landmark-009/view-001.jpg",
        "landmark-010/view-000.jpg",
        "landmark-010/view-001.jpg",
        "distractors/photo-009.jpg",
    ]
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == sorted(files)


def test_written_files_hold_the_photo(tmp_path):
    (file,) = toy.write(tmp_path, landmarks=1, views=1, size=(160, 120), seed=2)
    with Image.open(file) as stored:
        assert stored.format == "JPEG"
        written = np.asarray(stored, dtype=int)
    right, wrong = (
        np.abs(written - np.asarray(toy.landmark(0, view, size=(160, 120), seed=2))).mean()
        for view in (0, 1)
    )
    assert right < wrong / 4


def test_writing_again_keeps_equal_files_and_replaces_damaged_ones(tmp_path):
    kept, damaged = toy.write(tmp_path, landmarks=1, views=2, size=(48, 36))
    whole, stamp = damaged.read_bytes(), kept.stat().st_mtime_ns
    inode = kept.stat().st_ino
    damaged.write_bytes(whole[:100])
    toy.write(tmp_path, landmarks=1, views=2, size=(48, 36))
    assert (kept.stat().st_mtime_ns, kept.stat().st_ino) == (stamp, inode)
    assert damaged.read_bytes() == whole


def test_writing_over_a_file_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "taken").write_text("not a folder")
    with pytest.raises(SolarError, match=r"taken.* cannot be written"):
        toy.write(tmp_path / "taken", landmarks=1, views=1, size=(48, 36))


def test_a_negative_count_is_refused(tmp_path):
    with pytest.raises(SolarError, match="from 0 upwards"):
        toy.write(tmp_path, landmarks=-1)
