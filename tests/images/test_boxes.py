import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from solar.errors import SolarError
from solar.images import crop, parse_box

NUMBER = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def photo():
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@given(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER))
def test_what_is_written_is_read_back_or_refused_as_empty(box):
    text = ",".join(map(repr, box))
    if box[0] < box[2] and box[1] < box[3]:
        assert parse_box(text) == box
    else:
        with pytest.raises(SolarError, match="encloses nothing"):
            parse_box(text)


@given(st.text(max_size=30))
def test_any_text_is_a_box_or_a_sentence(text):
    with contextlib.suppress(SolarError):
        assert len(parse_box(text)) == 4


def test_spaces_around_numbers_are_allowed():
    assert parse_box(" 1, 2.5 ,3,4 ") == (1, 2.5, 3, 4)


@pytest.mark.parametrize("text", ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "0,0,nan,4", "0,0,inf,4"])
def test_not_four_numbers_is_refused(text):
    with pytest.raises(SolarError, match="not four numbers"):
        parse_box(text)


@pytest.mark.parametrize(
    "box", [(0, 0, 60, 40), (3, 5, 20, 30), (2.5, 3.5, 20.5, 21.5), (0.49, 0.51, 9.49, 9.51)]
)
def test_inside_the_photo_it_is_the_crop_of_pillow(photo, box):
    assert crop(photo, box).tobytes() == photo.crop(box).tobytes()


def test_a_box_over_the_border_is_clipped(photo):
    assert crop(photo, (-5, 30, 10, 99)).tobytes() == photo.crop((0, 30, 10, 40)).tobytes()


@pytest.mark.parametrize(
    ("box", "why"),
    [
        ((60, 0, 70, 10), "outside"),
        ((-9, -9, 0, 0), "outside"),
        ((5, 5, 5, 9), "empty"),
        ((9, 5, 4, 9), "empty"),
        ((1.1, 1.1, 1.4, 9), "empty"),
        ((5, 9, 9, 9), "empty"),
        ((0, 0, float("nan"), 9), "finite"),
        ((0, 0, float("inf"), 9), "finite"),
        ((0, 0, 9), "finite"),
    ],
)
def test_a_box_without_pixels_is_refused(photo, box, why):
    with pytest.raises(SolarError, match=why):
        crop(photo, box)
