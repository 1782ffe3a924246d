import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from solar.errors import SolarError
from solar.images import ImageError, load
from solar.images.resize import Square, query_size, thumbnail, thumbnail_size


def pillow_size(width, height, size):
    image = Image.new("1", (width, height))  # one bit a pixel: only its shape matters
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    return image.size


def random_photo(width, height, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def test_sizes_are_those_of_pillow_for_thousands_of_photos():
    rng = np.random.default_rng(1)
    sides = np.exp(rng.uniform(0, np.log(2500), (3000, 2))).astype(int)  # extreme aspects too
    limits = rng.uniform(1, 1200, 3000)
    wrong = [
        (w, h, size)
        for (w, h), size in zip(sides.tolist(), limits.tolist(), strict=True)
        if thumbnail_size(w, h, size) != pillow_size(w, h, size)
    ]
    assert not wrong


@given(st.integers(1, 2000), st.integers(1, 2000), st.floats(1, 2000))
def test_size_is_that_of_pillow(width, height, size):
    assert thumbnail_size(width, height, size) == pillow_size(width, height, size)


@pytest.mark.parametrize("shape", [(200, 150), (151, 199), (700, 90), (64, 64), (65, 64), (30, 20)])
@pytest.mark.parametrize("size", [64, 64.9, 33])
def test_pixels_are_those_of_pillow(shape, size):
    photo = random_photo(*shape)
    expected = photo.copy()
    expected.thumbnail((size, size), Image.Resampling.LANCZOS)
    result = thumbnail(photo, size)
    assert result.size == expected.size
    assert result.tobytes() == expected.tobytes()


def test_the_photo_given_is_not_changed():
    photo = random_photo(80, 60)
    before = photo.tobytes()
    thumbnail(photo, 20)
    assert (photo.size, photo.tobytes()) == ((80, 60), before)


@pytest.mark.parametrize("size", [0, 0.99, -3, float("nan"), float("inf")])
def test_a_size_below_one_pixel_is_refused(size):
    with pytest.raises(SolarError, match="larger size"):
        thumbnail_size(100, 50, size)


def test_a_box_keeps_the_scale_of_its_photo():
    assert query_size((4000, 3000), (1000, 1500), 1024) == 1024 * 1500 / 4000


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 4096))
def test_a_box_as_large_as_the_photo_changes_nothing(width, height, size):
    assert query_size((width, height), (width, height), size) == size


@pytest.mark.parametrize("size", [(90, 130), (131, 90), (40, 40), (20, 33)])
def test_a_square_is_squeezed_or_cut_out_of_the_middle(size):
    photo = random_photo(*size)
    squeezed = np.asarray(photo.resize((36, 36), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(load(photo, 36, square=Square(resample=2)).pixels, squeezed)
    width, height = (int(40 * side / min(size)) for side in size)
    left, top = (width - 36) // 2, (height - 36) // 2
    whole = photo.resize((width, height), Image.Resampling.BICUBIC)
    found = load(photo, 36, square=Square(40 / 36))
    np.testing.assert_array_equal(
        found.pixels, np.asarray(whole.crop((left, top, left + 36, top + 36)))
    )
    assert (found.width, found.height) == size


def test_a_square_of_a_long_strip_takes_little_memory():
    strip = Image.new("RGB", (400_000, 8), "red")
    strip.paste("blue", (199_000, 0, 201_000, 8))
    assert (load(strip, 64, square=Square(1.0)).pixels == (0, 0, 255)).all()


def test_a_square_needs_something_to_see():
    with pytest.raises(ImageError, match="7 × 90"):
        load(random_photo(7, 90), 36, square=Square())
    box = load(random_photo(90, 60), 36, box=(10, 10, 50, 40), square=Square(), mode="fast")
    cut = random_photo(90, 60).crop((10, 10, 50, 40))
    np.testing.assert_array_equal(box.pixels, load(cut, 36, square=Square()).pixels)
