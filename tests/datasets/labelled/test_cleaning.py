from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from solar.datasets.labelled.cleaning import (
    Geometry,
    agreeing,
    compare_group,
    compare_photos,
)
from solar.datasets.labelled.sources import read_training_set
from solar.datasets.labelled.training_set import TrainingSet, label_photos
from solar.demo import toy
from solar.errors import SolarError
from solar.images import Photos, find_photos
from solar.local.features import LocalFeatures, local_features
from solar.models import PatchConfig, PatchNet, save

LANDMARKS, VIEWS = 4, 5
SWAPPED = ("landmark-000/view-001.jpg", "landmark-002/view-003.jpg")


@pytest.fixture(scope="module")
def mislabelled(tmp_path_factory: pytest.TempPathFactory) -> TrainingSet:
    """Toy landmarks of which two photos are in each other's folder."""
    folder = tmp_path_factory.mktemp("toy")
    toy.write(folder, landmarks=LANDMARKS, views=VIEWS)
    first, second = (folder / name for name in SWAPPED)
    first.rename(folder / "aside")
    second.rename(first)
    (folder / "aside").rename(second)
    return read_training_set(folder)


@pytest.fixture(scope="module")
def matches(mislabelled: TrainingSet) -> list[tuple[int, int, int]]:
    return compare_photos(mislabelled)


def test_swapped_photos_agree_with_nobody_and_the_others_do(
    mislabelled: TrainingSet, matches: list[tuple[int, int, int]]
) -> None:
    names = mislabelled.photos.names
    partnered = {names[photo] for a, b, count in matches if count >= 12 for photo in (a, b)}
    assert not partnered & set(SWAPPED)
    assert len(partnered) >= len(names) - len(SWAPPED) - 3


def test_pairs_are_ordered_within_a_landmark_and_above_the_floor(
    mislabelled: TrainingSet, matches: list[tuple[int, int, int]]
) -> None:
    assert matches == sorted(matches)
    for a, b, count in matches:
        assert a < b
        assert mislabelled.landmarks[a] == mislabelled.landmarks[b]
        assert count >= Geometry().floor


def test_two_processes_find_the_same(
    mislabelled: TrainingSet, matches: list[tuple[int, int, int]]
) -> None:
    done: list[tuple[str, int, int]] = []
    together = compare_photos(mislabelled, processes=2, progress=lambda *told: done.append(told))
    assert together == matches
    pairs = LANDMARKS * VIEWS * (VIEWS - 1) // 2
    assert done[-1][1:] == (pairs, pairs)


def test_of_a_large_group_the_likeliest_are_compared(
    mislabelled: TrainingSet, matches: list[tuple[int, int, int]]
) -> None:
    everything = Photos(mislabelled.photos.names, mislabelled.photos.places)
    geometry = Geometry(all_pairs=4, candidates=4)
    found = compare_group(everything, geometry)
    all_pairs = compare_group(everything, Geometry())
    assert set(found) < set(all_pairs)
    strong = {match for match in all_pairs if match[2] >= 20}
    assert len(strong & set(found)) > 0.7 * len(strong)


def test_a_large_landmark_is_compared_in_groups(mislabelled: TrainingSet) -> None:
    groups = Geometry(group=3)
    first = compare_photos(mislabelled, groups)
    assert first == compare_photos(mislabelled, groups)
    assert 0 < len(first) < len(compare_photos(mislabelled))


def points(photo: Image.Image) -> LocalFeatures:
    return local_features(photo, keypoints=Geometry().keypoints, size=Geometry().size)


def test_a_turned_and_shrunk_photo_agrees() -> None:
    photo = toy.landmark(3, 1)
    turned = photo.rotate(20, expand=True).resize((260, 230), Image.Resampling.LANCZOS)
    assert agreeing(points(photo), points(turned), Geometry()) > 50


def test_a_reflection_does_not_agree() -> None:
    photo = points(toy.landmark(3, 1))
    upside_down = photo.points * np.float32([1, -1]) + np.float32([0, photo.shape[0]])
    assert agreeing(photo, replace(photo, points=upside_down), Geometry(stamp=0)) == 0
    moved = photo.points * np.float32(0.8) + np.float32(9)
    assert agreeing(photo, replace(photo, points=moved), Geometry(stamp=0)) > 100


def test_a_date_stamped_on_both_photos_does_not_count() -> None:
    photos = [toy.landmark(number, 0) for number in (2, 3)]
    for photo in photos:
        stamp = Image.new("RGB", (150, 18), "black")
        ImageDraw.Draw(stamp).text((2, 2), "2024-08-17 14:35:09 No. 4711", fill="orange")
        photo.paste(stamp, (photo.width - 155, photo.height - 22))
    counted, ignored = Geometry(stamp=0), Geometry()
    features = [points(photo) for photo in photos]
    assert agreeing(*features, counted) >= 12
    assert agreeing(*features, ignored) < 8


def test_a_photo_of_nothing_has_no_points_and_agrees_with_nobody() -> None:
    geometry = Geometry()
    empty = points(Image.new("RGB", (64, 64), "grey"))
    assert empty.points.shape == (0, 2)
    something = points(toy.landmark(0, 0))
    assert agreeing(empty, something, geometry) == agreeing(something, empty, geometry) == 0


def test_a_photo_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    toy.write(tmp_path, landmarks=2, views=2)
    (tmp_path / "landmark-001/view-000.jpg").write_bytes(b"no photo")
    with pytest.raises(SolarError, match=r"view-000\.jpg"):
        compare_group(find_photos(tmp_path), Geometry())


def test_any_local_descriptor_may_compare(
    mislabelled: TrainingSet, matches: list[tuple[int, int, int]]
) -> None:
    found = compare_photos(mislabelled, Geometry(model="sift"))
    assert found != matches
    assert len({match[:2] for match in found} & {match[:2] for match in matches}) > 10
    with pytest.raises(SolarError, match="no-such-model"):
        compare_photos(mislabelled, Geometry(model="no-such-model"), processes=2)


def test_a_patch_network_compares_in_processes_of_its_own(
    mislabelled: TrainingSet, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    file = save(PatchNet(PatchConfig()), tmp_path / "patches.safetensors")
    chosen = [n for n, landmark in enumerate(mislabelled.landmarks) if landmark in (0, 1)]
    labels = [mislabelled.labels[mislabelled.landmarks[number]] for number in chosen]
    few = label_photos(mislabelled.photos.select(chosen), labels, "x")
    geometry = Geometry(model=str(file), keypoints=200)
    found = compare_photos(few, geometry, processes=2)
    assert found == compare_photos(few, geometry)
    assert len(found) > 4
