"""Is it noise? Confidence intervals of a mean over queries, and a paired test of two models."""

from dataclasses import dataclass

import numpy as np

from solar.arrays import Doubles
from solar.errors import SolarError
from solar.evaluation.result import Evaluation

RESAMPLES = 10_000
_AT_ONCE = 2**20  # numbers drawn


@dataclass(frozen=True)
class Comparison:
    """Two models on the same queries, from 0 to 1.

    Attributes:
        difference: Mean of the second less mean of the first.
        low: Lower end of the difference's confidence interval.
        high: Upper end.
        p: How often chance alone makes a difference at least this large.
    """

    difference: float
    low: float
    high: float
    p: float


def interval(values: Doubles, *, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Bootstrap interval of a mean: other queries from the same source would have given this.

    Args:
        values: One number per query; NaN, for a query that does not count, is left out.
        confidence: Share of resampled means inside.
        seed: The same gives the same interval.

    Raises:
        SolarError: No query counts.
    """
    known = _known(values)
    random = np.random.default_rng(seed)
    means = [
        known[random.integers(0, len(known), (some, len(known)))].mean(axis=1)
        for some in _portions(len(known))
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def compare(
    first: Evaluation,
    second: Evaluation,
    *,
    measure: str = "AP",
    protocol: str = "all",
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Test whether the second model is better or worse than the first, query by query.

    The test flips the sign of each query's difference at random, as if the models were the same
    and only their names exchanged (a paired permutation test, two-sided).

    Args:
        first: Its evaluation.
        second: The other's, on the same queries.
        measure: Such as `AP` or `P@10`.
        protocol: Such as `medium`; `all` for a set without protocols.
        confidence: Of the interval of the difference.
        seed: The same gives the same answer.

    Raises:
        SolarError: The two are not about the same queries, or none counts.
    """
    if first.queries != second.queries or set(first.protocols) != set(second.protocols):
        raise SolarError(
            "Two evaluations can only be compared on the same queries of the same set."
        )
    if measure not in first.protocols[protocol] or measure not in second.protocols[protocol]:
        raise SolarError(f"One of the two evaluations has no {measure}: measure it again.")
    apart = _known(second.protocols[protocol][measure] - first.protocols[protocol][measure])
    random = np.random.default_rng(seed)
    observed = abs(apart.mean())
    as_large = 0
    for some in _portions(len(apart)):
        signs = random.choice((-1.0, 1.0), (some, len(apart)))
        # Sums of the same numbers in another order differ in their last bits.
        as_large += int(np.count_nonzero(np.abs((signs * apart).mean(axis=1)) >= observed - 1e-12))
    low, high = interval(apart, confidence=confidence, seed=seed)
    # The observed order is one of the possible ones: p is never 0.
    return Comparison(float(apart.mean()), low, high, (as_large + 1) / (RESAMPLES + 1))


def _portions(queries: int) -> list[int]:
    """How many resamples to draw at a time, so that many queries do not take much memory."""
    most = max(1, _AT_ONCE // queries)
    return [min(most, RESAMPLES - start) for start in range(0, RESAMPLES, most)]


def _known(values: Doubles) -> Doubles:
    known = values[~np.isnan(values)]
    if not len(known):
        raise SolarError("There is no query with an answer to measure.")
    return known
