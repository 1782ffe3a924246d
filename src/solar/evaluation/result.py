"""Evaluation results: every measure of every query, and their means."""

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
        protocols: Protocol to measure (`AP`, `P@1`, `recall@1`, …) to a number per query, from 0 to
            1, NaN where the query has no positive. A set without protocols has the one `all`. The
            first measure is the one to compare models by.
        failures: Photos that could not be read and were left out, and why.
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
        """Means in percent, as JSON: `{"easy": {"mAP": …, "mP@1": …}, …}`.

        A set without protocols gives `{"mAP": …, …}` alone, and what is measured of parts of it
        beside that. A mean over no query is None.

        Args:
            per_query: Add `queries`, a list with each one's name and its own measures.
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
        """Write a line per query and protocol, in percent; an empty cell where nothing is right.

        Raises:
            SolarError: The file cannot be written.
        """
        names = list(next(iter(self.protocols.values())))
        with replacing(path) as part, part.open("w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(["query", "protocol", *names])
            for number, query in enumerate(self.queries):
                for protocol, table in self.protocols.items():
                    out.writerow([query, protocol, *(_percent(table[n][number]) for n in names)])

    @classmethod
    def read_csv(cls, path: str | Path) -> "Evaluation":
        """Read what `write_csv` has written.

        Raises:
            SolarError: The file cannot be read, or holds something else.
        """
        signs = (KeyError, IndexError, TypeError, ValueError, csv.Error)
        with reading(path, "is not what `Evaluation.write_csv` writes", *signs):
            with Path(path).open(encoding="utf-8", newline="") as file:
                lines = list(csv.DictReader(file))
            protocols = dict.fromkeys(line["protocol"] for line in lines)
            names = [name for name in lines[0] if name not in ("query", "protocol")]
            found = {
                protocol: {
                    name: np.array([_share(x[name]) for x in lines if x["protocol"] == protocol])
                    for name in names
                }
                for protocol in protocols
            }
            first = next(iter(protocols))
            queries = tuple(line["query"] for line in lines if line["protocol"] == first)
        if any(len(v) != len(queries) for table in found.values() for v in table.values()):
            raise SolarError(f"{path} is cut short: write it again.")
        return cls(queries, found)


def _share(percent: str) -> float:
    return float(percent) / 100 if percent else float("nan")


def mean_name(measure: str) -> str:
    """What the mean of a measure is called: mAP, mP@10, recall@1."""
    return f"m{measure}" if measure.startswith(("AP", "P@")) else measure


def _percent(value: float) -> float | None:
    return None if value != value else 100 * float(value)
