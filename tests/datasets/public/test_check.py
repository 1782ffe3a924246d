import json
import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from solar.datasets.public import registry
from solar.datasets.public.check import DatasetReport, check
from solar.datasets.public.registry import File

NAMES = ["all_souls_000013", "oxford_1", "oxford_2"]


def fill(path: Path, content: bytes = b"x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def known_as(monkeypatch: pytest.MonkeyPatch, name: str, photos: int) -> None:
    """Let the catalogue expect fewer photos of a dataset."""
    small = replace(registry.find(name), photos=photos)
    monkeypatch.setattr(registry, "_DATASETS", (small,))


@pytest.fixture
def oxford(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    known_as(monkeypatch, "roxford5k", len(NAMES))
    folder = tmp_path / "roxford5k"
    fill(
        folder / "gnd_roxford5k.pkl",
        pickle.dumps({"imlist": NAMES[1:], "qimlist": NAMES[:1], "gnd": []}),
    )
    for name in NAMES:
        fill(folder / "jpg" / f"{name}.jpg")
    return folder


def counts(report: DatasetReport) -> dict[str, tuple[int, int]]:
    return {item.what: (item.found, item.expected) for item in report.items}


def test_photos_put_there_by_hand_are_complete(oxford: Path) -> None:
    report = check("roxford5k", oxford.parent)
    assert counts(report) == {"gnd_roxford5k.pkl": (1, 1), "photos": (3, 3)}
    assert report.complete


@pytest.mark.parametrize("emptied", [False, True])
def test_missing_and_empty_photos_are_counted_and_named(oxford: Path, emptied: bool) -> None:
    photo = oxford / "jpg" / "oxford_2.jpg"
    photo.write_bytes(b"") if emptied else photo.unlink()
    report = check("roxford5k", oxford.parent)
    assert counts(report)["photos"] == (2, 3)
    assert report.items[-1].missing == ("oxford_2.jpg",)
    assert not report.complete


def test_without_the_ground_truth_photos_are_only_counted(oxford: Path) -> None:
    (oxford / "gnd_roxford5k.pkl").unlink()
    report = check("roxford5k", oxford.parent)
    assert counts(report) == {"gnd_roxford5k.pkl": (0, 1), "photos": (3, 3)}
    assert not report.complete


def test_a_ground_truth_of_another_dataset_is_told(oxford: Path) -> None:
    fill(oxford / "gnd_roxford5k.pkl", pickle.dumps({"imlist": NAMES[:1], "qimlist": []}))
    report = check("roxford5k", oxford.parent)
    assert "names 1 photos" in report.items[1].note
    assert not report.complete


class Trap:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_ground_truth_that_runs_code_is_refused(oxford: Path, tmp_path: Path) -> None:
    fill(oxford / "gnd_roxford5k.pkl", pickle.dumps({"imlist": Trap(tmp_path / "sprung")}))
    report = check("roxford5k", oxford.parent)
    assert "was not loaded" in report.items[1].note
    assert not report.complete
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"<html>", b"\x80", pickle.dumps([1]), pickle.dumps({})])
def test_a_damaged_ground_truth_is_told(oxford: Path, content: bytes) -> None:
    fill(oxford / "gnd_roxford5k.pkl", content)
    assert not check("roxford5k", oxford.parent).complete


@pytest.mark.parametrize(
    ("archive", "release"),
    [("oxbuild_images-v1.tgz", "blurred"), ("oxbuild_images.tgz", "original")],
)
def test_the_archive_that_was_unpacked_tells_the_release(
    oxford: Path, archive: str, release: str
) -> None:
    assert check("roxford5k", oxford.parent).release == ""
    fill(oxford / ".solar" / f"{archive}.json", json.dumps({"files": 3}).encode())
    assert check("roxford5k", oxford.parent).release == release


def test_distractors_are_looked_for_by_their_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_as(monkeypatch, "revisitop1m", 3)
    folder = tmp_path / "revisitop1m"
    fill(folder / "revisitop1m.txt", b"0/a b.jpg\n1/c.jpg\n1/d.png\n")
    fill(folder / "jpg" / "0" / "a b.jpg")
    fill(folder / "jpg" / "1" / "c.jpg")
    report = check("revisitop1m", tmp_path)
    assert counts(report)["photos"] == (2, 3)
    assert report.items[-1].missing == ("1/d.png",)


def test_a_short_list_of_distractors_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_as(monkeypatch, "revisitop1m", 2)
    fill(tmp_path / "revisitop1m" / "revisitop1m.txt", b"c.jpg\n")
    fill(tmp_path / "revisitop1m" / "jpg" / "c.jpg")
    report = check("revisitop1m", tmp_path)
    assert counts(report)["names in revisitop1m.txt"] == (1, 2)
    assert not report.complete


@pytest.mark.parametrize(
    ("marked", "complete"),
    [
        (b"", False),
        (b'{"files": 2}', True),
        (b"{}", False),
        (b'{"files": "many"}', False),
        (b"\xff\xfe", False),
    ],
)
def test_landmarks_are_as_many_as_the_archive_held(
    tmp_path: Path, marked: bytes, complete: bool
) -> None:
    folder = tmp_path / "gl18"
    for name in ("train.csv", "boxes_split1.csv", "boxes_split2.csv", "jpg/0a.jpg", "jpg/0b.jpg"):
        fill(folder / name)
    if marked:
        fill(folder / ".solar" / "GL18_TRAIN.tar.gz.json", marked)
    assert check("gl18", tmp_path).complete is complete


def test_training_photos_are_looked_for_where_their_names_say(tmp_path: Path) -> None:
    folder = tmp_path / "sfm120k"
    database = {"train": {"cids": ["0123456789abcdef"]}, "val": {"cids": ["00000000001a2b3c"]}}
    fill(folder / "retrieval-SfM-120k.pkl", pickle.dumps(database))
    fill(folder / "retrieval-SfM-120k-whiten.pkl", pickle.dumps({"cids": ["0123456789abcdef"]}))
    fill(folder / "ims" / "ef" / "cd" / "ab" / "0123456789abcdef")
    report = check("sfm120k", tmp_path)
    assert counts(report)["photos"] == (1, 2)
    assert report.items[-1].missing == ("ims/3c/2b/1a/00000000001a2b3c",)


def test_a_sequence_needs_all_its_patches(tmp_path: Path) -> None:
    for sequence in ("i_one", "v_two"):
        for file in registry.HPATCHES_FILES:
            fill(tmp_path / "hpatches" / sequence / file)
    (tmp_path / "hpatches" / "v_two" / "t5.png").unlink()
    (item,) = check("hpatches", tmp_path).items
    assert (item.found, item.expected, item.missing) == (1, 116, ("v_two/t5.png",))


def test_patches_are_counted_by_picture_and_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "PHOTOTOUR_PATCHES", {"liberty": 257})
    for name in ("patches0000.bmp", "patches0001.bmp", "m50_100000_100000_0.txt"):
        fill(tmp_path / "phototour" / "liberty" / name)
    fill(tmp_path / "phototour" / "liberty" / "info.txt", b"1 0\n" * 256)
    report = check("phototour", tmp_path)
    assert [(item.found, item.expected) for item in report.items] == [(2, 2), (256, 257), (1, 1)]


def test_a_new_dataset_is_looked_at_by_its_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = File("towns.txt", ("http://localhost/towns.txt",))
    towns = replace(registry.find("revisitop1m"), name="towns", files=(listing,), photos=2)
    monkeypatch.setattr(registry, "_DATASETS", (towns,))
    fill(tmp_path / "towns" / "towns.txt", b"a.jpg\nb.jpg\n")
    fill(tmp_path / "towns" / "jpg" / "a.jpg")
    report = check("towns", tmp_path)
    assert counts(report)["photos"] == (1, 2)
    assert report.items[-1].missing == ("b.jpg",)


def test_nothing_at_all_is_not_complete(tmp_path: Path) -> None:
    for dataset in registry.datasets():
        assert not check(dataset.name, tmp_path).complete
