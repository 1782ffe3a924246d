"""Pillow's Lanczos shrinking as tensor operations, for photos that are on a device already.

Pillow averages whole blocks of pixels first where a photo is much too large, then resizes along one
side and along the other, and rounds to bytes after each step. So does this, with the same weights:
results are Pillow's but for a grey level where float32 falls on the other side of a half.
"""

import math
from functools import lru_cache

import numpy as np
import PIL
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from solar.images.resize import REDUCING_GAP

_LOBES = 3  # of the Lanczos window, on each side
_WEIGHT_BITS = 22  # Pillow rounds weights to this many bits behind the point
# From this version on, Pillow begins with the height where photos lose far more of it than width.
_TALL_FIRST = int(PIL.__version__.partition(".")[0]) >= 13
_TOGETHER = 64  # output pixels per matrix product: they share most of the pixels they are made of
_WORK_BYTES = 256 * 2**20  # of float32 at a time


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
    planes = photos.reshape(-1, 1, height, width)
    means = [
        (_block_sums(some, factor_x, factor_y) + areas // 2) * scale >> 24
        for some in torch.split(planes, max(1, _WORK_BYTES // (4 * height * width)))
    ]
    return torch.cat(means).to(torch.uint8).reshape(*outer, *areas.shape)


def _extents(size: int, factor: int) -> Tensor:
    starts = torch.arange(0, size, factor)
    return (size - starts).clamp(max=factor)


def _block_sums(planes: Tensor, factor_x: int, factor_y: int) -> Tensor:
    """(n, 1, h, w) bytes to whole numbers; float32 is exact up to 65,000 pixels per block."""
    block = factor_y, factor_x
    sums = F.avg_pool2d(planes.float(), block, block, ceil_mode=True, divisor_override=1)
    return sums.long()


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
    """Of neighbouring output pixels, the input pixels that any of them needs, and the weights.

    Returns:
        Columns (blocks · window), and weights (blocks, window, together).
    """
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
