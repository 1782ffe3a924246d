"""Which local features of a photo are kept: the strongest, each place once."""

from collections.abc import Sequence

import numpy as np

from solar.arrays import Floats, Ints

REACH = 145.0
"""Half the side of what a location of a ResNet's conv4 map sees, in pixels."""

OVERLAP = 0.98
"""Of two boxes whose intersection is a larger part of their union, the weaker goes."""

_FIRST, _LEAST = 260.0, 0.1  # thresholds of the strength
_WANTED = 1000


def strongest(strengths: Floats, count: int) -> Ints:
    """The `count` strongest rows, strongest first; of equal ones the earlier first."""
    return np.argsort(-strengths, kind="stable")[:count]


def above_threshold(strengths: Floats) -> Ints:
    """Rows above the first threshold of 260, 130, 65 … that a thousand pass; none is below 0.1.

    Where no threshold lets that many pass, those above the last: a small map has fewer.
    """
    threshold = _FIRST
    passing = np.flatnonzero(strengths > threshold)
    while len(passing) < _WANTED and threshold / 2 >= _LEAST:
        threshold /= 2
        passing = np.flatnonzero(strengths > threshold)
    return passing


def receptive_boxes(shape: tuple[int, ...], stride: float, scale: float = 1.0) -> Floats:
    """What each location of a map (h, w) sees, (h·w, 4): y0, x0, y1, x1 in pixels of the photo.

    The map is of the photo times `scale`; boxes reach beyond its border.
    """
    rows, columns = shape
    y, x = np.divmod(np.arange(rows * columns), columns)
    centres = stride * np.stack([y, x, y, x], axis=1)
    boxes: Floats = ((centres + REACH * np.array([-1, -1, 1, 1])) / scale).astype(np.float32)
    return boxes


def suppressed(
    boxes: Floats, strengths: Floats, *, overlap: float = OVERLAP, most: int = _WANTED
) -> Ints:
    """Of the `most` strongest, those that no stronger one covers, strongest first.

    Boxes are (n, 4): y0, x0, y1, x1. One is dropped if its intersection with one that is kept is
    more than `overlap` of their union.
    """
    left = strongest(strengths, most)
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while len(left):
        first, left = left[0], left[1:]
        kept.append(int(first))
        begin = np.maximum(boxes[left, :2], boxes[first, :2])
        end = np.minimum(boxes[left, 2:], boxes[first, 2:])
        shared = np.maximum(end - begin, 0).prod(axis=1)
        left = left[shared <= overlap * (area[left] + area[first] - shared)]
    return np.array(kept, np.int64)


def select(strengths: Sequence[Floats], boxes: Sequence[Floats], count: int) -> tuple[Ints, Ints]:
    """The scale, and the row of it, of each feature that DELF keeps of several scales.

    Every scale sends those above its own threshold; then the strongest of all are kept, no place
    twice.
    """
    passing = [above_threshold(one) for one in strengths]
    scales = np.repeat(np.arange(len(passing)), [len(rows) for rows in passing])
    rows = np.concatenate([np.empty(0, np.int64), *passing])
    all_boxes = np.concatenate([np.empty((0, 4), np.float32), *_taken(boxes, passing)])
    strength = np.concatenate([np.empty(0, np.float32), *_taken(strengths, passing)])
    kept = suppressed(all_boxes, strength, most=count)
    return scales[kept], rows[kept]


def _taken(arrays: Sequence[Floats], rows: Sequence[Ints]) -> list[Floats]:
    return [one[some] for one, some in zip(arrays, rows, strict=True)]
