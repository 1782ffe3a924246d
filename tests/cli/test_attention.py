import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.drawn import drawn_checkpoint
from support.running import refused, solar

from solar.demo import toy
from solar.images import Roots
from solar.index import Index
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A photo, a strip of patches and networks."""
    folder = tmp_path_factory.mktemp("attention")
    toy.landmark(2, 0, size=(160, 120)).save(folder / "a.png")
    noise = np.random.default_rng(0).integers(0, 255, (130, 65), np.uint8)
    Image.fromarray(noise).save(folder / "strip.png")
    for name, layers in (("solar", {4: 4, 5: 2}), ("plain", {})):
        net = RetrievalNet(RetrievalConfig("resnet18", attention=layers))
        torch.save(drawn_checkpoint(net), folder / f"{name}.pth")
    save(PatchNet(PatchConfig({3: 4, 4: 4, 5: 2})), folder / "patch.safetensors")
    return folder


def test_one_location_is_drawn_over_the_photo(folder: Path, tmp_path: Path) -> None:
    options = ("--model", folder / "solar.pth", "--shorter-side", 96, "-o", tmp_path / "out.png")
    solar("attention", folder / "a.png", "--at", "80,60", "--layer", 4, *options)
    with Image.open(tmp_path / "out.png") as drawn, Image.open(folder / "a.png") as photo:
        assert drawn.size == photo.size
        assert drawn.tobytes() != photo.tobytes()


def test_maps_for_a_program(folder: Path, tmp_path: Path) -> None:
    options = ("--model", folder / "solar.pth", "--shorter-side", 96, "-o", tmp_path / "out.npy")
    solar("attention", folder / "a.png", "--at", "80,60", "--at", "0,0", *options)
    maps = np.load(tmp_path / "out.npy")
    assert maps.shape == (2, 3, 4)
    np.testing.assert_allclose(maps.sum(axis=(1, 2)), 1, rtol=1e-5)


def test_the_figure_of_the_paper_is_one_command(folder: Path, tmp_path: Path) -> None:
    options = ("--model", folder / "solar.pth", "--shorter-side", 96, "-o", tmp_path / "out.jpg")
    solar("attention", folder / "a.png", "--figure", *options)
    with Image.open(tmp_path / "out.jpg") as drawn:
        assert drawn.width > 6 * 320  # four maps, and the photo as high as two of them
        assert drawn.height > 2 * 240


def test_the_figure_of_the_supplement_is_one_command(folder: Path, tmp_path: Path) -> None:
    options = ("--model", folder / "patch.safetensors", "-o", tmp_path / "out.png")
    strip = folder / "strip.png"
    solar("attention", "--patch", strip, strip, "--number", 1, *options)
    with Image.open(tmp_path / "out.png") as drawn:
        assert drawn.width > 2 * 7 * 130
        assert drawn.height > 3 * 130


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--at", "160,5"), "The location 160,5 is not in the photo, which is 160 × 120 pixels"),
        (("--at", "here"), "--at takes x,y in pixels"),
        ((), "Give a location with --at x,y"),
        (("--at", "5,5", "--layer", "3"), "The network has attention after layer 4 and 5, not 3."),
        (("--at", "5,5", "--colours", "grey"), "There is no colour map 'grey'"),
        (("--patch",), "is 160 × 120 pixels, neither a square patch"),
    ],
)
def test_a_mistake_is_one_sentence(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    options = ("--model", folder / "solar.pth", "--shorter-side", 64, "-o", tmp_path / "out.png")
    assert sentence in refused("attention", folder / "a.png", *arguments, *options)


def test_a_model_without_attention_is_one_sentence(folder: Path, tmp_path: Path) -> None:
    options = ("--model", folder / "plain.pth", "-o", tmp_path / "out.png")
    told = refused("attention", folder / "a.png", "--at", "5,5", *options)
    assert "plain.pth has no attention to draw: choose a network that has" in told


def test_an_index_is_drawn_as_a_map(tmp_path: Path) -> None:
    toy.write(tmp_path / "photos", landmarks=2, views=2, size=(48, 36))
    names = sorted(str(p.relative_to(tmp_path / "photos")) for p in tmp_path.rglob("*.jpg"))
    roots = Roots.at(tmp_path / "photos")
    Index.create(tmp_path / "i.solar", np.eye(4), names, roots=roots).close()
    options = ("-o", tmp_path / "map.png", "--side", 400, "--json")
    done = solar("index", "map", tmp_path / "i.solar", *options)
    assert [place["path"] for place in json.loads(done.stdout)] == names
    assert "too few for t-SNE" in done.stderr
    with Image.open(tmp_path / "map.png") as drawn:
        assert drawn.width > 150
