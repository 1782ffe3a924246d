import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.errors import SolarError
from solar.training.distill.image_cache import Cache, Order, batches, cache_images


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six photos of one colour each, the odd ones upright."""
    folder = tmp_path_factory.mktemp("photos")
    for number in range(6):
        size = (40, 60) if number % 2 else (60, 40)
        Image.new("RGB", size, (40 * number, 10, 20)).save(folder / f"{number}.png")
    return folder


@pytest.mark.parametrize("cache", ["device", "host", "none"])
def test_photos_are_looked_up_squashed_with_their_aspect(photos: Path, cache: Cache) -> None:
    [one] = cache_images([photos], 32, cache=cache)
    found = one.select(torch.tensor([4, 1]))
    assert found.pixels.shape == (2, 3, 32, 32)
    assert found.pixels.dtype == torch.uint8
    assert found.pixels[:, 0, 5, 5].tolist() == [160, 40]
    assert found.aspects.tolist() == pytest.approx([1.5, 2 / 3])


def test_a_source_of_small_photos_is_stored_at_their_size(photos: Path, tmp_path: Path) -> None:
    Image.new("RGB", (90, 200)).save(tmp_path / "large.png")
    caches = cache_images([photos, tmp_path, photos], 128)
    assert [(one.side, len(one)) for one in caches] == [(60, 12), (128, 1)]


def test_photos_that_cannot_be_read_are_left_out_and_named(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no photo")
    [one] = cache_images([tmp_path / "a.jpg", *sorted(photos.iterdir())], 60)
    assert len(one) == 6
    assert one.photos.names[0] == "0.png"
    assert [name for name, _ in one.failures] == ["a.jpg"]
    assert one.select(torch.tensor([2])).pixels[0, 0, 0, 0] == 80


def test_a_source_without_a_readable_photo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no photo")
    with pytest.raises(SolarError, match=r"a\.jpg"):
        cache_images([tmp_path], 32)


def test_several_threads_give_what_one_gives(photos: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        shard.add(photos, "photos")
    everything = torch.arange(6)
    [one] = cache_images([tmp_path / "shard.tar"], 24, workers=1)
    seen: list[tuple[str, int, int]] = []
    [many] = cache_images(
        [tmp_path / "shard.tar"], 24, workers=4, progress=lambda *done: seen.append(done)
    )
    assert torch.equal(one.select(everything).pixels, many.select(everything).pixels)
    assert torch.equal(one.select(everything).aspects, many.select(everything).aspects)
    assert [done for _, done, _ in seen] == list(range(7))


def test_batches_come_in_order_from_every_pack(photos: Path, tmp_path: Path) -> None:
    Image.new("RGB", (64, 64), (250, 0, 0)).save(tmp_path / "red.png")
    caches = cache_images([photos, tmp_path], 64)
    plan = [torch.tensor([0, 6]), torch.tensor([5, 1]), torch.tensor([6, 6]), torch.tensor([2, 3])]
    reds = [
        [int(red) for part in parts for red in part.pixels[:, 0, 9, 9]]
        for parts in batches(caches, lambda step: plan[step], 1, 4)
    ]
    assert reds == [[200, 40], [250, 250], [80, 120]]


def test_a_problem_in_the_look_up_reaches_the_one_who_asks(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "a.png")
    caches = cache_images([tmp_path], 8, cache="none")
    (tmp_path / "a.png").unlink()
    with pytest.raises(SolarError, match=r"a\.png"):
        list(batches(caches, lambda _: torch.tensor([0]), 0, 2))


def test_every_photo_comes_once_before_any_comes_again(photos: Path) -> None:
    caches = cache_images([photos], 16, cache="none")
    order = Order(caches, {}, batch=4, seed=3)
    seen = torch.cat([order(step) for step in range(3)]).tolist()
    assert sorted(seen[:6]) == sorted(seen[6:]) == list(range(6))
    assert seen[:6] != seen[6:]
    assert order(1).tolist() == Order(caches, {}, batch=4, seed=3)(1).tolist()


def test_repeated_photos_come_more_often(photos: Path) -> None:
    caches = cache_images([photos], 16, cache="none")
    order = Order(caches, {"2": 3, "4.p": 2}, batch=9, seed=0)
    assert sorted(order(0).tolist()) == [0, 1, 2, 2, 2, 3, 4, 4, 5]


def test_repeating_what_is_not_there_is_refused(photos: Path) -> None:
    with pytest.raises(SolarError, match=r"data\.repeat names 'train/'"):
        Order(cache_images([photos], 16, cache="none"), {"train/": 2}, batch=2, seed=0)
