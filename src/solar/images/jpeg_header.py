"""Which JPEG files a graphics card may decode, told from their bytes alone.

A card's decoder takes what cameras write: three channels of 8 bits, luminance and colour, Huffman
coded, baseline or progressive. What it would refuse, or read otherwise than Pillow without a word
(a file that is cut short, colours stored as RGB), is left to Pillow.
"""

import struct
from typing import NamedTuple

LEAST_SIDE_ON_DEVICE = 32
"""Pixels; to send a smaller photo takes longer than to decode it."""

_BASELINE, _PROGRESSIVE = 0xC0, 0xC2
_START_OF_SCAN, _END = 0xDA, b"\xff\xd9"
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # between them: tables
_METADATA = 0xE1  # EXIF and XMP
# How many samples of luminance there are, across and down, to one of colour.
_SAMPLING = frozenset({(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)})


class JpegHeader(NamedTuple):
    """What is stored: width and height, whether metadata may turn it, and where the photo ends."""

    width: int
    height: int
    metadata: bool
    end: int  # after which other things may follow, such as a film


def plain_header(data: bytes) -> JpegHeader | None:
    """The header of a complete, plain JPEG file; None for any other file, damaged ones included."""
    if not data.startswith(b"\xff\xd8"):
        return None
    position, metadata, several, adobe, frame = 2, False, False, None, b""
    while position + 4 <= len(data) and data[position] == 0xFF:
        marker, length = data[position + 1], int.from_bytes(data[position + 2 : position + 4])
        segment = data[position + 4 : position + 2 + length]
        position += 2 + length
        if marker == _START_OF_SCAN:
            # In what follows, only a marker has these two bytes: others are written apart. To
            # look for it through megabytes would keep all other threads waiting.
            ends = data.endswith(_END) and not several
            end = len(data) if ends else data.find(_END, position) + len(_END)
            plain = end > position and adobe in (None, 1)
            return _header(frame, metadata, end) if plain else None
        if not 0xC0 <= marker < 0xFF:
            return None
        if marker in _FRAMES:
            if frame or marker not in (_BASELINE, _PROGRESSIVE):
                return None
            frame = segment
        elif marker == 0xEE and segment.startswith(b"Adobe") and len(segment) >= 12:
            adobe = segment[11]
        metadata = metadata or marker == _METADATA
        several = several or (marker == 0xE2 and segment.startswith(b"MPF\0"))
    return None


def _header(frame: bytes, metadata: bool, end: int) -> JpegHeader | None:
    """What a frame of three channels says; None where it has others, or they are not YCbCr."""
    if len(frame) != 6 + 3 * 3:
        return None
    bits, height, width, channels = struct.unpack(">BHHB", frame[:6])
    names, sampling = frame[6::3], [divmod(one, 16) for one in frame[7::3]]
    sampled = sampling[0] in _SAMPLING and sampling[1:] == [(1, 1), (1, 1)]
    usual = bits == 8 and channels == 3 and names == b"\1\2\3" and sampled
    if not usual or min(width, height) < LEAST_SIDE_ON_DEVICE:
        return None
    return JpegHeader(width, height, metadata, end)
