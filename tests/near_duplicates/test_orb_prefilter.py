import numpy as np
import pytest
from PIL import Image
from support.warped import toy_photo

from solar.near_duplicates.orb_prefilter import VOTES, corners, votes


def test_a_turned_and_scaled_view_has_votes_and_another_photo_has_not() -> None:
    photos = [Image.fromarray(toy_photo(seed, (320, 240))) for seed in (0, 1)]
    seen = photos[0].rotate(8, Image.Resampling.BICUBIC).resize((256, 192))
    assert votes(corners(photos[0]), corners(seen)) >= 3 * VOTES
    assert votes(corners(photos[0]), corners(photos[1])) < VOTES


def test_a_photo_without_corners_has_none() -> None:
    flat, photo = Image.new("RGB", (90, 60), "teal"), Image.fromarray(toy_photo(0, (160, 120)))
    assert len(corners(flat).bits) == 0
    assert votes(corners(flat), corners(photo)) == votes(corners(photo), corners(flat)) == 0
    assert np.isfinite(corners(photo).frames).all()


@pytest.mark.parametrize("size", [(3000, 8), (1, 1), (8, 3000)])
def test_a_thin_picture_has_none_either(size: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (*size, 3), np.uint8)
    assert len(corners(Image.fromarray(noise)).bits) == 0
