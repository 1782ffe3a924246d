from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.errors import SolarError
from solar.images import find_photos
from solar.training.retrieval.loader import (
    Loader,
    PhotoBatch,
    random_bucket,
    random_crop,
    random_part,
    random_square,
)
from solar.training.retrieval.recipe import Images


def ramp(width: int, height: int) -> Image.Image:
    """Red tells the column, green the row."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(width), np.arange(height)[:, None]
    return Image.fromarray(pixels)


def test_a_square_is_cut_at_full_height_before_it_is_resized() -> None:
    image = ramp(120, 60)
    got = random_square(image, 60, (7,))
    left = int(np.random.default_rng(7).random(2)[0] * 61)
    assert np.array_equal(got, np.asarray(image)[:, left : left + 60])


def test_a_square_is_resized_bilinearly_and_small_photos_grow() -> None:
    image = ramp(50, 50)
    expected = np.asarray(image.resize((80, 80), Image.Resampling.BILINEAR))
    assert np.array_equal(random_square(image, 80, (1,)), expected)


def test_mining_resizes_the_shorter_side_before_it_cuts() -> None:
    image = ramp(120, 60)
    got = random_part(image, 30, (7,))
    left = int(np.random.default_rng(7).random(2)[0] * 31)
    small = np.asarray(image.resize((60, 30), Image.Resampling.BILINEAR))
    assert np.array_equal(got, small[:, left : left + 30])


@pytest.mark.parametrize(
    ("size", "shape"), [((200, 150), (96, 128)), ((150, 200), (128, 96)), ((90, 90), (128, 128))]
)
def test_a_bucket_has_the_nearest_shape(size: tuple[int, int], shape: tuple[int, int]) -> None:
    ratios = (1.0, 4 / 3, 3 / 4)
    assert random_bucket(ramp(*size), 120, ratios, (1,)).shape[:2] == shape


def test_another_key_cuts_elsewhere_and_the_same_key_does_not() -> None:
    image = ramp(200, 50)
    cuts = [random_square(image, 50, (key,)) for key in (1, 1, 2)]
    assert np.array_equal(cuts[0], cuts[1])
    assert not np.array_equal(cuts[0], cuts[2])


def test_a_batch_of_several_shapes_can_be_put_in_order() -> None:
    pixels = [np.full((n % 2 + 1, 3, 3), n, np.uint8) for n in range(5)]
    batch = PhotoBatch.of(pixels)
    flat = torch.cat([group.flatten(1)[:, 0] for group in batch.groups])
    assert [len(group) for group in batch.groups] == [3, 2]
    assert flat[batch.order].tolist() == [0, 1, 2, 3, 4]


def tuples_read(folder: Path, threads: int) -> list[torch.Tensor]:
    photos = find_photos(folder)
    loader = Loader(photos, Images(size=32, threads=threads), 0, torch.device("cpu"))
    read = loader.batches(lambda place: [place], range(6, 24), 6, epoch=1)
    return [batch.groups[0] for batch, _ in read]


def test_batches_do_not_depend_on_the_number_of_threads(landmarks: Path) -> None:
    one, many = tuples_read(landmarks, 1), tuples_read(landmarks, 4)
    assert len(one) == 3
    assert all(torch.equal(a, b) for a, b in zip(one, many, strict=True))


def test_the_first_photo_that_can_be_read_is_taken(tmp_path: Path) -> None:
    for n in range(3):
        Image.new("RGB", (40, 40), (n * 50, 0, 0)).save(tmp_path / f"{n}.png")
    (tmp_path / "1.png").write_bytes(b"no photo")
    loader = Loader(find_photos(tmp_path), Images(size=32), 0, torch.device("cpu"))
    choices = [[0, 1], [1, 2, 0], [1, 0]]
    [(batch, numbers)] = loader.batches(choices.__getitem__, range(3), 3, epoch=0)
    assert batch.groups[0][:, 0, 0, 0].tolist() == [0, 100, 0]
    assert numbers.tolist() == [0, 2, 0]
    assert sorted(loader.unreadable) == ["1.png"]
    with pytest.raises(SolarError, match=r"1\.png"):
        list(loader.batches(lambda _: [1, 1], [0], 1, epoch=0))


def test_a_crop_is_a_part_of_the_photo_squeezed_into_a_square() -> None:
    image = ramp(200, 100)
    for key in range(40):
        got = random_crop(image, 32, 0.2, (key,)).astype(int)
        assert got.shape == (32, 32, 3)
        # The ramps tell how wide and high the part was; half a step is lost on either side.
        wide, high = (np.ptp(got[..., channel]) * 32 / 31 for channel in (0, 1))
        assert 0.17 < wide * high / 20_000 < 1.05
        assert 0.7 < wide / high < 1.4


def test_photos_in_any_order_are_cut_by_their_place_in_it(tmp_path: Path) -> None:
    for number in range(4):
        ramp(90 + number, 60).save(tmp_path / f"{number}.png")
    loader = Loader(find_photos(tmp_path), Images(size=32, shape="crop"), 5, torch.device("cpu"))
    order = torch.tensor([2, 0, 3, 1, 2])

    def choices(place: int) -> list[int]:
        return [int(order[place])]

    whole = list(loader.batches(choices, range(4), 2, 7))
    assert [numbers.tolist() for _, numbers in whole] == [[2, 0], [3, 1]]
    (later,) = loader.batches(choices, [2, 3], 2, 7)
    assert torch.equal(later[0].groups[0], whole[1][0].groups[0])
    (other,) = loader.batches(choices, [2, 3], 2, 8)
    assert not torch.equal(other[0].groups[0], whole[1][0].groups[0])
