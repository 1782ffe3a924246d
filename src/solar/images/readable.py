"""Open a photo given in any form, or say why it cannot be read; only its header is read."""

import contextlib
import ctypes
import importlib
import io
import logging
import os
import re
import stat
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeGuard, Union, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError, _imaging

from solar.errors import PASSING, PassingError, SolarError, printable
from solar.images import raw
from solar.images.scan import VIDEO_SUFFIXES, kind_of

if TYPE_CHECKING:
    from torch import Tensor


class BinaryFile(Protocol):
    """A file opened in binary mode, or any object with its `read`."""

    def read(self, size: int = -1, /) -> bytes: ...  # noqa: D102


Source = Union[str, os.PathLike[str], bytes, BinaryFile, Image.Image, NDArray[np.generic], "Tensor"]
"""What a photo may be given as:

- a path;
- the bytes of a file, or a file object in binary mode, read from where it stands;
- an opened Pillow image;
- an array (h, w), (h, w, 3) or (h, w, 4) of uint8 or uint16;
- a tensor (3, h, w), (1, h, w) or (h, w, 3) of uint8, 0 to 255, or floating point, 0 to 1.
"""

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters: C:/ is a drive
_BYTES = bytes | bytearray | memoryview
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}
_PILLOW_FORMATS = [
    "JPEG",
    "MPO",
    "PNG",
    "WEBP",
    "TIFF",
    "GIF",
    "BMP",
    "PPM",
    "JPEG2000",
    "AVIF",
    "HEIF",
]
_pillow_limit = threading.Lock()


def _hush() -> None:
    """Silence Pillow, pillow-heif and libtiff for good, except what was enabled explicitly.

    Not for each photo: `catch_warnings` belongs to all threads, and several decode at once.
    """
    for category in (UserWarning, Image.DecompressionBombWarning):
        warnings.filterwarnings("ignore", "", category, r"(PIL|pillow_heif)\b", append=True)
    for name in ("PIL", "pillow_heif"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    # libtiff prints from C. Pillow turns its warnings off in the same way, but not its errors; in
    # Pillow for Windows the function cannot be found.
    with contextlib.suppress(AttributeError, OSError):
        set_handler = ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler
        set_handler.argtypes, set_handler.restype = [ctypes.c_void_p], ctypes.c_void_p
        set_handler(None)


_hush()
Image.preinit()  # BMP, GIF, JPEG, PNG and PPM; the others are in modules of their own
for _plugin in ("Avif", "Jpeg2K", "Mpo", "Tiff", "WebP"):
    with contextlib.suppress(ImportError):
        importlib.import_module(f"PIL.{_plugin}ImagePlugin")


class ImageError(SolarError):
    """A photo that cannot be read; the message names it."""


def is_photo(source: object) -> bool:
    """Whether this is one photo, readable or not; four-dimensional arrays are several."""
    if isinstance(source, np.ndarray) or _is_tensor(source):
        return source.ndim < 4
    one = isinstance(source, str | os.PathLike | _BYTES | Image.Image) or hasattr(source, "read")
    return one or not isinstance(source, Iterable)


def photo_list(photos: Source | Iterable[Source]) -> list[Source]:
    """One photo or several as a list of photos, by `is_photo`."""
    return [cast(Source, photos)] if is_photo(photos) else list(cast(Iterable[Source], photos))


@contextlib.contextmanager
def opened(source: Source) -> Iterator[Image.Image]:
    """Open a photo with its header read; what Pillow raises inside becomes an ImageError."""
    with contextlib.ExitStack() as closing:
        try:
            if isinstance(source, Image.Image):
                image = source
            elif isinstance(source, np.ndarray):
                image = _from_array(source)
            elif _is_tensor(source):
                image = _from_array(_tensor_pixels(source))
            else:
                image = _identified(closing.enter_context(_stream(source)), source)
            yield image
        except SolarError:
            raise
        except MemoryError as error:
            raise ImageError(
                f"{name_of(source)} does not fit into memory: downscale it."
            ) from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno in PASSING:
                raise PassingError(
                    f"{name_of(source)} cannot be read: {error.strerror}."
                ) from error
            # Pillow's plugins meet damaged files with OSError, SyntaxError, ValueError, KeyError,
            # struct.error and more, so no shorter list would be complete.
            raise ImageError(
                f"{name_of(source)} is damaged or cut short ({str(error).rstrip('.')}): "
                "get a complete copy of it."
            ) from error


def name_of(source: object) -> str:
    """A photo's name for messages: its path, if it has one."""
    unnamed = "The photo given as bytes" if isinstance(source, _BYTES) else "The photo in memory"
    return path_name(source) or unnamed


def path_name(source: object) -> str | None:
    """The path of a photo, or of the file it is read from, with unprintable characters escaped."""
    path = source if isinstance(source, str | os.PathLike) else getattr(source, "name", None)
    if not isinstance(path, str | os.PathLike):
        return None
    return printable(os.fsdecode(path))


def _stream(source: Any) -> BinaryIO:
    if isinstance(source, _BYTES):
        return io.BytesIO(source)
    if hasattr(source, "read"):
        try:
            data = source.read()
        except UnicodeDecodeError:  # which only text has
            data = None
        if not isinstance(data, _BYTES):
            raise ImageError(
                f"{name_of(source)} is not read as bytes: open it in binary mode, 'rb'."
            )
        return io.BytesIO(data)
    if not isinstance(source, str | os.PathLike):
        raise ImageError(
            "A photo is a path, bytes, a file, a PIL image, an array or a tensor, not "
            f"{type(source).__name__}."
        )
    name = name_of(source)
    path = Path(os.path.expanduser(source) if isinstance(source, str) else source)  # noqa: PTH111
    try:
        return _regular_file(path, name)
    except ImageError:  # which is a ValueError, too
        raise
    except FileNotFoundError as error:
        if _ADDRESS.match(name):
            raise ImageError(
                f"{name} is an address: download it first and give the file."
            ) from error
        raise ImageError(f"There is no photo {name}: check the path.") from error
    except PermissionError as error:
        raise ImageError(f"{name} is not readable: check its permissions.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        if getattr(error, "errno", None) in PASSING:
            raise PassingError(f"{name} cannot be opened: {reason}.") from error
        raise ImageError(f"{name} cannot be opened: {reason}.") from error


def _regular_file(path: Path, name: str) -> BinaryIO:
    """Open a file that holds a photo: never a pipe, which would block."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise ImageError(f"{name} is a folder: name a photo in it.")
    if not stat.S_ISREG(mode):
        raise ImageError(f"{name} is {kind_of(mode)}, not a file: copy the photo into one first.")
    if path.suffix.lower() in VIDEO_SUFFIXES:
        raise ImageError(f"{name} is a video: give a photo, or one of its frames as JPEG.")
    return path.open("rb")


def _identified(stream: BinaryIO, source: Source) -> Image.Image:
    name = name_of(source)
    head = stream.read(1024)
    if not head:
        raise ImageError(f"{name} is empty: get a complete copy of it.")
    is_raw = raw.starts_raw(head)
    image = None if is_raw else _pillow_open(stream)
    if image is None and head[4:8] == b"ftyp" and head[8:12] in _HEIF_BRANDS:
        try:
            importlib.import_module("pillow_heif").register_heif_opener()
        except ImportError as error:
            raise ImageError(f"{name} is HEIC: pip install pillow-heif to read it.") from error
        image = _pillow_open(stream)
    is_raw = is_raw or raw.is_raw_tiff(image)
    if is_raw or image is None:
        image = raw.preview(stream)  # of some RAW files only their previews tell what they are
        if image is None and is_raw:
            raise ImageError(
                f"{name} is a camera's RAW file without a preview that can be read: export it as "
                "JPEG."
            )
    if image is None:
        raise ImageError(
            f"{name} is not a photo that can be read: its content is not JPEG, PNG, WebP, "
            "TIFF, GIF, BMP, AVIF or HEIC, or is damaged from the start."
        )
    return image


def _pillow_open(stream: BinaryIO) -> Image.Image | None:
    """Read the header of a photo; None where Pillow does not know this kind of file."""
    try:
        stream.seek(0)
        return Image.open(stream, formats=_formats())
    except UnidentifiedImageError:
        return None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        # Pillow's limit belongs to the whole process, ours to the call: lift Pillow's while the
        # header is read again.
        with _pillow_limit:
            limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            try:
                stream.seek(0)
                return Image.open(stream, formats=_formats())
            finally:
                Image.MAX_IMAGE_PIXELS = limit


def _formats() -> list[str]:
    """The formats of photos that Pillow can read here; its forty others are not tried."""
    return [name for name in _PILLOW_FORMATS if name in Image.OPEN]


def eight_bits(samples: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Scale 0..65535 to 0..255, rounding to nearest."""
    return ((samples.astype(np.uint32) + 128) // 257).astype(np.uint8)


def _from_array(array: NDArray[np.generic]) -> Image.Image:
    shaped = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if not shaped or 0 in array.shape or array.dtype not in (np.uint8, np.uint16):
        raise ImageError(
            f"An array of shape {array.shape} and type {array.dtype} is not a photo: "
            "give uint8 or uint16 as (h, w), (h, w, 3) or (h, w, 4)."
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return Image.fromarray(array if array.dtype == np.uint8 else eight_bits(array))


def _is_tensor(source: object) -> TypeGuard["Tensor"]:
    # A tensor implies that torch is imported; while it is being imported, it has no Tensor yet.
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(source, kind)


def _tensor_pixels(tensor: "Tensor") -> NDArray[np.uint8]:
    """(3, h, w), (1, h, w) or (h, w, 3), bytes or 0..1, to (h, w, 3) or (h, w, 1) bytes."""
    shape, kind = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    first = len(shape) == 3 and shape[0] in (1, 3)
    shaped = (first or (len(shape) == 3 and shape[2] == 3)) and 0 not in shape
    if not shaped or not (kind == "uint8" or tensor.is_floating_point()):
        raise ImageError(
            f"A tensor of shape {shape} and type {kind} is not a photo: give uint8, or floating "
            "point from 0 to 1, as (3, h, w), (1, h, w) or (h, w, 3)."
        )
    pixels = tensor.detach().cpu()
    if kind != "uint8":
        low, high = float(pixels.min()), float(pixels.max())
        if not (low >= 0 and high <= 1):  # nor where one is NaN
            raise ImageError(
                f"A tensor with values from {low:g} to {high:g} is not a photo: give values from 0 "
                "to 1, before normalisation."
            )
        pixels = (pixels.float() * 255).round().byte()
    array: NDArray[np.uint8] = pixels.movedim(0, -1).numpy() if first else pixels.numpy()
    return np.ascontiguousarray(array)
