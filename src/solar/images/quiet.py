"""Remarks of image libraries that would end up on standard error are turned off.

A damaged photo is refused with a sentence, or read all the same. The libraries' own remarks, such
as "Corrupt EXIF data. Expecting to read 2 bytes but only got 0.", name no file and help nobody.
"""

import contextlib
import ctypes
import logging
import warnings

from PIL import Image, _imaging


def hush() -> None:
    """Silence Pillow, pillow-heif and libtiff, for the whole process and for good.

    Not for each photo: `warnings.catch_warnings` and standard error itself belong to all threads,
    and several decode at once. What somebody asked to see before (`python -W always`, a handler for
    the logger `PIL`) is still shown.
    """
    for category in (UserWarning, Image.DecompressionBombWarning):
        warnings.filterwarnings("ignore", "", category, r"(PIL|pillow_heif)\b", append=True)
    for name in ("PIL", "pillow_heif"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    # libtiff prints from C. Pillow turns its warnings off in the same way, but not its errors.
    # Where the function cannot be found, as in Pillow for Windows, they stay.
    with contextlib.suppress(AttributeError, OSError):
        set_handler = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
        set_handler.argtypes, set_handler.restype = [ctypes.c_void_p], ctypes.c_void_p
        set_handler(None)
