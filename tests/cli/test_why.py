import json
from pathlib import Path

import pytest
from PIL import Image
from support.running import refused, solar

from solar.demo import toy
from solar.models import RetrievalConfig, RetrievalNet, save


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("why")
    for view in (0, 1):
        toy.landmark(5, view, size=(640, 480)).save(home / f"{view}.jpg")
    save(RetrievalNet(RetrievalConfig("resnet18", pooling="rmac")), home / "rmac.safetensors")
    return home


def test_a_picture_and_the_strongest_pairs(home: Path) -> None:
    photos = home / "0.jpg", home / "1.jpg"
    done = solar("why", *photos, "-o", home / "why.png", "--compare-attention")
    with Image.open(home / "why.png") as picture:
        assert picture.height > 2 * 480
    first, second, *pairs = done.stdout.splitlines()
    assert first.startswith("similarity 0.")
    assert second.startswith("without second-order attention 0.")
    assert all(" in A with " in pair for pair in pairs)


def test_json(home: Path) -> None:
    done = solar(
        *("why", home / "0.jpg", home / "1.jpg", "--json", "--scales", "1"),
        *("--box", "20,10,150,110", "--size", 128),
    )
    found = json.loads(done.stdout)
    assert set(found) == {"score", "sum", "a", "b", "shift", "pairs"}
    assert found["sum"] == pytest.approx(found["score"], abs=1e-6)
    for heat in (found["a"], found["b"]):
        assert sum(map(sum, heat)) == pytest.approx(found["score"], abs=1e-6)
    assert all(set(pair) == {"a", "b", "value"} for pair in found["pairs"])


def test_mistakes_are_sentences(home: Path) -> None:
    photos = home / "0.jpg", home / "1.jpg"
    for arguments, sentence in (
        ((*photos, "--model", home / "rmac.safetensors"), "pools by rmac"),
        ((*photos, "--box", "900,900,950,950"), "outside the photo"),
    ):
        assert sentence in refused("why", *arguments)
