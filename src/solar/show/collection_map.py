"""A 2-D map of a collection, similar photos close together, and its picture.

Vectors are reduced to 50 numbers by PCA and to two by t-SNE. t-SNE arranges only a sample of a
large collection; other photos are placed between the most similar photos of the sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images import Source, load
from solar.index import PhotoIndex
from solar.local.cache import own_folder
from solar.records import Records
from solar.show.colours import PAPER
from solar.show.tsne import tsne

Method: TypeAlias = Literal["tsne", "pca"]

CACHE = "map"
"""The file with the map of an index in a folder, in its `local/`."""

LANDMARKS = 3000
"""How many photos t-SNE arranges at most: about 20 s on one core."""

_FEWEST = 12  # fewer have no neighbourhoods to keep
_COMPONENTS = 50
_NEIGHBOURS = 5
_ROWS = 4096

_MOST = 40  # cells per side of the picture at most
_EACH = 4  # photos for each cell that may look for a free one nearby, if there are few
_REACH = 2.0  # how many cells they may be moved
_EMPTY = (226, 226, 230)


@dataclass(frozen=True, eq=False)
class CollectionMap:
    """Where photos lie."""

    paths: tuple[str, ...]
    points: Vectors  # (n, 2) x to the right and y down, in 0..1
    method: Method


def choose_method(count: int) -> tuple[Method, str]:
    """The method for that many photos; and if it is not t-SNE, the reason."""
    if count < _FEWEST:
        return "pca", f"{count} photos are too few for t-SNE: the map shows two PCA components."
    return "tsne", ""


def arrange(
    pieces: Callable[[], Iterable[Vectors]], count: int, method: Method, *, seed: int = 0
) -> Vectors:
    """Arrange `count` vectors, (n, dim) in pieces, in the plane, reproducibly for a seed.

    Returns points (n, 2) in 0..1: the longer side fills the range, the shorter one is centred.
    """
    chance = np.random.default_rng(seed)
    chosen = np.sort(chance.permutation(count)[:LANDMARKS])
    sample = _pick(pieces(), chosen)
    if not len(sample):
        return np.empty((0, 2), np.float32)
    if not np.isfinite(sample).all():
        raise SolarError("A vector is not finite: describe its photo again.")
    mean = sample.mean(axis=0)
    axes = _axes(sample - mean, min(_COMPONENTS, *sample.shape), chance)
    reduced = (sample - mean) @ axes
    flat = _plane(reduced, seed) if method == "tsne" else _two(reduced)
    if count > len(sample):
        rows = ((piece - mean) @ axes for piece in pieces())
        flat = np.concatenate([_place(piece, reduced, flat) for piece in rows])
    return _unit(flat)


def map_index(index: PhotoIndex, *, seed: int = 0) -> CollectionMap:
    """Arrange all photos of an index; an index in a folder caches the map until photos change."""
    method = choose_method(len(index))[0]
    records, key = None, ""
    if (folder := own_folder(index.engine.folder)) is not None:
        records, key = Records(folder / CACHE), f"{index.info()['version']} {seed} {method}"
        with suppress(SolarError, ValueError):  # a damaged file
            if (kept := records.get(key)) is not None:
                names, _, rest = kept.partition(b"\n")
                points = np.frombuffer(rest, "<f4").reshape(-1, 2)
                return CollectionMap(tuple(json.loads(names)), points, method)
    paths: list[str] = []

    def pieces() -> Iterator[Vectors]:
        paths.clear()  # of two passes the last one counts
        for photos, vectors in index.batches(_ROWS):
            paths.extend(photo.path for photo in photos)
            yield vectors

    points = arrange(pieces, len(index), method, seed=seed)
    count = min(len(paths), len(points))  # a writer may have been at work
    found = CollectionMap(tuple(paths[:count]), points[:count], method)
    if records is not None:
        value = json.dumps(found.paths).encode() + b"\n" + found.points.astype("<f4").tobytes()
        with suppress(SolarError):  # an index that cannot be written to still gets its map
            records.keep([])
            records.put([(key, value)])
    return found


def draw_map(
    found: CollectionMap, find: Callable[[str], Source | None], *, side: int = 2000
) -> tuple[Image.Image, int]:
    """The picture of a map, with thumbnails on a grid, and how many photos there was room for."""
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
    """A row and column close to each point, x and y in 0..1; of all, if there is room."""
    scaled = np.asarray(points, np.float64) * columns
    cells = np.minimum(scaled.astype(int), columns - 1)
    away = np.abs(scaled - cells - 0.5).max(axis=1)
    plenty = 2 * len(points) <= columns**2
    order = np.argsort(away, kind="stable")
    # First the middlemost photo of each cell.
    _, first = np.unique((cells[:, 1] * columns + cells[:, 0])[order], return_index=True)
    others = np.delete(order, first)[: None if plenty else _EACH * columns**2]
    wanted = np.concatenate([order[first], others])
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


def _thumbnail(source: Source | None, side: int) -> Image.Image:
    with suppress(SolarError):
        if source is not None:
            photo = Image.fromarray(load(source, 4 * side, mode="fast").pixels)
            short = min(photo.size)
            left, top = (photo.width - short) // 2, (photo.height - short) // 2
            middle = (left, top, left + short, top + short)
            return photo.resize((side, side), Image.Resampling.LANCZOS, box=middle)
    return Image.new("RGB", (side, side), _EMPTY)


def _pick(pieces: Iterable[Vectors], rows: npt.NDArray[np.int64]) -> Vectors:
    found, start = [], 0
    for piece in pieces:
        here = rows[(rows >= start) & (rows < start + len(piece))] - start
        found.append(np.asarray(piece[here], np.float32))
        start += len(piece)
    return np.concatenate(found) if found else np.empty((0, 0), np.float32)


def _axes(centred: Vectors, components: int, chance: np.random.Generator) -> Vectors:
    """Main directions (dim, components) by subspace iteration, which no dimension makes slow."""
    axes = chance.standard_normal((centred.shape[1], components)).astype(np.float32)
    for _ in range(8):
        axes = np.linalg.qr(centred.T @ (centred @ axes))[0]
    # Turn them so that the first has the largest spread, and a sign does not depend on chance.
    _, _, turn = np.linalg.svd(centred @ axes, full_matrices=False)
    axes = axes @ turn.T
    signs = np.sign(np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0))
    return np.asarray(axes * np.where(signs == 0, 1, signs), np.float32)


def _plane(reduced: Vectors, seed: int) -> Vectors:
    start = _two(reduced)
    spread = float(start.std(axis=0).max())
    if not spread > 1e-6:  # photos that are all alike
        return start
    chance = np.random.default_rng(seed)
    jitter = 1e-2 * chance.standard_normal(start.shape)  # for copies, which would never part
    start = (1e-4 * (start / spread + jitter)).astype(np.float32)
    flat = tsne(reduced, start, min(30.0, (len(reduced) - 1) / 3))
    centred = flat - flat.mean(axis=0)
    # Turned so that the map is wider than it is high.
    return np.asarray(centred @ _axes(centred, 2, np.random.default_rng(0)), np.float32)


def _two(reduced: Vectors) -> Vectors:
    return np.pad(reduced[:, :2], ((0, 0), (0, max(0, 2 - reduced.shape[1]))))


def _place(rows: Vectors, landmarks: Vectors, points: Vectors) -> Vectors:
    """Places between those of the nearest landmarks; on a landmark where it is the same."""
    squares = (landmarks**2).sum(axis=1) - 2 * rows @ landmarks.T
    count = min(_NEIGHBOURS, len(landmarks))
    nearest = np.argpartition(squares, count - 1, axis=1)[:, :count]
    distance = np.linalg.norm(rows[:, None] - landmarks[nearest], axis=2)
    # Steep weights keep a photo with its most similar one, not in the empty middle of several.
    weight = (distance + 1e-6) ** -4.0
    weight /= weight.sum(axis=1, keepdims=True)
    return np.asarray((weight[..., None] * points[nearest]).sum(axis=1), np.float32)


def _unit(points: Vectors) -> Vectors:
    low, high = points.min(axis=0), points.max(axis=0)
    side = float((high - low).max())
    if side <= 0:
        return np.full_like(points, 0.5)
    unit = (points - (low + high) / 2) / side + 0.5
    return np.asarray(unit.clip(0, 1), np.float32)
