import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.asmk import build as asmk_build
from solar.asmk import features
from solar.asmk.build import AsmkSettings, build
from solar.demo import toy
from solar.errors import SolarError
from solar.evaluation.metrics import average_precision
from solar.index import Index
from solar.index.add import add
from solar.models import PatchConfig, PatchNet, save

LANDMARKS, VIEWS = 6, 4


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy photos, others to learn visual words from, and an index."""
    home = tmp_path_factory.mktemp("asmk")
    toy.write(home / "photos", landmarks=LANDMARKS, views=VIEWS)
    toy.write(home / "others", landmarks=8, views=1, first=50)
    settings = AsmkSettings(train_on=home / "others", words=256)
    build([home / "photos"], home / "photos.asmk", settings).index.close()
    return home


@pytest.fixture
def index(home: Path) -> Index:
    return Index.open(home / "photos.asmk")


def mean_average_precision(index: Index) -> float:
    precisions = []
    for landmark in range(LANDMARKS):
        for view in range(VIEWS):
            name = f"landmark-{landmark:03}/view-{view:03}.jpg"
            found = [hit.path for hit in index.search(name, k=100) if hit.path != name]
            ranks = [r for r, path in enumerate(found) if path.split("/")[0] == name.split("/")[0]]
            last = LANDMARKS * VIEWS - 1
            missing = range(last - (VIEWS - 1 - len(ranks)), last)
            precisions.append(average_precision(np.array([*ranks, *missing])))
    return float(np.mean(precisions))


def test_the_same_landmark_is_found_far_better_than_by_chance(index: Index) -> None:
    """By chance three right photos among 23 give a mean average precision of 0.19."""
    assert mean_average_precision(index) > 0.75


def test_queries_of_every_kind(index: Index, home: Path) -> None:
    name = "landmark-002/view-001.jpg"
    photo = home / "photos" / name
    hits = index.search(photo, k=3, include_self=True)
    assert (hits[0].path, len(hits)) == (name, 3)
    assert index.search(photo.read_bytes(), k=3) == hits
    assert index.search(np.array(Image.open(photo)), k=3) == hits
    for query in (str(photo), name, f"name:{name}"):
        assert index.search(query, k=3, include_self=True) == hits
        assert index.search(query, k=2) == hits[1:]


def test_several_photos_are_taken_together(index: Index) -> None:
    two = [f"landmark-00{i}/view-000.jpg" for i in (1, 4)]
    assert {hit.path for hit in index.search_mean(two, k=2, include_self=True)} == set(two)


def test_a_box_takes_only_what_is_inside(index: Index, home: Path) -> None:
    photo = home / "photos" / "landmark-003" / "view-000.jpg"
    whole, boxed = index.signatures(photo), index.signatures(photo, box=(100, 60, 220, 180))
    assert 0 < len(boxed) < len(whole)
    [hit] = index.search(photo, k=1, box=(100, 60, 220, 180), include_self=True)
    assert hit.path == "landmark-003/view-000.jpg"


def test_verification_puts_the_same_landmark_first(index: Index) -> None:
    hits = index.search("landmark-001/view-000.jpg", k=4, rerank="verify", include_self=True)
    assert hits[0].inliers > 100
    assert hits[1].path.startswith("landmark-001/")


def test_conditions(index: Index) -> None:
    hits = index.search("landmark-001/view-000.jpg", where="path=landmark-004/")
    assert {hit.path.split("/")[0] for hit in hits} == {"landmark-004"}


@pytest.mark.parametrize("method", ["alpha", "diffusion"])
def test_what_takes_vectors_is_refused(index: Index, method: str) -> None:
    with pytest.raises(SolarError, match="embeddings"):
        index.search("landmark-001/view-000.jpg", rerank=method)


def test_a_query_without_keypoints_says_so(index: Index) -> None:
    with pytest.raises(SolarError, match="keypoints"):
        index.search(np.full((64, 64, 3), 200, np.uint8))


def test_an_unknown_photo_and_one_that_is_gone(index: Index, home: Path, tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="neither a file nor in the index"):
        index.search("rome/1.jpg")
    shutil.copytree(home / "photos" / "landmark-000", tmp_path / "photos" / "l")
    settings = AsmkSettings(codebook=home / "photos.asmk")
    built = build([tmp_path / "photos"], tmp_path / "i", settings)
    (tmp_path / "photos" / "l" / "view-000.jpg").unlink()
    with built.index as other, pytest.raises(SolarError, match="file"):
        other.search("l/view-000.jpg")


def test_a_codebook_from_another_index_and_photos_added(home: Path, tmp_path: Path) -> None:
    source = home / "photos"
    settings = AsmkSettings(codebook=home / "photos.asmk" / "codebook.safetensors")
    built = build([source], tmp_path / "i", settings)
    with built.index as index, Index.open(home / "photos.asmk") as first:
        asked = source / "landmark-000" / "view-000.jpg"
        assert index.search(asked, k=30) == first.search(asked, k=30)
    added = add([home / "others"], tmp_path / "i")
    with added.index as index:
        assert (added.photos, len(index)) == (8, LANDMARKS * VIEWS + 8)
        photo = home / "others" / "landmark-053" / "view-000.jpg"
        assert index.search(photo, k=1, include_self=True)[0].path == (
            "others//landmark-053/view-000.jpg"
        )
    assert not list(tmp_path.glob("*.extracting"))


def test_a_killed_build_finds_its_features_again(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def forgotten(*_: object, **__: object) -> None:
        raise AssertionError("these features were found before")

    with monkeypatch.context() as patched:
        patched.setattr(asmk_build.asmk_index, "begin", killed)
        with pytest.raises(KeyboardInterrupt):
            build([home / "others"], tmp_path / "i", AsmkSettings(words=64))
    monkeypatch.setattr(features, "local_features", forgotten)
    built = build([home / "others"], tmp_path / "i", AsmkSettings(words=64))
    built.index.close()
    assert built.photos == 8


def test_photos_that_cannot_be_read_are_left_out(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "others" / "landmark-050", tmp_path / "photos")
    (tmp_path / "photos" / "bad.jpg").write_bytes(b"no photo")
    built = build([tmp_path / "photos"], tmp_path / "i", AsmkSettings(words=16))
    assert list(built.skipped) == ["bad.jpg"]
    assert len(built.index) == 1
    (tmp_path / "photos" / "view-000.jpg").unlink()
    with pytest.raises(SolarError, match="described"):
        build([tmp_path / "photos"], tmp_path / "j", AsmkSettings(words=16))


def test_a_patch_network_describes_the_keypoints(home: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    save(PatchNet(PatchConfig()), tmp_path / "patch.safetensors")
    model = str(tmp_path / "patch.safetensors")
    build([home / "others"], tmp_path / "i", AsmkSettings(local=model, words=32)).index.close()
    with Index.open(tmp_path / "i") as index:
        name = "landmark-052/view-000.jpg"
        assert index.search(name, k=1, include_self=True)[0].path == name
        assert index.spec.model == model
    with (
        Index.open(tmp_path / "i", model="rootsift") as index,
        pytest.raises(SolarError, match="features"),
    ):
        index.search(name)
    with pytest.raises(SolarError, match="features"):
        build([home / "others"], tmp_path / "j", AsmkSettings(codebook=tmp_path / "i"))


def test_options_that_make_no_sense(home: Path, tmp_path: Path) -> None:
    photos = home / "others"
    for options, complaint in (
        ({"codebook": home / "photos.asmk", "words": 3}, "brings its own words"),
        ({"words": 0}, "1 to 65536"),
        ({"words": 60000}, "too few"),
        ({"codebook": tmp_path / "none"}, "no codebook"),
        ({"local": "orb"}, "^ASMK averages descriptors, but those of orb are binary"),
    ):
        with pytest.raises(SolarError, match=complaint):
            build([photos], tmp_path / "i", AsmkSettings(**options))
    with pytest.raises(SolarError, match="folder"):
        build([photos], "milvus://localhost/photos")
    with pytest.raises(SolarError, match="already"):
        build([photos], home / "photos.asmk")
