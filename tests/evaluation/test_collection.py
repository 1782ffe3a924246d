import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support import ground_truth
from support.filled import index_of

import solar
from solar.datasets.public import registry
from solar.errors import SolarError
from solar.evaluation import settings
from solar.evaluation.paper import rankings, sweep
from solar.index import Index
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet

SMALL = {"size": 64, "scales": (1.0,)}


@pytest.fixture(scope="module")
def model() -> RetrievalNet:
    torch.manual_seed(0)
    return RetrievalNet(RetrievalConfig("resnet18", whitening=False))


def picture(shade: int, side: int = 48) -> Image.Image:
    pixels = np.random.default_rng(shade // 10).integers(0, 256, (side, side, 3))
    return Image.fromarray(np.clip(pixels + shade % 10, 0, 255).astype(np.uint8))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three landmarks that even a network with random weights tells apart, and a lone photo."""
    for shade in (10, 11, 12, 20, 21, 30, 31, 40):
        file = tmp_path / "photos" / f"landmark{shade // 10}" / f"{shade}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        picture(shade).save(file)
    return tmp_path / "photos"


def test_solar_evaluate_is_a_function_even_after_its_parts_are_imported() -> None:
    assert callable(solar.evaluate)
    assert isinstance(solar.evaluation.ranks.MEMORY, int)


def test_a_folder_is_evaluated_by_its_labels(model: RetrievalNet, photos: Path) -> None:
    found = solar.evaluate(photos, model=model, **SMALL)
    assert len(found.queries) == 7
    assert found.to_dict()["mAP"] == 100
    assert found.to_dict()["recall@1"] == 100


def test_a_tar_and_a_csv_give_what_the_folder_gives(model: RetrievalNet, photos: Path) -> None:
    names = sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.png"))
    with tarfile.open(photos.parent / "photos.tar", "w") as tar:
        for name in names:
            tar.add(photos / name, f"val/{name}")
    lines = "".join(f"{name},{Path(name).parent}\n" for name in names)
    (photos.parent / "photos.csv").write_text(lines)
    expected = solar.evaluate(photos, model=model, **SMALL).protocols["all"]
    for found in (
        solar.evaluate(photos.parent / "photos.tar", model=model, **SMALL),
        solar.evaluate(photos.parent / "photos.csv", root=photos, model=model, **SMALL),
    ):
        np.testing.assert_array_equal(found.protocols["all"]["AP"], expected["AP"])


def test_distractor_photos_are_described_too(model: RetrievalNet, photos: Path) -> None:
    others = photos.parent / "others"
    others.mkdir()
    for shade in (10, 20, 30):  # copies: they come before or after the real ones, never count
        picture(shade).save(others / f"{shade}.png")
    found = solar.evaluate(photos, model=model, distractors=others, **SMALL)
    assert found.to_dict()["mAP"] < 100


def test_distractors_of_another_model_are_refused(model: RetrievalNet, photos: Path) -> None:
    mine, theirs = photos.parent / "mine.solar", photos.parent / "theirs.solar"
    solar.build(photos, mine, model=model, **SMALL)
    torch.manual_seed(1)
    other = RetrievalNet(RetrievalConfig("resnet18", whitening=False))
    solar.build(photos, theirs, model=other, **SMALL)
    assert solar.evaluate(photos, model=model, distractors=mine, **SMALL).to_dict()["mAP"] < 100
    with pytest.raises(SolarError, match="another model"):
        solar.evaluate(photos, model=model, distractors=theirs, **SMALL)


def test_descriptors_are_kept_for_the_next_time(
    model: RetrievalNet, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = photos.parent / "cache"
    first = solar.evaluate(photos, model=model, cache=cache, **SMALL)
    monkeypatch.setattr(RetrievalNet, "average", None)  # nothing can be described any more
    again = solar.evaluate(photos, model=model, cache=cache, **SMALL)
    assert again.to_dict() == first.to_dict()
    [store] = cache.iterdir()
    assert solar.evaluate(store).to_dict() == first.to_dict()


def test_a_photo_that_cannot_be_read_is_left_out_and_told(
    model: RetrievalNet, photos: Path
) -> None:
    (photos / "landmark1" / "12.png").write_bytes(b"no photo")
    found = solar.evaluate(photos, model=model, **SMALL)
    assert list(found.failures) == ["landmark1/12.png"]
    assert len(found.queries) == 6


def test_photos_of_a_csv_that_are_not_there_are_told_with_the_first_reason(
    model: RetrievalNet, photos: Path
) -> None:
    listed = photos.parent / "labels.csv"
    listed.write_text("10.png,a\n11.png,a\n")
    with pytest.raises(SolarError, match=r"10\.png.*root="):
        solar.evaluate(listed, model=model, **SMALL)
    told = r"\(1 label for 1 photo; 1 photo skipped because .*11.png .* No such file"
    listed.write_text("landmark1/10.png,a\nlandmark1/11.png,a\n")
    (photos / "landmark1" / "11.png").unlink()
    with pytest.raises(SolarError, match=told):
        solar.evaluate(listed, root=photos, model=model, **SMALL)


def test_an_index_is_evaluated_as_its_photos_are(model: RetrievalNet, photos: Path) -> None:
    solar.build(photos, photos.parent / "photos.solar", model=model, **SMALL).close()
    found = solar.evaluate(photos.parent / "photos.solar")
    expected = solar.evaluate(photos, model=model, **SMALL)
    assert found.to_dict() == pytest.approx(expected.to_dict())
    assert sorted(found.queries) == sorted(expected.queries)


@pytest.fixture
def own(photos: Path) -> Path:
    """A ground truth beside its photos: the query is the right half of a photo of two landmarks."""
    wide = Image.new("RGB", (96, 48))
    wide.paste(picture(10), (0, 0))
    wide.paste(picture(20), (48, 0))
    wide.save(photos / "wide.png")
    queries = [
        {"photo": "wide.png", "box": [48, 0, 96, 48], "ok": ["landmark2/20.png"]},
        {"photo": "wide.png", "box": [0, 0, 48, 48], "ok": ["landmark1/10.png"]},
    ]
    names = [f"landmark{shade // 10}/{shade}.png" for shade in (10, 20, 30)]
    (photos / "own.json").write_text(json.dumps({"database": names, "queries": queries}))
    return photos / "own.json"


def test_ones_own_ground_truth_cuts_queries_to_their_boxes(model: RetrievalNet, own: Path) -> None:
    # A box keeps the scale of its whole photo, so the photos must not be reduced here.
    assert solar.evaluate(own, model=model, size=96, scales=(1.0,)).to_dict()["mAP"] == 100
    truth = json.loads(own.read_text())
    truth["queries"][0]["ok"], truth["queries"][1]["ok"] = ["landmark1/10.png"], [2]
    own.write_text(json.dumps(truth))
    assert solar.evaluate(own, model=model, size=96, scales=(1.0,)).to_dict()["mAP"] < 100


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_of_a_ground_truth_are_in_stored_pixels(
    model: RetrievalNet, own: Path, tmp_path: Path, orientation: int
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    for photo in own.parent.rglob("*.png"):
        Image.open(photo).save(photo, exif=exif)
    for published in (False, True):
        how = {"published": published, "cache": tmp_path / "cache"}
        found = solar.evaluate(own, model=model, size=96, scales=(1.0,), **how)
        assert found.to_dict()["mAP"] == 100
        assert ("stored pixels, float32" in found.convention) == published
    made = [Index.open(path).spec.settings for path in (tmp_path / "cache").iterdir()]
    used = [(settings["orient"], settings["precision"]) for settings in made]
    assert sorted(used) == [(False, "float32")] * 2 + [(True, "auto")] * 2


def test_the_published_way_is_with_torch() -> None:
    with pytest.raises(SolarError, match="backend="):
        solar.evaluate("photos", published=True, backend="openvino")


def test_a_photo_missing_from_a_ground_truth_is_told(model: RetrievalNet, own: Path) -> None:
    (own.parent / "landmark3" / "30.png").write_bytes(b"broken")
    with pytest.raises(SolarError, match=r"landmark3/30\.png"):
        solar.evaluate(own, model=model, **SMALL)


def test_a_named_set_is_evaluated_from_its_root(model: RetrievalNet, tmp_path: Path) -> None:
    home = tmp_path / "data" / "roxford5k"
    (home / "jpg").mkdir(parents=True)
    ground_truth.write(home / "gnd_roxford5k.pkl")
    content = ground_truth.content()
    for number, name in enumerate(content["imlist"] + content["qimlist"]):
        picture(10 * number).save(home / "jpg" / f"{name}.jpg")
    found = solar.evaluate("roxford5k", model=model, root=tmp_path / "data", size=32, scales=(1.0,))
    assert list(found.to_dict()) == ["easy", "medium", "hard"]
    assert found.queries[0] == "query_0"


def test_a_set_is_evaluated_by_name_once_its_ground_truth_is_in_the_registry(
    model: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.GROUND_TRUTHS, "towns60", 60)
    ground_truth.write(tmp_path / "gnd_towns60.pkl")
    files = ground_truth.descriptors()
    found = solar.evaluate("towns60", root=tmp_path, features=files).to_dict()
    assert found["hard"] == pytest.approx(ground_truth.by_hand(*files)["hard"])


def test_features_may_be_arrays_files_and_indexes(tmp_path: Path) -> None:
    database, queries = ground_truth.descriptors()
    truth = ground_truth.write(tmp_path / "gnd.pkl")
    expected = ground_truth.by_hand(database, queries)["medium"]
    names = [f"{name}.jpg" for name in ground_truth.content()["imlist"]]
    backwards = np.ascontiguousarray(database[::-1])  # photos are told apart by their names
    index_of(tmp_path / "s.solar", names[::-1], backwards).close()
    np.save(tmp_path / "q.npy", queries)
    torch.save(torch.from_numpy(queries.T.copy()), tmp_path / "q.pt")  # as published: columns
    for features in (
        (database, queries),
        (tmp_path / "s.solar", tmp_path / "q.pt"),
    ):
        found = solar.evaluate("roxford5k", ground_truth=truth, features=features)
        assert found.to_dict()["medium"] == pytest.approx(expected)


def test_descriptors_are_evaluated_without_torch(tmp_path: Path) -> None:
    for name, rows in zip(("db", "q"), ground_truth.descriptors(), strict=True):
        np.save(tmp_path / f"{name}.npy", rows)
    ground_truth.write(tmp_path / "gnd.pkl")
    code = (
        "import sys, solar; solar.evaluate('gnd.pkl', features=('db.npy', 'q.npy'));"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_what_is_missing_is_told_in_a_sentence(photos: Path, own: Path, tmp_path: Path) -> None:
    patch = PatchNet(PatchConfig())
    for arguments, sentence in (
        ({"what": "roxford5k"}, "roxford5k.*root="),
        ({"what": photos, "features": (own, own)}, "features="),
        ({"what": photos, "model": patch}, "patches"),
        ({"what": tmp_path / "nothing"}, "nothing"),
        ({"what": tmp_path / "x.npy"}, "labels"),
        ({"what": own, "features": (photos, photos)}, "features="),
    ):
        with pytest.raises(SolarError, match=sentence):
            solar.evaluate(**arguments)


def test_a_temporary_folder_is_gone_afterwards(
    model: RetrievalNet, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(settings.tempfile, "tempdir", str(tmp_path / "temporary"))
    solar.evaluate(photos, model=model, **SMALL)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_options_are_the_fields_of_the_settings(photos: Path) -> None:
    with pytest.raises(TypeError, match="sizes"):
        solar.evaluate(photos, sizes=32)


def test_options_go_before_settings(model: RetrievalNet, photos: Path) -> None:
    chosen = settings.EvaluationSettings(size=1, scales=(1.0,))
    expected = solar.evaluate(photos, model=model, **SMALL).to_dict()
    assert solar.evaluate(photos, model=model, settings=chosen, size=64).to_dict() == expected


def test_features_are_not_taken_for_a_model_that_has_to_describe(own: Path) -> None:
    features = ground_truth.descriptors()
    for job in (sweep.sweep_p, rankings.rankings):
        with pytest.raises(SolarError, match="features="):
            job(own, {}, features=features)
