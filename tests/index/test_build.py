import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.demo import toy
from solar.errors import SolarError
from solar.images import Roots
from solar.index import Index
from solar.index.add import add
from solar.index.build import build, build_index
from solar.index.metadata import read_metadata
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.storage.types import Photo


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    save(RetrievalNet(RetrievalConfig("resnet18", size=64, scales=(1.0,))), path)
    return str(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "rome").mkdir(parents=True)
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2019:07:14 18:30:00"
    toy.landmark(0, 0, size=(200, 150)).save(folder / "rome" / "1.jpg", exif=exif)
    toy.landmark(1, 0, size=(160, 120)).save(folder / "2.png")
    (folder / "broken.jpg").write_text("not a photo")
    return folder


def test_build_describes_a_folder_and_gathers_what_is_known(
    photos: Path, model: str, tmp_path: Path
) -> None:
    tags = tmp_path / "tags.jsonl"
    tags.write_text(json.dumps({"path": "2.png", "tags": ["night"], "taken": "2001-02-03"}) + "\n")
    built = build_index([photos], tmp_path / "i.solar", model=model, metadata=tags)
    assert built.photos == 2
    assert list(built.skipped) == ["broken.jpg"]
    index = Index.open(tmp_path / "i.solar")
    assert index.roots == Roots.at(photos)
    assert list(index.skipped) == ["broken.jpg"]
    assert index.photo("rome/1.jpg") == Photo("rome/1.jpg", 200, 150, taken="2019-07-14T18:30:00")
    assert index.photo("2.png") == Photo("2.png", 160, 120, ("night",), "2001-02-03T00:00:00")
    assert index.search(photos / "2.png", 1, include_self=True, rerank=None)[0].path == "2.png"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["i.solar", "photos", "tags.jsonl"]


def test_metadata_of_photos_that_are_not_indexed_are_told_of(
    photos: Path, model: str, tmp_path: Path
) -> None:
    tags = tmp_path / "tags.jsonl"
    tags.write_text('{"path": "3.png"}\n{"path": "2.png"}\n{"path": "gone/4.png"}\n')
    with pytest.warns(UserWarning, match=r"tags.jsonl names 2 photos .*\(the first is 3.png\)"):
        build(photos, tmp_path / "i.solar", model=model, metadata=tags)
    tags.write_text('{"path": "gone/4.png"}\n')
    with pytest.warns(UserWarning, match=r"a photo that is not in the index \(gone/4.png\)"):
        add([photos], tmp_path / "i.solar", metadata=tags)
    with pytest.raises(SolarError, match=r"none\.jsonl.*No such file"):
        add([photos], tmp_path / "i.solar", metadata=tmp_path / "none.jsonl")
    with pytest.raises(SolarError, match=r"solar\.Index\.open.*solar\.sync"):
        build(photos, tmp_path / "i.solar", model=model)


def test_add_describes_with_the_model_of_the_index(
    photos: Path, model: str, tmp_path: Path
) -> None:
    build(photos, tmp_path / "i.solar", model=model)
    toy.landmark(2, 0, size=(160, 120)).save(photos / "3.png")
    built = add([photos], tmp_path / "i.solar")
    assert built.photos == 1  # the others are as they were
    assert len(built.index) == 3


def test_photos_are_added_at_the_size_of_the_index(
    photos: Path, model: str, tmp_path: Path
) -> None:
    build(photos, tmp_path / "i.solar", model=model, size=48)
    toy.landmark(2, 0, size=(160, 120)).save(photos / "3.png")
    built = add([photos / "3.png"], tmp_path / "i.solar")
    assert built.index.spec.settings["size"] == 48
    [hit] = built.index.search(photos / "3.png", 1, include_self=True, rerank=None)
    assert (hit.path, hit.score) == ("3.png", pytest.approx(1, abs=1e-5))


def test_photos_are_added_as_those_of_the_index_were_described(
    photos: Path, model: str, tmp_path: Path
) -> None:
    how = {"scales": (1.0, 0.5), "orient": False, "mode": "fast"}
    build(photos, tmp_path / "i.solar", model=model, **how).close()
    toy.landmark(2, 0, size=(160, 120)).save(photos / "3.png")
    built = add([photos / "3.png"], tmp_path / "i.solar")
    [hit] = built.index.search(photos / "3.png", 1, include_self=True, rerank=None)
    assert (hit.path, hit.score) == ("3.png", pytest.approx(1, abs=1e-5))


def test_photos_inside_the_folder_of_the_index_are_called_as_if_built_with_it(
    photos: Path, model: str, tmp_path: Path
) -> None:
    build(photos, tmp_path / "i.solar", model=model)
    toy.landmark(2, 0, size=(160, 120)).save(photos / "rome" / "2.png")
    for source in (photos / "rome", photos / "rome" / "2.png"):
        built = add([source], tmp_path / "i.solar")
        names = {photo.path for batch in built.index.engine.photos() for photo in batch}
        assert names == {"2.png", "rome/1.jpg", "rome/2.png"}


def test_photos_from_elsewhere_have_a_root_of_their_own(
    photos: Path, model: str, tmp_path: Path
) -> None:
    build(photos, tmp_path / "i.solar", model=model)
    (tmp_path / "more").mkdir()
    toy.landmark(2, 0, size=(160, 120)).save(tmp_path / "more" / "2.png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built = add([tmp_path / "more"], tmp_path / "i.solar")
    assert [root.path for root in built.index.roots.roots] == [str(photos), str(tmp_path / "more")]
    names = {photo.path for batch in built.index.engine.photos() for photo in batch}
    assert names == {"2.png", "rome/1.jpg", "more//2.png"}
    [hit] = built.index.search(tmp_path / "more" / "2.png", 1, include_self=True, rerank=None)
    assert (hit.path, hit.absolute) == ("more//2.png", str(tmp_path / "more" / "2.png"))


def test_only_new_photos_are_described_where_asked(
    photos: Path, model: str, tmp_path: Path
) -> None:
    build(photos, tmp_path / "i.solar", model=model)
    (photos / "broken.jpg").unlink()
    assert add([photos], tmp_path / "i.solar", new=True).photos == 0
    toy.landmark(2, 0, size=(160, 120)).save(photos / "3.png")
    built = add([photos], tmp_path / "i.solar", new=True)
    assert (built.photos, len(built.index)) == (1, 3)


def test_an_index_that_exists_is_refused_before_any_work(
    photos: Path, model: str, tmp_path: Path
) -> None:
    build(photos, tmp_path / "i.solar", model=model)
    with pytest.raises(SolarError, match="already"):
        build(photos, tmp_path / "i.solar", model="no-such-model")


def test_an_index_that_cannot_be_made_is_refused_before_any_work(
    photos: Path, tmp_path: Path
) -> None:
    for place, compress, sentence in (
        (photos, None, "photos holds other files: choose a new or empty folder"),
        (photos / "2.png", None, "2.png is a file, not a folder: choose another name"),
        (tmp_path / "i.solar", "zip", "There is no compression 'zip'"),
    ):
        with pytest.raises(SolarError, match=sentence):
            build(photos, place, model="no-such-model", compress=compress)
    assert list(tmp_path.iterdir()) == [photos]


def test_photos_that_all_fail_make_no_index(model: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "broken.jpg").write_text("not a photo")
    with pytest.raises(SolarError, match=r"broken\.jpg"):
        build(tmp_path / "photos", tmp_path / "i.solar", model=model)
    assert not (tmp_path / "i.solar").exists()
    toy.landmark(0, 0, size=(64, 48)).save(tmp_path / "photos" / "1.png")
    assert len(build(tmp_path / "photos", tmp_path / "i.solar", model=model, size=48)) == 1


def test_photos_are_not_added_to_an_index_that_names_no_model(photos: Path, tmp_path: Path) -> None:
    Index.create(tmp_path / "i.solar", np.eye(4), ["a", "b", "c", "d"]).close()
    with pytest.raises(SolarError, match="model"):
        add([photos], tmp_path / "i.solar")
    assert not Index.open(tmp_path / "i.solar").roots


@pytest.mark.parametrize(
    "line",
    [
        *("no json", "[]", '{"tags": []}', '{"path": "a", "taken": "soon"}'),
        *('{"path": "a", "tags": 3}', '{"path": "a", "color": ["red"]}', '{"path": "a", "tag": 1}'),
    ],
)
def test_metadata_that_is_something_else_names_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tags.jsonl"
    file.write_text('{"path": "b.jpg", "tags": ["x"]}\n' + line + "\n")
    with pytest.raises(SolarError, match="2"):
        read_metadata(file)
