"""Nothing but sentences of ours: what libraries say of damaged photos does not reach anybody."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image

PILLOW = """
import sys
from PIL import Image
for path in sys.argv[1:]:
    try:
        with Image.open(path) as image:
            image.getexif()
            image.convert("RGB")
    except Exception:
        pass
"""
OURS = """
import sys
from solar.images import ImageError, image_size, read_image
for path in sys.argv[1:]:
    for read in (image_size, read_image):
        try:
            read(path)
        except ImageError:
            pass
"""


def _encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def _damaged_lzw() -> bytes:
    data = bytearray(_encoded(Image.effect_noise((64, 64), 90), "TIFF", compression="tiff_lzw"))
    data[16:64] = b"\xaa" * 48
    return bytes(data)


def _many_samples() -> bytes:
    tags = [(256, 4, 8), (257, 4, 8), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8)]
    tags += [(277, 3, 46), (278, 4, 8), (279, 4, 64)]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(99)


def _large_png() -> bytes:
    """A picture that Pillow still opens, with a warning."""
    header = b"IHDR" + struct.pack(">IIBBBBB", 10_000, 10_000, 8, 0, 0, 0, 0)
    chunks = [
        struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
        for body in (header, b"IDAT" + zlib.compress(b"0" * 99))
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _photos() -> dict[str, bytes]:
    picture = Image.new("RGB", (16, 16))
    palette = picture.convert("P")
    return {
        "exif.jpg": _encoded(picture, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff"),
        "palette.png": _encoded(palette, "PNG", transparency=bytes(range(256))),
        "lzw.tif": _damaged_lzw(),
        "samples.tif": _many_samples(),
        "large.png": _large_png(),
    }


def _said(program: str, *paths: Path) -> str:
    command = [sys.executable, "-c", program, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    for name, data in _photos().items():
        (tmp_path / name).write_bytes(data)
    return sorted(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="its libtiff cannot be silenced")
def test_no_remark_of_a_library_reaches_the_user(photos: list[Path]) -> None:
    assert _said(OURS, *photos) == ""


def test_pillow_alone_would_say_something(photos: list[Path]) -> None:
    said = _said(PILLOW, *photos)
    signs = ("Corrupt EXIF", "Transparency", "DecompressionBomb", "More samples", "in table")
    assert [sign for sign in signs if sign not in said] == []
