import io

import numpy as np
import pytest
import torch
from PIL import Image

from solar.errors import SolarError
from solar.images import load
from solar.images.reduction import plan_reduction


def photo(orientation: int) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (90, 140, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "JPEG", exif=exif, quality=95)
    return file.getvalue()


def stored(data: bytes) -> torch.Tensor:
    pixels = np.array(Image.open(io.BytesIO(data)).convert("RGB"))
    return torch.from_numpy(pixels).permute(2, 0, 1)[None]


@pytest.mark.parametrize("size", [64, 20, 500])
@pytest.mark.parametrize("box", [None, (10.4, 5.0, 70.0, 88.6), (-5.0, 30.0, 400.0, 61.0)])
@pytest.mark.parametrize("orientation", range(10))
def test_it_makes_of_stored_pixels_what_load_does(orientation, box, size):
    for orient in (True, False):
        data = photo(orientation)
        wanted = load(data, size, box=box, orient=orient)
        plan = plan_reduction(data, size, box=box, orient=orient, max_pixels=10**6)
        assert plan is not None
        [found] = plan.apply(stored(data))
        assert plan.upright == (wanted.width, wanted.height)
        assert found.shape == wanted.pixels.shape
        assert found.is_contiguous()
        assert np.abs(found.numpy().astype(int) - wanted.pixels).max() <= 1


def test_a_photo_beyond_the_limit_of_pixels_is_left_to_pillow():
    limits = {"box": None, "orient": True}
    assert plan_reduction(photo(1), 64, max_pixels=140 * 90, **limits) is not None
    assert plan_reduction(photo(1), 64, max_pixels=140 * 90 - 1, **limits) is None


def test_a_box_beside_the_photo_is_refused():
    with pytest.raises(SolarError, match="outside the photo"):
        plan_reduction(photo(6), 64, box=(91.0, 0.0, 99.0, 9.0), orient=True, max_pixels=10**6)


def test_photos_that_are_treated_alike_are_equal_wherever_they_end():
    plain = plan_reduction(photo(1), 64, box=None, orient=True, max_pixels=10**6)
    other = photo(1).replace(b"\xff\xda", b"\xff\xfe\0\4hi\xff\xda", 1)  # a comment before the scan
    longer = plan_reduction(other, 64, box=None, orient=True, max_pixels=10**6)
    assert plain is not None
    assert longer is not None
    assert longer.end == plain.end + 6
    assert plain == longer
    assert hash(plain) == hash(longer)
