"""From photos to answers by ASMK* with local features of a network."""

import json
from pathlib import Path

import pytest
from support.running import refused, solar

from solar.demo import toy
from solar.evaluation import evaluate
from solar.images import load
from solar.index import Index
from solar.index.add import add
from solar.local.features import local_model
from solar.matching.match import match
from solar.models import RetrievalConfig, RetrievalNet, retrieval_model, save
from solar.training.retrieval.start import start_local_whitening, take_backbone

QUERY = "landmark-001/view-000.jpg"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toy photos, a HOW network whose backbone is that of solar-r18, and an index by it."""
    home = tmp_path_factory.mktemp("how")
    photos = toy.write(home / "photos", landmarks=3, views=3, size=(240, 180))
    toy.write(home / "more", landmarks=1, views=1, size=(240, 180), first=40)
    net = RetrievalNet(
        RetrievalConfig("resnet18-conv4", pooling="how", whitening=False, scales=(1.0,))
    )
    take_backbone(net, retrieval_model("solar-r18", device="cpu"), "solar-r18")
    start_local_whitening(net, [load(photo, 160).pixels[:112, :112] for photo in photos])
    save(net, home / "how.safetensors", half=True)
    solar(
        *("index", "build", home / "photos", "-o", home / "photos.asmk", "--method", "asmk"),
        *("--local-features", home / "how.safetensors", "--words", 64),
    )
    return home


def test_an_index_says_what_made_it_and_what_a_photo_takes(home: Path) -> None:
    facts = json.loads(solar("index", "info", home / "photos.asmk", "--json").stdout)
    assert facts["photos"] == 9
    assert facts["model"] == str(home / "how.safetensors")
    # 16 bytes of signs and 4 of a number for each of at most 64 words, and the file's heads.
    assert 20 * 16 < facts["bytes_a_photo"] <= 20 * 64 + 200


def test_a_photo_is_found_and_verified(home: Path) -> None:
    local = home / "how.safetensors"
    command = ("search", home / "photos.asmk", home / "photos" / QUERY, "--box", "20,10,140,110")
    how = ("--rerank", "verify", "--verify-top", 3, "--local-features", local)
    done = solar(*command, *how, "--include-self", "--json")
    hits = json.loads(done.stdout)
    assert [hits[0]["path"], len(hits)] == [QUERY, 9]
    assert hits[0]["inliers"] > 10
    assert [hit["inliers"] is None for hit in hits] == [False] * 3 + [True] * 6


def test_two_photos_of_a_landmark_have_more_in_common_than_two_others(home: Path) -> None:
    first, same, other = (
        home / "photos" / name / f"view-00{view}.jpg"
        for name, view in (("landmark-001", 0), ("landmark-001", 1), ("landmark-002", 1))
    )
    model = local_model(home / "how.safetensors")
    counts = [match(first, one, model=model).inliers.sum() for one in (same, other)]
    assert counts[0] > counts[1] + 5, counts


def test_photos_can_be_added_and_all_is_sound(home: Path) -> None:
    add([home / "more"], home / "photos.asmk")
    with Index.open(home / "photos.asmk") as index:
        assert (len(index), index.check()) == (10, [])


def test_evaluation_ranks_by_local_features(home: Path) -> None:
    """By chance two right photos among eight give a mean average precision of 0.31."""
    found = evaluate(
        home / "photos",
        method="asmk",
        local_features=home / "how.safetensors",
        codebook=home / "photos.asmk",
        distractors=home / "more",
    )
    assert found.to_dict()["mAP"] > 40
    assert "64 visual words of other photos" in found.convention
    assert "bytes per photo" in found.convention


def test_words_of_other_features_are_refused_in_one_sentence(home: Path) -> None:
    codebook = ("--codebook", home / "photos.asmk")
    told = refused(
        "index", "build", home / "photos", "-o", home / "x", "--method", "asmk", *codebook
    )
    assert "other local features" in told
