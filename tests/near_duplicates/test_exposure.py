"""What was cut out of a photo is told from a second photo of the same spot."""

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw
from support.warped import toy_photo

from solar.near_duplicates.exposure import Fit, fit
from solar.near_duplicates.pixel_compare import Region

SIZE = (480, 360)
PART = (60, 40, 420, 310)


def photo() -> Image.Image:
    return Image.fromarray(toy_photo(0, SIZE))


def encoded(image: Image.Image, quality: int = 30) -> Image.Image:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return Image.open(out).convert("RGB")


def fitted(whole: Image.Image, part: Image.Image) -> Fit:
    """How a part lies in a photo, known to a pixel or two as from keypoints."""
    left, top, right, bottom = PART
    return fit(
        *(whole, part, Region(left + 1.2, top + 0.8, right - 0.7, bottom - 0.9)),
        Region(0, 0, *map(float, part.size)),
    )


@pytest.mark.parametrize("size", [(360, 270), (200, 150), (700, 480)])
def test_a_part_fits_wherever_it_is_however_it_was_encoded(size: tuple[int, int]) -> None:
    part = photo().crop(PART).resize(size, Image.Resampling.BICUBIC)
    darker = part.point(lambda level: level * 0.7 + 20)
    for one in (part, encoded(part), encoded(darker, 80)):
        found = fitted(photo(), one)
        assert found.cut_out
        assert found.laid_over
    # To the place that keypoints told wrongly it finds its way.
    assert np.allclose(found.region[:2], [1.2 * size[0] / 360, 0.8 * size[1] / 270], atol=0.15)


@pytest.mark.parametrize("degrees", [0.3, -1.0])
def test_a_camera_that_was_turned_a_little_took_another_photo(degrees: float) -> None:
    other = photo().rotate(degrees, Image.Resampling.BICUBIC).crop(PART)
    assert not fitted(photo(), other).cut_out


def test_another_lens_took_another_photo() -> None:
    x, y = np.meshgrid(np.linspace(-1, 1, 17), np.linspace(-1, 1, 13))
    bent = 1 + 0.02 * (x * x + y * y)
    at = np.stack([(x * bent + 1) * SIZE[0] / 2, (y * bent + 1) * SIZE[1] / 2], axis=2)
    cells = [
        (
            (30 * c, 30 * r, 30 * c + 30, 30 * r + 30),
            (*at[r, c], *at[r + 1, c], *at[r + 1, c + 1], *at[r, c + 1]),
        )
        for r in range(12)
        for c in range(16)
    ]
    other = photo().transform(SIZE, Image.Transform.MESH, cells, Image.Resampling.BICUBIC)
    assert not fitted(photo(), other.crop(PART)).cut_out


def test_somebody_who_was_not_there_is_in_another_photo() -> None:
    other = photo()
    ImageDraw.Draw(other).rectangle((200, 150, 240, 250), "black", "white", 4)
    found = fitted(photo(), other.crop(PART))
    assert found.changed
    assert not found.cut_out
    assert found.laid_over  # the rest has not moved: something may have been drawn over it


def test_a_picture_without_detail_tells_nothing() -> None:
    sky = Image.new("RGB", SIZE, "skyblue")
    found = fit(sky, sky, Region(0, 0, 480, 360), Region(0, 0, 480, 360))
    assert (found.cut_out, found.laid_over) == (False, True)
