"""VLAD: the local descriptors of a photo, aggregated per visual word, whole or region by region.

Jégou et al., "Aggregating local descriptors into a compact image representation" (CVPR 2010). For
every visual word c, the residuals of the descriptors x that fall on it are summed:

    V(c) = Σ x − c

Teichmann et al., "Detect-to-Retrieve" (CVPR 2019), aggregate the regions r of a photo (the whole of
it, and boxes in it) one by one, so that a small object counts as much as what surrounds it:

    R = 1/#regions · Σ V_r / |V_r|,   the norm over all words; an empty region adds nothing

ASMK compares the rows of either, each of unit length; ASMK* their signs (`solar.asmk.kernel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solar.arrays import Floats
from solar.asmk.codebook import Codebook

# A shorter sum of residuals has no direction: its word is left out.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class Residuals:
    """Sums of residuals of the visual words that a photo has, or a region of it."""

    words: NDArray[np.int32]  # (n,), ascending
    sums: Floats  # (n, d)

    @property
    def norm(self) -> float:
        """Over all words."""
        return float(np.linalg.norm(self.sums))

    def directed(self) -> Residuals:
        """The words whose sums have a direction, as ASMK takes them."""
        kept = np.linalg.norm(self.sums, axis=1) > _LEAST
        return Residuals(self.words[kept], self.sums[kept])

    def unit_rows(self) -> Residuals:
        """The words whose sums have a direction, and that direction: what ASMK compares."""
        kept = self.directed()
        norms = np.linalg.norm(kept.sums, axis=1, keepdims=True)
        return Residuals(kept.words, kept.sums / norms)

    def dense(self, words: int) -> Floats:
        """One row for each of all visual words, (words, d), 0 for those that are not there."""
        rows = np.zeros((words, self.sums.shape[1]), np.float32)
        rows[self.words] = self.sums
        return rows


def sum_residuals(descriptors: Floats, codebook: Codebook, assign: int = 1) -> Residuals:
    """Sum the residuals of descriptors (n, d) word by word.

    Each descriptor falls on the nearest `assign` words. A SolarError if the codebook is of others.
    """
    [found] = sum_all_residuals([descriptors], codebook, assign)
    return found


def sum_all_residuals(
    photos: Sequence[Floats], codebook: Codebook, assign: int = 1
) -> list[Residuals]:
    """The same of each of some photos; the nearest words of all are looked up together."""
    together = [descriptors for descriptors in photos if len(descriptors)]
    if not together:
        return [_none(codebook) for _ in photos]
    nearest = codebook.nearest(np.concatenate(together), assign)
    own = np.split(nearest, np.cumsum([len(descriptors) for descriptors in photos])[:-1])
    return [_fallen(*pair, codebook) for pair in zip(photos, own, strict=True)]


def _none(codebook: Codebook) -> Residuals:
    return Residuals(np.empty(0, np.int32), np.empty((0, codebook.dim), np.float32))


def _fallen(descriptors: Floats, nearest: NDArray[np.int64], codebook: Codebook) -> Residuals:
    """The sums of descriptors (n, d) that fall on these words (n, assign)."""
    if not len(descriptors):
        return _none(codebook)
    # A word that fills in for a missing one counts once.
    again = np.tril(nearest[:, :, None] == nearest[:, None], -1).any(axis=2)
    of, column = np.nonzero(~again)
    fallen = nearest[of, column]
    return _summed(fallen.astype(np.int32), descriptors[of] - codebook.words[fallen])


def combine_regions(regions: Sequence[Residuals]) -> Residuals:
    """The mean of the regions of one photo, each of unit length; at least one region is needed."""
    parts = [(one, one.norm) for one in regions]
    words = np.concatenate([one.words for one, _ in parts])
    shares = [one.sums / (len(regions) * max(norm, 1e-12)) for one, norm in parts]
    return _summed(words, np.concatenate(shares).astype(np.float32, copy=False))


def vlad(descriptors: Floats, codebook: Codebook, assign: int = 1) -> Floats:
    """The VLAD descriptor of a photo's local descriptors (n, d): (words · d,), unit norm.

    It is 0 where there are none. A SolarError if the codebook is of others.
    """
    residuals = sum_residuals(descriptors, codebook, assign)
    return residuals.dense(len(codebook.words)).ravel() / np.float32(max(residuals.norm, 1e-12))


def _summed(words: NDArray[np.int32], rows: Floats) -> Residuals:
    """Rows of the same word, added up."""
    if not len(words):
        return Residuals(words, rows)
    order = np.argsort(words, kind="stable")
    distinct, starts = np.unique(words[order], return_index=True)
    return Residuals(distinct, np.add.reduceat(rows[order], starts, axis=0))
