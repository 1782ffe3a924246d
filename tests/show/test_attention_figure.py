import numpy as np
import pytest
from PIL import Image

from solar.show.attention_figure import STARS, AttentionMaps, draw_figure, draw_star
from solar.show.colours import COLOURS, colour


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
