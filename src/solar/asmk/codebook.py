"""Visual words by k-means, and the residuals of local descriptors summed per word.

Jégou et al., "Aggregating local descriptors into a compact image representation" (CVPR 2010). For
every visual word c, the residuals of the descriptors x that fall on it are summed:

    V(c) = Σ x − c

ASMK* compares their signs (`solar.asmk.kernel`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Floats, Ints
from solar.errors import SolarError
from solar.files import replacing

MOST_WORDS = 65536
LEAST_EACH, MOST_EACH = 16, 256
"""Descriptors per visual word: fewer say little, more change nothing."""

_ROUNDS = 10  # of k-means, as published
# With this many words or more, the nearest are searched for in an eighth of them, by lists.
_LISTED = 16384


@dataclass(frozen=True, eq=False)
class Codebook:
    """Visual words, and the local features that they were learned from."""

    words: Floats  # (k, d), the centres
    facts: dict[str, Any] = field(default_factory=dict)
    """What made the descriptors and the words: `local`, `fingerprint`, `seed`, …."""

    @property
    def dim(self) -> int:
        """Length of a descriptor."""
        return int(self.words.shape[1])

    @property
    def blocks(self) -> int:
        """How many numbers of 64 bits a signature takes."""
        return -(-self.dim // 64)

    def nearest(self, descriptors: Floats, count: int = 1) -> Ints:
        """The nearest words of descriptors (n, d): (n, count), the nearest first."""
        if descriptors.shape[1:] != (self.dim,):
            raise SolarError(
                f"The codebook needs descriptors of length {self.dim}, not an array of shape "
                f"{descriptors.shape}: choose the local features that it was trained on."
            )
        rows = np.ascontiguousarray(descriptors, np.float32)
        _, found = self._finder.search(rows, min(count, len(self.words)))
        # Lists that are nearly empty may hold fewer than asked for: the nearest fills in.
        nearest: Ints = np.where(found < 0, found[:, :1], found)
        return nearest

    @cached_property
    def _finder(self) -> Any:
        index = _word_finder(*self.words.shape)
        if not index.is_trained:
            index.train(self.words)
        index.add(self.words)
        return index

    def save(self, path: str | Path) -> None:
        """Write it to a .safetensors file."""
        from safetensors import SafetensorError
        from safetensors.numpy import save_file

        facts = {"codebook": json.dumps(self.facts, sort_keys=True)}
        with replacing(path) as temporary:
            try:
                save_file({"words": self.words}, temporary, facts)
            except SafetensorError as error:
                raise SolarError(f"{path} cannot be written: is the disk full?") from error

    @classmethod
    def read(cls, path: str | Path) -> Codebook:
        """Read a codebook; a SolarError if there is no such file, or it is not a codebook."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "np") as file:
                words, facts = file.get_tensor("words"), (file.metadata() or {})["codebook"]
            if words.ndim != 2 or not words.size or not np.isfinite(words).all():
                raise ValueError("no centres")
            return cls(np.ascontiguousarray(words, np.float32), json.loads(facts))
        except FileNotFoundError as error:
            raise SolarError(f"There is no codebook {path}.") from error
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            raise SolarError(
                f"{path} is not a codebook: choose an ASMK index or its codebook.safetensors."
            ) from error


def train_codebook(
    descriptors: Floats,
    words: int | None = None,
    *,
    seed: int = 0,
    facts: dict[str, Any] | None = None,
) -> Codebook:
    """Find visual words of descriptors (n, d) by k-means, the same ones with the same seed.

    By default as many as n allows, at most 65,536; a SolarError if n is too small. `facts` are
    stored with them, such as what made the descriptors.
    """
    n, dim = descriptors.shape
    if words is None:
        words = min(MOST_WORDS, n // LEAST_EACH)
    if words < 1 or n < words:
        raise SolarError(
            f"{n} local descriptors are too few for {max(words, 1)} visual words: train on more "
            "photos, or ask for fewer words."
        )
    faiss = import_module("faiss")
    clustering = faiss.Clustering(dim, words)
    clustering.niter, clustering.seed = _ROUNDS, seed
    clustering.min_points_per_centroid = 1  # a small collection is no reason for a warning
    clustering.update_index = True
    clustering.train(np.ascontiguousarray(descriptors, np.float32), _word_finder(words, dim))
    centres = faiss.vector_to_array(clustering.centroids).reshape(words, dim)
    return Codebook(centres, {**(facts or {}), "seed": seed, "descriptors": n})


def _word_finder(words: int, dim: int) -> Any:
    """A Faiss index for words: exact for a few, in lists for many."""
    faiss = import_module("faiss")
    if words < _LISTED:
        return faiss.IndexFlatL2(dim)
    lists = isqrt(words)
    index = faiss.index_factory(dim, f"IVF{lists},Flat")
    index.nprobe = max(1, lists // 8)
    index.cp.min_points_per_centroid = 1
    return index


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums of residuals per visual word of a photo."""

    words: NDArray[np.int32]  # (n,), ascending
    sums: Floats  # (n, d)


def sum_residuals(photos: Sequence[Floats], codebook: Codebook, assign: int = 1) -> list[Residuals]:
    """Sum the residuals of the descriptors (n, d) of photos, each of its nearest words, per word.

    The nearest `assign` words are looked up for all photos together, which is faster. A SolarError
    if the codebook is of descriptors of another length.
    """
    together = [descriptors for descriptors in photos if len(descriptors)]
    nearest = np.empty((0, assign), np.int64)
    if together:
        nearest = codebook.nearest(np.concatenate(together), assign)
    ends = np.cumsum([len(descriptors) for descriptors in photos])
    pairs = zip(photos, np.split(nearest, ends[:-1]), strict=True)
    return [_of_words(descriptors, words, codebook) for descriptors, words in pairs]


def _of_words(descriptors: Floats, nearest: Ints, codebook: Codebook) -> Residuals:
    """The sums of descriptors (n, d) whose nearest words are (n, assign)."""
    if not len(descriptors):
        return Residuals(np.empty(0, np.int32), np.empty((0, codebook.dim), np.float32))
    # A word that fills in for a missing one counts once.
    again = np.tril(nearest[:, :, None] == nearest[:, None], -1).any(axis=2)
    of, column = np.nonzero(~again)
    fallen = nearest[of, column]
    rows, order = (descriptors[of] - codebook.words[fallen]), np.argsort(fallen, kind="stable")
    distinct, starts = np.unique(fallen[order], return_index=True)
    return Residuals(distinct.astype(np.int32), np.add.reduceat(rows[order], starts, axis=0))
