"""RAW files as cameras write them."""

import struct


def raf(preview: bytes) -> bytes:
    """A RAW file of Fujifilm, with a JPEG as its preview and no sensor data."""
    start = b"FUJIFILMCCD-RAW ".ljust(84, b"0")
    return start + struct.pack(">II", 92, len(preview)) + preview
