"""Which way up a photo is: EXIF's eight orientations, found without decoding a pixel."""

import io
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

# Applied to the stored pixels they give the upright photo; 1 and anything unknown need nothing.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_PNG_METADATA = {b"IHDR", b"eXIf", b"iTXt", b"tEXt", b"zTXt", b"IEND"}


def orientation_of(image: Image.Image) -> int:
    """Find the orientation to be applied, 1 to 8, whether or not the pixels are decoded yet."""
    if image.format == "TIFF":  # Pillow turns it on loading, and tells the turned size before
        return 1
    try:
        value = exif_of(image).get(ExifTags.Base.Orientation)
    except Exception:  # damaged EXIF raises anything, and is no reason to refuse the photo
        return 1
    return value if value in _TURNS else 1


def exif_of(image: Image.Image) -> Image.Exif:
    """The EXIF of an image whose pixels need not be decoded; damaged EXIF raises anything."""
    return _png_exif(image) if image.format == "PNG" else image.getexif()


def upright_size(image: Image.Image, orientation: int) -> tuple[int, int]:
    """Width and height of the upright photo."""
    return image.size if orientation < 5 else (image.height, image.width)


def turned(image: Image.Image, orientation: int) -> Image.Image:
    """Stored pixels made upright."""
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


def stored_box(
    box: tuple[int, int, int, int], orientation: int, stored: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Take a box of the upright photo to the pixels as they are stored."""
    x1, y1, x2, y2 = box
    width, height = stored
    if orientation >= 5:
        x1, y1, x2, y2 = y1, x1, y2, x2
    if orientation in (2, 3, 7, 8):
        x1, x2 = width - x2, width - x1
    if orientation in (3, 4, 6, 7):
        y1, y2 = height - y2, height - y1
    return x1, y1, x2, y2


def stored_points(
    points: NDArray[np.floating[Any]], orientation: int, stored: tuple[int, int]
) -> NDArray[np.floating[Any]]:
    """Take points (n, 2) of the upright photo to the pixels as they are stored.

    The corner of a photo is (0, 0), and `stored` its width and height there.
    """
    x, y = points.T if orientation < 5 else points.T[::-1]
    width, height = stored
    if orientation in (2, 3, 7, 8):
        x = width - x
    if orientation in (3, 4, 6, 7):
        y = height - y
    return np.stack([x, y], axis=1)


def _png_exif(image: Image.Image) -> Image.Exif:
    """Read the EXIF of a PNG, which may follow the pixels, without decoding them.

    Pillow would decode the whole picture to get there, so it is shown the file without the pixels.
    """
    stream = getattr(image, "fp", None)
    if stream is None or stream.closed or "exif" in image.info:
        return Image.Image.getexif(image)
    position = stream.tell()
    stream.seek(0)
    metadata = bytearray(stream.read(8))
    while len(start := stream.read(8)) == 8:
        length, kind = struct.unpack(">I4s", start)
        if kind in _PNG_METADATA:
            metadata += start + stream.read(length + 4)
        else:
            stream.seek(length + 4, io.SEEK_CUR)
    stream.seek(position)
    with Image.open(io.BytesIO(metadata)) as pixelless:
        return Image.Image.getexif(pixelless)
