"""Whether two photos, laid over each other, are the same picture or only show the same thing.

Copies agree in their fine detail, block by block, however they were re-encoded, shrunk or
recoloured; what was written over one changes some blocks. Two photos of one place never fit to the
pixel: the camera has moved, and so have leaves and people.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from solar.arrays import Flags, Floats

SIDE = 192
"""Longer side of what is compared, in pixels."""

_BLOCKS = 8
_BLUR = 2.0  # what is smoother than that is no fine detail
_FLAT = 2.0  # grey levels: blocks with less detail in both say nothing
_AGREE, _EQUAL = 0.8, 0.95  # correlation of the detail of a block
_MOST = 0.65  # of the blocks agree, however roughly the copy was encoded
_MANY, _NEARLY = 0.5, 0.6  # or this share agrees, and of them this to the pixel: rest is covered
_STRICT, _STRICTLY = 0.85, 0.75  # where keypoints chose the region: of all, and to the pixel
_EVERYWHERE, _LITTLE = 0.95, 0.02  # or of all, with at most this difference of grey levels
_LEAST = 6  # blocks with detail
_SMOOTH = 0.985  # correlation of pictures that have no detail


class Region(NamedTuple):
    """A rectangle in pixels; the fractions count."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        return self.right - self.left, self.bottom - self.top


class Agreement(NamedTuple):
    """How two photos agree where both show the same.

    Attributes:
        same: Whether they are one picture.
        difference: Mean difference of grey levels, 0 to 1, after matching brightness and contrast.
        recoloured: Whether brightness, contrast or colours differ.
    """

    same: bool
    difference: float
    recoloured: bool


def agreement(
    a: Image.Image, b: Image.Image, in_a: Region, in_b: Region, *, strict: bool = False
) -> Agreement:
    """Compare regions of two RGB photos of the same orientation, at the size of the smaller one.

    With `strict`, nearly all of the regions must agree: where keypoints chose them, they fit better
    than chance by themselves.
    """
    small = min(in_a.size, in_b.size, key=lambda size: size[0] * size[1])
    factor = min(1.0, SIDE / max(small))
    size = (max(round(small[0] * factor), 8), max(round(small[1] * factor), 8))
    first, second = (cut(photo, part, size) for photo, part in ((a, in_a), (b, in_b)))
    detail = np.stack([_detail(first), _detail(second)])
    correlation, textured = _blocks(detail)
    grey = [np.asarray(one.convert("L"), np.float32) for one in (first, second)]
    difference, whole = _difference(*grey)
    count = int(textured.sum())
    share, equal = (
        float((correlation[textured] >= limit).mean()) if count else 0.0
        for limit in (_AGREE, _EQUAL)
    )
    if strict:
        same = share >= _STRICT and equal >= _STRICTLY
        # Small crops were scaled and encoded again: they agree everywhere, but not to the pixel.
        same |= share >= _EVERYWHERE and difference <= _LITTLE
    else:
        same = share >= _MOST or (share >= _MANY and equal >= _NEARLY * share)
    if count < _LEAST:
        same = whole >= _SMOOTH
    return Agreement(same, difference, _recoloured(first, second))


def cut(photo: Image.Image, region: Region, size: tuple[int, int]) -> Image.Image:
    """A region of a photo, at a size."""
    box = (
        max(region.left, 0.0),
        max(region.top, 0.0),
        min(region.right, float(photo.width)),
        min(region.bottom, float(photo.height)),
    )
    return photo.resize(size, Image.Resampling.LANCZOS, box=box)


def tiles(values: npt.NDArray[Any], high: int, wide: int) -> npt.NDArray[Any]:
    """The pixels (n, high · wide) of each tile of a picture; what is left over is left out."""
    down, across = values.shape[0] // high, values.shape[1] // wide
    whole = values[: down * high, : across * wide].reshape(down, high, across, wide)
    return whole.transpose(0, 2, 1, 3).reshape(down * across, -1)


def _detail(photo: Image.Image) -> Floats:
    grey = photo.convert("L")
    smooth = grey.filter(ImageFilter.GaussianBlur(_BLUR))
    return np.asarray(grey, np.float32) - np.asarray(smooth, np.float32)


def _blocks(detail: Floats) -> tuple[Floats, Flags]:
    """Correlation of each of 8×8 blocks of two pictures (2, h, w), and which have any detail."""
    _, height, width = detail.shape
    rows, columns = (np.linspace(0, side, _BLOCKS + 1).astype(int)[:-1] for side in (height, width))

    def total(values: Floats) -> Floats:
        return np.add.reduceat(np.add.reduceat(values, rows, axis=0), columns, axis=1)

    a, b = detail
    count = total(np.ones_like(a))
    ab, aa, bb = (total(x * y) / count for x, y in ((a, b), (a, a), (b, b)))
    correlation = (ab / np.sqrt(np.maximum(aa * bb, 1e-6))).astype(np.float32)
    textured: Flags = np.maximum(aa, bb) > _FLAT**2
    return correlation, textured


def _difference(a: Floats, b: Floats) -> tuple[float, float]:
    """Mean difference once b is as bright and as rich in contrast as a, and their correlation."""
    x, y = a - a.mean(), b - b.mean()
    deviation = float(np.sqrt((x * x).mean() * (y * y).mean()))
    correlation = float((x * y).mean()) / deviation if deviation > 1e-3 else 1.0
    gain = float((x * y).mean()) / max(float((y * y).mean()), 1e-6)
    return float(np.abs(x - gain * y).mean()) / 255, correlation


def _recoloured(a: Image.Image, b: Image.Image) -> bool:
    """Whether the mean or the deviation of a channel differs by more than re-encoding explains."""
    x, y = (np.asarray(one, np.float32).reshape(-1, 3) for one in (a, b))
    means = np.abs(x.mean(axis=0) - y.mean(axis=0)).max()
    spread = np.abs(x.std(axis=0) - y.std(axis=0)).max()
    return bool(max(means, spread) > 5)


_ONE_GREY = 3  # deviation that encoding makes around the edges of a picture


def surroundings(photo: Image.Image, inside: Region) -> Literal["frame", "plain", "picture"]:
    """What lies around a region of a photo: a frame, more of the picture, or either.

    A frame is mostly smooth, and most of its border with the picture is a sharp edge: pixels
    change there, and hardly outside it. With a weak edge, or of a single grey without any, it may
    be a frame or a sky.
    """
    grey = np.asarray(photo.convert("L"), np.float32)
    left, top = (round(max(edge, 0.0)) for edge in inside[:2])
    right, bottom = (
        round(min(edge, side)) for edge, side in zip(inside[2:], photo.size, strict=True)
    )
    steps = np.maximum(
        np.abs(np.diff(grey, axis=0, append=grey[-1:])),
        np.abs(np.diff(grey, axis=1, append=grey[:, -1:])),
    )
    around = np.ones(grey.shape, bool)
    around[max(top - 2, 0) : bottom + 2, max(left - 2, 0) : right + 2] = False
    if not around.any():
        return "frame"
    across, sharp = [], []  # how far pixels change over each edge; whether hardly outside it
    for line, out, turned in ((left, -1, 1), (right, 1, 1), (top, -1, 0), (bottom, 1, 0)):
        lines = grey.T if turned else grey
        near, far = (top, bottom) if turned else (left, right)
        if 3 <= line < len(lines) - 3:
            at = (line - (out > 0)) + out * np.array([-2, 3, 5])  # inside, outside, further out
            one, two, three = lines[at.clip(0, len(lines) - 1), near:far]
            across.append(float(np.abs(one - two).mean()))
            sharp.append(across[-1] > 3 * float(np.abs(two - three).mean()) + 2)
    if (steps[around] < 6).mean() <= 0.8:
        return "picture"
    if np.mean(sharp or [False]) <= 0.5:
        return "plain" if grey[around].std() < _ONE_GREY else "picture"
    return "frame" if np.mean(across) > 12 else "plain"
