"""The three tasks of HPatches on descriptors: matching, verification and retrieval.

Distances are Euclidean. Ranks are counted in chunks of distances instead of sorting the list of
every query; ties are broken as a stable sort of the published lists breaks them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles, Floats, Ints
from solar.datasets.patches.hpatches import IMAGES, NOISES, Items, Pairs
from solar.errors import SolarError
from solar.evaluation.metrics import finite, trapezoid

# Average precision of the published Python code, and the mean precision at the hits of its MATLAB
# code, which the article's retrieval figures are from. The two are not comparable.
AVERAGES: Mapping[str, Callable[[Ints], Doubles]] = {"trapezoid": trapezoid, "matlab": finite}

# How many patches a query is searched in, its own five among them.
POOLS = (100, 500, 1000, 5000, 10000, 15000, 20000)
POSITIVES_SHARE = 0.2  # positives a negative in imbalanced verification

# Pairs and queries compared at a time: the chunk of distances stays in the processor's cache.
_PAIRS, _QUERIES = 1024, 64


@dataclass(frozen=True, eq=False)
class Descriptors:
    """Descriptors of all strips."""

    names: tuple[str, ...]  # the sequences
    starts: npt.NDArray[np.int64]  # (sequences + 1,) where each one's rows start
    rows: Floats  # (16, n, d) float32: for each strip the rows of one sequence after the other
    # (n,) standard deviation of the reference patches, if they are known
    contrast: npt.NDArray[np.float32] | None = None

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Patches per strip of each sequence."""
        return np.diff(self.starts)

    def places(self, listed: Items | Pairs, what: str) -> Ints:
        """Where the patches of a list are in `rows`; a SolarError if one is not there."""
        known = {name: number for number, name in enumerate(self.names)}
        for name in listed.names:
            if name not in known:
                raise SolarError(f"The {what} name the sequence {name}, which is not there.")
        numbers = np.array([known[name] for name in listed.names], np.int64)[listed.sequence]
        if (listed.row >= self.counts[numbers]).any():
            raise SolarError(f"The {what} name patches beyond the end of a strip: check the set.")
        return self.starts[numbers] + listed.row


def match(reference: Floats, other: Floats, average: str = "trapezoid") -> tuple[float, float]:
    """Match every reference patch (n, d) to its nearest of another photo, (n, d) in the same order.

    Returns average precision of the matches sorted by distance, where points matched wrongly count
    as never found; and the share of right matches.
    """
    nearest = _nearest(reference, other)
    apart = reference.astype(np.float64) - other[nearest]
    order = np.argsort(np.einsum("nd,nd->n", apart, apart), kind="stable")
    hits = np.flatnonzero((nearest == np.arange(len(reference)))[order])
    return _average(hits, len(reference), average), len(hits) / len(reference)


def pair_distances(rows: Floats, left: Ints, right: Ints) -> Floats:
    """Squared distances of pairs of rows (n, d), named by their numbers."""
    found = np.empty(len(left), np.float32)
    for start in range(0, len(found), _PAIRS):
        part = slice(start, start + _PAIRS)
        apart = rows[left[part]] - rows[right[part]]
        found[part] = np.einsum("nd,nd->n", apart, apart)
    return found


def verify(positive: Floats, negative: Floats, average: str = "trapezoid") -> tuple[float, float]:
    """Tell pairs of one point from pairs of two by their distances; negatives win ties.

    Returns area under the ROC curve of all pairs (balanced), and average precision with the first
    positives, a fifth as many as negatives (imbalanced).
    """
    negatives = np.sort(negative)
    before = np.sort(positive).searchsorted(negatives, "left")
    area = before.sum(dtype=np.int64) / (len(positive) * len(negative))
    few = np.sort(positive[: max(1, int(POSITIVES_SHARE * len(negative)))])
    ranks = np.arange(len(few)) + negatives.searchsorted(few, "right")
    return float(area), _average(ranks, len(few), average)


def verification(
    data: Descriptors, pairs: Mapping[str, Pairs], average: str = "trapezoid"
) -> dict[str, dict[str, tuple[float, float]]]:
    """Noise to kind of negatives (`inter`, `intra`) to AUC and AP, as `verify` gives them."""
    places = {kind: data.places(own, "pairs") for kind, own in pairs.items()}
    flat = data.rows.reshape(-1, data.rows.shape[2])
    found = {}
    for number, noise in enumerate(NOISES):
        apart = {}
        for kind, own in pairs.items():
            strip = np.where(
                own.image == 0, 0, own.image + number * len(IMAGES)
            )  # 0: without noise
            left, right = (strip * data.rows.shape[1] + places[kind]).T
            apart[kind] = pair_distances(flat, left, right)
        positive = apart.pop("positive")
        found[noise] = {kind: verify(positive, d, average) for kind, d in apart.items()}
    return found


def retrieval(
    data: Descriptors,
    queries: Items,
    distractors: Items,
    average: str = "trapezoid",
    pools: Sequence[int] = POOLS,
) -> dict[str, dict[int, float]]:
    """Find the five other patches of a point among distractors from other sequences.

    A pool of patches to search in is the five and the first distractors of the list. Of pools that
    hold all distractors only the first is measured. Returns noise to size of the pool to mAP.
    """
    asking = data.places(queries, "queries")
    others = data.places(distractors, "distractors")
    homes = data.starts.searchsorted(others, "right") - 1
    database = data.rows[0, others].astype(np.float64)
    sums = np.zeros((len(NOISES), len(pools)))
    most = 0
    asked = data.starts.searchsorted(asking, "right") - 1
    for sequence in np.unique(asked):
        other = database[homes != sequence]
        most = max(most, len(other) + len(IMAGES))
        mine = asking[asked == sequence]
        for start in range(0, len(mine), _QUERIES):
            ranks = _positive_ranks(data.rows[:, mine[start : start + _QUERIES]], other, pools)
            sums += AVERAGES[average](ranks).sum(axis=-1)
    used = [k for number, k in enumerate(pools) if number == 0 or pools[number - 1] < most]
    means = sums / len(asking)
    return {
        noise: {k: float(means[number, place]) for place, k in enumerate(used)}
        for number, noise in enumerate(NOISES)
    }


def _positive_ranks(rows: Floats, database: Doubles, pools: Sequence[int]) -> Ints:
    """Ranks of the positives in every pool, (noises, pools, q, 5), ascending along the last axis.

    Rows are (16, q, d), queries and positives; the database is (m, d) distractors in the order of
    the list; pools ascend.
    """
    queries, positives = rows[0].astype(np.float64), rows[1:].astype(np.float64)
    # Squared distances without the query's own norm, which orders nothing.
    thresholds = np.einsum("sqd,sqd->sq", positives, positives)
    thresholds -= 2 * np.einsum("sqd,qd->sq", positives, queries)
    distances = np.einsum("md,md->m", database, database) - 2 * (queries @ database.T)
    edges = [0, *(max(0, min(k - len(IMAGES), len(database))) for k in pools)]
    nearer = np.empty((len(thresholds), len(pools), len(queries)), np.int64)
    for strip, threshold in enumerate(thresholds):
        # Counting a row at a time is twice as fast as along an axis.
        for query, closer in enumerate(distances < threshold[:, None]):
            nearer[strip, :, query] = [
                np.count_nonzero(closer[low:high]) for low, high in pairwise(edges)
            ]
    before = nearer.cumsum(axis=1).reshape(len(NOISES), len(IMAGES), len(pools), -1)
    # The j-th nearest positive also has the j nearer positives before it.
    return np.sort(np.moveaxis(before, 1, -1), axis=-1) + np.arange(len(IMAGES))


def _average(hits: Ints, positives: int, average: str) -> float:
    """Average precision where positives that are not among the hits are never found."""
    return float(AVERAGES[average](hits)) * len(hits) / positives if len(hits) else 0.0


def _nearest(left: Floats, right: Floats) -> Ints:
    """The nearest row of the right for each of the left, the first of equally near ones."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    apart = np.einsum("md,md->m", other, other) - 2 * (one @ other.T)
    return np.asarray(apart.argmin(1))
