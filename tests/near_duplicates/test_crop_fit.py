"""Small pictures laid over each other: parts and copies pass, what only looks alike does not."""

from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image
from support.warped import toy_photo

from solar.near_duplicates.crop_fit import are_parts, best_windows, copy_ways, patterns
from solar.near_duplicates.orientations import WAYS, laid

Pictures = npt.NDArray[np.uint8]
COUNT = 8


def small(photo: Image.Image) -> Pictures:
    return np.asarray(photo.convert("L").resize((32, 32), Image.Resampling.BOX))


@cache
def photos() -> list[Image.Image]:
    return [Image.fromarray(toy_photo(seed, (256, 192))) for seed in range(COUNT)]


def found(wholes: Pictures, parts: Pictures) -> list[bool]:
    """Whether each part is found in the whole of the same row, whatever the coarse score is."""
    best = [
        best_windows(whole, patterns(part[None])) for whole, part in zip(wholes, parts, strict=True)
    ]
    which, mirror = (np.concatenate([one[column] for one in best]) for column in (1, 2))
    return [bool(one) for one in are_parts(wholes, parts, which, mirror)]


def test_parts_are_found_and_others_are_not() -> None:
    whole = [small(one) for one in photos()]
    cut = [one.crop((31, 17, 31 + 170, 17 + 127)) for one in photos()]
    mirrored = [one.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for one in cut]
    for parts in (cut, mirrored):
        rows = np.stack([small(one) for one in parts])
        assert np.mean(found(np.stack(whole), rows)) > 0.8
        assert sum(found(np.stack(whole), np.roll(rows, 1, axis=0))) <= 1
    none = np.empty((0, 32, 32), np.uint8)
    assert not len(are_parts(none, none, np.empty(0, np.int64), np.empty(0, bool)))


def test_copies_lie_in_one_way_also_with_something_over_them() -> None:
    rows = np.stack([small(one) for one in photos()])
    ways = [number % WAYS for number in range(COUNT)]
    turned = np.stack([laid(row, way) for row, way in zip(rows, ways, strict=True)])
    back = copy_ways(rows, turned)
    for row, other, way in zip(rows, turned, back.tolist(), strict=True):
        assert np.array_equal(laid(other, way), row)
    covered = rows.copy()
    covered[:, 4:8, 6:20] = 128
    assert (copy_ways(rows, covered) == 0).all()
    assert (copy_ways(rows, np.roll(rows, 1, axis=0)) == -1).all()
