import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from solar.images.exif import (
    ExifFacts,
    exif_facts,
    exposure_facts,
    stored_box,
    stored_points,
    turned,
    upright_box,
)

EXIF, GPS, ORIENTATION = 0x8769, 0x8825, 0x0112
TIME, MAKE, MODEL = 0x9003, 0x010F, 0x0110
EIFFEL = {1: "N", 2: (48.0, 51.0, 29.52), 3: "E", 4: (2.0, 17.0, 40.2)}


def photo(
    kind: str = "JPEG",
    gps: dict[int, Any] | None = None,
    time: str | None = None,
    base: dict[int, str] | None = None,
) -> bytes:
    exif = Image.Exif()
    exif.update(base or {})
    if gps is not None:
        exif.get_ifd(GPS).update(gps)
    if time is not None:
        exif.get_ifd(EXIF)[TIME] = time
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, kind, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_photo_says_where_when_and_with_what_it_was_taken(kind: str, tmp_path: Path) -> None:
    data = photo(kind, EIFFEL, "2019:07:14 18:30:00", {MAKE: "Canon", MODEL: "EOS 5D"})
    (tmp_path / "a").write_bytes(data)
    for source in (data, tmp_path / "a", str(tmp_path / "a")):
        assert exif_facts(source).position == (48.8582, 2.2945)
        assert exif_facts(source).taken == "2019-07-14T18:30:00"
        assert exif_facts(source).camera == "Canon EOS 5D"


@pytest.mark.parametrize(
    ("north", "east", "signs"), [("S", "W", (-1, -1)), ("n\0", "W", (1, -1)), ("S", "E", (-1, 1))]
)
def test_south_and_west_are_negative(north: str, east: str, signs: tuple[int, int]) -> None:
    found = exif_facts(photo(gps={**EIFFEL, 1: north, 3: east})).position
    assert found == (48.8582 * signs[0], 2.2945 * signs[1])


@pytest.mark.parametrize(
    "gps",
    [
        {},
        {1: "N", 2: (48.0, 51.0, 29.52)},
        {**EIFFEL, 1: ""},
        {**EIFFEL, 3: "N"},
        {**EIFFEL, 2: (91.0, 0.0, 0.0)},
        {**EIFFEL, 4: (180.0, 0.0, 0.1)},
        {**EIFFEL, 2: (48.0, 60.0, 0.0)},
        {**EIFFEL, 2: (48.0, 51.0, 61.0)},
        {**EIFFEL, 2: (0.0, 0.0, 0.0), 4: (0.0, 0.0, 0.0)},  # no satellite yet
    ],
)
def test_a_position_that_makes_no_sense_is_not_known(gps: dict[int, Any]) -> None:
    assert exif_facts(photo(gps=gps)).position is None


@pytest.mark.parametrize("time", ["0000:00:00 00:00:00", "    :  :     :  :  ", "2019:02:30 1:2:3"])
def test_a_time_that_makes_no_sense_is_not_known(time: str) -> None:
    assert exif_facts(photo(time=time)).taken is None


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ({MAKE: "NIKON CORPORATION", MODEL: "NIKON D90\0\0"}, "NIKON D90"),
        ({MODEL: "Pixel\n 7"}, "Pixel 7"),
        ({MAKE: "Apple"}, "Apple"),
        ({MAKE: " ", MODEL: "\0"}, None),
    ],
)
def test_cameras_are_named_once(base: dict[int, str], name: str | None) -> None:
    assert exif_facts(photo(base=base)).camera == name


def test_an_exposure_is_told_in_words_as_far_as_it_makes_sense() -> None:
    exif = Image.Exif()
    known = {0x829A: 0.004, 0x829D: 5.6, 0x8827: 200, 0x920A: 23.0, 0xA434: "XF23mm\0"}
    exif.get_ifd(EXIF).update(known)
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "JPEG", exif=exif)
    assert exposure_facts(buffer.getvalue()) == {
        **{"lens": "XF23mm", "focal_length": "23 mm", "aperture": "f/5.6"},
        **{"exposure": "1/250 s", "iso": "200"},
    }
    assert exposure_facts(photo()) == exposure_facts(b"no photo") == {}


def test_what_is_no_photo_says_nothing(tmp_path: Path) -> None:
    assert exif_facts(b"not a photo") == ExifFacts()
    assert exif_facts(tmp_path / "none.jpg") == ExifFacts()
    assert exif_facts(photo()) == ExifFacts()


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_a_damaged_position_leaves_the_time() -> None:
    data = photo(gps=EIFFEL, time="2019:07:14 18:30:00")
    pointer = b"\x88\x25\x00\x04\x00\x00\x00\x01"  # to the group of GPS facts
    before, _, after = data.partition(pointer)
    broken = before + pointer + b"\x00\xff\xff\xf0" + after[4:]
    assert exif_facts(broken).position is None
    assert exif_facts(broken).taken == "2019-07-14T18:30:00"


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@given(st.data())
def test_damaged_exif_is_never_an_error(data: st.DataObject) -> None:
    whole = photo(gps=EIFFEL, time="2019:07:14 18:30:00", base={MAKE: "Canon"})
    at = data.draw(st.integers(0, len(whole) - 1))
    piece = data.draw(st.binary(min_size=1, max_size=8))
    found = exif_facts(whole[:at] + piece + whole[at + len(piece) :])
    if found.position is not None:
        assert all(math.isfinite(degrees) for degrees in found.position)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_points_and_boxes_go_back_to_where_their_pixels_are_stored(orientation: int) -> None:
    stored = Image.new("L", (7, 5))
    stored.putpixel((5, 1), 255)
    upright = np.asarray(turned(stored, orientation))
    [[y, x]] = np.argwhere(upright)
    [point] = stored_points(np.array([[x + 0.5, y + 0.5]]), orientation, stored.size)
    assert point.tolist() == [5.5, 1.5]
    assert stored_box((x, y, x + 1, y + 1), orientation, stored.size) == (5, 1, 6, 2)
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    file = io.BytesIO()
    stored.save(file, "PNG", exif=exif)
    assert upright_box(file.getvalue(), (5, 1, 6, 2)) == (x, y, x + 1, y + 1)
