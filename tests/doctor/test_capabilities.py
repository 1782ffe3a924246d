import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.drawn import drawn_retrieval

from solar.doctor import capabilities, stored_models
from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet, save, zoo


def test_devices_name_what_runs_here() -> None:
    found = json.loads(json.dumps(capabilities.devices()))
    assert "plain" in found["attention"]
    assert found["threads"] >= 1


def test_jpeg_can_be_read_and_heic_where_its_package_is() -> None:
    found = capabilities.photo_formats()
    assert "JPEG" in found
    assert ("HEIC" in found) == (find_spec("pillow_heif") is not None)


def test_the_self_test_draws_a_network_where_none_is_in_the_box(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_models, "models", list)
    assert "random weights" in capabilities.self_test()


def test_the_self_test_takes_the_model_in_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(drawn_retrieval(RetrievalConfig("resnet18")), tmp_path / "toy-r18.safetensors")
    entry = replace(
        zoo.find("solar-r101"), name="toy-r18", file="toy-r18.safetensors", bundled=True
    )
    monkeypatch.setattr("solar.weights.FOLDER", tmp_path)
    monkeypatch.setattr(zoo, "models", lambda: (entry,))
    monkeypatch.setattr(zoo, "find", lambda name: entry)
    assert "with toy-r18 on" in capabilities.self_test()


def test_the_self_test_fails_where_photos_look_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_models, "models", list)
    describe = RetrievalNet.describe

    def blind(net: RetrievalNet, photos: list[object], **options: object) -> object:
        return -describe(net, photos[:1] * len(photos), **options)  # type: ignore[arg-type]

    monkeypatch.setattr(RetrievalNet, "describe", blind)
    with pytest.raises(SolarError, match=r"found 0\.jpg with"):
        capabilities.self_test()
