"""Whether two photos laid over each other are of one exposure: nothing in them has moved.

What is cut out of a photo fits it to a few hundredths of a pixel, block by block, however it was
encoded. In a second photo from the same spot the camera was turned a little or has another lens,
and people, clouds and leaves are elsewhere: blocks are off by half a pixel, and some by much more.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from solar.arrays import Doubles
from solar.near_duplicates.crop_fit import correlation
from solar.near_duplicates.pixel_compare import Region, cut, tiles

_SIDE = 384  # pixels of the longer side of what is compared
_BLOCKS, _LEAST = 8, 20  # in each direction, and their smallest side
_STEPS = 3
_BLUR = 1.0
_TEXTURED = 2000.0  # gradients of a block in its weaker direction, for its place to be known
_FEW = 3  # blocks
_CUT, _LAID = 0.12, 0.2  # pixels off, of most blocks: as a root mean square, and as a median
_STRONG, _OTHER = 12.0, 0.6  # deviation of a block in grey levels; correlation of another content


class Fit(NamedTuple):
    """How one photo lies on the other, block by block.

    Attributes:
        region: What the other shows, to a fraction of a pixel.
        cut_out: Whether nothing has moved between them.
        laid_over: Whether most has not moved; something may lie over the rest.
        changed: Whether a block shows something else.
    """

    region: Region
    cut_out: bool
    laid_over: bool
    changed: bool


def fit(a: Image.Image, b: Image.Image, in_a: Region, in_b: Region) -> Fit:
    """Compare regions of two RGB photos of the same orientation that should show the same.

    Each block is moved as Lucas and Kanade (1981) do; a mapping along the axes explains what the
    moves have in common, and what is left of them is what has moved.
    """
    small = min(in_a.size, in_b.size, key=lambda size: size[0] * size[1])
    factor = min(1.0, _SIDE / max(small))
    size = (max(round(small[0] * factor), 2 * _LEAST), max(round(small[1] * factor), 2 * _LEAST))
    first = cut(a, in_a, size).convert("L")
    region, left = in_b, np.zeros((1, 2))
    for step in range(_STEPS):
        second = cut(b, region, size).convert("L")
        places, moves, texture = _moves(first, second)
        weights = np.sqrt(texture / (texture + _TEXTURED / 2)) + 1e-3
        lines = [np.polyfit(places[:, axis], moves[:, axis], 1, w=weights) for axis in (0, 1)]
        along = [np.polyval(line, places[:, axis]) for axis, line in enumerate(lines)]
        left = moves - np.stack(along, axis=1)
        if step + 1 < _STEPS:
            region = _moved(region, lines, size)
    off = np.hypot(*left[texture > _TEXTURED].T)
    if not len(off):
        return Fit(region, cut_out=False, laid_over=True, changed=False)
    changed, few = _changed(first, second), len(off) < _FEW
    cut_out = not few and not changed and bool(np.sqrt((off * off).mean()) <= _CUT)
    return Fit(region, cut_out, few or bool(np.median(off) <= _LAID), changed)


def _moved(region: Region, lines: list[Doubles], size: tuple[int, int]) -> Region:
    moves = (
        float(np.polyval(lines[side % 2], size[side % 2] * (side > 1)))
        * region.size[side % 2]
        / size[side % 2]
        for side in range(4)
    )
    return Region(*(edge + move for edge, move in zip(region, moves, strict=True)))


def _moves(first: Image.Image, second: Image.Image) -> tuple[Doubles, Doubles, Doubles]:
    """Middles (n, 2) of blocks, how far each lies off in the second photo, and its texture (n,)."""
    x, y = (
        np.asarray(one.filter(ImageFilter.GaussianBlur(_BLUR)), np.float64)
        for one in (first, second)
    )
    columns = (y, np.ones_like(y), np.gradient(y, axis=1), np.gradient(y, axis=0))
    design = np.stack([_blocks(one) for one in columns], axis=2)
    products = design.transpose(0, 2, 1) @ design + np.eye(4) * 1e-3
    found = np.linalg.solve(products, design.transpose(0, 2, 1) @ _blocks(x)[:, :, None])[:, :, 0]
    contrast = np.where(np.abs(found[:, :1]) > 0.2, found[:, :1], 1)
    # What the gradients tell beyond brightness and contrast.
    level, mixed = products[:, :2, :2], products[:, :2, 2:]
    known = products[:, 2:, 2:] - mixed.transpose(0, 2, 1) @ np.linalg.solve(level, mixed)
    rows, steps = np.mgrid[: x.shape[0], : x.shape[1]]
    places = np.stack([_blocks(steps).mean(axis=1), _blocks(rows).mean(axis=1)], axis=1)
    return places, found[:, 2:] / contrast, np.linalg.eigvalsh(known)[:, 0]


def _changed(first: Image.Image, second: Image.Image) -> bool:
    x, y = (_blocks(np.asarray(one, np.float32)) for one in (first, second))
    deviation = np.maximum(x.std(axis=1), y.std(axis=1))
    return bool((correlation(x, y)[deviation > _STRONG] < _OTHER).any())


def _blocks(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The pixels (n, m) of each block of a picture."""
    return tiles(values, *(side // min(_BLOCKS, side // _LEAST) for side in values.shape))
