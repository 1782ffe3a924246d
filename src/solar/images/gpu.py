"""Decoding JPEG files on a GPU, with the same pixels as `solar.images.load`.

`plan_reduction` decides from a file's bytes whether a GPU may decode it, and what is left to do:
turn, cut and shrink. `shrink` is Pillow's Lanczos as tensor operations: blocks of pixels are
averaged first where a photo is much too large, then it is resized along one side and along the
other, and rounded to bytes after each step. Results differ from Pillow's by a grey level at most,
where float32 falls on the other side of a half.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import PIL
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL.JpegImagePlugin import JpegImageFile
from PIL.MpoImagePlugin import MpoImageFile
from torch import Tensor

from solar.images.boxes import Box
from solar.images.exif import orientation_of, upright_size
from solar.images.readable import opened
from solar.images.resize import REDUCING_GAP, reduced

LEAST_SIDE_ON_DEVICE = 32
"""Pixels; sending a smaller photo to the GPU takes longer than decoding it."""

_END = b"\xff\xd9"
_MPO_ENTRIES = 0xB002  # of the tables of contents of several photos in one file
# How many samples of luminance there are, across and down, to one of colour.
_SAMPLING = frozenset({(1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (4, 2)})

# The orientations in which photos are mirrored along an axis, after 5 to 8 were transposed.
_MIRRORED = {3: (2, 3, 6, 7), 2: (3, 4, 7, 8)}

_LOBES = 3  # of the Lanczos window, on each side
_WEIGHT_BITS = 22  # Pillow rounds weights to this many bits behind the point
# From this version on, Pillow begins with the height where photos lose far more of it than width.
_TALL_FIRST = int(PIL.__version__.partition(".")[0]) >= 13
_TOGETHER = 64  # output pixels per matrix product, which share most of their input pixels
_WORK_BYTES = 256 * 2**20  # of float32 at a time


@dataclass(frozen=True)
class Reduction:
    """The steps from the stored pixels of a photo to those that are described."""

    stored: tuple[int, int]  # width and height in the file
    orientation: int  # EXIF's, 1 to 8
    box: tuple[int, int, int, int]  # of the upright photo: left, top, right, bottom
    target: tuple[int, int]  # final width and height
    end: int = field(compare=False)  # bytes of the file up to the end of the photo

    @property
    def upright(self) -> tuple[int, int]:
        """Width and height of the whole photo, upright."""
        return self.stored if self.orientation < 5 else self.stored[::-1]

    @property
    def nbytes(self) -> int:
        """Bytes of the decoded photo."""
        return 3 * self.stored[0] * self.stored[1]

    def apply(self, photos: Tensor) -> Tensor:
        """Turn, cut and shrink photos, (b, 3, h, w) bytes as stored to (b, h, w, 3) bytes."""
        photos = _turned(photos, self.orientation)
        x1, y1, x2, y2 = self.box
        photos = photos[..., y1:y2, x1:x2]
        if self.target != (x2 - x1, y2 - y1):
            photos = shrink(photos, *self.target)
        return photos.permute(0, 2, 3, 1).contiguous()


def plan_reduction(
    data: bytes, size: int, *, box: Box | None, orient: bool, max_pixels: int
) -> Reduction | None:
    """How a GPU can decode a JPEG file as `solar.images.load` does; None if Pillow must do it.

    A SolarError as for `load`, if the file is no photo, the box misses it or the size makes no
    sense.
    """
    if not data.startswith(b"\xff\xd8"):
        return None
    with opened(data) as image:
        assert isinstance(image, JpegImageFile)
        end = _end(data, image)
        if not _is_plain(image) or end is None or image.width * image.height > max_pixels:
            return None
        orientation = orientation_of(image) if orient else 1
        upright = upright_size(image, orientation)
        return Reduction(image.size, orientation, *reduced(upright, size, box), end)


def _is_plain(image: JpegImageFile) -> bool:
    """Whether a JPEG is YCbCr, which a GPU's decoder takes all for, in a sampling that it knows."""
    sampling = [layer[1:3] for layer in image.layer]
    return (
        [layer[0] for layer in image.layer] == [1, 2, 3]
        and sampling[0] in _SAMPLING
        and sampling[1:] == [(1, 1), (1, 1)]
        and image.info.get("adobe_transform", 1) == 1
        and min(image.size) >= LEAST_SIDE_ON_DEVICE
    )


def _end(data: bytes, image: JpegImageFile) -> int | None:
    """Where a photo ends, which other photos or a film may follow; None if it is cut short."""
    if isinstance(image, MpoImageFile) and image.mpinfo:
        end = int(image.mpinfo[_MPO_ENTRIES][0]["Size"])
    elif data.endswith(_END) and "mp" not in image.info:
        # A search for the end through megabytes would keep all other threads waiting.
        end = len(data)
    else:
        assert image.fp is not None
        end = data.find(_END, image.fp.tell()) + len(_END)
    return end if data[:end].endswith(_END) else None


def _turned(photos: Tensor, orientation: int) -> Tensor:
    if orientation >= 5:
        photos = photos.transpose(2, 3)
    mirrored = [axis for axis, turns in _MIRRORED.items() if orientation in turns]
    return photos.flip(mirrored) if mirrored else photos


def shrink(photos: Tensor, width: int, height: int) -> Tensor:
    """Resize photos as `Image.resize((width, height), LANCZOS, reducing_gap=2.0)` does.

    Shape: (b, c, h, w) bytes to (b, c, height, width) bytes, on the same device.
    """
    across, down = photos.shape[3] / width, photos.shape[2] / height
    factor_x, factor_y = (int(scale / REDUCING_GAP) or 1 for scale in (across, down))
    length_x, length_y = photos.shape[3] / factor_x, photos.shape[2] / factor_y
    if max(factor_x, factor_y) > 1:
        photos = reduce(photos, factor_x, factor_y)
    lost_x, lost_y = photos.shape[3] - width, photos.shape[2] - height
    if _TALL_FIRST and lost_y > 2 * lost_x:
        photos = _resize_columns(photos, length_y, height)
        return _resize_rows(photos, length_x, width)
    photos = _resize_rows(photos, length_x, width)
    return _resize_columns(photos, length_y, height)


def reduce(photos: Tensor, factor_x: int, factor_y: int) -> Tensor:
    """Average blocks of pixels as `Image.reduce` does; those at the edges may be smaller.

    Shape: (b, c, h, w) bytes to (b, c, ⌈h / factor_y⌉, ⌈w / factor_x⌉) bytes.
    """
    *outer, height, width = photos.shape
    down, across = _extents(height, factor_y), _extents(width, factor_x)
    areas = torch.outer(down.to(photos.device), across.to(photos.device))
    scale = 2**24 // areas  # Pillow multiplies by a reciprocal that is rounded down
    planes, block, means = photos.reshape(-1, 1, height, width), (factor_y, factor_x), []
    for some in torch.split(planes, max(1, _WORK_BYTES // (4 * height * width))):
        # In float32 sums are exact up to 65,000 pixels per block.
        sums = F.avg_pool2d(some.float(), block, block, ceil_mode=True, divisor_override=1)
        means.append((sums.long() + areas // 2) * scale >> 24)
    return torch.cat(means).to(torch.uint8).reshape(*outer, *areas.shape)


def _extents(size: int, factor: int) -> Tensor:
    return (size - torch.arange(0, size, factor)).clamp(max=factor)


def _resize_columns(photos: Tensor, length: float, height: int) -> Tensor:
    return _resize_rows(photos.transpose(2, 3), length, height).transpose(2, 3)


def _resize_rows(photos: Tensor, length: float, width: int) -> Tensor:
    """Resize along the last dimension, of which the first `length` pixels count."""
    *outer, size = photos.shape
    if size == width == length:
        return photos
    columns, weights = _windows(size, length, width, photos.device)
    blocks, window, together = weights.shape
    rows = photos.reshape(-1, size)
    result = rows.new_empty(len(rows), width)
    step = max(1, _WORK_BYTES // (4 * blocks * (window + together)))
    for start in range(0, len(rows), step):
        some = rows[start : start + step].index_select(1, columns).float()
        product = torch.bmm(some.view(-1, blocks, window).transpose(0, 1), weights)
        whole = product.add_(0.5).floor_().clamp_(0, 255).to(torch.uint8)
        result[start : start + step] = whole.transpose(0, 1).flatten(1)[:, :width]
    return result.reshape(*outer, width)


@lru_cache(maxsize=256)
def _windows(size: int, length: float, width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Input columns (blocks · window) and weights (blocks, window, together) of output pixels."""
    first, taps = _taps(size, length, width)
    starts = first[::_TOGETHER]
    ends = np.append(first[_TOGETHER - 1 :: _TOGETHER], first[-1])[: len(starts)] + taps.shape[1]
    window = int((ends - starts).max())
    weights = np.zeros((len(starts), window, _TOGETHER), np.float32)
    out = np.arange(width)[:, None]
    within = first[:, None] - starts[out // _TOGETHER] + np.arange(taps.shape[1])
    weights[out // _TOGETHER, within, out % _TOGETHER] = taps
    columns = (starts[:, None] + np.arange(window)).clip(max=size - 1)  # weighed 0 beyond the edge
    return (
        torch.from_numpy(columns.reshape(-1)).to(device),
        torch.from_numpy(weights).to(device),
    )


def _taps(size: int, length: float, width: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The first input pixel of every output pixel, and the weights (width, taps) from there on."""
    scale = length / width
    stretch = max(scale, 1.0)
    reach = _LOBES * stretch
    centre = (np.arange(width) + 0.5) * scale
    first = np.maximum(np.trunc(centre - reach + 0.5), 0).astype(np.int64)
    last = np.minimum(np.trunc(centre + reach + 0.5), size).astype(np.int64)
    pixel = first[:, None] + np.arange(2 * math.ceil(reach) + 1)
    away = (pixel - centre[:, None] + 0.5) / stretch
    weights = np.where(np.abs(away) < _LOBES, np.sinc(away) * np.sinc(away / _LOBES), 0.0)
    weights[pixel >= last[:, None]] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    fixed = np.trunc(weights * 2**_WEIGHT_BITS + np.copysign(0.5, weights))
    return first, fixed / 2**_WEIGHT_BITS
