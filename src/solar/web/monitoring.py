"""Numbers about the running app, in the text that Prometheus reads."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32)


class Histogram:
    """How often values fell below some bounds; one row a label."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self.name, self.text, self.bounds = name, text, bounds
        self._counts: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def add(self, value: float, labels: str = "") -> None:
        """Count a value."""
        counts = self._counts.setdefault(labels, [0] * (len(self.bounds) + 1))
        counts[bisect_left(self.bounds, value)] += 1
        self._sums[labels] += value  # type: ignore[assignment]

    def lines(self) -> Iterator[str]:
        """It as text."""
        yield from _heading(self.name, self.text, "histogram")
        for labels, counts in self._counts.items():
            comma = "," if labels else ""
            total = 0
            for bound, count in zip((*self.bounds, "+Inf"), counts, strict=True):
                total += count
                yield f'{self.name}_bucket{{{labels}{comma}le="{bound}"}} {total}'
            tail = f"{{{labels}}}" if labels else ""
            yield f"{self.name}_sum{tail} {self._sums[labels]:.6f}"
            yield f"{self.name}_count{tail} {total}"


class Metrics:
    """All that is counted; may be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._seconds = Histogram("solar_request_seconds", "Time to answer a request.", SECONDS)
        self._batches = Histogram("solar_batch_size", "Queries that shared a forward pass.", SIZES)
        self._runs = Histogram("solar_network_seconds", "Time of a forward pass.", SECONDS)
        self._gauges: dict[str, tuple[str, list[tuple[str, Callable[[], float]]]]] = {}

    def request(
        self, method: str, route: str, status: int, seconds: float, index: str = ""
    ) -> None:
        """Count an answered request; `route` is the pattern of its path, not the path.

        `index` names the one that was asked, where there are several.
        """
        of = f"{_of(index)}," if index else ""
        with self._lock:
            known = method if method in ("GET", "POST", "HEAD") else "other"
            self._requests[f'{of}method="{known}",route="{route}",status="{status}"'] += 1
            self._seconds.add(seconds, f'{of}route="{route}"')

    def forward(self, queries: int, seconds: float) -> None:
        """Count a run of the network."""
        with self._lock:
            self._batches.add(queries)
            self._runs.add(seconds)

    def gauge(self, name: str, text: str, value: Callable[[], float], index: str = "") -> None:
        """Show a number from now on, looked up when somebody asks; `index` as for `request`."""
        labels = f"{{{_of(index)}}}" if index else ""
        self._gauges.setdefault(name, (text, []))[1].append((labels, value))

    def text(self) -> str:
        """Everything, a number a line."""
        with self._lock:
            lines = [*_heading("solar_requests_total", "Requests answered.", "counter")]
            lines += [f"solar_requests_total{{{k}}} {n}" for k, n in self._requests.items()]
            for histogram in (self._seconds, self._batches, self._runs):
                lines += histogram.lines()
        for name, (text, values) in self._gauges.items():
            lines += _heading(name, text, "gauge")
            lines += [f"{name}{labels} {value():g}" for labels, value in values]
        return "\n".join(lines) + "\n"


def _of(index: str) -> str:
    """A label with the name of an index, which may hold any letters."""
    for letter, written in (("\\", r"\\"), ('"', r"\""), ("\n", r"\n")):
        index = index.replace(letter, written)
    return f'index="{index}"'


def _heading(name: str, text: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"
