"""Google Landmarks v2: measures against slow ones, photos and predictions as published."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import solar
from solar.demo import toy
from solar.errors import SolarError
from solar.evaluation.protocols.gldv2 import measure_recognition
from solar.models import RetrievalNet


def slow_gap(right: Mapping[str, Sequence[str]], answers: Mapping[str, tuple[str, float]]) -> float:
    """µAP as the challenge words it: the sum of P(i) rel(i) over all answers, by score."""
    ordered = sorted(answers, key=lambda photo: (-answers[photo][1], photo))
    total = hits = 0.0
    for place, photo in enumerate(ordered, 1):
        if answers[photo][0] in right[photo]:
            hits += 1
            total += hits / place
    return total / sum(bool(own) for own in right.values())


def test_the_parts_of_photos_average_to_the_whole() -> None:
    random = np.random.default_rng(0)
    photos = [f"t{number:02}" for number in range(60)]
    right = {
        photo: [str(one) for one in random.integers(0, 4, random.integers(0, 3))]
        for photo in photos
    }
    answers = {
        photo: (str(random.integers(0, 4)), float(random.integers(0, 20)))  # many equal scores
        for photo in photos
        if random.random() < 0.8
    }
    found = measure_recognition(photos, right, answers)
    assert np.nanmean(found["µAP"]) == pytest.approx(slow_gap(right, answers))
    correct = [photo in answers and answers[photo][0] in right[photo] for photo in photos]
    assert np.nanmean(found["accuracy"]) == pytest.approx(
        sum(correct) / sum(bool(own) for own in right.values())
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two landmarks with two index and two train photos each, two test photos, as published."""
    folder = tmp_path_factory.mktemp("gldv2")
    lists: dict[str, list[str]] = {"index": [], "train": [], "test": []}
    for part, views in (("index", (0, 1)), ("train", (0, 1)), ("test", (2,))):
        for landmark in range(2):
            for view in views:
                photo = f"{landmark}{view}{part[1]}0"
                path = folder / part / "/".join(photo[:3]) / f"{photo}.jpg"
                path.parent.mkdir(parents=True)
                toy.landmark(landmark, view, size=(48, 36)).save(path)
                lists[part].append(photo)
    for part in ("index", "test"):
        (folder / f"{part}.csv").write_text("\n".join(["id", *lists[part]]))
    first, second = (" ".join(lists["train"][part]) for part in (slice(2), slice(2, 4)))
    (folder / "train_clean.csv").write_text(f"landmark_id,images\n70,{first}\n80,{second}\n")
    one, two = lists["test"]
    (folder / "retrieval_solution_v2.1.csv").write_text(
        f"id,images,Usage\n{one},{' '.join(lists['index'][:2])},Public\n"
        f"{two},{' '.join(lists['index'][2:])},Private\nignored,None,Ignored\n"
    )
    (folder / "recognition_solution_v2.1.csv").write_text(
        f"id,landmarks,Usage\n{one},70,Public\n{two},,Public\n"
    )
    return folder


def test_photos_are_ranked_and_recognised(home: Path, tiny: RetrievalNet, tmp_path: Path) -> None:
    how = {"model": tiny, "size": 48, "scales": (1.0,), "cache": tmp_path}
    retrieval = solar.evaluate(home, protocol="gldv2-retrieval", **how)
    assert list(retrieval.to_dict()) == ["public", "private"]
    assert 0 < retrieval.to_dict()["public"]["mAP@100"] <= 100
    assert "divided by min(100, correct photos)" in retrieval.convention
    recognition = solar.evaluate(home, protocol="gldv2-recognition", **how)
    assert list(recognition.to_dict()["public"]) == ["µAP", "accuracy"]
    assert "landmark of the nearest photo" in recognition.convention


def test_features_are_in_the_order_of_the_published_lists(home: Path) -> None:
    database = np.eye(4)
    queries = np.eye(4)[[1, 0]]  # the first finds its own second photo, the second only others
    files = {"features": (database, queries)}
    found = solar.evaluate(home, protocol="gldv2-retrieval", **files).to_dict()
    assert found["public"]["mAP@100"] == 100
    assert found["private"]["mAP@100"] == pytest.approx(100 * (1 / 3 + 2 / 4) / 2)
    assert solar.evaluate(home, protocol="gldv2-retrieval", depth=1, **files).to_dict()[
        "private"
    ] == {"mAP@1": 0}
    found = solar.evaluate(home, protocol="gldv2-recognition", **files).to_dict()
    # Both answer with full confidence; the photo without a landmark comes after the other by name.
    assert found["public"] == {"µAP": 100, "accuracy": 100}
    with pytest.raises(SolarError, match=r" 2 rows .* 4 photos in .*index\.csv"):
        solar.evaluate(home, protocol="gldv2-retrieval", features=(queries, queries))


def test_predictions_take_the_place_of_a_model(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    # A photo that is listed twice counts once, and keeps the places of the others.
    path.write_text("id,images\n02e0,00n0 00n0 01n0\n")
    found = solar.evaluate(home, protocol="gldv2-retrieval", predictions=path).to_dict()
    assert found["public"]["mAP@100"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert found["private"]["mAP@100"] == 0
    path.write_text("id,landmarks\n02e0,70 0.4\n12e0,70 0.9\n")
    found = solar.evaluate(home, protocol="gldv2-recognition", predictions=path).to_dict()
    assert found["public"] == {"µAP": 50, "accuracy": 100}


def test_a_photo_that_is_not_there_is_told_at_once(
    home: Path, tiny: RetrievalNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RetrievalNet, "average", None)  # nothing can be described
    path = tmp_path / "solution.csv"
    path.write_text("id,images,Usage\n02e0,gone,Public\n")
    with pytest.raises(SolarError, match=r"solution\.csv .*photo gone"):
        solar.evaluate(home, protocol="gldv2-retrieval", model=tiny, ground_truth=path)
