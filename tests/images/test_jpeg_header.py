import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from solar.images import ImageError, load
from solar.images.jpeg_header import plain_header


def jpeg(mode: str = "RGB", size: tuple[int, int] = (61, 47), **options: object) -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).convert(mode).save(file, "JPEG", **options)
    return file.getvalue()


PLAIN, PROGRESSIVE = jpeg(), jpeg(progressive=True, quality=60)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 2}])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:2", "4:2:0"])
def test_what_cameras_write_is_plain(subsampling, options):
    data = jpeg(subsampling=subsampling, **options)
    assert plain_header(data) == (61, 47, False, len(data))


def test_metadata_is_noticed_and_its_thumbnail_is_not_taken_for_the_photo():
    exif = Image.Exif()
    exif[0x0112] = 6
    data = jpeg(exif=exif.tobytes() + jpeg(size=(64, 64)))
    assert plain_header(data) == (61, 47, True, len(data))


def test_what_follows_the_photo_is_left_out():
    assert plain_header(PLAIN + b"a film") == (61, 47, False, len(PLAIN))
    file, photo = io.BytesIO(), Image.open(io.BytesIO(PLAIN))
    photo.save(file, "MPO", save_all=True, append_images=[photo])
    first = plain_header(file.getvalue())
    assert first is not None
    assert first.end < len(file.getvalue()) * 0.6
    assert Image.open(io.BytesIO(file.getvalue()[: first.end])).size == (61, 47)


OTHERS = {
    "grey": jpeg("L"),
    "four inks": jpeg("CMYK"),
    "RGB without conversion": jpeg(keep_rgb=True),
    "tiny": jpeg(size=(8, 200)),
    "arithmetic coding": PLAIN.replace(b"\xff\xc0", b"\xff\xc9", 1),
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
    assert plain_header(OTHERS[kind]) is None


@pytest.mark.parametrize("whole", [PLAIN, PROGRESSIVE], ids=["baseline", "progressive"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_file_that_pillow_finds_cut_short_is_not_plain(whole, data):
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ImageError):
        load(cut, None)
    assert plain_header(cut) is None


@given(st.binary(max_size=60), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_damaged_bytes_raise_nothing(noise, place):
    plain_header(PLAIN[:place] + noise + PLAIN[place + len(noise) :])
    plain_header(b"\xff\xd8" + noise)
