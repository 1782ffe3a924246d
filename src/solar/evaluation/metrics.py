"""Average precision, precision and recall from the ranks of the positives.

Every function takes the 0-based ranks of one query's positives as `without_junk` returns them:
ascending, in a list without junk. Averages also take several queries with as many positives each.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from solar.arrays import Doubles, Ints
from solar.errors import SolarError

CUTS = (1, 5, 10)  # where precision and recall are published


def without_junk(positives: npt.ArrayLike, junk: npt.ArrayLike) -> Ints:
    """Sort the positives' ranks and lower each by the number of junk items ranked before it.

    All are 0-based ranks in the whole list, in any order; junk neither helps nor hurts.
    """
    ranks = np.sort(np.asarray(positives, np.int64))
    return ranks - np.sort(np.asarray(junk, np.int64)).searchsorted(ranks)


def trapezoid(ranks: Ints) -> Doubles:
    """Area under precision over recall by the trapezoid rule: the published average precision.

    Positives at ranks 0 and 2 give (1 + 1) / 4 + (1/2 + 2/3) / 4 = 0.791667. Shape: (…, n) to (…).
    """
    found = np.arange(ranks.shape[-1])
    # Precision just before the j-th positive; before anything is listed it counts as perfect.
    before = np.where(ranks > 0, found / np.maximum(ranks, 1), 1.0)
    return np.asarray((before + (found + 1) / (ranks + 1)).mean(axis=-1) / 2)


def finite(ranks: Ints) -> Doubles:
    """Mean precision at the positives, as scikit-learn has it: 0.833333 for ranks 0 and 2."""
    return np.asarray((np.arange(1, ranks.shape[-1] + 1) / (ranks + 1)).mean(axis=-1))


AVERAGES: dict[str, Callable[[Ints], Doubles]] = {"trapezoid": trapezoid, "finite": finite}

AP_CONVENTIONS = {
    "trapezoid": "area under precision over recall by the trapezoid rule, as published",
    "finite": "mean of the precisions at the right answers",
}
"""What each average is, for the line beside the numbers."""


def average_precision(ranks: Ints, average: str = "trapezoid") -> float:
    """Average precision of one query with at least one positive, by one of `AVERAGES`."""
    if average not in AVERAGES:
        raise SolarError(f"There is no average {average!r}: choose {' or '.join(AVERAGES)}.")
    return float(AVERAGES[average](ranks))


def average_precision_at(ranks: Ints, k: int) -> float:
    """Sum of the precisions at the positives among the first k, divided by min(k, positives)."""
    listed = ranks[ranks < k]
    return float((np.arange(1, len(listed) + 1) / (listed + 1)).sum()) / min(k, len(ranks))


def precision_at(ranks: Ints, k: int) -> float:
    """Share of positives among the first k, in the published form.

    A query whose last positive comes before place k is measured at that positive instead.
    """
    places = min(int(ranks[-1]) + 1, k)
    return int(ranks.searchsorted(places)) / places


def recall_at(ranks: Ints, k: int) -> float:
    """1.0 if a positive is among the first k, else 0.0."""
    return float(ranks[0] < k)


def mean(values: Sequence[float] | Doubles) -> float:
    """Mean of the numbers that are not NaN (queries with an answer); NaN if there is none."""
    known = np.asarray(values, np.float64)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else float("nan")


def measure(
    ranks: Sequence[Ints],
    *,
    average: str = "trapezoid",
    recall: Sequence[int] = (),
) -> dict[str, Doubles]:
    """`AP`, `P@k` and, for the k given, `recall@k`: a number per query, NaN without positives."""
    measures: dict[str, Callable[[Ints], float]] = {
        "AP": partial(average_precision, average=average),
        **{f"P@{k}": partial(precision_at, k=k) for k in CUTS},
        **{f"recall@{k}": partial(recall_at, k=k) for k in recall},
    }
    return {
        name: np.array([of(own) if len(own) else np.nan for own in ranks], np.float64)
        for name, of in measures.items()
    }


# Pairs of patches.

CONVENTIONS = ("hardnet", "hynet")
"""`hardnet`, as the literature reports it: negatives before the positive that makes it 95 %.
`hynet`: negatives up to the distance of the positive after that one."""

RECALL = 0.95


def fpr95(distances: npt.ArrayLike, same: npt.ArrayLike, convention: str = "hardnet") -> float:
    """False positive rate at 95 % recall, from (n,) distances and (n,) whether both are one point.

    The conventions differ by at most one positive. At equal distances the negative comes first, so
    the order of the pairs does not matter.
    """
    apart, positive = np.asarray(distances), np.asarray(same).astype(bool)
    if convention not in CONVENTIONS:
        raise SolarError(f"There is no convention {convention!r}: choose hardnet or hynet.")
    if positive.all() or not positive.any():
        raise SolarError("FPR95 needs pairs of the same point and pairs of different ones.")
    near, far = np.sort(apart[positive]), np.sort(apart[~positive])
    needed = int(np.ceil(RECALL * len(near)))
    place = needed - 1 if convention == "hardnet" else min(needed, len(near) - 1)
    return int(far.searchsorted(near[place], "right")) / len(far)
