"""The map of a collection as a picture: thumbnails close to where their photos lie, none hidden."""

from collections.abc import Callable
from contextlib import suppress
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import Source, load
from solar.show.collection_map import CollectionMap
from solar.show.colours import PAPER

_MOST = 40  # cells a side, where there are more photos than can be shown
_EACH = 4  # photos that may try for a place in a full neighbourhood
_REACH = 2.0  # how many cells they may be moved
_EMPTY = (226, 226, 230)


def draw_map(
    found: CollectionMap, find: Callable[[str], Source | None], *, side: int = 2000
) -> tuple[Image.Image, int]:
    """Draw a map with thumbnails on a grid, `side` pixels wide and at most as high.

    Photos come from `find`, as `solar.show.search_page.photo_finder` makes it; one that is not
    there any more becomes a grey square. Returns the picture, cut to what is on it, and how many
    photos it shows: all where there is room, otherwise a few of every region.
    """
    columns = min(max(ceil(sqrt(2.5 * len(found.paths))), 1), _MOST)
    places = grid_places(found.points, columns)
    taken = np.array(list(places.values()) or [(0, 0)])
    first, (rows, across) = taken.min(axis=0), np.ptp(taken, axis=0) + 1
    cell = side // columns
    gap = max(1, cell // 24)
    picture = Image.new("RGB", (int(across) * cell + gap, int(rows) * cell + gap), PAPER)
    for photo, place in places.items():
        row, column = (np.array(place) - first).tolist()
        thumbnail = _thumbnail(find(found.paths[photo]), cell - gap)
        picture.paste(thumbnail, (column * cell + gap, row * cell + gap))
    return picture, len(places)


def grid_places(points: Vectors, columns: int) -> dict[int, tuple[int, int]]:
    """Give points, x and y in 0..1, a row and column of their own each, close to where they are.

    Every point has a cell if there are twice as many; otherwise those that find one in their
    neighbourhood, at most one a cell. They are named by their number.
    """
    scaled = np.asarray(points, np.float64) * columns
    cells = np.minimum(scaled.astype(int), columns - 1)
    away = np.abs(scaled - cells - 0.5).max(axis=1)
    rank = _rank_within(cells[:, 1] * columns + cells[:, 0], away)
    plenty = 2 * len(points) <= columns**2
    wanted = np.lexsort((away, rank))
    if not plenty:
        wanted = wanted[rank[wanted] < _EACH]
    free = np.stack(np.divmod(np.arange(columns**2), columns), axis=1)
    places: dict[int, tuple[int, int]] = {}
    for number in wanted.tolist():
        if not len(free):
            break
        distance = np.hypot(*(free + 0.5 - scaled[number, ::-1]).T)
        best = int(distance.argmin())
        if plenty or distance[best] <= _REACH:
            places[number] = (int(free[best, 0]), int(free[best, 1]))
            free = np.delete(free, best, axis=0)
    return places


def _rank_within(
    groups: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    order = np.lexsort((values, groups))
    ordered = groups[order]
    first = np.searchsorted(ordered, ordered)
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - first
    return rank


def _thumbnail(source: Source | None, side: int) -> Image.Image:
    with suppress(SolarError):
        if source is not None:
            photo = Image.fromarray(load(source, 4 * side, mode="fast").pixels)
            short = min(photo.size)
            left, top = (photo.width - short) // 2, (photo.height - short) // 2
            middle = (left, top, left + short, top + short)
            return photo.resize((side, side), Image.Resampling.LANCZOS, box=middle)
    return Image.new("RGB", (side, side), _EMPTY)
