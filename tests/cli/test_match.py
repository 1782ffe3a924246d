import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.running import HIT_FIELDS, refused, solar
from support.warped import corner_error, toy_photo, turned

from solar.models import PatchNet, save


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two photos, the homography between them in a file, and a network."""
    home = tmp_path_factory.mktemp("match")
    photo = toy_photo(size=(320, 240))
    other, truth = turned(photo)
    Image.fromarray(photo).save(home / "a.png")
    Image.fromarray(other).save(home / "b.png")
    np.save(home / "truth.npy", truth)
    save(PatchNet(), home / "net.safetensors")
    return home


def test_json_has_the_fixed_form(home: Path) -> None:
    result = json.loads(solar("match", home / "a.png", home / "b.png", "--json").stdout)
    counts = {"keypoints", "matches", "inliers", "matrix"}
    assert set(result) == counts | {"same_scene", "threshold"}
    assert result["same_scene"] is True
    assert result["threshold"] < result["inliers"]
    first, second = result["keypoints"]
    assert min(first, second) > result["matches"] > result["inliers"] > 30
    truth = np.load(home / "truth.npy")
    assert corner_error(np.array(result["matrix"]), truth, (240, 320)) < 3


def test_json_names_what_is_compared(home: Path) -> None:
    photos = (home / "a.png", home / "b.png")
    done = solar("match", *photos, "--compare", "sift", "--keypoints", 100, "--json")
    (other,) = json.loads(done.stdout)["compare"]
    assert (other["descriptor"], other["keypoints"]) == ("sift", [100, 100])


def test_features_may_be_bits(home: Path) -> None:
    done = solar("match", home / "a.png", home / "b.png", "--local-features", "orb")
    assert done.stdout.startswith("orb: Same place: ")


def test_a_picture_compares_models(home: Path) -> None:
    done = solar(
        *("match", home / "a.png", home / "b.png", "-o", home / "m.png", "--keypoints", 100),
        *(
            "--local-features",
            home / "net.safetensors",
            "--compare",
            "sift",
            "--geometry",
            "fundamental",
        ),
    )
    with Image.open(home / "m.png") as picture:
        assert picture.height > 2 * 480
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["net", "sift"]


def test_the_geometry_is_printed_where_no_picture_shows_it(home: Path) -> None:
    photos, few = (home / "a.png", home / "b.png"), ("--keypoints", 100)
    _, label, *rows = solar("match", *photos, *few).stdout.splitlines()
    assert label == f"Homography from {photos[0]} to {photos[1]}, in pixels:"
    assert [len(row.split()) for row in rows] == [3, 3, 3]
    drawn = solar("match", *photos, *few, "-o", home / "one.png").stdout
    assert drawn.startswith("rootsift: ")
    assert len(drawn.splitlines()) == 1


def test_unrelated_photos_have_a_verdict_and_no_matrix(home: Path) -> None:
    Image.fromarray(toy_photo(5, (320, 240))).save(home / "other.png")
    photos = (home / "a.png", home / "other.png")
    result = json.loads(solar("match", *photos, "--json").stdout)
    assert (result["same_scene"], result["matches"] > 0) == (False, True)
    [line] = solar("match", *photos).stdout.splitlines()
    told = f"{result['inliers']} matching details, {result['threshold']} are needed"
    assert line.startswith(f"rootsift: Not confirmed as the same place: {told} (homography, ")


def test_a_photo_without_keypoints_has_no_matrix(home: Path) -> None:
    Image.new("RGB", (50, 40)).save(home / "black.png")
    result = json.loads(solar("match", home / "a.png", home / "black.png", "--json").stdout)
    assert result["matrix"] is None
    assert (result["matches"], result["inliers"], result["keypoints"][1]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--geometry", "affine"), "homography or fundamental"),
        (("--local-features", "solar-r10"), "no model called"),
        (("-o", "m.txt"), "must end in"),
        (("--patch-frames", "tall"), "wide"),
    ],
)
def test_mistakes_are_one_sentence(home: Path, arguments: tuple[str, ...], sentence: str) -> None:
    assert sentence in refused("match", home / "a.png", home / "b.png", *arguments)


def test_search_ranks_again_unless_told_otherwise(home: Path) -> None:
    from solar.images import Roots
    from solar.index import Index

    scores = np.array([1.0, 0.9, 0.8])
    vectors = np.stack([scores, np.sqrt(1 - scores**2)], axis=1)
    Image.new("RGB", (50, 40)).save(home / "grey.png")
    names, index = ["a.png", "grey.png", "b.png"], home / "usual.solar"
    Index.create(index, vectors, names, roots=Roots.at(home)).close()
    usual = solar("search", index, "name:a.png")
    assert [line.split()[-1] for line in usual.stdout.splitlines()] == ["b.png", "grey.png"]
    assert "Re-ranked by matching points; --no-rerank" in usual.stderr
    plain = solar("search", index, "name:a.png", "--no-rerank")
    assert [line.split()[-1] for line in plain.stdout.splitlines()] == ["grey.png", "b.png"]
    assert plain.stderr == ""
    (home / "empty").mkdir()
    away = solar("search", index, "name:a.png", "--photos", home / "empty")
    assert away.stdout == plain.stdout
    assert "Not re-ranked by matching points" in away.stderr
    nowhere = refused("search", index, "name:a.png", "--photos", home / "gone")
    assert f"There is no folder {home / 'gone'}: check --photos." in nowhere
    both = refused("search", index, "name:a.png", "--no-rerank", "--rerank", "verify")
    assert "--no-rerank cannot be combined with verify" in both
    least = refused("search", index, "name:a.png", "--min-probability", 0.5)
    assert "has no calibrated probabilities" in least
    assert "solar-r18" in least


def test_search_verifies(home: Path) -> None:
    from solar.images import Roots
    from solar.index import Index

    names = ["a.png", "black.png", "b.png"]
    Image.new("RGB", (50, 40)).save(home / "black.png")
    scores = np.array([1.0, 0.9, 0.8])
    vectors = np.stack([scores, np.sqrt(1 - scores**2)], axis=1)
    Index.create(home / "i.solar", vectors, names, roots=Roots.at(home / "moved")).close()
    assert "moved" in refused("search", home / "i.solar", "name:a.png", "--rerank", "verify")
    command = ("search", home / "i.solar", "name:a.png", "--rerank", "verify", "--photos", home)
    hits = json.loads(solar(*command, "--json").stdout)
    assert [hit["path"] for hit in hits] == ["b.png", "black.png"]
    assert [set(hit) for hit in hits] == [HIT_FIELDS] * 2
    assert [hit["same_scene"] for hit in hits] == [True, False]
    right, wrong = solar(*command).stdout.splitlines()
    assert right.startswith("Same place ")
    assert wrong.startswith("Similar only ")
    (home / "black.png").unlink()
    done = solar(*command, "--include-self", "--verify-top", 2, "--local-features", "sift")
    assert [line.split()[-1] for line in done.stdout.splitlines()] == names
    assert "There is no photo black.png" in done.stderr
    assert "UserWarning" not in done.stderr
