"""Whether a small picture may show a part of another: each is laid over many windows of it.

This costs a millisecond a photo and no file is opened, so that local features need to be found
only for photos that are likely to be crops of each other, or framed.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

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


def part_scores(picture: npt.NDArray[np.uint8], rows: Floats) -> Floats:
    """How well other pictures, (n, 64) by `patterns`, fit a window of this one: (n,), -1 to 1."""
    cut = windows(picture)
    plain, mirror = (cut @ some.T for some in (rows, mirrored(rows)))
    best: Floats = np.maximum(plain.max(axis=0), mirror.max(axis=0))
    return best


def _normal(cells: Floats) -> Floats:
    rows = cells.reshape(len(cells), -1)
    rows = rows - rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > rows.shape[1] ** 0.5, rows / np.maximum(norms, 1e-6), 0)


@cache
def _grids(side: int) -> list[tuple[Floats, Floats]]:
    """For every size of a window, what makes its rows and its columns of cells."""
    grids = []
    for size in _SIDES:
        for shape in _SHAPES if size > _DEEPEST else _SHAPES[:1]:
            wide, high = size * shape**0.5, size / shape**0.5
            if max(wide, high) <= 1:
                counts = [int(np.ceil((1 - one) / (_STEP * size))) + 1 for one in (high, wide)]
                down, across = zip((high, wide), counts, strict=True)
                grids.append((_places(*down, side), _places(*across, side)))
    return grids


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
