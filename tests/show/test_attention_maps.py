import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.drawn import drawn_retrieval
from support.whole_maps import whole_maps
from torch import nn

import solar
from solar.demo import toy
from solar.errors import SolarError
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet
from solar.show.attention_maps import (
    STARS,
    AttentionMaps,
    draw_figure,
    draw_patches,
    draw_star,
    read_patch,
)
from solar.show.attention_source import AttentionSource, LayerAttention
from solar.show.colours import COLOURS, colour

SPOT = (320, 128)  # upper left corner, in pixels of the photo


@pytest.fixture(scope="module")
def network() -> RetrievalNet:
    return drawn_retrieval(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    return toy.landmark(3, 1, size=(150, 100))


@pytest.fixture(scope="module")
def by_brightness() -> RetrievalNet:
    """A network whose only feature is brightness: bright locations look at bright ones."""
    config = RetrievalConfig("resnet18", attention={5: 2}, mean=(0, 0, 0), std=(1, 1, 1))
    net = RetrievalNet(config).eval()
    with torch.no_grad():
        for name, module in net.backbone.named_modules():
            if isinstance(module, nn.Conv2d):
                module.weight.zero_()
                if name.endswith("downsample.0"):
                    module.weight[0, 0] = 1
        net.backbone.conv1.weight[0, :, 3, 3] = 1 / 3
        soa = net.backbone.soa5
        for head in (soa.query, soa.key):
            head[0].weight[0, 0] = 30
    return net


@pytest.fixture
def spot() -> Image.Image:
    """Black, with one bright square inside of the location in row 2 and column 5 (of 6 and 8)."""
    picture = Image.new("RGB", (512, 384))
    picture.paste((255, 255, 255), (*SPOT, SPOT[0] + 40, SPOT[1] + 40))
    return picture


def test_rows_are_those_of_the_whole_map(network: RetrievalNet, photo: Image.Image) -> None:
    source = AttentionSource.of(network, photo, size=100)
    pixels = network.normalise(torch.from_numpy(np.array(photo))[None])
    with torch.inference_mode():
        _, maps = whole_maps(network.backbone, pixels)
    # 150 × 100 pixels are 10 × 7 locations of 16 pixels, 5 × 4 of 32.
    for layer, shape, number in ((4, (7, 10), 3 * 10 + 6), (5, (4, 5), 1 * 5 + 3)):
        row = source.row(98, 50, layer)
        assert row.shape == shape
        np.testing.assert_allclose(row.ravel(), maps[layer][0, number], rtol=1e-4, atol=1e-7)


def test_the_attention_of_descriptors_on_request(network: RetrievalNet, photo: Image.Image) -> None:
    pixels = network.normalise(torch.from_numpy(np.array(photo))[None])
    with torch.inference_mode():
        _, maps = whole_maps(network.backbone, pixels, picture_scale=False)
    found = solar.attention(network, photo, (0, 0), size=100, picture_scale=False)
    np.testing.assert_allclose(found.maps[0].ravel(), maps[5][0, 0], rtol=1e-4, atol=1e-7)


def test_the_bright_spot_is_where_it_is(by_brightness: RetrievalNet, spot: Image.Image) -> None:
    maps = solar.attention(by_brightness, spot, at=(340, 150), size=192)
    assert maps.maps.shape == (1, 6, 8)
    assert np.unravel_index(maps.maps[0].argmax(), (6, 8)) == (2, 5)
    y, x = np.unravel_index(maps.enlarged()[0].argmax(), (384, 512))
    assert 320 <= x < 384
    assert 128 <= y < 192


def test_another_location_looks_elsewhere(by_brightness: RetrievalNet, spot: Image.Image) -> None:
    bright, dark = solar.attention(by_brightness, spot, at=[(340, 150), (20, 300)], size=192).maps
    assert bright[2, 5] > 0.99
    np.testing.assert_allclose(dark, 1 / 48, rtol=1e-5)


def test_small_photos_are_enlarged_and_panoramas_bounded(
    network: RetrievalNet, photo: Image.Image
) -> None:
    assert AttentionSource.of(network, photo, size=128).layer(5).shape == (4, 6)
    wide = Image.new("RGB", (2000, 100))
    assert AttentionSource.of(network, wide, size=64).layer(5).shape == (1, 8)


def test_photos_are_upright(by_brightness: RetrievalNet, spot: Image.Image, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    spot.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    maps = solar.attention(by_brightness, tmp_path / "turned.png", at=(340, 150), size=192)
    assert maps.photo.size == (512, 384)
    assert maps.maps[0, 2, 5] > 0.99


def test_half_precision_is_enough_and_half_the_memory(
    network: RetrievalNet, photo: Image.Image
) -> None:
    whole, half = (AttentionSource.of(network, photo, size=128, half=h) for h in (False, True))
    assert half.nbytes == whole.nbytes // 2
    np.testing.assert_allclose(half.row(50, 50, 4), whole.row(50, 50, 4), rtol=0.03)


def test_notable_locations_are_inside_and_apart(network: RetrievalNet, photo: Image.Image) -> None:
    locations = AttentionSource.of(network, photo, size=256).notable()
    assert len(set(locations)) == 4
    assert all(0 <= x < 150 and 0 <= y < 100 for x, y in locations)


def test_the_most_notable_location_is_looked_at_most(
    by_brightness: RetrievalNet, spot: Image.Image
) -> None:
    x, y = AttentionSource.of(by_brightness, spot, size=192).notable()[0]
    assert (y // 64, x // 64) == (2, 5)


def test_a_map_of_one_location_is_one(network: RetrievalNet) -> None:
    source = AttentionSource.of(network, Image.new("RGB", (7, 7)), size=32)
    assert source.row(6, 6).tolist() == [[1]]
    assert len(source.notable()) == 4


def test_pixels_of_the_last_cut_cell_belong_to_it() -> None:
    attention = LayerAttention(np.eye(6), np.eye(6), (2, 3), (32.0, 32.0))
    assert attention.place((31.9, 0)) == 0
    assert attention.place((32, 31.9)) == 1
    assert attention.place((500, 500)) == 5


def test_patches_have_attention_too(golden: dict[str, np.ndarray]) -> None:
    torch.manual_seed(0)
    net = PatchNet(PatchConfig({3: 4, 4: 4, 5: 2})).eval()
    pixels = golden["patches"][0, 0].clip(0, 255).astype(np.uint8)
    with torch.inference_mode():
        _, maps = whole_maps(net.trunk, torch.from_numpy(pixels.astype(np.float32))[None, None])
    source = AttentionSource.of(net, Image.fromarray(pixels))
    assert {n: one.shape for n, one in source.layers.items()} == {
        3: (16, 16),
        4: (16, 16),
        5: (8, 8),
    }
    np.testing.assert_allclose(source.row(9, 5, 3).ravel(), maps[3][0, 2 * 16 + 4], rtol=1e-4)
    np.testing.assert_allclose(source.row(9, 5, 5).ravel(), maps[5][0, 1 * 8 + 2], rtol=1e-4)


@pytest.mark.parametrize("at", [(150, 50), (10, 100), (-1, 5), (float("nan"), 5)])
def test_locations_outside_are_refused(
    network: RetrievalNet, photo: Image.Image, at: tuple[float, float]
) -> None:
    with pytest.raises(SolarError, match="150 × 100"):
        solar.attention(network, photo, at)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda net, photo: solar.attention(net, photo, (1, 2, 3)), "A location is"),
        (lambda net, photo: solar.attention(net, photo, []), "A location is"),
        (lambda net, photo: solar.attention(net, photo, (5, 5), 3, size=64), "layer 4 and 5, not"),
        (lambda net, photo: solar.attention(net, photo, (5, 5), size=8), "at least 32"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_sentence(
    network: RetrievalNet,
    photo: Image.Image,
    ask: Callable[[RetrievalNet, Image.Image], object],
    message: str,
) -> None:
    with pytest.raises(SolarError, match=message):
        ask(network, photo)


def test_a_network_without_attention_is_refused(photo: Image.Image) -> None:
    plain = RetrievalNet(RetrievalConfig("resnet18"))
    with pytest.raises(SolarError, match="attention"):
        solar.attention(plain, photo, (5, 5))


def test_a_notebook_shows_a_picture(network: RetrievalNet, photo: Image.Image) -> None:
    maps = solar.attention(network, photo, [(20, 30), (100, 60)], size=64)
    with Image.open(io.BytesIO(maps._repr_png_())) as shown:
        assert shown.format == "PNG"
        assert shown.width > 3 * 320


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
    with pytest.raises(SolarError, match=r"32,4.*32 × 32"):
        draw_patches(net, [Image.new("RGB", (32, 32))], [(32, 4)])


@pytest.fixture
def maps() -> AttentionMaps:
    """A grey photo of 200 × 100; two locations that look at the upper left and the lower right."""
    values = np.zeros((2, 2, 4), np.float32)
    values[0, 0, 0] = values[1, 1, 3] = 1
    photo = Image.new("RGB", (200, 100), (128, 128, 128))
    return AttentionMaps(photo, ((150, 75), (20, 20)), 5, values, (4.0, 2.0))


def brightness(picture: Image.Image) -> np.ndarray:
    return np.asarray(picture.convert("L"), np.float32)


def test_what_is_looked_at_is_bright(maps: AttentionMaps) -> None:
    for number, (bright, dark) in enumerate((((25, 25), (120, 20)), ((175, 75), (60, 80)))):
        shown = brightness(maps.overlay(number, star=False))
        assert shown[bright[::-1]] > shown[dark[::-1]] + 80


def test_opacity_from_the_photo_alone_to_the_map_alone(maps: AttentionMaps) -> None:
    none = maps.overlay(opacity=0, star=False)
    assert none.getcolors() == [(20000, (128, 128, 128))]
    full = maps.overlay(opacity=1, star=False, colours="jet")
    assert full.getpixel((0, 0)) == tuple(COLOURS["jet"][-1])
    assert full.getpixel((199, 0)) == tuple(COLOURS["jet"][0])


def test_a_cut_cell_is_not_stretched() -> None:
    values = np.array([[[0, 1]]], np.float32)
    photo = Image.new("RGB", (60, 40))
    maps = AttentionMaps(photo, ((0, 0),), 5, values, (1.5, 1.0))  # half of the second cell
    [row] = maps.enlarged()[0][:1]
    # Centres of the cells are 40 pixels apart, at 20 and 60: halfway is at 40, not at 30.
    assert row[40] == pytest.approx(0.5, abs=0.02)


def test_the_star_is_where_the_location_is(maps: AttentionMaps) -> None:
    shown = np.asarray(maps.overlay(0, opacity=0))
    ys, xs = np.nonzero((shown == STARS[0]).all(axis=2))
    assert xs.mean() == pytest.approx(150, abs=1)
    assert ys.mean() == pytest.approx(75, abs=1)


def test_a_star_at_the_border_is_cut() -> None:
    picture = Image.new("RGB", (50, 40))
    draw_star(picture, (49.5, 0), STARS[1], "b")
    assert picture.getpixel((48, 1)) != (0, 0, 0)


def test_the_figure_has_the_photo_and_a_framed_map_a_location_and_layer(
    maps: AttentionMaps,
) -> None:
    figure = np.asarray(draw_figure([[maps, maps]], cell=100, opacity=0.5))
    frames = [(figure == star).all(axis=2) for star in STARS]
    # The long straight lines of two frames, each with two upright edges.
    assert [int((frame.sum(axis=0) >= 2 * 50).sum() >= 2) for frame in frames] == [1, 1, 0, 0]
    assert figure.shape[1] > figure.shape[0] * 2


def test_photos_below_and_beside_each_other(maps: AttentionMaps) -> None:
    below = draw_figure([[maps], [maps]], cell=100)
    beside = draw_figure([[maps], [maps]], cell=100, across=2)
    assert below.height == pytest.approx(2 * beside.height, rel=0.1)
    assert beside.width == pytest.approx(2 * below.width, rel=0.1)


def test_ember_brightens_evenly() -> None:
    luma = COLOURS["ember"] @ np.array([0.2126, 0.7152, 0.0722])
    assert (np.diff(luma) > -0.5).all()
    assert luma[0] < 10
    assert luma[-1] > 225


def test_a_constant_has_the_first_colour() -> None:
    assert (colour(np.full((2, 3), 0.2)) == COLOURS["ember"][0]).all()
