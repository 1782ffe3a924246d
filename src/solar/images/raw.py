"""RAW files of cameras: the largest JPEG preview beside the sensor data.

Sensor data needs a developer, and developers differ. The preview is what the camera shows. Most RAW
files are TIFF containers: their directories are read, and nothing else.
"""

import contextlib
import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from PIL import ExifTags, Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

FORMAT = "RAW"
"""The `format` of an image that is the preview of a RAW file."""

# TIFF, and its variants in ORF (three) and RW2.
_MAGIC = (b"II*\0", b"MM\0*", b"IIRO", b"IIRS", b"MMOR", b"IIU\0")
_FUJI = b"FUJIFILMCCD-RAW"
_STARTS = (_FUJI, *_MAGIC[2:])  # that no other files have
_LEAST = 512  # pixels of the longer side: anything smaller is a thumbnail
_DIRECTORIES, _SEGMENTS = 32, 100  # at most, in a container and before the pixels of a JPEG

_COMPRESSION, _OFFSETS, _COUNTS, _SUB_IFDS = 259, 273, 279, 330
_JPEG_START, _JPEG_LENGTH, _PANASONIC = 513, 514, 46
_SUBFILE_TYPE, _DNG_VERSION = 254, 50706
_JPEG = (6, 7)  # values of _COMPRESSION
_FRAMES = (0xC0, 0xC1, 0xC2)  # of 8 bits in Huffman codes; sensor data is lossless, 0xC3
_END_OF_TABLES = (0xD9, 0xDA)


def starts_raw(head: bytes) -> bool:
    """Whether a file starts like CR2, CR3, RAF, ORF or RW2."""
    canon = head[:4] in _MAGIC[:2] and head[8:10] == b"CR"
    return canon or head[4:12] == b"ftypcrx " or head.startswith(_STARTS)


def is_raw_tiff(image: Image.Image | None) -> bool:
    """Whether an image is a RAW file (DNG, NEF, ARW), of which Pillow would read the thumbnail."""
    tags = getattr(image, "tag_v2", {})
    return _DNG_VERSION in tags or (tags.get(_SUBFILE_TYPE) == 1 and _SUB_IFDS in tags)


def preview(stream: BinaryIO) -> Image.Image | None:
    """The preview of a RAW file, not decoded yet, with the EXIF of the file; None without one."""
    stream.seek(0)
    head = stream.read(92)
    exif = b""
    if head.startswith(_FUJI):
        places = [(int.from_bytes(head[84:88]), int.from_bytes(head[88:92]))]
    elif head.startswith(_MAGIC):
        directories = list(_directories(stream, head))
        places = [place for one in directories for place in _places(one)]
        for one in directories:
            if isinstance(data := one.get(_PANASONIC), bytes):
                return _opened(data)
        exif = _exif(stream, head, directories) if directories else b""
    else:
        return None
    sizes = {place: _size(stream, *place) for place in places}
    best = max(sizes, key=lambda place: sizes[place][0] * sizes[place][1], default=(0, 0))
    if max(sizes.get(best, (0, 0))) < _LEAST:
        return None
    stream.seek(best[0])
    return _opened(stream.read(best[1]), exif)


def _opened(data: bytes, exif: bytes = b"") -> Image.Image:
    image = Image.open(io.BytesIO(data), formats=["JPEG"])
    image.format = FORMAT
    if exif:
        image.info.setdefault("exif", exif)
    return image


def _directories(stream: BinaryIO, head: bytes) -> Iterator[ImageFileDirectory_v2]:
    """The directories of a TIFF container, in which a loop ends."""
    waiting, seen = list(struct.unpack("<I" if head[:1] == b"I" else ">I", head[4:8])), set[int]()
    while waiting and len(seen) < _DIRECTORIES:
        offset = waiting.pop(0)
        if offset in seen or not offset:
            continue
        seen.add(offset)
        directory = _directory(stream, head, offset)
        yield directory
        waiting += [*_numbers(directory.get(_SUB_IFDS)), directory.next]


def _directory(stream: BinaryIO, head: bytes, offset: int) -> ImageFileDirectory_v2:
    # The variants differ from TIFF in their first bytes only.
    directory = ImageFileDirectory_v2((b"II*\0" if head[:1] == b"I" else b"MM\0*") + bytes(4))
    stream.seek(offset)
    directory.load(stream)
    return directory


def _numbers(value: Any) -> list[int]:
    values: Iterable[Any] = value if isinstance(value, tuple) else (value,)
    return [one for one in values if isinstance(one, int) and one > 0]


def _places(directory: ImageFileDirectory_v2) -> Iterator[tuple[int, int]]:
    starts, lengths = _numbers(directory.get(_JPEG_START)), _numbers(directory.get(_JPEG_LENGTH))
    if directory.get(_COMPRESSION) in _JPEG and not starts:
        starts, lengths = _numbers(directory.get(_OFFSETS)), _numbers(directory.get(_COUNTS))
    if len(starts) == len(lengths) == 1:
        yield starts[0], lengths[0]


def _size(stream: BinaryIO, offset: int, length: int) -> tuple[int, int]:
    """Width and height of a JPEG; zeros if there is none that every decoder reads."""
    stream.seek(offset)
    if length < 4 or stream.read(2) != b"\xff\xd8":
        return 0, 0
    for _ in range(_SEGMENTS):
        start = stream.read(4)
        if len(start) < 4 or start[0] != 0xFF or start[1] in _END_OF_TABLES:
            break
        if start[1] in _FRAMES:
            frame = stream.read(5)  # bits, height, width
            return int.from_bytes(frame[3:5]), int.from_bytes(frame[1:3])
        stream.seek(max(0, int.from_bytes(start[2:4]) - 2), io.SEEK_CUR)
    return 0, 0


def _exif(stream: BinaryIO, head: bytes, directories: list[ImageFileDirectory_v2]) -> bytes:
    """Orientation, camera, time and position of the container as the EXIF of a JPEG."""
    first, exif = directories[0], Image.Exif()
    for tag in (ExifTags.Base.Make, ExifTags.Base.Model, ExifTags.Base.Orientation):
        if tag in first:
            exif[tag] = first[tag]
    for folder in (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo):
        for offset in _numbers(first.get(folder)):
            found = _directory(stream, head, offset)
            kept = found if folder == ExifTags.IFD.GPSInfo else {ExifTags.Base.DateTimeOriginal}
            exif.get_ifd(folder).update({tag: found[tag] for tag in kept if tag in found})
    with contextlib.suppress(Exception):  # values of strange types cannot be written
        return exif.tobytes()
    return b""
