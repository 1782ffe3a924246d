from pathlib import Path

import numpy as np

from solar.datasets.labelled.build import build_training_set
from solar.datasets.labelled.sources import places_in
from solar.datasets.labelled.training_set import (
    Places,
    Positives,
    TrainingSet,
    label_photos,
)
from solar.demo import toy
from solar.images import Photos

NAMES = ("b/1.jpg", "a/1.jpg", "b/2.jpg", "c/é.jpg", "a/2.jpg", "d/1.jpg", "d/2.jpg", "c/2.jpg")


def few(folder: Path = Path("photos")) -> Places:
    names = ("a", "b", "c", "d")
    labels = np.array([names.index(name[0]) for name in NAMES])
    return Places(Photos.in_folder(folder, NAMES), labels, names)


def test_places_are_held_out_whole_as_landmarks_are() -> None:
    kept, held = few().split(0.5, seed=3)
    assert len(kept.labels) == len(held.labels) == 2
    for part in (kept, held):
        shown = [part.labels[landmark] for landmark in part.landmarks.tolist()]
        assert shown == [name[0] for name in part.photos.names]
    alike = label_photos(Photos.in_folder(Path(), NAMES), [name[0] for name in NAMES], "x")
    assert list(held.labels) == alike.held_out(0.5, seed=3)


def test_folders_and_training_files_are_read_alike(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=5, views=2, size=(32, 24))
    build_training_set(tmp_path / "photos", tmp_path / "set.json", val_fraction=0.4)
    folder = places_in(tmp_path / "photos")
    assert folder.labels == tuple(f"landmark-{n:03d}" for n in range(5))
    assert folder.landmarks.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    parts = [places_in(tmp_path / "set.json", part=part) for part in ("train", "val")]
    assert sorted(parts[0].labels + parts[1].labels) == list(folder.labels)
    assert parts[0].photos.read(0).is_file()  # type: ignore[union-attr]


def test_the_clean_list_of_google_landmarks_has_its_own_reader(tmp_path: Path) -> None:
    (tmp_path / "train_clean.csv").write_text("landmark_id,images\n7,abc1 abd2\n3,bcd3 bce4\n")
    for photo in ("a/b/c/abc1", "a/b/d/abd2", "b/c/d/bcd3"):
        path = tmp_path / f"train/{photo}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for source in (tmp_path, tmp_path / "train_clean.csv"):
        found = places_in(source, missing="drop")
        assert found.photos.read(0) == tmp_path / "train/a/b/c/abc1.jpg"
        assert found.labels == ("3", "7")
        assert found.landmarks.tolist() == [1, 1, 0]


def test_a_landmark_without_photos_is_no_singleton() -> None:
    none = np.zeros(0, np.int64)
    photos = Photos.in_folder(Path("photos"), ("1.jpg", "2.jpg", "3.jpg"))
    data = TrainingSet(
        photos, np.array([0, 0, 2]), ("a", "b", "c"), none, Positives(none, none, none)
    )
    assert data.singletons == 1
