"""Previews of RAW files. The containers are built here, as the cameras' makers lay them out."""

import io
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ExifTags, Image
from support.raw_files import raf

from solar.images import ImageError, image_size, load, read_image
from solar.images.exif import exif_facts
from solar.images.raw import preview

SIZE, THUMBNAIL = (640, 480), (160, 120)


def jpeg(size: tuple[int, int], colour: str = "red", **options: object) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "JPEG", **options)
    return file.getvalue()


def lossless(size: tuple[int, int]) -> bytes:
    """The header of a lossless JPEG, in which sensor data is stored."""
    return b"\xff\xd8\xff\xc3" + struct.pack(">HBHHB", 11, 14, size[1], size[0], 1) + bytes(99)


class Container:
    """A TIFF container that grows: `put` stores bytes, `directory` tags (number: type, value)."""

    def __init__(self, order: str = "<", magic: bytes = b"") -> None:
        self.order = order
        start = magic or (b"II*\0" if order == "<" else b"MM\0*")
        self.data = bytearray(start.ljust(16, b"\0"))

    def put(self, data: bytes) -> int:
        self.data += bytes(len(self.data) % 2)
        self.data += data
        return len(self.data) - len(data)

    def directory(self, tags: dict[int, tuple[int, object]], following: int = 0) -> int:
        entries = b""
        for number, (kind, value) in sorted(tags.items()):
            if isinstance(value, bytes):
                count = len(value)
                field = value.ljust(4, b"\0") if count <= 4 else self._long(self.put(value))
            elif isinstance(value, tuple):
                count, packed = len(value), b"".join(map(self._long, value))
                field = packed if count == 1 else self._long(self.put(packed))
            else:
                count = 1
                field = self._pack("HH", value, 0) if kind == 3 else self._long(value)
            entries += self._pack("HHI", number, kind, count) + field
        return self.put(self._pack("H", len(tags)) + entries + self._long(following))

    def whole(self, first: int) -> bytes:
        self.data[4:8] = self._long(first)
        return bytes(self.data)

    def _long(self, value: object) -> bytes:
        return self._pack("I", value)

    def _pack(self, form: str, *values: object) -> bytes:
        return struct.pack(self.order + form, *values)


def by_strips(file: Container, data: bytes, **more: object) -> dict[int, tuple[int, object]]:
    return {259: (3, 6), 273: (4, file.put(data)), 279: (4, len(data))}


def by_pointer(file: Container, data: bytes) -> dict[int, tuple[int, object]]:
    return {513: (4, file.put(data)), 514: (4, len(data))}


def cr2() -> bytes:
    file = Container(magic=b"II*\0\0\0\0\0CR\x02\0")
    sensor = file.directory(by_strips(file, lossless((6000, 4000))))
    small = file.directory(by_pointer(file, jpeg(THUMBNAIL, "blue")), sensor)
    details = file.directory({36867: (2, b"2019:07:14 18:30:00\0")})
    north = file.put(struct.pack("<6I", 48, 1, 30, 1, 0, 1))
    east = file.put(struct.pack("<6I", 2, 1, 15, 1, 0, 1))
    place = file.put(
        struct.pack("<H", 4)
        + struct.pack("<HHI4s", 1, 2, 2, b"N\0\0\0")
        + struct.pack("<HHII", 2, 5, 3, north)
        + struct.pack("<HHI4s", 3, 2, 2, b"E\0\0\0")
        + struct.pack("<HHII", 4, 5, 3, east)
        + bytes(4)
    )
    tags = {271: (2, b"Canon\0"), 272: (2, b"Canon EOS 5D\0"), 274: (3, 6)}
    tags |= {34665: (4, details), 34853: (4, place)}
    return file.whole(file.directory(tags | by_strips(file, jpeg(SIZE)), small))


def nef() -> bytes:
    file = Container(">")
    full = file.directory({254: (4, 1)} | by_pointer(file, jpeg(SIZE)))
    sensor = file.directory({254: (4, 0), 259: (3, 34713), 262: (3, 32803)})
    return file.whole(file.directory({254: (4, 1), 330: (4, (full, sensor))}))


def arw() -> bytes:
    file = Container()
    sensor = file.directory({259: (3, 32767)})
    tags = {254: (4, 1), 330: (4, (sensor,))} | by_pointer(file, jpeg(SIZE))
    return file.whole(file.directory(tags))


def dng() -> bytes:
    file = Container()
    shown = file.directory({254: (4, 1)} | by_strips(file, jpeg(SIZE)) | {259: (3, 7)})
    sensor = by_strips(file, lossless((6000, 4000))) | {259: (3, 7), 262: (3, 32803)}
    below = (file.directory(sensor), shown)
    return file.whole(file.directory({50706: (1, b"\1\4\0\0"), 330: (4, below)}))


def rw2() -> bytes:
    file = Container(magic=b"IIU\0")
    return file.whole(file.directory({46: (7, jpeg(SIZE))}))


KINDS = {"cr2": cr2, "nef": nef, "arw": arw, "dng": dng, "rw2": rw2, "raf": lambda: raf(jpeg(SIZE))}


@pytest.mark.parametrize("kind", KINDS)
def test_a_raw_file_is_read_by_its_largest_preview(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"photo.{kind}"
    path.write_bytes(KINDS[kind]())
    upright = SIZE[::-1] if kind == "cr2" else SIZE
    assert image_size(path) == read_image(path).size == upright
    assert np.asarray(read_image(path)).mean((0, 1)).round() == pytest.approx([254, 0, 0], abs=2)
    with Image.open(io.BytesIO(jpeg(SIZE))) as expected:
        shown = read_image(path.read_bytes(), orient=False)
        assert np.array_equal(np.asarray(shown), np.asarray(expected))
    assert load(path, 64, mode="fast").pixels.shape == (
        (64, 48, 3) if kind == "cr2" else (48, 64, 3)
    )


def test_facts_are_those_of_the_container(tmp_path: Path) -> None:
    (tmp_path / "a.cr2").write_bytes(cr2())
    facts = exif_facts(tmp_path / "a.cr2")
    assert facts == ("2019-07-14T18:30:00", (48.5, 2.25), "Canon EOS 5D")


def test_a_preview_with_an_orientation_of_its_own_keeps_it() -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    file = Container()
    tags = {50706: (1, b"\1\4\0\0"), 274: (3, 6)} | by_pointer(file, jpeg(SIZE, exif=exif))
    assert image_size(file.whole(file.directory(tags))) == SIZE


@pytest.mark.parametrize(
    "data",
    [jpeg(THUMBNAIL), lossless((6000, 4000)), b"", bytes(99)],
    ids=["thumbnail", "sensor", "empty", "zeros"],
)
def test_thumbnails_and_sensor_data_are_no_previews(data: bytes) -> None:
    file = Container()
    tags = {50706: (1, b"\1\4\0\0")} | by_pointer(file, data)
    assert preview(io.BytesIO(file.whole(file.directory(tags)))) is None


def test_a_preview_cut_short_is_refused() -> None:
    with pytest.raises(ImageError):
        read_image(raf(jpeg(SIZE))[:-500])


def test_directories_in_a_circle_end() -> None:
    file = Container()
    first = file.directory({254: (4, 1)})
    file.data[-4:] = struct.pack("<I", first)
    assert preview(io.BytesIO(file.whole(first))) is None


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_damage_is_an_error_of_the_photo(kind: str, draw: st.DataObject) -> None:
    data = bytearray(KINDS[kind]())
    for _ in range(draw.draw(st.integers(1, 8))):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with suppress(ImageError):
        assert min(read_image(bytes(data)).size) > 0
