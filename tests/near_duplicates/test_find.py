import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.edited_photos import EXPECTED, TIMES, edited_index, edited_photos

import solar
from solar.errors import SolarError
from solar.index import Index
from solar.near_duplicates import find as module
from solar.near_duplicates.copy_lookup import CopyFinder
from solar.near_duplicates.relation import PhotoComparer, mirrored_histograms
from solar.near_duplicates.report import DuplicateGroup, Relation
from solar.records import Records


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edited_photos(tmp_path_factory.mktemp("duplicates") / "photos")


@pytest.fixture(scope="module")
def index(photos: Path) -> Path:
    return edited_index(photos, photos.parent / "photos.solar")


@pytest.fixture(scope="module")
def found(index: Path) -> list[DuplicateGroup]:
    return list(solar.duplicates(index))


def number(group: DuplicateGroup) -> int:
    [one] = {int(Path(photo.name).stem) for photo in group.photos}
    return one


def test_every_edit_is_named_and_nothing_else_is_related(found: list[DuplicateGroup]) -> None:
    assert {number(group): group.kind for group in found} == dict(enumerate(EXPECTED.values()))
    assert all(len(group.photos) == 2 for group in found)


def test_a_pair_says_what_was_done(found: list[DuplicateGroup]) -> None:
    words = {
        edit: group.pairs[0].why for edit, group in zip(EXPECTED, by_number(found), strict=True)
    }
    for edit, word in {
        "exact": "the same pixels",
        "half": "resized",
        "crop": "cut to 56 %",
        "mirror": "mirrored",
        "turn": "turned by 90°",
        "colour": "recoloured",
        "frame": "with a frame",
        "moment": "taken 2 s apart",
        "later": "the same place, taken 60 minutes apart",
    }.items():
        assert word in words[edit]


def test_the_mapping_takes_each_photo_onto_the_other(found: list[DuplicateGroup]) -> None:
    groups = dict(zip(EXPECTED, by_number(found), strict=True))
    # Where the middle of the upper edge of the first photo is in the second one.
    for edit, there in {"mirror": (0.5, 0), "turn": (0, 0.5), "crop": (0.5, -1 / 6)}.items():
        pair = groups[edit].pairs[0]
        assert pair.mapping is not None
        a = groups[edit].photos[pair.a].name
        matrix = np.array(pair.mapping)
        if a.startswith("edited/"):
            matrix = np.linalg.inv(matrix)
        x, y, w = matrix @ [0.5, 0, 1]
        assert (x / w, y / w) == pytest.approx(there, abs=0.01)


def by_number(found: list[DuplicateGroup]) -> list[DuplicateGroup]:
    return sorted(found, key=number)


def test_the_whole_photo_is_kept_and_not_its_lesser_copy(found: list[DuplicateGroup]) -> None:
    for edit, group in zip(EXPECTED, by_number(found), strict=True):
        if edit in ("half", "crop", "frame"):
            assert group.keep == [f"{number(group):02}.png"]
        if edit in TIMES:
            assert group.rest == []  # two photos of one place are both worth keeping
        else:
            assert len(group.keep) == 1
            assert group.photos[0].why


def test_only_the_kinds_that_are_asked_for_are_reported(index: Path) -> None:
    only = list(solar.duplicates(index, kinds=["exact", "crop"]))
    assert sorted(group.kind for group in only) == ["crop", "exact"]


def test_a_photo_that_is_gone_or_torn_is_left_out(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "photos")
    index = edited_index(tmp_path / "photos", tmp_path / "photos.solar")
    (tmp_path / "photos" / "01.png").unlink()
    (tmp_path / "photos" / "02.png").write_bytes(b"\x89PNG")
    found = list(solar.duplicates(index, kinds=["exact", "copy", "crop"]))
    assert sorted({number(group) for group in found}) == [0, 3, 4, 5, 6, 7, 8]


def test_photos_that_look_alike_are_no_copies_without_equal_pixels(tmp_path: Path) -> None:
    """Frames of a moving camera: the small pictures agree, the pixels do not."""
    random = np.random.default_rng(0)
    wide = Image.fromarray(random.integers(0, 255, (60, 90, 3), np.uint8)).resize((1080, 720))
    (tmp_path / "photos").mkdir()
    for step in range(3):
        height = 360 + 4 * step  # the camera comes nearer, and tilts
        frame = wide.rotate(1.5 * step, Image.Resampling.BICUBIC).crop(
            (300, 200, 780, 200 + height)
        )
        frame.resize((480, 360)).save(tmp_path / "photos" / f"{step:02}.png")
    names = [f"{step:02}.png" for step in range(3)]
    place = edited_index(tmp_path / "photos", tmp_path / "photos.solar", names)
    found = list(solar.duplicates(place, min_score=-1))
    assert {group.kind for group in found} <= {"burst", "place"}
    assert any(group.kind == "burst" for group in found)


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("stop", [("Reading photos", 1), ("Comparing", 1), ("Deciding", 4)])
def test_a_run_that_was_stopped_ends_with_the_same_groups(
    index: Path,
    found: list[DuplicateGroup],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop: tuple[str, int],
) -> None:
    monkeypatch.setattr(module, "_BLOCK", 2)
    told: list[str] = []

    def watch(what: str, done: int, of: int) -> None:
        if done:
            told.append(what)
        if told.count(what) == stop[1] and what == stop[0]:
            raise StoppedError

    shutil.rmtree(index / "local", ignore_errors=True)
    readable = PhotoComparer._photo

    def unreadable(comparer: PhotoComparer, name: str) -> object:
        if name == "00.png":
            raise SolarError("The disk is away.")
        return readable(comparer, name)

    with monkeypatch.context() as away:
        away.setattr(PhotoComparer, "_photo", unreadable)
        with pytest.raises(StoppedError):
            list(solar.duplicates(index, work=tmp_path / "work", progress=watch))
    kept = 0
    for file in (tmp_path / "work").glob("relations-*"):
        kept, _ = Records(file).size()
        with sqlite3.connect(file) as damaged:
            damaged.execute(
                "UPDATE kept SET value = x'5b5d' WHERE key = (SELECT MIN(key) FROM kept)"
            )
    decided: list[str] = []
    relation = PhotoComparer.relation

    def related(*given: Any, **how: Any) -> Relation | None:
        decided.append("")
        return relation(*given, **how)

    monkeypatch.setattr(PhotoComparer, "relation", related)
    counts: list[tuple[str, int]] = []
    again = solar.duplicates(
        index, work=tmp_path / "work", progress=lambda what, done, of: counts.append((what, done))
    )
    assert list(again) == found
    total = max(done for what, done in counts if what == "Deciding")
    assert len(decided) == total - 2 * max(kept - 1, 0)
    assert (kept > 1) == (stop[0] == "Deciding")


def test_new_looks_only_at_what_was_added(photos: Path, tmp_path: Path) -> None:
    names = sorted(file.relative_to(photos).as_posix() for file in photos.rglob("*.*"))
    later = ["edited/03.jpg", "edited/05.jpg"]
    before = [name for name in names if name not in later]
    place = edited_index(photos, tmp_path / "photos.solar", before)
    with pytest.raises(SolarError, match="`new=True`"):
        list(solar.duplicates(place, new=True))
    list(solar.duplicates(place))
    assert list(solar.duplicates(place, new=True)) == []
    edited_index(photos, tmp_path / "all.solar", names)
    shutil.copytree(place / "local", tmp_path / "all.solar" / "local")
    found = list(solar.duplicates(tmp_path / "all.solar", new=True))
    assert sorted(map(number, found)) == [3, 5]


def test_an_index_answers_for_one_photo(
    photos: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def described(self: Index, photo: Path) -> np.ndarray:
        """As a network would that knows the photo again."""
        return self.engine.lookup([f"{int(photo.stem):02}.png"])[f"{int(photo.stem):02}.png"][1]

    monkeypatch.setattr(Index, "describe", described)
    with Index.open(index) as opened:
        assert isinstance(opened, Index)
        finder = CopyFinder(opened)
        [crop] = finder.find(photos / "edited" / "03.jpg")
        assert (crop.path, crop.relation.kind) == ("03.png", "crop")
        [turn] = finder.find(photos / "edited" / "05.jpg")
        assert turn.relation.how == "turned by 90°"
        assert finder.find(photos / "11.png") == []


def test_mirrored_histograms_are_those_of_the_mirrored_photo(photos: Path) -> None:
    from solar.local.features import local_features
    from solar.matching.match import mutual_matches

    picture = np.array(Image.open(photos / "00.png"))
    plain, mirror = (local_features(one) for one in (picture, picture[:, ::-1].copy()))
    pairs = mutual_matches(mirrored_histograms(plain.descriptors), mirror.descriptors)
    there = picture.shape[1] - 1 - plain.points[pairs[:, 0], 0]
    right = np.abs(there - mirror.points[pairs[:, 1], 0]) < 1.5
    assert right.sum() > 50
    assert right.mean() > 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kinds": ["twin"]}, "no kind 'twin'"),
        ({"kinds": []}, "Name a kind"),
        ({"k": 0}, "1 or more"),
        ({"min_score": -1.5}, "from -1 to 1, not -1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(index: Path, options: dict, words: str) -> None:
    with pytest.raises(SolarError, match=words):
        solar.duplicates(index, **options)
