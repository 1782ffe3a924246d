import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from solar.images import thumbnail, thumbnail_size
from solar.images.lanczos import reduce, shrink

sides = st.integers(1, 300) | st.integers(1, 20)


def drawn(width: int, height: int, contrast: int) -> Image.Image:
    """Noise, the harder the more of it is black or white: then resizing goes beyond both."""
    noise = np.random.default_rng(width * height).integers(0, 256, (height, width, 3))
    return Image.fromarray(((noise - 128) * contrast + 128).clip(0, 255).astype(np.uint8))


def to_tensor(*photos: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.stack([np.asarray(photo) for photo in photos])).permute(0, 3, 1, 2)


def difference(photo: Image.Image, pixels: torch.Tensor) -> int:
    wanted = np.asarray(photo).astype(int)
    found = pixels.permute(1, 2, 0).numpy()
    assert found.shape == wanted.shape
    return int(np.abs(wanted - found).max())


@given(sides, sides, st.floats(0.02, 1), st.sampled_from([1, 40]))
@settings(max_examples=80, deadline=None)
def test_thumbnails_are_pillows_to_one_grey_level(width, height, scale, contrast):
    photo = drawn(width, height, contrast)
    size = max(1.0, scale * max(width, height))
    small = shrink(to_tensor(photo), *thumbnail_size(width, height, size))
    assert difference(thumbnail(photo, size), small[0]) <= 1


@given(sides, sides, st.integers(1, 300), st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_any_other_size_is_pillows_too(width, height, across, down):
    photo, target = drawn(width, height, 40), (min(across, width), min(down, height))
    wanted = photo.resize(target, Image.Resampling.LANCZOS, reducing_gap=2.0)
    assert difference(wanted, shrink(to_tensor(photo), *target)[0]) <= 1


def test_hardly_any_pixel_differs():
    photo = drawn(1100, 800, 2)
    wanted = np.asarray(thumbnail(photo, 512))
    found = shrink(to_tensor(photo), *thumbnail_size(1100, 800, 512))[0].permute(1, 2, 0).numpy()
    assert np.mean(wanted != found) < 1e-4


@given(sides, sides, st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_blocks_are_averaged_as_pillow_does_to_the_bit(width, height, across, down):
    photo = drawn(width, height, 1)
    assert difference(photo.reduce((across, down)), reduce(to_tensor(photo), across, down)[0]) == 0


def test_photos_of_a_batch_do_not_meet(monkeypatch):
    one, other = drawn(90, 60, 1), drawn(90, 60, 40)
    together = shrink(to_tensor(one, other), 30, 20)
    # However the work is split.
    monkeypatch.setattr("solar.images.lanczos._WORK_BYTES", 5000)
    for photo, pixels in zip((one, other), together, strict=True):
        assert torch.equal(shrink(to_tensor(photo), 30, 20)[0], pixels)
