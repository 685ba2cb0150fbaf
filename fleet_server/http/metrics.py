"""Numbers for a monitoring system, in a registry of the application's own."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from edge_runtime.clock import NS_PER_S

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0)

Gauges = Mapping[str, tuple[str, Mapping[tuple[tuple[str, str], ...], float]]]
"""Text and values by name; a value's key is its labels."""


class HttpMetrics:
    """Counts answers, and asks for the rest when somebody looks."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._answers = Counter(
            "fleet_http_answers",
            "Answers by route and status",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "fleet_http_seconds", "Duration of requests", ("route",), registry=self.registry, buckets=_BOUNDS
        )

    def count(self, method: str, route: str, status: int, took_ns: int) -> None:
        """One answer. `route` is the template, never the path: the number of series is bounded.

        Args:
            method: of HTTP; unknown ones count as `other`.
            route: template of the path.
            status: 0 when the client left before the answer.
            took_ns: from the head of the request to the end of the answer.
        """
        known = method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
        self._answers.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(took_ns / NS_PER_S)

    def observe(self, gauges: Callable[[], Gauges]) -> None:
        """Ask `gauges` at every scrape."""
        self.registry.register(_Gauges(gauges))

    def text(self) -> bytes:
        """Everything, in the text format of Prometheus."""
        return generate_latest(self.registry)


class _Gauges(Collector):
    def __init__(self, gauges: Callable[[], Gauges]) -> None:
        self._gauges = gauges

    def describe(self) -> list[GaugeMetricFamily]:
        """Nothing: registering must not ask the database."""
        return []

    def collect(self) -> list[GaugeMetricFamily]:
        """One family for each name."""
        families = []
        for name, (text, values) in self._gauges().items():
            labels = [label for label, _ in next(iter(values), ())]
            family = GaugeMetricFamily(name, text, labels=labels)
            for key, value in values.items():
                family.add_metric([item for _, item in key], value)
            families.append(family)
        return families
