"""`solar search --text` and of a server; other searches are in test_index.py."""

import json
from pathlib import Path

import pytest
from support.running import refused, solar
from support.tiny_joint import write_joint

from solar.cli import app
from solar.client import Client
from solar.demo import toy
from solar.errors import SolarError
from solar.index.build import build
from solar.storage.types import Hit

TEXT = "a red door"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "photos"
    toy.write(folder, landmarks=3, views=1, size=(96, 72))
    return folder


@pytest.fixture(scope="module")
def reading(photos: Path) -> Path:
    """An index whose model reads text."""
    home = photos.parent
    build(photos, home / "words.solar", model=write_joint("clip", home / "clip")).close()
    return home / "words.solar"


def test_words_take_the_place_of_a_photo(reading: Path) -> None:
    page = reading.with_name("found.html")
    done = solar("search", reading, "--text", "<red> door", "--json", "--html", page)
    hits = json.loads(done.stdout)
    assert len(hits) == 3
    assert {hit["text"] for hit in hits} == {"<red> door"}
    assert {hit["probability"] for hit in hits} == {None}
    assert "&lt;red&gt; door" in page.read_text(encoding="utf-8")


def test_refused_in_one_sentence(reading: Path, photos: Path, model: Path) -> None:
    plain = photos.parent / "plain.solar"
    build(photos, plain, model=model).close()
    for arguments, said in (
        ((plain, "--text", TEXT), "has no text encoder: for text search, build an"),
        ((plain,), "A search needs a photo or a text: give one of them."),
    ):
        assert said in refused("search", *arguments)


def test_options_of_this_machine_are_refused_for_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hit = Hit("a.jpg", 0.5, inliers=30, threshold=12)
    monkeypatch.setattr(Client, "search", lambda *_, **__: [hit])
    search = ["search", "http://host:8000", "--text", TEXT]
    app([*search, "--json"], standalone_mode=False)
    [shown] = json.loads(capsys.readouterr().out)
    assert (shown["path"], shown["same_scene"]) == ("a.jpg", True)
    with pytest.raises(SolarError, match="--backend"):
        app([*search, "--backend", "openvino-int8"], standalone_mode=False)
