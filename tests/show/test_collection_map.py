from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from solar.errors import SolarError
from solar.index import Index
from solar.show import collection_map
from solar.show.collection_map import (
    CACHE,
    CollectionMap,
    Method,
    arrange,
    choose_method,
    draw_map,
    grid_places,
    map_index,
)


def groups(count: int, each: int, dim: int = 40) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(5)
    labels = np.repeat(np.arange(count), each)
    rows = chance.standard_normal((count, dim))[labels]
    rows = rows + 0.3 * chance.standard_normal(rows.shape)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), labels


def map_of(rows: np.ndarray, seed: int = 0, method: Method | None = None) -> np.ndarray:
    pieces = np.array_split(np.asarray(rows, np.float32), 5)
    return arrange(lambda: pieces, len(rows), method or choose_method(len(rows))[0], seed=seed)


def agreement(points: np.ndarray, labels: np.ndarray) -> float:
    """How often the nearest point is of the same group."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    return float((labels[distance.argmin(axis=1)] == labels).mean())


def test_photos_that_look_alike_lie_together() -> None:
    rows, labels = groups(8, 12)
    points = map_of(rows)
    assert points.dtype == np.float32
    assert points.min() >= 0
    assert points.max() <= 1
    assert np.ptp(points, axis=0).max() == pytest.approx(1, abs=1e-5)
    assert points[:, 0].std() > points[:, 1].std()  # wider than high
    assert agreement(points, labels) > 0.95


def test_the_same_seed_gives_the_same_map() -> None:
    rows, _ = groups(5, 8)
    np.testing.assert_array_equal(map_of(rows, seed=3), map_of(rows, seed=3))
    assert not np.array_equal(map_of(rows, seed=3), map_of(rows, seed=4))


def test_photos_beyond_the_sample_are_placed_with_their_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, labels = groups(6, 50)
    monkeypatch.setattr(collection_map, "LANDMARKS", 90)
    points = map_of(rows)
    assert points.shape == (300, 2)
    assert agreement(points, labels) > 0.95


def test_two_main_directions_are_those_of_pca() -> None:
    rows, _ = groups(4, 20)
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ axes[:2].T
    points = map_of(rows, method="pca")
    for column in (0, 1):
        correlation = np.corrcoef(points[:, column], expected[:, column])[0, 1]
        assert abs(correlation) > 0.999


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_few_photos_have_a_map_too(count: int) -> None:
    points = map_of(np.eye(7)[:count])
    assert points.shape == (count, 2)
    assert np.isfinite(points).all()


def test_equal_photos_have_a_map_too() -> None:
    points = map_of(np.ones((20, 4)))
    assert points.shape == (20, 2)
    assert ((points >= 0) & (points <= 1)).all()


def test_few_photos_are_arranged_by_main_directions() -> None:
    assert choose_method(12) == ("tsne", "")
    method, why = choose_method(11)
    assert method == "pca"
    assert "11 photos are too few for t-SNE" in why


def test_copies_lie_together() -> None:
    rows = np.repeat(np.eye(4), 10, axis=0)
    assert agreement(map_of(rows), np.repeat(np.arange(4), 10)) == 1


def test_vectors_must_be_finite() -> None:
    with pytest.raises(SolarError, match="vector"):
        map_of(np.full((20, 4), np.nan))


@pytest.fixture
def index(tmp_path: Path) -> Index:
    rows, labels = groups(2, 5, dim=8)
    names = [f"{label}/{i}.jpg" for i, label in enumerate(labels)]
    return Index.create(tmp_path / "i.solar", rows, names)


def test_an_index_keeps_its_map_until_its_photos_change(index: Index, tmp_path: Path) -> None:
    first = map_index(index)
    assert first.paths == tuple(f"{i // 5}/{i}.jpg" for i in range(10))
    assert first.method == "pca"
    written = (tmp_path / "i.solar" / "local" / CACHE).stat().st_mtime_ns
    again = map_index(index)
    assert (tmp_path / "i.solar" / "local" / CACHE).stat().st_mtime_ns == written
    assert again.paths == first.paths
    np.testing.assert_array_equal(again.points, first.points)
    index.remove("0/0.jpg")
    assert len(map_index(index).paths) == 9
    assert index.check() == []


def test_a_damaged_map_is_made_again(index: Index, tmp_path: Path) -> None:
    first = map_index(index)
    file = tmp_path / "i.solar" / "local" / CACHE
    file.write_bytes(file.read_bytes()[:200])
    np.testing.assert_array_equal(map_index(index).points, first.points)


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
