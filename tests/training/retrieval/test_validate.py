from pathlib import Path

import pytest
from support.drawn import drawn_retrieval

import solar
from solar.datasets.labelled.build import build_training_set
from solar.datasets.labelled.sources import read_training_set
from solar.models import RetrievalConfig
from solar.training.retrieval.recipe import RetrievalValidation
from solar.training.retrieval.validate import open_labelled, open_validation, validate


def test_held_out_landmarks_are_not_trained_on(landmarks: Path) -> None:
    data, held = open_validation(
        RetrievalValidation(fraction=0.25), read_training_set(landmarks), seed=0
    )
    assert held is not None
    assert len(set(held.labels)) == 2
    assert not set(held.labels) & set(data.labels)
    assert len(held.photos) + len(data) == 32


def test_without_settings_nothing_is_validated(landmarks: Path) -> None:
    found = read_training_set(landmarks)
    data, held = open_validation(RetrievalValidation(), found, seed=0)
    assert data is found
    assert held is None


def test_it_measures_what_evaluate_does(landmarks: Path) -> None:
    settings = RetrievalValidation(source=(str(landmarks),), size=64)
    _, held = open_validation(settings, read_training_set(landmarks), seed=0)
    assert held is not None
    net = drawn_retrieval(RetrievalConfig("resnet18"))
    found = validate(net, held, settings)
    expected = solar.evaluate(landmarks, model=net, size=64, scales=(1.0,)).to_dict()
    assert found["mAP"] == pytest.approx(expected["mAP"])
    assert found["recall@1"] == pytest.approx(expected["recall@1"])


def test_what_a_file_holds_out_is_validated_on(landmarks: Path, tmp_path: Path) -> None:
    build_training_set(landmarks, tmp_path / "toy.json", val_fraction=0.25)
    held = open_labelled([tmp_path / "toy.json"])
    data = read_training_set(tmp_path / "toy.json")
    assert len(set(held.labels)) == 2
    assert not set(held.labels) & set(data.labels)


def test_what_the_data_holds_out_goes_before_a_fraction(landmarks: Path) -> None:
    data, held = read_training_set(landmarks).split(0.25)
    left, labelled = open_validation(RetrievalValidation(fraction=0.5), data, 0, held)
    assert left is data
    assert labelled is not None
    assert labelled.photos is held.photos
