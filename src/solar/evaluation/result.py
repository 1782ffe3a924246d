"""Evaluation results: measures of every query, their means, confidence intervals, a paired test."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from solar.arrays import Doubles
from solar.errors import SolarError
from solar.evaluation.metrics import mean
from solar.files import reading, replacing


@dataclass(frozen=True)
class Evaluation:
    """Measures of each query, by protocol.

    Attributes:
        queries: The queries' names.
        protocols: Protocol (`all` for a set without any) to measure (`AP`, `P@1`, `recall@1`, …) to
            a number per query, from 0 to 1, NaN where the query has no positive. The first measure
            is the one to compare models by.
        failures: Photos that could not be read, and why.
        convention: What was measured: crop, size and average precision, in a sentence.
    """

    queries: tuple[str, ...]
    protocols: Mapping[str, Mapping[str, Doubles]]
    failures: Mapping[str, str] = field(default_factory=dict)
    convention: str = ""

    @property
    def headline(self) -> str:
        """The measure to compare models by, such as `AP`."""
        return next(iter(next(iter(self.protocols.values()))))

    def mean(self, measure: str = "AP", protocol: str = "all") -> float:
        """Mean of a measure over the queries that have a positive, from 0 to 1."""
        return mean(self.protocols[protocol][measure])

    def to_dict(self, *, per_query: bool = False) -> dict[str, Any]:
        """Means in percent, as JSON: `{"easy": {"mAP": …, "mP@1": …}, …}`, None over no query.

        A set without protocols gives `{"mAP": …, …}`, then what is measured of parts of it. With
        `per_query`, `queries` lists each query's name and its own measures.
        """
        found: dict[str, Any] = {
            protocol: {mean_name(name): _percent(mean(values)) for name, values in table.items()}
            for protocol, table in self.protocols.items()
        }
        found = {**found.pop("all", {}), **found}
        if per_query:
            found["queries"] = [self._query(number) for number in range(len(self.queries))]
        return found

    def _query(self, number: int) -> dict[str, Any]:
        measured = {
            protocol: {name: _percent(values[number]) for name, values in table.items()}
            for protocol, table in self.protocols.items()
        }
        return {"query": self.queries[number], **measured.pop("all", {}), **measured}

    def write_csv(self, path: str | Path) -> None:
        """Write a line per query and protocol, in percent; an empty cell where nothing is right."""
        names = list(next(iter(self.protocols.values())))
        with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(["query", "protocol", *names])
            for number, query in enumerate(self.queries):
                for protocol, table in self.protocols.items():
                    out.writerow([query, protocol, *(_percent(table[n][number]) for n in names)])

    @classmethod
    def read_csv(cls, path: str | Path) -> "Evaluation":
        """Read what `write_csv` has written; a SolarError if the file is something else."""
        signs = (KeyError, IndexError, TypeError, ValueError, csv.Error)
        with reading(path, "is not what `Evaluation.write_csv` writes", *signs):
            with Path(path).open(encoding="utf-8", newline="") as file:
                lines = list(csv.DictReader(file))
            protocols = dict.fromkeys(line["protocol"] for line in lines)
            names = [name for name in lines[0] if name not in ("query", "protocol")]
            found = {
                protocol: {
                    name: np.array(
                        [float(x[name] or "nan") / 100 for x in lines if x["protocol"] == protocol]
                    )
                    for name in names
                }
                for protocol in protocols
            }
            first = next(iter(protocols))
            queries = tuple(line["query"] for line in lines if line["protocol"] == first)
        if any(len(v) != len(queries) for table in found.values() for v in table.values()):
            raise SolarError(f"{path} is cut short: write it again.")
        return cls(queries, found)


def mean_name(measure: str) -> str:
    """What the mean of a measure is called: mAP, mP@10, recall@1."""
    return f"m{measure}" if measure.startswith(("AP", "P@")) else measure


def _percent(value: float) -> float | None:
    return None if value != value else 100 * float(value)


RESAMPLES = 10_000
_AT_ONCE = 2**20  # numbers drawn


@dataclass(frozen=True)
class Comparison:
    """Two models on the same queries, from 0 to 1."""

    difference: float  # mean of the second less mean of the first
    low: float  # ends of the difference's confidence interval
    high: float
    p: float  # how often chance alone makes a difference at least this large


def interval(values: Doubles, *, confidence: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Bootstrap interval of a mean over queries: the central share `confidence` of resampled means.

    NaN, for a query that does not count, is left out; a SolarError if no query counts.
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
    and only their names exchanged (a paired permutation test, two-sided). A SolarError if the two
    are not about the same queries, or none counts.
    """
    if first.queries != second.queries or set(first.protocols) != set(second.protocols):
        raise SolarError("Only evaluations of the same queries and protocols can be compared.")
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
    """Sizes of batches of resamples, so that many queries do not take much memory."""
    most = max(1, _AT_ONCE // queries)
    return [min(most, RESAMPLES - start) for start in range(0, RESAMPLES, most)]


def _known(values: Doubles) -> Doubles:
    known = values[~np.isnan(values)]
    if not len(known):
        raise SolarError("There is no query with an answer to measure.")
    return known
