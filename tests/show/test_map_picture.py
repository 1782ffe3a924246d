import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from solar.show.collection_map import CollectionMap
from solar.show.map_picture import draw_map, grid_places


@settings(max_examples=30, deadline=None)
@given(count=st.integers(0, 60), columns=st.integers(1, 12), seed=st.integers(0, 9))
def test_no_two_photos_share_a_cell(count: int, columns: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    points = chance.random((count, 2)) ** (1 + seed)  # crowded in a corner for a larger seed
    places = grid_places(points.astype(np.float32), columns)
    assert len(set(places.values())) == len(places)
    assert all(0 <= r < columns and 0 <= c < columns for r, c in places.values())
    if 2 * count <= columns**2:
        assert len(places) == count


def test_photos_stay_close_to_where_they_are() -> None:
    points = np.random.default_rng(0).random((2000, 2)).astype(np.float32)
    places = grid_places(points, 20)
    assert len(places) > 350  # of 400 cells
    for number, (row, column) in places.items():
        x, y = points[number] * 20
        assert np.hypot(x - column - 0.5, y - row - 0.5) <= 2


def test_thumbnails_are_where_their_photos_lie() -> None:
    colours = {"a": (250, 0, 0), "b": (0, 250, 0), "c": (0, 0, 250)}
    points = np.array([[0, 0], [1, 0], [0.5, 1]], np.float32)
    found = CollectionMap(("a", "b", "c"), points, "pca")
    picture, shown = draw_map(
        found, lambda name: Image.new("RGB", (90, 60), colours[name]), side=300
    )
    assert shown == 3
    pixels = np.asarray(picture).astype(int)
    middle = {
        name: np.argwhere(np.abs(pixels - colour).sum(axis=2) < 9).mean(axis=0)
        for name, colour in colours.items()
    }
    assert middle["a"][0] == middle["b"][0] < middle["c"][0]
    assert middle["a"][1] < middle["c"][1] < middle["b"][1]


def test_photos_that_are_gone_are_grey_and_none_is_a_blank() -> None:
    found = CollectionMap(("a",), np.array([[0.5, 0.5]], np.float32), "pca")
    picture, _ = draw_map(found, lambda name: None, side=100)
    assert picture.getpixel((20, 20)) == (226, 226, 230)
    empty = CollectionMap((), np.empty((0, 2), np.float32), "pca")
    assert draw_map(empty, lambda name: None, side=100)[1] == 0
