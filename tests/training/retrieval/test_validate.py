from pathlib import Path
from typing import Any

import pytest
from support.drawn import drawn_retrieval

import solar
from solar.datasets.labelled.build import build_training_set
from solar.datasets.labelled.sources import read_training_set
from solar.datasets.labelled.training_set import TrainingSet
from solar.models import RetrievalConfig
from solar.training.retrieval.recipe import RetrievalData, RetrievalRecipe, RetrievalValidation
from solar.training.retrieval.validate import (
    Held,
    Labelled,
    open_labelled,
    open_photos,
    validate,
)


def opened(photos: Path, **validation: Any) -> tuple[TrainingSet, Held | None]:
    data, settings = RetrievalData((str(photos),)), RetrievalValidation(**validation)
    return open_photos(RetrievalRecipe(data=data, validation=settings), read_training_set)


def test_held_out_landmarks_are_not_trained_on(landmarks: Path) -> None:
    data, held = opened(landmarks, fraction=0.25)
    assert isinstance(held, Labelled)
    assert len(set(held.labels)) == 2
    assert not set(held.labels) & set(data.labels)
    assert len(held.photos) + len(data) == 32


def test_without_settings_nothing_is_validated(landmarks: Path) -> None:
    data, held = opened(landmarks)
    assert len(data) == 32
    assert held is None


def test_it_measures_what_evaluate_does(landmarks: Path) -> None:
    _, held = opened(landmarks, source=(str(landmarks),))
    assert held is not None
    net = drawn_retrieval(RetrievalConfig("resnet18"))
    found = validate(net, held, RetrievalValidation(size=64))
    expected = solar.evaluate(landmarks, model=net, size=64, scales=(1.0,)).to_dict()
    assert found["mAP"] == pytest.approx(expected["mAP"])
    assert found["recall@1"] == pytest.approx(expected["recall@1"])


def test_what_a_file_holds_out_is_validated_on(landmarks: Path, tmp_path: Path) -> None:
    build_training_set(landmarks, tmp_path / "toy.json", val_fraction=0.25)
    held = open_labelled([tmp_path / "toy.json"])
    data = read_training_set(tmp_path / "toy.json")
    assert len(set(held.labels)) == 2
    assert not set(held.labels) & set(data.labels)


def test_what_the_data_holds_out_goes_before_a_fraction(landmarks: Path, tmp_path: Path) -> None:
    build_training_set(landmarks, tmp_path / "toy.json", val_fraction=0.25)
    data, held = opened(tmp_path / "toy.json", fraction=0.5)
    assert isinstance(held, Labelled)
    assert len(set(held.labels)) == 2
    assert len(data.labels) == 6
