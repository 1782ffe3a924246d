from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from solar.doctor.stored_models import cache_folder, models
from solar.models import zoo


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOLAR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_cache_is_measured(cache: Path) -> None:
    (cache / "demo").mkdir(parents=True)
    (cache / "a").write_bytes(b"123")
    (cache / "demo" / "b").write_bytes(b"45")
    found = cache_folder()
    assert (found.files, found.size, found.problem) == (2, 5, "")
    assert found.free > 0


def test_a_cache_that_is_not_there_is_not_made(cache: Path) -> None:
    assert cache_folder().files == 0
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_says_why(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert cache_folder().problem == "Read-only file system"


def _entry(name: str, **facts: Any) -> zoo.NamedModel:
    return replace(zoo.find("solar-r101"), name=name, file=f"{name}.pth", **facts)


def test_models_are_in_the_box_lacking_downloaded_or_to_be_downloaded(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [_entry("a", bundled=True), _entry("b", bundled=True), _entry("c"), _entry("d")]
    entries += [_entry("e", by_hand="a page"), _entry("f", by_hand="a page")]
    box = tmp_path / "box"
    for file in (box / "a.pth", cache / "c.pth", cache / "f.pth"):
        file.parent.mkdir(exist_ok=True)
        file.touch()
    monkeypatch.setattr("solar.weights.FOLDER", box)
    monkeypatch.setattr(zoo, "models", lambda: tuple(entries))
    states = {model.name: model.state for model in models()}
    assert states == {
        "a": "bundled",
        "b": "lacking",
        "c": "downloaded",
        "d": "can be downloaded",
        "e": "with a browser",
        "f": "downloaded",
    }
