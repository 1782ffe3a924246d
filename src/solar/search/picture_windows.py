"""Whether a small picture may show a part of another: each is laid over many windows of it.

This costs a millisecond a photo and no file is opened, so that local features need to be found
only for photos that are likely to be crops of each other, or framed.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from solar.arrays import Floats

CELLS = 8
"""Windows are compared as so many by so many cells."""

PART = 0.85
"""How well a small picture fits a window of another, at least, to be looked for there."""

_SIDES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)  # of a window, as a share of the picture's
_SHAPES = (1.0, 1.2, 1 / 1.2)  # a screenshot shows a photo in a picture of another shape
_DEEPEST = 0.45  # smaller windows are many: of one shape alone
_STEP = 0.1  # between windows, as a share of their side


def patterns(pictures: npt.NDArray[np.uint8]) -> Floats:
    """Whole pictures (n, side, side) as rows (n, 64) of mean 0 and norm 1."""
    lines = _lines(0.0, 1.0, pictures.shape[-1])
    return _normal(lines @ pictures.astype(np.float32) @ lines.T)


def mirrored(rows: Floats) -> Floats:
    """The rows of `patterns` as if the pictures were mirrored."""
    return rows.reshape(-1, CELLS, CELLS)[:, :, ::-1].reshape(rows.shape)


def windows(picture: npt.NDArray[np.uint8]) -> Floats:
    """All windows of a picture (side, side) as rows (m, 64) like those of `patterns`."""
    whole = picture.astype(np.float32)
    found = []
    for down, across in _grids(picture.shape[-1]):
        part = down.reshape(-1, down.shape[-1]) @ whole @ across.reshape(-1, across.shape[-1]).T
        cut = part.reshape(len(down), CELLS, len(across), CELLS).transpose(0, 2, 1, 3)
        found.append(cut.reshape(-1, CELLS, CELLS))
    return _normal(np.concatenate(found))


def best_windows(
    picture: npt.NDArray[np.uint8], rows: Floats
) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Where other pictures, (n, 64) by `patterns`, fit a window of this one best.

    Returns:
        How well (n,), -1 to 1; which window (n,), see `window_boxes`; and whether mirrored.
    """
    cut = windows(picture)
    both = (np.concatenate([rows, mirrored(rows)]) @ cut.T).reshape(2, len(rows), -1)
    which = both.argmax(axis=2)
    scores: Floats = np.take_along_axis(both, which[:, :, None], axis=2)[:, :, 0]
    mirror = scores[1] > scores[0]
    return scores.max(axis=0), np.where(mirror, which[1], which[0]), mirror


@cache
def window_boxes() -> Floats:
    """Left, top, width and height (m, 4) of all windows, as shares of the picture."""
    boxes = [
        (left, top, wide, high)
        for wide, high, down, across in _sizes()
        for top in np.linspace(0, 1 - high, down)
        for left in np.linspace(0, 1 - wide, across)
    ]
    return np.array(boxes, np.float32)


def _normal(cells: Floats) -> Floats:
    rows = cells.reshape(len(cells), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > rows.shape[1] ** 0.5, rows / np.maximum(norms, 1e-6), 0)


@cache
def _grids(side: int) -> list[tuple[Floats, Floats]]:
    """For every size of a window, what makes its rows and its columns of cells."""
    return [
        (_places(high, down, side), _places(wide, across, side))
        for wide, high, down, across in _sizes()
    ]


@cache
def _sizes() -> list[tuple[float, float, int, int]]:
    """Width and height of windows, and how many there are one below and one beside the other."""
    sizes = []
    for size in _SIDES:
        for shape in _SHAPES if size > _DEEPEST else _SHAPES[:1]:
            wide, high = size * shape**0.5, size / shape**0.5
            if max(wide, high) <= 1:
                steps = (np.ceil((1 - one) / (_STEP * size)) for one in (high, wide))
                sizes.append((wide, high, *(int(one) + 1 for one in steps)))
    return sizes


def _places(size: float, count: int, side: int) -> Floats:
    return np.stack([_lines(at, size, side) for at in np.linspace(0, 1 - size, count)])


def _lines(at: float, size: float, side: int) -> Floats:
    """(8, side): the share of every pixel in each of the cells from `at` on."""
    edges = (at + size * np.arange(CELLS + 1) / CELLS) * side
    pixels = np.arange(side)
    low, high = edges[:-1, None], edges[1:, None]
    share = np.clip(np.minimum(high, pixels + 1) - np.maximum(low, pixels), 0, None)
    lines: Floats = (share / share.sum(axis=1, keepdims=True)).astype(np.float32)
    return lines
