"""Which files are photos: the endings that a folder is searched for, and RAW files."""

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
