from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.errors import SolarError
from solar.models import PatchConfig, PatchNet
from solar.show.patch_attention import draw_patches, read_patch


@pytest.fixture
def strip(tmp_path: Path) -> Path:
    """Three patches of 65 × 65, one below the other: dark, middle, bright."""
    path = tmp_path / "ref.png"
    levels = np.repeat(np.array([10, 120, 240], np.uint8), 65)
    Image.fromarray(np.tile(levels[:, None], (1, 65))).save(path)
    return path


@pytest.mark.parametrize(("number", "level"), [(0, 10), (1, 120), (2, 240)])
def test_a_patch_of_a_strip(strip: Path, number: int, level: int) -> None:
    patch = read_patch(strip, number=number)
    assert patch.size == (32, 32)
    assert patch.getcolors() == [(1024, (level,) * 3)]


def test_a_patch_of_a_photo() -> None:
    photo = Image.new("RGB", (300, 200))
    photo.paste((200, 200, 200), (100, 50, 164, 114))
    assert read_patch(photo, box=(100, 50, 164, 114)).getcolors() == [(1024, (200,) * 3)]


def test_a_patch_that_is_not_there(strip: Path) -> None:
    with pytest.raises(SolarError, match=r"ref.png has no patch 3: it has 3"):
        read_patch(strip, number=3)


def test_a_photo_is_no_patch() -> None:
    with pytest.raises(SolarError, match="The picture is 300 × 200 pixels, neither a square patch"):
        read_patch(Image.new("RGB", (300, 200)))


def test_every_layer_has_a_line() -> None:
    torch.manual_seed(0)
    net = PatchNet(PatchConfig({3: 4, 5: 2}))
    patch = read_patch(Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32), "u1")))
    both = draw_patches(net, [patch], [(4, 4)], cell=60)
    one = draw_patches(net, [patch], [(4, 4)], cell=60, layer=5)
    assert both.height > 1.8 * one.height
    assert draw_patches(net, [patch, patch], [(4, 4)], cell=60).width > 1.8 * both.width


def test_locations_are_within_the_patch() -> None:
    net = PatchNet(PatchConfig({3: 4}))
    with pytest.raises(SolarError, match="32,4 is not in the photo, which is 32 × 32"):
        draw_patches(net, [Image.new("RGB", (32, 32))], [(32, 4)])
