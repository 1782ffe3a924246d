"""Whether one small picture may show a part of another, or all of it.

Each is laid over many windows of the other, roughly first and to a part of a pixel then, thousands
of pairs at a time. Nearly all pairs that look alike at first are ruled out here, before a photo is
opened again or keypoints are detected.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from solar.arrays import Flags, Floats, Ints, Pixels
from solar.near_duplicates.orientations import WAYS, WHOLE, best_way, laid, normal

CELLS = 8
"""Windows are compared as 8 by 8 cells."""

PART = 0.85
"""How well a small picture fits a window of another, at least, to be looked for there."""

_WINDOW_SIDES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)  # of a window, as a share of the picture's
_SHAPES = (1.0, 1.2, 1 / 1.2)  # a screenshot shows a photo in a picture of another shape
_DEEPEST = 0.45  # smaller windows are many: of one shape alone
_STEP = 0.1  # between windows, as a share of their side

_PART_FIT = 0.9  # minimum correlation of a part with its window
_PART_BLOCKS = 0.5  # minimum share of its blocks that agree
_WHOLE_BLOCKS = 0.4  # the same for whole photos: much may be written over the rest
_CELLS = 16  # windows are fitted as 16 by 16 cells
_STEPS = 4
_NUDGE = 0.02  # how far a window is moved to see what that changes, as a share of the side
_FARTHEST = 0.06  # in a step
_SIDES = (0.2, 1.05)
_PART_GRID, _WHOLE_GRID = 4, 8  # blocks in each direction
_PART_ALIKE, _WHOLE_ALIKE = 0.8, 0.7  # correlation of a block
_FLAT = 3.0  # grey levels
_LEAST = 4  # blocks that are not flat; pictures with fewer may be anything


def are_parts(wholes: Pixels, parts: Pixels, which: Ints, mirror: Flags) -> Flags:
    """Which pictures (n, 32, 32) show a window of other pictures, which is known roughly.

    `which` window (n,) of each whole, and whether the part is mirrored there, as from
    `best_windows`.
    """
    n, side = len(parts), parts.shape[-1]
    if not n:
        return np.zeros(0, bool)
    laid_over = parts.astype(np.float32)
    laid_over[mirror] = laid_over[mirror][..., ::-1]
    cells = laid_over.reshape(n, _CELLS, side // _CELLS, _CELLS, side // _CELLS).mean(axis=(2, 4))
    cut, fit = _fitted(wholes.astype(np.float32), cells, _window_boxes()[which])
    return (fit >= _PART_FIT) & (_agreeing(cut, cells, _PART_GRID, _PART_ALIKE) >= _PART_BLOCKS)


def copy_ways(a: Pixels, b: Pixels) -> npt.NDArray[np.int8]:
    """How to lay small pictures b (n, 32, 32) on a to see the same; -1 where they differ."""
    ways, score = best_way(a, b)
    turned = b.astype(np.float32)
    for way in range(1, WAYS):
        turned[ways == way] = laid(turned[ways == way], way)
    shares = _agreeing(a.astype(np.float32), turned, _WHOLE_GRID, _WHOLE_ALIKE)
    alike = (score >= WHOLE) & (shares >= _WHOLE_BLOCKS)
    return np.where(alike, ways, -1).astype(np.int8)


def _fitted(wholes: Floats, cells: Floats, boxes: Floats) -> tuple[Floats, Floats]:
    """What the best windows near the given ones show (n, 16, 16), and their correlations (n,).

    Lucas and Kanade (1981): the change of the cells when the window moves or grows is measured by
    nudging it; least squares explain the difference by that, after brightness and contrast.
    """
    n, side = len(wholes), wholes.shape[-1]
    target = cells.reshape(n, -1)
    sizes = boxes[:, 2:].copy()
    centres: Floats = boxes[:, :2] + sizes / np.float32(2)
    best_cut, best = np.zeros_like(cells), np.full(n, -2.0, np.float32)
    for step in range(_STEPS + 1):
        across, down = (_lines(centres[:, axis], sizes[:, axis], side) for axis in (0, 1))
        rows = down @ wholes
        cut = (rows @ across.transpose(0, 2, 1)).astype(np.float32)
        fit = correlation(cut.reshape(n, -1), target)
        better = fit > best
        best_cut[better], best[better] = cut[better], fit[better]
        if step == _STEPS:
            break
        columns = wholes @ across.transpose(0, 2, 1)
        changes: list[Floats] = []
        for axis in (0, 1):
            for move, grow in ((_NUDGE, 0.0), (0.0, _NUDGE)):
                lines = _lines(centres[:, axis] + move, sizes[:, axis] + grow, side)
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
    return np.clip(found[:, 2:] / contrast, -_FARTHEST, _FARTHEST).astype(np.float32)


def _lines(centre: Floats, size: Floats, side: int) -> Floats:
    """(n, 16, side): the share of every pixel in each of the cells of windows."""
    steps = np.arange(_CELLS + 1, dtype=np.float32) / _CELLS - np.float32(0.5)
    return _shares((centre[:, None] + size[:, None] * steps) * side, side)


def _cell_lines(at: float, size: float, side: int) -> Floats:
    """(8, side): the share of every pixel in each of the cells from `at` on."""
    return _shares((at + size * np.arange(CELLS + 1) / CELLS) * side, side)


def _shares(edges: npt.NDArray[np.floating], side: int) -> Floats:
    """(…, n, side): the share of every pixel in each of the cells between edges (…, n + 1)."""
    pixels = np.arange(side, dtype=edges.dtype)
    low, high = edges[..., :-1, None], edges[..., 1:, None]
    share = np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, None)
    lines: Floats = (share / np.maximum(share.sum(axis=-1, keepdims=True), 1e-6)).astype(np.float32)
    return lines


def correlation(a: Floats, b: Floats) -> Floats:
    """The correlation (…,) of each row of a (…, n) with that of b."""
    x, y = (one - one.mean(axis=-1, keepdims=True) for one in (a, b))
    norms = np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1)
    products: Floats = np.einsum("...d,...d->...", x, y) / np.maximum(norms, 1e-6)
    return products


def _agreeing(a: Floats, b: Floats, grid: int, alike: float) -> Floats:
    """The share (n,) of blocks of pictures (n, side, side) that correlate; 1 if most are flat."""
    x, y = _blocks(a, grid), _blocks(b, grid)
    textured = np.maximum(x.std(axis=2), y.std(axis=2)) > _FLAT
    count = textured.sum(axis=1)
    same = ((correlation(x, y) >= alike) & textured).sum(axis=1)
    return np.where(count < _LEAST, 1, same / np.maximum(count, 1)).astype(np.float32)


def _blocks(pictures: Floats, grid: int) -> Floats:
    n, size = len(pictures), pictures.shape[-1] // grid
    parts = pictures.reshape(n, grid, size, grid, size).transpose(0, 1, 3, 2, 4)
    return parts.reshape(n, grid * grid, size * size)


def patterns(pictures: Pixels) -> Floats:
    """Whole pictures (n, side, side) as rows (n, 64) of mean 0 and norm 1."""
    lines = _cell_lines(0.0, 1.0, pictures.shape[-1])
    return normal(lines @ pictures.astype(np.float32) @ lines.T)


def _windows(picture: Pixels) -> Floats:
    """All windows of a picture (side, side) as rows (m, 64) like those of `patterns`."""
    whole = picture.astype(np.float32)
    found = []
    for down, across in _grids(picture.shape[-1]):
        part = down.reshape(-1, down.shape[-1]) @ whole @ across.reshape(-1, across.shape[-1]).T
        cut = part.reshape(len(down), CELLS, len(across), CELLS).transpose(0, 2, 1, 3)
        found.append(cut.reshape(-1, CELLS, CELLS))
    return normal(np.concatenate(found))


def best_windows(picture: Pixels, rows: Floats) -> tuple[Floats, Ints, Flags]:
    """Where other pictures, (n, 64) by `patterns`, fit a window of this one best.

    Returns the correlation (n,), the window (n,), see `_window_boxes`, and whether it is mirrored.
    """
    cut = _windows(picture)
    mirrored = rows.reshape(-1, CELLS, CELLS)[:, :, ::-1].reshape(rows.shape)
    both = (np.concatenate([rows, mirrored]) @ cut.T).reshape(2, len(rows), -1)
    which = both.argmax(axis=2)
    scores: Floats = np.take_along_axis(both, which[:, :, None], axis=2)[:, :, 0]
    mirror = scores[1] > scores[0]
    return scores.max(axis=0), np.where(mirror, which[1], which[0]), mirror


@cache
def _window_boxes() -> Floats:
    """Left, top, width and height (m, 4) of all windows, as shares of the picture."""
    boxes = [
        (left, top, wide, high)
        for wide, high, down, across in _sizes()
        for top in np.linspace(0, 1 - high, down)
        for left in np.linspace(0, 1 - wide, across)
    ]
    return np.array(boxes, np.float32)


@cache
def _grids(side: int) -> list[tuple[Floats, Floats]]:
    """Per window size, the matrices that make its rows and its columns of cells."""

    def lines(size: float, count: int) -> Floats:
        return np.stack([_cell_lines(at, size, side) for at in np.linspace(0, 1 - size, count)])

    return [(lines(high, down), lines(wide, across)) for wide, high, down, across in _sizes()]


@cache
def _sizes() -> list[tuple[float, float, int, int]]:
    """Width and height of windows, and their number in each column and row."""
    sizes = []
    for size in _WINDOW_SIDES:
        for shape in _SHAPES if size > _DEEPEST else _SHAPES[:1]:
            wide, high = size * shape**0.5, size / shape**0.5
            if max(wide, high) <= 1:
                steps = (np.ceil((1 - one) / (_STEP * size)) for one in (high, wide))
                sizes.append((wide, high, *(int(one) + 1 for one in steps)))
    return sizes
