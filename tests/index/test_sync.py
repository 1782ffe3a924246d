"""An index stays true to real folders, whatever happens to them."""

import json
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.filled import filled
from support.nasty_folder import photo

from solar.describe.runtime import describer
from solar.errors import SolarError
from solar.images import Roots, find_photos
from solar.images import scan as scan_module
from solar.index import Index, describing
from solar.index.add import add
from solar.index.build import build, build_index
from solar.index.ingest import Changes
from solar.index.photo_index import PhotoIndex
from solar.index.sync import relocate, sync
from solar.models import RetrievalConfig, RetrievalNet, fingerprint, retrieval_model, save
from solar.storage.catalogue import Metadata


class StoppedError(Exception):
    """Somebody pressed Ctrl-C, say."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("resnet18", dim=16, size=64, scales=(1.0,)))
    return str(save(net, tmp_path_factory.mktemp("model") / "tiny.safetensors"))


_describer, _fingerprint = cache(describer), cache(fingerprint)


@pytest.fixture(autouse=True)
def _loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a network and making it fast takes longer than all that is tested here."""
    monkeypatch.setattr("solar.models.retrieval_model", lambda model, **_: loaded(model))
    monkeypatch.setattr(describing, "describer", lambda net, how, _: _describer(net.net, how))
    monkeypatch.setattr("solar.models.fingerprint", _fingerprint)


_load = retrieval_model


@cache
def loaded(model: str) -> RetrievalNet:
    return _load(model)


@cache
def expected(model: str, content: bytes) -> np.ndarray:
    """The vector of a photo, computed once for all tests."""
    return loaded(model).describe(content)[0]


def fill(folder: Path, *seeds: int) -> Path:
    """Photos `1.jpg`, …, each like no other."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (folder / f"{seed}.jpg").write_bytes(photo(seed))
    return folder


class Home:
    """A folder, its index, and how many photos were read to bring that up to date."""

    def __init__(self, place: Path, model: str) -> None:
        self.model = model
        self.photos, self.index = fill(place / "photos", 1, 2, 3, 4), place / "i.solar"
        self.described = 0
        build(self.photos, self.index, model=model).close()

    def __call__(self, step: str, done: int, total: int) -> None:
        self.described = done

    def sync(self, described: int = 0, **options: Any) -> Changes:
        """Synchronise, insist on how many photos were described, and on that all is true."""
        self.described = 0
        changes = sync(self.index, progress=self, **options)
        assert self.described == described
        if not options.get("dry_run"):
            self.check()
        return changes

    def open(self) -> Index:
        opened = Index.open(self.index)
        assert isinstance(opened, Index)
        return opened

    def check(self) -> None:
        """Nothing is left to do; every photo is in and has the vector of its file."""
        assert not sync(self.index, dry_run=True)
        with self.open() as index:
            assert index.check() == []
            for name, (_, vector) in index.engine.lookup(list(names(index))).items():
                file = index.roots.find(name)
                assert isinstance(file, Path)
                assert vector @ expected(self.model, file.read_bytes()) > 1 - 1e-4, name

    def tag(self, name: str, *tags: str) -> None:
        extra = self.index.with_name("tags.jsonl")
        extra.write_text(json.dumps({"path": name, "tags": tags, "color": tags[0]}) + "\n")
        file = self.photos / name
        add([file], self.index, metadata=extra).index.close()


def names(index: PhotoIndex) -> set[str]:
    return {photo.path for batch in index.engine.photos() for photo in batch}


def content(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and "-" not in file.suffix)
    return {file.name: file.read_bytes() for file in files}


@pytest.fixture
def home(tmp_path: Path, model: str) -> Home:
    return Home(tmp_path, model)


# Two folders, one index


def test_two_roots_with_equal_names_do_not_collide(tmp_path: Path, model: str) -> None:
    cameras = [tmp_path / "camA", tmp_path / "camB"]
    for seed, camera in enumerate(cameras):
        camera.mkdir()
        (camera / "IMG_0001.jpg").write_bytes(photo(seed))
    with build([cameras[0]], tmp_path / "i.solar", model=model) as index:
        assert names(index) == {"IMG_0001.jpg"}
    for new in (True, False):  # `--new` leaves out what is there, not what is called like it
        added = add([cameras[1]], tmp_path / "i.solar", new=new)
        assert (added.photos, len(added.index)) == (int(new), 2)
    with added.index as index:
        assert names(index) == {"IMG_0001.jpg", "camB//IMG_0001.jpg"}
        for camera, name in zip(cameras, ("IMG_0001.jpg", "camB//IMG_0001.jpg"), strict=True):
            file = camera / "IMG_0001.jpg"
            [best] = index.search(file, 1, include_self=True, rerank=None)
            assert (best.path, best.absolute) == (name, str(file))
            assert best.score == pytest.approx(1, abs=1e-4)
            assert name not in [hit.path for hit in index.search(file, rerank=None)]
    with build(cameras, tmp_path / "both.solar", model=model) as index:
        assert names(index) == {"camA//IMG_0001.jpg", "camB//IMG_0001.jpg"}
    assert not sync(tmp_path / "both.solar")


def test_a_folder_inside_or_around_a_root_adds_nothing_twice(home: Home) -> None:
    fill(home.photos / "in", 5)
    assert add([home.photos / "in"], home.index).photos == 1
    fill(home.photos.parent / "photos" / "in", 6)
    outer = fill(home.photos.parent, 7)
    assert add([outer], home.index).photos == 1
    changes = home.sync(1)
    assert changes.new == ("in/6.jpg",)
    assert {Path(n).name for n in names(home.open())} == {f"{n}.jpg" for n in range(1, 8)}
    assert len(home.open()) == 7


# What happens to photos


def test_nothing_to_do_changes_nothing(home: Home) -> None:
    before = content(home.index)
    changes = home.sync()
    assert not changes
    assert str(changes) == "0 new, 0 changed, 0 moved, 0 deleted, 4 unchanged, 0 skipped"
    assert content(home.index) == before


def test_everything_at_once(home: Home) -> None:
    home.tag("2.jpg", "night")
    home.tag("3.jpg", "rome")
    fill(home.photos, 5)
    (home.photos / "2.jpg").write_bytes(photo(22))
    (home.photos / "deep").mkdir()
    (home.photos / "3.jpg").rename(home.photos / "deep" / "renamed.jpg")
    (home.photos / "4.jpg").unlink()
    (home.photos / "1.jpg").touch()
    planned = home.sync(dry_run=True)
    done = home.sync(2)
    for changes in (planned, done):
        assert changes.to_dict() == {
            "new": ["5.jpg"],
            "changed": ["2.jpg"],
            "moved": {"3.jpg": "deep/renamed.jpg"},
            "deleted": ["4.jpg"],
            "skipped": {},
            "unchanged": 1,
        }
    with home.open() as index:
        assert names(index) == {"1.jpg", "2.jpg", "5.jpg", "deep/renamed.jpg"}
        for name, tag in (("2.jpg", "night"), ("deep/renamed.jpg", "rome")):
            told = index.photo(name)
            assert (told.tags, told.fields) == ((tag,), {"color": tag})


def test_a_dry_run_changes_nothing(home: Home) -> None:
    fill(home.photos, 5)
    (home.photos / "4.jpg").unlink()
    (home.photos / "1.jpg").touch()
    before = content(home.index)
    assert home.sync(dry_run=True).new == ("5.jpg",)
    assert content(home.index) == before


def test_a_copy_shares_the_vector(home: Home) -> None:
    shutil.copy(home.photos / "1.jpg", home.photos / "copy.jpg")
    assert home.sync().new == ("copy.jpg",)


def test_a_copy_in_another_folder_shares_the_vector(home: Home) -> None:
    more = fill(home.photos.parent / "more", 1, 5)
    assert add([more], home.index, progress=home).photos == 2
    assert home.described == 1
    home.sync()


def test_a_photo_that_was_moved_and_copied_is_not_described(home: Home) -> None:
    (home.photos / "1.jpg").rename(home.photos / "a.jpg")
    shutil.copy(home.photos / "a.jpg", home.photos / "b.jpg")
    changes = home.sync()
    assert (dict(changes.moved), changes.new) == ({"1.jpg": "a.jpg"}, ("b.jpg",))


def test_photos_that_swap_their_names_swap_their_vectors(home: Home) -> None:
    (home.photos / "1.jpg").rename(home.photos / "x")
    (home.photos / "2.jpg").rename(home.photos / "1.jpg")
    (home.photos / "x").rename(home.photos / "2.jpg")
    assert set(home.sync().changed) == {"1.jpg", "2.jpg"}


def test_a_photo_moved_over_another_takes_its_vector_along(home: Home) -> None:
    (home.photos / "1.jpg").rename(home.photos / "2.jpg")
    changes = home.sync()
    assert (changes.changed, changes.deleted) == (("2.jpg",), ("1.jpg",))


def test_a_renamed_folder_is_described_no_more(home: Home) -> None:
    fill(home.photos / "rome", 5, 6)
    home.sync(2)
    (home.photos / "rome").rename(home.photos / "roma")
    assert home.sync().moved == {"rome/5.jpg": "roma/5.jpg", "rome/6.jpg": "roma/6.jpg"}


def test_a_file_that_was_touched_is_read_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(home.photos / "1.jpg", ns=(1, 1))
    assert list(home.sync().touched) == ["1.jpg"]
    monkeypatch.setattr("solar.images.Photos.content", lambda *_: pytest.fail("it is read"))
    assert home.sync().unchanged == 4


def test_a_photo_of_a_tar_shard_and_of_a_list_is_synchronised_too(home: Home) -> None:
    import tarfile

    place = home.photos.parent
    fill(place / "more", 5, 6)
    for seeds in ((5,), (5, 6)):
        with tarfile.open(place / "s.tar", "w") as shard:
            for seed in seeds:
                shard.add(place / "more" / f"{seed}.jpg", f"{seed}.jpg")
        (place / "list.txt").write_text("".join(f"more/{seed}.jpg\n" for seed in seeds))
        if seeds == (5,):
            add([place / "s.tar"], home.index).index.close()
            add([place / "list.txt"], home.index).index.close()
    assert set(sync(home.index).new) == {"s.tar//6.jpg", "list.txt//more/6.jpg"}
    (place / "list.txt").write_text("more/6.jpg\nmore/gone.jpg\n")
    changes = sync(home.index)
    assert changes.deleted == ("list.txt//more/5.jpg",)
    assert "list.txt//more/gone.jpg" in changes.skipped


# What cannot be indexed


def test_what_was_skipped_is_remembered_and_tried_again_when_it_changes(home: Home) -> None:
    (home.photos / "bad.jpg").write_text("no photo")
    os.mkfifo(home.photos / "pipe.jpg")
    changes = home.sync(1)
    assert (home.described, set(changes.skipped)) == (1, {"bad.jpg", "pipe.jpg"})
    assert set(home.open().skipped) == {"bad.jpg", "pipe.jpg"}
    changes = home.sync()
    assert (home.described, set(changes.skipped)) == (0, {"bad.jpg", "pipe.jpg"})
    (home.photos / "bad.jpg").write_bytes(photo(9))
    (home.photos / "pipe.jpg").unlink()
    changes = home.sync(1)
    assert (changes.new, changes.skipped) == (("bad.jpg",), {})
    assert home.open().skipped == {}


def test_a_photo_removed_by_hand_stays_out_until_it_is_restored(home: Home) -> None:
    with home.open() as index:
        index.remove("1.jpg")
        assert index.removed == ["1.jpg"]
    os.utime(home.photos / "1.jpg", (1, 1))
    changes = home.sync()
    assert ("1.jpg" in changes.skipped, changes.new, home.described) == (True, (), 0)
    add([home.photos], home.index)
    (home.photos / "1.jpg").rename(home.photos / "hidden")
    home.sync()
    (home.photos / "hidden").rename(home.photos / "1.jpg")
    home.sync(max_pixels=10**6)
    with home.open() as index:
        assert "1.jpg" not in index
        with pytest.raises(SolarError, match=r"^2\.jpg was not removed"):
            index.restore(["1.jpg", "2.jpg"])
        assert index.removed == ["1.jpg"]
        index.restore(["1.jpg"])
        assert index.removed == []
    assert home.sync(1).new == ("1.jpg",)


def test_what_was_skipped_is_forgotten_when_it_is_gone(home: Home) -> None:
    (home.photos / "bad.jpg").write_text("no photo")
    home.sync(1)
    (home.photos / "bad.jpg").unlink()
    home.sync()
    assert home.open().skipped == {}


def test_a_photo_with_too_many_pixels_is_tried_again_where_more_are_allowed(home: Home) -> None:
    (home.photos / "large.jpg").write_bytes(photo(9, size=(200, 150)))
    assert set(home.sync(1, max_pixels=10_000).skipped) == {"large.jpg"}
    assert set(home.sync().skipped) == {"large.jpg"}
    assert home.sync(1, max_pixels=100_000).new == ("large.jpg",)
    assert home.open().skipped == {}


def test_a_photo_that_became_unreadable_leaves_the_index(home: Home) -> None:
    (home.photos / "1.jpg").write_text("no photo any more")
    (home.photos / "2.jpg").unlink()
    os.mkfifo(home.photos / "2.jpg")
    changes = home.sync(1)
    assert set(changes.skipped) == {"1.jpg", "2.jpg"}
    assert names(home.open()) == {"3.jpg", "4.jpg"}


# What is not there for a while


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_a_root_that_is_gone_or_empty_loses_nothing(home: Home, how: str) -> None:
    more = fill(home.photos.parent / "more", 5)
    add([more], home.index).index.close()
    away = more.rename(more.with_name("away"))
    if how == "empty":
        more.mkdir()
    fill(home.photos, 6)
    before = content(home.index)
    with pytest.raises(SolarError, match=r"more.* 1 .*`force=True`"):
        sync(home.index)
    assert content(home.index) == before
    shutil.rmtree(more, ignore_errors=True)
    away.rename(more)
    assert home.sync(1).new == ("6.jpg",)
    shutil.rmtree(more)
    assert home.sync(force=True).deleted == ("more//5.jpg",)


def test_of_roots_without_names_none_may_be_gone(home: Home, model: str) -> None:
    """Two folders that share no name may be found without a name for each."""
    place = home.photos.parent
    more = fill(place / "more", 5)
    filled(find_photos([home.photos, more]), place / "j.solar", model=model).close()
    more.rename(place / "away")
    with pytest.raises(SolarError, match="more"):
        sync(place / "j.solar")
    assert len(Index.open(place / "j.solar")) == 5


def test_a_folder_that_cannot_be_read_for_a_while_keeps_its_photos(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(home.photos / "rome", 5)
    home.sync(1)
    looking = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path).name == "rome":
            raise PermissionError(13, "Permission denied")
        return looking(path)

    with monkeypatch.context() as patched:
        patched.setattr(scan_module.os, "scandir", scandir)
        changes = sync(home.index)
    assert (changes.deleted, list(changes.skipped)) == ((), ["rome/"])
    assert "rome/5.jpg" in names(home.open())


def test_an_index_that_knows_no_root_says_so(tmp_path: Path) -> None:
    Index.create(tmp_path / "i.solar", np.eye(2), ["a", "b"]).close()
    with pytest.raises(SolarError, match="solar index add"):
        sync(tmp_path / "i.solar")


def test_a_stopped_sync_goes_on(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solar.index.index.rows_for", lambda *_: 3)
    fill(home.photos, *range(10, 18))

    def stop(step: str, done: int, total: int) -> None:
        home(step, done, total)
        if home.described > 3:  # the first segment is written
            raise StoppedError

    home.described = 0
    with pytest.raises(StoppedError):
        sync(home.index, progress=stop)
    assert len(home.open()) == 7
    fill(home.photos, 18)
    (home.photos / "10.jpg").unlink()
    changes = home.sync(6)
    assert (len(changes.new), changes.deleted) == (6, ("10.jpg",))


def test_a_sync_ends_what_a_stopped_addition_began(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solar.index.index.rows_for", lambda *_: 3)
    place = home.photos.parent
    fill(place / "many", *range(10, 18))

    def stop(step: str, done: int, total: int) -> None:
        home(step, done, total)
        if home.described > 3:
            raise StoppedError

    home.described = 0
    with pytest.raises(StoppedError):
        add([place / "many"], home.index, progress=stop)
    assert len(home.sync(5).new) == 5


# Roots that move


def test_a_root_that_moved_is_named_and_nothing_described(home: Home) -> None:
    there = home.photos.rename(home.photos.with_name("there"))
    with pytest.raises(SolarError, match="solar index relocate"):
        sync(home.index)
    with home.open() as index:
        assert relocate(index, there)[1:] == (4, 4)
        assert index.search("1.jpg", 1, rerank=None)[0].absolute is not None
    assert home.sync().unchanged == 4
    assert home.open().roots == Roots.at(there)


def test_one_of_several_roots_moves(home: Home) -> None:
    more = fill(home.photos.parent / "more", 1, 5)
    add([more], home.index).index.close()
    there = more.rename(more.with_name("there"))
    with home.open() as index:
        with pytest.raises(SolarError, match="`root=`"):
            relocate(index, there)
        with pytest.raises(SolarError, match="There is no"):
            relocate(index, more, "more")
        with pytest.raises(SolarError, match=r" 2 .*more"):
            relocate(index, fill(there.with_name("wrong"), 9), "more")
        with pytest.raises(SolarError, match="photos"):
            relocate(index, home.photos, "more")
        (there / "5.jpg").unlink()
        assert relocate(index, there, "more")[1:] == (2, 1)
        relocate(index, there, str(there))  # by its place, too
    assert home.sync().deleted == ("more//5.jpg",)


# Indices of every kind and age


def test_an_index_of_local_features_is_synchronised_too(tmp_path: Path) -> None:
    from solar.asmk import build as asmk_build
    from solar.asmk.build import AsmkSettings
    from solar.demo import toy

    toy.write(tmp_path / "photos", landmarks=2, views=3)
    settings = AsmkSettings(words=64)
    built = asmk_build.build([tmp_path / "photos"], tmp_path / "i.asmk", settings)
    built.index.close()
    first = tmp_path / "photos" / "landmark-000"
    (first / "view-000.jpg").rename(first / "moved.jpg")
    (first / "view-001.jpg").unlink()
    shutil.copy(first / "view-002.jpg", first / "copy.jpg")
    (tmp_path / "photos" / "landmark-001" / "view-000.jpg").write_bytes(photo(1, size=(320, 240)))
    (tmp_path / "photos" / "bad.jpg").write_text("no photo")
    changes = sync(tmp_path / "i.asmk")
    assert changes.to_dict() | {"skipped": list(changes.skipped)} == {
        "new": ["landmark-000/copy.jpg"],
        "changed": ["landmark-001/view-000.jpg"],
        "moved": {"landmark-000/view-000.jpg": "landmark-000/moved.jpg"},
        "deleted": ["landmark-000/view-001.jpg"],
        "skipped": ["bad.jpg"],
        "unchanged": 3,
    }
    with Index.open(tmp_path / "i.asmk") as index:
        assert index.check() == []
        assert index.search(first / "moved.jpg", 1, include_self=True, rerank=None)[
            0
        ].path.endswith("moved.jpg")
    assert not sync(tmp_path / "i.asmk")


def test_what_build_skipped_is_known_to_the_index(tmp_path: Path, model: str) -> None:
    folder = fill(tmp_path / "photos", 1)
    (folder / "bad.jpg").write_text("no photo")
    built = build_index([folder], tmp_path / "i.solar", model=model)
    assert built.index.skipped == dict(built.skipped)
    assert list(built.skipped) == ["bad.jpg"]


def test_positions_are_read_of_photos_that_were_indexed_without(home: Home) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 51.0, 0.0), 3: "W", 4: (2.0, 30.0, 0.0)})
    exif.get_ifd(0x8769)[0x9003] = "2019:07:14 18:30:00"
    with Image.open(home.photos / "1.jpg") as image:
        image.save(home.photos / "1.jpg", exif=exif)
    home.sync(1)
    with home.open() as index:
        known = index.photo("1.jpg")
        assert (known.position, known.taken) == ((48.85, -2.5), "2019-07-14T18:30:00")
    with Metadata(home.index).writing() as view:
        view.execute("DELETE FROM places")
        view.execute("UPDATE photos SET taken = '2001-01-01T00:00:00'")
        view._sum("row >= 0")
    home.sync()
    with home.open() as index:
        assert index.photo("1.jpg").position is None
    home.sync(exif=True)
    with home.open() as index:
        known = index.photo("1.jpg")
        assert (known.position, known.taken) == ((48.85, -2.5), "2001-01-01T00:00:00")
        assert index.photo("2.jpg").position is None
