"""Copies of indexed photos: found for one photo, and skipped when photos are added."""

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from support.edited_photos import edited_index, edited_photos

from solar.index import Index
from solar.index.add import add
from solar.index.build import build
from solar.index.sync import sync
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.near_duplicates import copy_lookup


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return edited_photos(tmp_path_factory.mktemp("copies") / "photos")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    net = RetrievalNet(RetrievalConfig("resnet18", dim=16, size=64, scales=(1.0,)))
    return str(save(net, tmp_path_factory.mktemp("model") / "tiny.safetensors"))


def test_copies_are_skipped_until_they_are_added_without_that(
    photos: Path, model: str, tmp_path: Path
) -> None:
    here, index = tmp_path / "photos", tmp_path / "photos.solar"
    here.mkdir()

    def put(name: str, source: str) -> None:
        shutil.copy(photos / source, here / name)

    put("a.png", "00.png")
    put("part.jpg", "edited/03.jpg")
    put("file.png", "11.png")
    build(here, index, model=model).close()
    put("0.tiff", "edited/00.tiff")
    put("again.png", "11.png")
    put("half.jpg", "edited/02.jpg")
    put("later.png", "02.png")
    put("whole.png", "03.png")
    (tmp_path / "tags.jsonl").write_text('{"path": "0.tiff", "tags": ["x"]}\n')

    tags = tmp_path / "tags.jsonl"
    built = add([here], index, leave_out=copy_lookup.without_copies, metadata=tags)
    assert built.skipped == {
        "0.tiff": "the same picture as a.png",
        "again.png": "the same file as file.png",
        "later.png": "a copy of half.jpg: resized",
    }
    assert built.photos == 2  # the whole photo too, of which there was a crop
    built.index.close()
    (here / "file.png").unlink()
    found = sync(index)
    assert (sorted(found.new), found.skipped) == (["0.tiff", "later.png"], {})
    assert found.moved == {"file.png": "again.png"}


def test_of_many_noted_photos_a_few_are_looked_at(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = []
    monkeypatch.setattr(copy_lookup, "_NEIGHBOURS", 1)
    monkeypatch.setattr(copy_lookup, "ALIKE", 1)
    real = copy_lookup.copy_ways
    seen = lambda *two: (looked_at.extend(two[0]), real(*two))[1]  # noqa: E731
    monkeypatch.setattr(copy_lookup, "copy_ways", seen)
    index = edited_index(photos, tmp_path / "photos.solar", ["00.png"])
    vectors = np.eye(32, dtype=np.float32)
    with Index.open(index) as opened:
        finder = copy_lookup.CopyFinder(opened)
        for number in range(1, 9):
            read = partial(Path, photos / f"{number:02}.png")
            finder.note(f"{number:02}.png", read, vectors[number])
        [found] = finder.find(photos / "edited" / "03.jpg", vectors[3])  # by the descriptor
        assert (found.path, found.relation.kind) == ("03.png", "crop")
        assert str(found).startswith("a crop of 03.png: cut to 56 %")
        [found] = finder.find(photos / "edited" / "02.jpg", vectors[5])  # by the small picture
        assert (found.path, found.relation.kind) == ("02.png", "copy")
        assert len(looked_at) <= 6


def test_an_index_of_as_many_other_photos_is_looked_at_again(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = np.eye(32, dtype=np.float32)[0]
    monkeypatch.setattr(Index, "describe", lambda self, photo: vector)
    place = edited_index(photos, tmp_path / "photos.solar", ["00.png", "11.png"])
    with Index.open(place) as opened:
        assert isinstance(opened, Index)
        finder = copy_lookup.CopyFinder(opened)
        assert finder.find(photos / "edited" / "03.jpg") == []
        opened.remove(["11.png"])
        opened.add(vector[None], ["03.png"])
        [found] = finder.find(photos / "edited" / "03.jpg")
        assert found.path == "03.png"
