"""The eight ways to lay a picture on another: mirrored or not, and turned by quarters.

Way s turns a picture by (s % 4) quarters to the left, after mirroring it if s is 4 or more. With
small pictures all eight are cheap: no photo is decoded or described again. Candidates among
millions come from a vector that is the same for all eight, of the magnitudes of the lowest
frequencies: mirroring changes the signs of some, turning swaps their two directions.
"""

from functools import cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Doubles, Floats, Pixels

Number = TypeVar("Number", np.uint8, np.float32)

WAYS = 8
WORDS = (
    "",
    "turned by 90°",
    "turned by 180°",
    "turned by 90°",
    "mirrored",
    "mirrored and turned by 90°",
    "mirrored upside down",
    "mirrored and turned by 90°",
)

ALIKE = 8
"""Neighbours of each photo by its small picture."""

WHOLE = 0.7
"""Minimum correlation of the small pictures of whole photos laid over each other."""

_LOW = 8  # frequencies in each direction
SHAPE = _LOW * _LOW - 1
"""Length of the vector that is the same for all ways."""


def laid(pictures: npt.NDArray[Number], way: int) -> npt.NDArray[Number]:
    """Pictures (…, h, w) in one of the ways."""
    seen = pictures[..., ::-1] if way >= 4 else pictures
    return np.rot90(seen, way % 4, axes=(-2, -1))


def laid_photo(image: Image.Image, way: int) -> Image.Image:
    """A photo in one of the ways."""
    pixels = np.asarray(image)
    return Image.fromarray(np.rot90(pixels[:, ::-1] if way >= 4 else pixels, way % 4))


def opposite(way: int) -> int:
    """The way that undoes another: mirrors undo themselves."""
    return way if way >= 4 else -way % 4


def way_matrix(way: int) -> Doubles:
    """3×3: where laying a photo so moves its points, in coordinates whose sides count as 1."""
    matrix = np.eye(3)
    if way >= 4:
        matrix = np.array([[-1.0, 0, 1], [0, 1, 0], [0, 0, 1]])
    quarter = np.array([[0.0, 1, 0], [-1, 0, 1], [0, 0, 1]])  # to the left: right becomes up
    for _ in range(way % 4):
        matrix = quarter @ matrix
    return matrix


def normal(pictures: npt.NDArray[Any]) -> Floats:
    """Pictures (n, h, w) as rows (n, h w) of mean 0 and norm 1; flat ones are 0."""
    rows = pictures.reshape(len(pictures), -1).astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(norms > rows.shape[1] ** 0.5, rows / np.maximum(norms, 1e-6), 0)


def invariant(pictures: Pixels) -> Floats:
    """A vector (n, 63) of unit norm of every small picture (n, 32, 32), the same for all ways."""
    rows = normal(pictures).reshape(pictures.shape)
    waves = _waves(pictures.shape[-1])
    strength = np.abs(waves @ rows @ waves.T)
    other = strength.transpose(0, 2, 1)
    upper = np.triu(np.ones((_LOW, _LOW), bool))
    lower = np.triu(np.ones((_LOW, _LOW), bool), 1)
    upper[0, 0] = False
    both = [np.maximum(strength, other)[:, upper], np.minimum(strength, other)[:, lower]]
    # Without the root, the strongest few frequencies would decide alone.
    found: Floats = np.sqrt(np.concatenate(both, axis=1))
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
    return found


def best_way(a: Pixels, b: Pixels) -> tuple[npt.NDArray[np.int8], Floats]:
    """How to lay pictures b (n, 32, 32) on pictures a, and how well each fits then."""
    first = normal(a)
    fits = np.stack([along(first, normal(laid(b, way))) for way in range(WAYS)])
    return fits.argmax(axis=0).astype(np.int8), fits.max(axis=0)


def along(a: Floats, b: Floats) -> Floats:
    """The inner product of each row of a with that of b."""
    products: Floats = np.einsum("nd,nd->n", a, b)
    return products


@cache
def _waves(side: int) -> Floats:
    """The lowest cosine waves (8, side), each of unit norm."""
    steps = np.arange(side) + 0.5
    waves = np.cos(np.pi / side * np.arange(_LOW)[:, None] * steps)
    unit: Floats = (waves / np.linalg.norm(waves, axis=1, keepdims=True)).astype(np.float32)
    return unit
