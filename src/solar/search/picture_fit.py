"""How well two small pictures agree once one lies over a window of the other, to a part of a pixel.

Nearly all pairs that look alike at first end here, before a photo is opened again or a keypoint
looked for. Thousands of pairs are fitted at a time.
"""

import numpy as np
import numpy.typing as npt

from solar.arrays import Floats, Pixels
from solar.search.picture_windows import window_boxes
from solar.search.symmetries import WAYS, WHOLE, best_way, laid

PART_FIT = 0.9
"""How well a part fits its window, at least."""

PART_BLOCKS = 0.5
"""And which share of its blocks agrees by itself."""

WHOLE_BLOCKS = 0.4
"""Of pictures of one photo, so many blocks agree: much may be written over the rest."""

_CELLS = 16  # windows are fitted as so many by so many cells
_STEPS = 4
_NUDGE = 0.02  # how far a window is moved to see what that changes, as a share of the side
_FARTHEST = 0.06  # in a step
_SIDES = (0.2, 1.05)
_PART_GRID, _WHOLE_GRID = 4, 8  # blocks in each direction
_PART_ALIKE, _WHOLE_ALIKE = 0.8, 0.7  # correlation of a block
_FLAT = 3.0  # grey levels
_LEAST = 4  # blocks that are not flat; pictures with fewer may be anything


def are_parts(
    wholes: Pixels,
    parts: Pixels,
    which: npt.NDArray[np.int64],
    mirror: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Which pictures (n, 32, 32) show a window of other pictures, which is known roughly.

    Args:
        wholes: Pictures (n, 32, 32).
        parts: What may be a part of each.
        which: The windows (n,), and
        mirror: whether the part is mirrored there (n,), both as `best_windows` gives them.
    """
    n, side = len(parts), parts.shape[-1]
    if not n:
        return np.zeros(0, bool)
    laid_over = parts.astype(np.float32)
    laid_over[mirror] = laid_over[mirror][..., ::-1]
    cells = laid_over.reshape(n, _CELLS, side // _CELLS, _CELLS, side // _CELLS).mean(axis=(2, 4))
    cut, fit = _fitted(wholes.astype(np.float32), cells, window_boxes()[which])
    alike: npt.NDArray[np.bool_] = (fit >= PART_FIT) & (
        _agreeing(cut, cells, _PART_GRID, _PART_ALIKE) >= PART_BLOCKS
    )
    return alike


def copy_ways(a: Pixels, b: Pixels) -> npt.NDArray[np.int8]:
    """How to lay small pictures b (n, 32, 32) on a to see the same; -1 where they differ."""
    ways, score = best_way(a, b)
    turned = b.astype(np.float32)
    for way in range(1, WAYS):
        turned[ways == way] = laid(turned[ways == way], way)
    shares = _agreeing(a.astype(np.float32), turned, _WHOLE_GRID, _WHOLE_ALIKE)
    alike = (score >= WHOLE) & (shares >= WHOLE_BLOCKS)
    return np.where(alike, ways, -1).astype(np.int8)


def _fitted(wholes: Floats, cells: Floats, boxes: Floats) -> tuple[Floats, Floats]:
    """What the best windows near the given ones show (n, 16, 16), and their correlations (n,).

    Least squares: how the cells change when the window moves or grows is seen by nudging it, and
    what is left after brightness and contrast is explained by that (Lucas and Kanade, 1981).
    """
    n = len(wholes)
    target = cells.reshape(n, -1)
    sizes = boxes[:, 2:].copy()
    centres: Floats = boxes[:, :2] + sizes / np.float32(2)
    best_cut, best = np.zeros_like(cells), np.full(n, -2.0, np.float32)
    for step in range(_STEPS + 1):
        across, down = (_lines(centres[:, axis], sizes[:, axis], wholes) for axis in (0, 1))
        rows = down @ wholes
        cut = (rows @ across.transpose(0, 2, 1)).astype(np.float32)
        fit = _correlation(cut.reshape(n, -1), target)
        better = fit > best
        best_cut[better], best[better] = cut[better], fit[better]
        if step == _STEPS:
            break
        columns = wholes @ across.transpose(0, 2, 1)
        changes: list[Floats] = []
        for axis in (0, 1):
            for move, grow in ((_NUDGE, 0.0), (0.0, _NUDGE)):
                lines = _lines(centres[:, axis] + move, sizes[:, axis] + grow, wholes)
                moved = rows @ lines.transpose(0, 2, 1) if axis == 0 else lines @ columns
                change = (moved - cut).reshape(n, -1) / np.float32(_NUDGE)
                changes.append(change.astype(np.float32))
        moves = _least_squares(cut.reshape(n, -1), changes, target)
        centres = centres + moves[:, 0::2]
        sizes = np.clip(sizes + moves[:, 1::2], *_SIDES)
    return best_cut, best


def _least_squares(cut: Floats, changes: list[Floats], target: Floats) -> Floats:
    """How far to move and grow (n, 4) so that a window, made brighter and richer, is the target."""
    columns = np.stack([cut, np.ones_like(cut), *changes], axis=2)
    normal = columns.transpose(0, 2, 1) @ columns
    size = np.trace(normal, axis1=1, axis2=2)[:, None, None] + 1
    normal = normal + np.eye(columns.shape[2], dtype=np.float32) * size * np.float32(1e-6)
    found = np.linalg.solve(normal, columns.transpose(0, 2, 1) @ target[:, :, None])[:, :, 0]
    contrast = np.where(np.abs(found[:, :1]) > 0.2, found[:, :1], 1)
    moves: Floats = np.clip(found[:, 2:] / contrast, -_FARTHEST, _FARTHEST).astype(np.float32)
    return moves


def _lines(centre: Floats, size: Floats, pictures: Floats) -> Floats:
    """(n, 16, side): the share of every pixel in each of the cells of a window."""
    side = pictures.shape[-1]
    steps = np.arange(_CELLS + 1, dtype=np.float32) / _CELLS - np.float32(0.5)
    edges = (centre[:, None] + size[:, None] * steps) * side
    pixels = np.arange(side, dtype=np.float32)
    low, high = edges[:, :-1, None], edges[:, 1:, None]
    share = np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, None)
    lines: Floats = (share / np.maximum(share.sum(axis=2, keepdims=True), 1e-6)).astype(np.float32)
    return lines


def _correlation(a: Floats, b: Floats) -> Floats:
    """Of the last axis of a with that of b."""
    x, y = (one - one.mean(axis=-1, keepdims=True) for one in (a, b))
    norms = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    products: Floats = np.einsum("...d,...d->...", x, y) / np.maximum(norms, 1e-6)
    return products


def _agreeing(a: Floats, b: Floats, grid: int, alike: float) -> Floats:
    """The share (n,) of blocks of pictures (n, side, side) that correlate; 1 if most are flat."""
    x, y = _blocks(a, grid), _blocks(b, grid)
    textured = np.maximum(x.std(axis=2), y.std(axis=2)) > _FLAT
    count = textured.sum(axis=1)
    same = ((_correlation(x, y) >= alike) & textured).sum(axis=1)
    shares: Floats = np.where(count < _LEAST, 1, same / np.maximum(count, 1)).astype(np.float32)
    return shares


def _blocks(pictures: Floats, grid: int) -> Floats:
    """(n, grid², pixels of a block)."""
    n, size = len(pictures), pictures.shape[-1] // grid
    parts = pictures.reshape(n, grid, size, grid, size).transpose(0, 1, 3, 2, 4)
    return parts.reshape(n, grid * grid, size * size)
