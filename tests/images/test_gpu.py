import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from solar.errors import SolarError
from solar.images import ImageError, load
from solar.images.gpu import Reduction, plan_reduction, reduce, shrink
from solar.images.resize import thumbnail, thumbnail_size


def jpeg(mode: str = "RGB", size: tuple[int, int] = (61, 47), **options: object) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


def planned(data: bytes) -> Reduction | None:
    """How a GPU decodes a whole photo; None also where it can be no photo."""
    try:
        return plan_reduction(data, 1024, box=None, orient=True, max_pixels=10**6)
    except ImageError:
        return None


def facts(data: bytes) -> tuple[tuple[int, int], int, int]:
    """Its stored size, its orientation and its end."""
    plan = planned(data)
    assert plan is not None
    return plan.stored, plan.orientation, plan.end


PLAIN, PROGRESSIVE = jpeg(), jpeg(progressive=True, quality=60)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_what_cameras_write_is_plain(subsampling, options):
    data = jpeg(subsampling=subsampling, **options)
    assert facts(data) == ((61, 47), 1, len(data))


def test_metadata_is_noticed_and_its_thumbnail_is_not_taken_for_the_photo():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = jpeg(exif=exif.tobytes() + jpeg(size=(64, 64)))
    assert facts(data) == ((61, 47), 6, len(data))
    assert facts(data + b"a film") == ((61, 47), 6, len(data))


def test_what_follows_the_photo_is_left_out():
    assert facts(PLAIN + b"a film") == ((61, 47), 1, len(PLAIN))
    file, photo = io.BytesIO(), Image.open(io.BytesIO(PLAIN))
    photo.save(file, "MPO", save_all=True, append_images=[photo])
    *_, end = facts(file.getvalue())
    assert end < len(file.getvalue()) * 0.6
    assert Image.open(io.BytesIO(file.getvalue()[:end])).size == (61, 47)


OTHERS = {
    "grey": jpeg("L"),
    "four inks": jpeg("CMYK"),
    "RGB without conversion": jpeg(keep_rgb=True),
    "tiny": jpeg(size=(8, 200)),
    "no height": PLAIN.replace(b"\x08\x00\x2f\x00\x3d", b"\x08\x00\x00\x00\x3d", 1),
    "12 bits": PLAIN.replace(b"\x08\x00\x2f\x00\x3d", b"\x0c\x00\x2f\x00\x3d", 1),
    "no scan": PLAIN[: PLAIN.index(b"\xff\xda")],
    "an Adobe marker for RGB": PLAIN[:2] + b"\xff\xee\x00\x0eAdobe\0\x64\0\0\0\0\0" + PLAIN[2:],
    "an unknown marker": PLAIN[:2] + b"\xff\x02\x00\x02" + PLAIN[2:],
    "no photo": b"\xff\xd8\xff",
    "nothing": b"",
    "PNG": b"\x89PNG\r\n\x1a\n" + PLAIN,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_anything_else_is_left_to_pillow(kind):
    assert planned(OTHERS[kind]) is None


@pytest.mark.parametrize("whole", [PLAIN, PROGRESSIVE], ids=["baseline", "progressive"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_file_that_pillow_finds_cut_short_is_not_plain(whole, data):
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ImageError):
        load(cut, None)
    assert planned(cut) is None


@given(st.binary(max_size=60), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_damaged_bytes_raise_nothing(noise, place):
    planned(PLAIN[:place] + noise + PLAIN[place + len(noise) :])
    planned(b"\xff\xd8" + noise)


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
    monkeypatch.setattr("solar.images.gpu._WORK_BYTES", 5000)
    for photo, pixels in zip((one, other), together, strict=True):
        assert torch.equal(shrink(to_tensor(photo), 30, 20)[0], pixels)
