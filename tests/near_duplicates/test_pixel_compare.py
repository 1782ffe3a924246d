"""What lies around a picture: a frame, or more of the picture."""

import numpy as np
import pytest
from PIL import Image, ImageOps
from support.warped import toy_photo

from solar.near_duplicates.pixel_compare import Region, surroundings


@pytest.mark.parametrize("colour", ["black", "white", "#774411"])
def test_a_border_is_a_frame(colour: str) -> None:
    photo = ImageOps.expand(Image.fromarray(toy_photo(0, (160, 120))), 12, colour)
    assert surroundings(photo, Region(12, 12, 172, 132)) == "frame"


@pytest.mark.parametrize("sky", [0, 255])
def test_the_sky_around_a_tower_is_no_frame(sky: int) -> None:
    pixels = np.full((240, 320, 3), sky, np.uint8)
    bricks = np.random.default_rng(0).integers(0, 256, (60, 20)).repeat(3, 0).repeat(3, 1)
    pixels[60:, 130:190] = bricks[:, :, None]
    # Smooth as a frame, and where the picture is cut, pixels change: but they do below, too.
    assert surroundings(Image.fromarray(pixels), Region(0, 0, 320, 200)) == "picture"


def test_around_a_part_of_a_picture_is_more_of_it() -> None:
    photo = Image.fromarray(toy_photo(0, (160, 120)))
    assert surroundings(photo, Region(20, 20, 120, 90)) == "picture"


def test_a_pale_border_of_a_pale_photo_may_be_either() -> None:
    pale = Image.fromarray((235 + toy_photo(0, (160, 120)) // 16).astype(np.uint8))
    photo = ImageOps.expand(pale, 12, "white")
    assert surroundings(photo, Region(12, 12, 172, 132)) == "plain"


def test_nothing_but_black_around_a_night_may_be_either() -> None:
    # A lamp at night: no side of the photo shows where a black border begins.
    y, x = np.mgrid[:120, :160]
    light = 255 * np.exp(-((x - 80) ** 2 + (y - 60) ** 2) / 300)
    night = Image.fromarray(light.astype(np.uint8)).convert("RGB")
    photo = ImageOps.expand(night, 12, "black")
    assert surroundings(photo, Region(12, 12, 172, 132)) == "plain"
