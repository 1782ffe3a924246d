"""Many vectors that lie as those of photos do, made of the descriptors of some thousand photos."""

import time
from pathlib import Path

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.images.sources import find_photos

SHARDS = ("landmarks/val-0.tar", "buildings/val-0.tar", "landmarks/distractors-0.tar")
SIZE = 224  # of photos, at one scale: a tenth of a second each
HELD_OUT = 300


def base_of(data: Path, model: str, cache: Path | None) -> Vectors:
    """Descriptors (n, d) of the photos in the shards below `data`, or those in the cache."""
    if cache and cache.exists():
        kept: Vectors = np.load(cache, allow_pickle=False)
        return kept
    from solar.models import retrieval_model

    network, start, rows = retrieval_model(model), time.perf_counter(), []
    for shard in SHARDS:
        photos = find_photos([data / shard])
        rows += [
            network.describe(photos.read(i), size=SIZE, scales=(1.0,)) for i in range(len(photos))
        ]
    if not rows:
        raise SolarError(f"There are no photos below {data}.")
    print(f"described {len(rows)} photos in {time.perf_counter() - start:.0f} s", flush=True)
    vectors = np.concatenate(rows)
    if cache:
        np.save(cache, vectors)
    return vectors


def clustered(base: Vectors, rows: int) -> tuple[Vectors, Vectors]:
    """Rows (rows, d) around descriptors of photos, and queries that are held-out photos.

    Each row is a photo's descriptor plus up to 0.8 times the difference of two others', so that
    noise has the directions in which photos differ, and clusters have members near and far.
    """
    dice = np.random.default_rng(0)
    shuffled = dice.permutation(base)
    queries, centres = shuffled[:HELD_OUT], shuffled[HELD_OUT:]
    own, one, other = dice.integers(0, len(centres), (3, rows))
    share = dice.uniform(0, 0.8, (rows, 1)).astype(np.float32)
    vectors = np.empty((rows, base.shape[1]), np.float32)
    for first in range(0, rows, 8192):
        part = slice(first, first + 8192)
        away = centres[one[part]] - centres[other[part]]
        vectors[part] = unit(centres[own[part]] + share[part] * away)
    return vectors, np.ascontiguousarray(queries)


def widened(vectors: Vectors, dim: int) -> Vectors:
    """Longer vectors, (n, dim), by a layer of random weights and tanh; unit rows."""
    weights = np.random.default_rng(1).standard_normal((vectors.shape[1], dim), dtype=np.float32)
    wide = np.empty((len(vectors), dim), np.float32)
    for first in range(0, len(vectors), 8192):
        part = slice(first, first + 8192)
        wide[part] = unit(np.tanh(2 * (vectors[part] @ weights)))
    return wide


def unit(vectors: Vectors) -> Vectors:
    """Rows of length one."""
    normalised: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normalised
