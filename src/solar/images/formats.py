"""Which files are photos: the endings that a folder is searched for, and RAW files, told apart."""

from PIL import Image

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".tif", ".tiff", ".gif", ".bmp"}
    | {".avif", ".heic", ".heif"}
)
"""What a folder is searched for, in lower case."""

RAW_SUFFIXES = frozenset(
    {".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".pef", ".srw"}
)
"""Sensor data of cameras, in lower case: developers differ too much, so they are refused."""

HEIF_BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})
"""Bytes 8 to 12 of a HEIC file, after `ftyp`."""

# Fujifilm, Olympus (three) and Panasonic.
_RAW_STARTS = (b"FUJIFILMCCD-RAW", b"IIRO", b"IIRS", b"MMOR", b"IIU\0")
_SUBFILE_TYPE, _SUB_IFDS, _DNG_VERSION = 254, 330, 50706


def is_raw_start(head: bytes) -> bool:
    """Whether a file starts as CR2, CR3, RAF, ORF or RW2 do; of others it takes more to know."""
    canon = head[:4] in (b"II*\0", b"MM\0*") and head[8:10] == b"CR"
    return canon or head[4:12] == b"ftypcrx " or head.startswith(_RAW_STARTS)


def is_raw_tiff(image: Image.Image) -> bool:
    """Whether an opened TIFF is a RAW file, as DNG, NEF and ARW are.

    Pillow opens them, too, but reads the first picture inside, which is a thumbnail.
    """
    tags = getattr(image, "tag_v2", {}) if image.format == "TIFF" else {}
    return _DNG_VERSION in tags or (tags.get(_SUBFILE_TYPE) == 1 and _SUB_IFDS in tags)


PILLOW_FORMATS = (
    *("JPEG", "MPO", "PNG", "WEBP", "TIFF", "GIF", "BMP", "PPM", "JPEG2000", "AVIF", "HEIF"),
)
"""What Pillow calls the formats of photos."""

DRAWINGS = {
    b"%!PS": "EPS",
    b"\xc5\xd0\xd3\xc6": "EPS",
    b"\xd7\xcd\xc6\x9a": "WMF",
    b"\x01\0\0\0": "EMF",
}
"""By their first four bytes, files that hold drawings."""
