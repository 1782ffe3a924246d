import io
import os
import signal
import socket
import struct
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from solar.images import RAW_SUFFIXES, ImageError, image_size, load, read_image
from solar.images.readable import is_photo
from solar.images.scan import SUFFIXES, VIDEO_SUFFIXES

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="has no pipes in the file system")
PIXELS = np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray(PIXELS).save(path)
    return path


# --- only regular files -----------------------------------------------------------------------


@pytest.fixture
def alarm():
    """Ends what waits for ever, by an exception."""

    def ring(*_):
        raise TimeoutError("it waits")

    former = signal.signal(signal.SIGALRM, ring)
    signal.alarm(5)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, former)


@UNIX
@pytest.mark.parametrize("read", [read_image, image_size])
def test_a_pipe_is_refused_at_once(read, tmp_path, alarm):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match=r"pipe\.jpg .*pipe"):
        read(tmp_path / "pipe.jpg")


@UNIX
def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the names of sockets must be short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket.jpg")
        with pytest.raises(ImageError, match=r"socket\.jpg .*socket"):
            read_image("socket.jpg")


@UNIX
def test_a_device_is_refused(tmp_path, alarm):
    (tmp_path / "zeros.jpg").symlink_to("/dev/zero")
    with pytest.raises(ImageError, match=r"zeros\.jpg .*device"):
        read_image(tmp_path / "zeros.jpg")


# --- RAW --------------------------------------------------------------------------------------


def tiff(*more: tuple[int, int, int, int]) -> bytes:
    """A grey picture of 4 × 2 pixels, with further tags: number, type, count, value."""
    tags = [(256, 4, 1, 4), (257, 4, 1, 2), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1)]
    tags += [(273, 4, 1, 300), (277, 3, 1, 1), (278, 4, 1, 2), (279, 4, 1, 8), *more]
    entries = b"".join(struct.pack("<HHII", *tag) for tag in sorted(tags))
    start = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4)
    return start.ljust(300, b"\0") + bytes(range(8))


RAW = {
    "cr2": b"II*\0\x10\0\0\0CR\x02\0" + bytes(99),
    "cr3": struct.pack(">I", 24) + b"ftypcrx " + bytes(99),
    "raf": b"FUJIFILMCCD-RAW 0201" + bytes(99),
    "orf": b"IIRO\x08\0\0\0" + bytes(99),
    "rw2": b"IIU\0\x18\0\0\0" + bytes(99),
    "dng": tiff((50706, 1, 4, 1025)),
    "nef": tiff((254, 4, 1, 1), (330, 4, 1, 290)),
}


@pytest.mark.parametrize("kind", RAW)
def test_a_raw_file_without_a_preview_is_refused(kind):
    for read in (read_image, image_size):
        with pytest.raises(ImageError, match="RAW"):
            read(RAW[kind])


def test_other_tiffs_are_no_raw_files():
    assert read_image(tiff()).size == (4, 2)
    assert read_image(tiff((254, 4, 1, 0), (330, 4, 1, 290))).size == (4, 2)  # layers
    assert read_image(tiff((254, 4, 1, 1))).size == (4, 2)  # a lone thumbnail


@pytest.mark.parametrize("suffix", sorted(VIDEO_SUFFIXES))
def test_a_video_is_known_by_its_name(suffix, tmp_path):
    path = tmp_path / f"film{suffix.upper()}"
    path.write_bytes(bytes(9))
    with pytest.raises(ImageError, match=rf"(?i)film\{suffix} .*video"):
        load(path, 64)


def test_a_missing_raw_file_is_missing(tmp_path):
    with pytest.raises(ImageError, match="There is no photo"):
        load(tmp_path / "photo.nef", 64)


def test_a_suffix_says_one_thing():
    kinds = (SUFFIXES, RAW_SUFFIXES, VIDEO_SUFFIXES)
    assert len(frozenset.union(*kinds)) == sum(map(len, kinds))
    assert all(suffix == suffix.lower() for kind in kinds for suffix in kind)


# --- paths and addresses ----------------------------------------------------------------------


class Located:
    """A path of somebody else's kind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_any_path_like_object_is_read(photo):
    assert np.array_equal(load(Located(photo), None).pixels, PIXELS)


def test_the_home_folder_is_known(photo, monkeypatch):
    monkeypatch.setenv("HOME", str(photo.parent))
    monkeypatch.setenv("USERPROFILE", str(photo.parent))
    assert image_size("~/photo.png") == (16, 12)


@pytest.mark.parametrize("address", ["http://a.org/b.jpg", "HTTPS://a.org/b.jpg", "s3://a/b.jpg"])
@pytest.mark.parametrize("kind", [str, Path])
def test_an_address_is_refused(address, kind):
    with pytest.raises(ImageError, match=r"b\.jpg .*address"):
        read_image(kind(address))


@UNIX
def test_a_file_that_is_called_like_an_address_is_read(photo, monkeypatch):
    monkeypatch.chdir(photo.parent)
    Path("s3:").mkdir()
    photo.rename("s3:/photo.png")
    assert image_size("s3://photo.png") == (16, 12)


@UNIX
@pytest.mark.parametrize("name", [b"a\nb\x1b[31m.jpg", b"\xff\xfe.jpg"])
def test_a_sentence_is_one_printable_line_whatever_the_name(name, tmp_path):
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(b"no photo")
    with pytest.raises(ImageError) as caught:
        read_image(path)
    assert str(caught.value).isprintable()


# --- file objects -----------------------------------------------------------------------------


def test_file_objects_are_read_from_where_they_stand(photo):
    with photo.open("rb") as file:
        assert np.array_equal(load(file, None).pixels, PIXELS)
    stream = io.BytesIO(b"before" + photo.read_bytes())
    stream.seek(6)
    assert read_image(stream).size == (16, 12)


def test_whatever_can_be_read_is_a_file(photo):
    class Response:
        def read(self) -> bytes:
            return photo.read_bytes()

    assert image_size(Response()) == (16, 12)  # type: ignore[arg-type]
    assert image_size(bytearray(photo.read_bytes())) == (16, 12)  # type: ignore[arg-type]


def test_a_damaged_file_object_is_refused_by_its_name(tmp_path):
    path = tmp_path / "text.jpg"
    path.write_text("no photo")
    with path.open("rb") as file, pytest.raises(ImageError, match=r"text\.jpg"):
        read_image(file)
    with pytest.raises(ImageError, match="empty"):
        read_image(io.BytesIO())


def test_a_file_in_text_mode_is_refused(photo):
    with photo.open(encoding="latin-1") as file, pytest.raises(ImageError, match="binary mode"):
        read_image(file)  # type: ignore[arg-type]
    with pytest.raises(ImageError, match="binary mode"):
        read_image(io.StringIO("text"))  # type: ignore[arg-type]


# --- tensors ----------------------------------------------------------------------------------

BYTES = torch.from_numpy(PIXELS)


@pytest.mark.parametrize(
    "tensor",
    [
        BYTES,
        BYTES.movedim(-1, 0),
        BYTES.movedim(-1, 0) / 255,
        BYTES.double() / 255,
        (BYTES.movedim(-1, 0) / 255).requires_grad_(),
    ],
    ids=["h w 3", "3 h w", "float", "double", "gradient"],
)
def test_tensors_are_read(tensor):
    assert np.array_equal(load(tensor, None).pixels, PIXELS)
    assert image_size(tensor) == (16, 12)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_tensors_of_half_precision_are_read(kind):
    pixels = load((BYTES / 255).to(kind), None).pixels
    assert np.abs(pixels.astype(int) - PIXELS).max() <= 1


def test_photos_are_read_while_another_thread_imports_torch(photo, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))  # has no Tensor yet
    assert image_size(photo.read_bytes()) == (16, 12)
    assert is_photo(photo)


def test_grey_tensors_are_read():
    pixels = load(BYTES[None, :, :, 0], None).pixels
    assert np.array_equal(pixels, np.repeat(PIXELS[:, :, :1], 3, axis=2))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.full((3, 4, 4), 1.5),
        torch.full((3, 4, 4), -0.5),
        torch.full((3, 4, 4), torch.nan),
        torch.full((3, 4, 4), torch.inf),
        torch.zeros(3, 4, 4).index_fill(1, torch.tensor(2), torch.nan),
    ],
)
def test_tensors_out_of_range_are_refused(tensor):
    with pytest.raises(ImageError, match="values"):
        read_image(tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(3, 4, 4, dtype=torch.int64),
        torch.zeros(4, 4, 4),
        torch.zeros(2, 4, 5),
        torch.zeros(4),
        torch.zeros(3, 0, 4),
        torch.zeros(2, 3, 4, 4),
        torch.zeros(3, 4, 4, dtype=torch.bool),
    ],
)
def test_tensors_that_are_no_photo_are_refused(tensor):
    with pytest.raises(ImageError, match=r"shape \(.*\) and type \w+"):
        read_image(tensor)


# --- one or several ---------------------------------------------------------------------------


def test_one_photo_is_told_from_several(photo):
    one = ["a.jpg", photo, b"", bytearray(), io.BytesIO(), Image.new("L", (1, 1)), PIXELS, BYTES]
    assert all(map(is_photo, one))
    several = [[], ("a.jpg",), PIXELS[None], BYTES[None], iter(["a.jpg"]), {"a.jpg"}]
    assert not any(map(is_photo, several))
