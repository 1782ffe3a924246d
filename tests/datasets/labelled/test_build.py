import csv
import tarfile
from pathlib import Path

import pytest

from solar.datasets.labelled.build import build_training_set
from solar.datasets.labelled.sources import read_training_set
from solar.demo import toy
from solar.errors import SolarError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    toy.write(tmp_path / "photos", landmarks=5, views=3, size=(64, 48))
    toy.write(tmp_path / "photos", landmarks=1, views=1, first=9, size=(64, 48))
    return tmp_path / "photos"


def test_a_folder_is_counted_and_written(photos: Path, tmp_path: Path) -> None:
    built = build_training_set(photos, tmp_path / "set.json")
    assert (built.photos, built.landmarks, built.queries) == (16, 6, 15)
    assert (built.positives, built.singletons, built.held_out) == (15, 1, 0)
    assert built.unreadable == {}
    found, direct = read_training_set(tmp_path / "set.json"), read_training_set(photos)
    assert found.photos == direct.photos
    assert found.landmarks.tolist() == direct.landmarks.tolist()


def test_what_cannot_be_read_is_left_out_and_named(photos: Path, tmp_path: Path) -> None:
    cut = photos / "landmark-002/view-001.jpg"
    cut.write_bytes(cut.read_bytes()[:-300])
    built = build_training_set(photos, tmp_path / "set.json")
    assert list(built.unreadable) == ["landmark-002/view-001.jpg"]
    assert "damaged or cut short" in built.unreadable["landmark-002/view-001.jpg"]
    assert built.photos == 15


def test_shards_stay_where_they_are(photos: Path, tmp_path: Path) -> None:
    shards = [tmp_path / f"{number}.tar" for number in range(2)]
    for number, shard in enumerate(shards):
        with tarfile.open(shard, "w") as file:
            for path in sorted(photos.rglob("*.jpg"))[number::2]:
                file.add(path, path.relative_to(photos))
    build_training_set(shards, tmp_path / "set.json")
    found = read_training_set(tmp_path / "set.json")
    for number, name in enumerate(found.photos.names):
        assert found.photos.read(number) == (photos / name).read_bytes()
    shards[1].rename(tmp_path / "aside")
    with pytest.raises(SolarError, match=r"There is no file or folder .*1\.tar"):
        read_training_set(tmp_path / "set.json")


def test_a_csv_whose_photos_are_elsewhere(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "lists").mkdir()
    with (tmp_path / "lists/photos.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "author", "landmark"])
        for path in photos.rglob("*.jpg"):
            writer.writerow([path.relative_to(photos).as_posix(), "me", path.parent.name])
        writer.writerow(["gone.jpg", "me", "landmark-000"])
    output = tmp_path / "set.json"
    built = build_training_set(tmp_path / "lists/photos.csv", output, root=photos)
    assert list(built.unreadable) == ["gone.jpg"]
    assert read_training_set(output).photos == read_training_set(photos).photos


def test_held_out_landmarks_are_in_the_other_part(photos: Path, tmp_path: Path) -> None:
    output = tmp_path / "set.json"
    built = build_training_set(photos, output, val_fraction=0.4)
    train, held = read_training_set(output), read_training_set(output, part="val")
    assert built.held_out == len(held.labels) == 2
    assert len(train.labels) == 4
    assert not set(train.labels) & set(held.labels)
    assert "landmark-009" in train.labels  # a single photo has nothing to validate


def test_the_same_bytes_every_time(photos: Path, tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        build_training_set(photos, tmp_path / name, val_fraction=0.4, seed=3)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_compared_once_and_chosen_again(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=3, views=4)
    compared = build_training_set(tmp_path / "photos", tmp_path / "set.json", verify=True)
    stricter = build_training_set(tmp_path / "set.json", tmp_path / "strict.json", least=40)
    assert 0 < stricter.positives < compared.positives <= 18
    anew = tmp_path / "anew.json"
    build_training_set(tmp_path / "photos", anew, verify=True, least=40)
    assert anew.read_bytes() == (tmp_path / "strict.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"least": 5}, "verify="),
        ({"least": 0}, "least"),
        ({"val_fraction": 1.5}, "1.5"),
    ],
)
def test_options_that_make_no_sense_are_refused_and_nothing_is_written(
    photos: Path, tmp_path: Path, options: dict[str, float], sentence: str
) -> None:
    with pytest.raises(SolarError, match=sentence):
        build_training_set(photos, tmp_path / "set.json", **options)
    assert not (tmp_path / "set.json").exists()


def test_an_output_that_training_would_not_know_is_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(SolarError, match=r"\.json"):
        build_training_set(photos, tmp_path / "set.txt")


def test_what_was_not_compared_cannot_be_chosen_from(photos: Path, tmp_path: Path) -> None:
    build_training_set(photos, tmp_path / "set.json")
    with pytest.raises(SolarError, match="verify"):
        build_training_set(tmp_path / "set.json", tmp_path / "other.json", least=20)


def test_no_photo_that_can_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "photos/a").mkdir(parents=True)
    (tmp_path / "photos/a/1.jpg").write_bytes(b"nothing")
    with pytest.raises(SolarError, match="None of 1"):
        build_training_set(tmp_path / "photos", tmp_path / "set.json")
