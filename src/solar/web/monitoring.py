"""Numbers about the running app, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """All numbers; those of an index have its name as a label."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()  # its own: a process may run several apps
        self._gauges: dict[str, Gauge] = {}
        labels = ["index", "method", "route", "status"]
        self._requests = Counter("solar_requests", "Requests answered.", labels, registry=registry)
        self._seconds = Histogram(
            "solar_request_seconds",
            "Time to answer a request.",
            ["index", "route"],
            registry=registry,
            buckets=SECONDS,
        )
        self._batches = Histogram(
            "solar_batch_size",
            "Queries that shared a forward pass.",
            registry=registry,
            buckets=SIZES,
        )
        self._runs = Histogram(
            "solar_network_seconds", "Time of a forward pass.", registry=registry, buckets=SECONDS
        )

    def request(self, index: str, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the pattern of its path, not the path."""
        known = method if method in ("GET", "POST", "HEAD") else "other"
        self._requests.labels(index, known, route, status).inc()
        self._seconds.labels(index, route).observe(seconds)

    def forward(self, queries: int, seconds: float) -> None:
        """Count a run of the network."""
        self._batches.observe(queries)
        self._runs.observe(seconds)

    def gauge(self, name: str, text: str, value: Callable[[], float], index: str = "") -> None:
        """Show a number of one index, or of the server; `value` is called at every scrape."""
        if name not in self._gauges:
            labels = ["index"] if index else []
            self._gauges[name] = Gauge(name, text, labels, registry=self._registry)
        gauge = self._gauges[name]
        (gauge.labels(index) if index else gauge).set_function(value)

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self._registry)
