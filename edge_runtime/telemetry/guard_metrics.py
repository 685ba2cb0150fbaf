"""The guard's numbers for Prometheus, asked of it when they are scraped: nothing is stored, nothing grows old."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from edge_runtime.guard.memory import State

AskGuard = Callable[[], Mapping[str, Any] | None]
"""Gives the guard's status, or None where none answers; must not wait for long."""


class GuardCollector(Collector):
    """Asks the guard at each scrape.

    Without an answer there is `edge_guard_up 0` and nothing else: no state is not a state that was true once.

    Args:
        ask: called once for each scrape, from the thread that serves it.
    """

    def __init__(self, ask: AskGuard) -> None:
        self._ask = ask

    def describe(self) -> Iterator[Metric]:
        """Nothing, so that registering asks nobody."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics of one moment."""
        status = self._ask()
        yield GaugeMetricFamily("edge_guard_up", "1 while the guard answers", value=float(status is not None))
        if status is not None:
            yield from _guard(status)
            yield from _conditions(status)
            yield from _workers(status)


def _guard(status: Mapping[str, Any]) -> Iterator[Metric]:
    state = GaugeMetricFamily("edge_guard_state", "1 for the state that the guard is in", labels=["state"])
    for known in State:
        state.add_metric([known.value], float(known.value == status["state"]))
    yield state
    yield _gauge("edge_guard_state_seconds", "Since the guard entered its state", status["since_ms"] / 1000)
    yield _gauge("edge_guard_permit", "1 while motion is permitted", status["permit"])
    yield _gauge("edge_guard_lease_seconds", "What is left of the lease", status["lease_ms"] / 1000)
    yield _gauge("edge_guard_latched", "1 while something is latched", status["latch"] is not None)
    yield _gauge(
        "edge_guard_late_worst_seconds",
        "How late the guard itself woke at worst since its start",
        status["late_worst_us"] / 1e6,
    )
    turns = CounterMetricFamily("edge_guard_turns", "Turns of the guard's loop")
    turns.add_metric([], status["turns"])
    yield turns
    facts = GaugeMetricFamily(
        "edge_guard_real_time", "1 for each request to the kernel that was granted", labels=["request"]
    )
    for name, done in status["facts"].items():
        facts.add_metric([name], float(done))
    yield facts


def _conditions(status: Mapping[str, Any]) -> Iterator[Metric]:
    """One sample for each condition that is not at rest: the rest of the catalogue would be all zeros."""
    for name, text, listed in (
        ("edge_guard_tripped", "1 for each condition that holds", status["tripped"]),
        ("edge_guard_not_evaluated", "1 for each condition that nobody evaluates", status["not_evaluated"]),
        (
            "edge_guard_latch_cause",
            "1 for each condition that led to what is latched",
            [] if status["latch"] is None else status["latch"]["causes"],
        ),
    ):
        family = GaugeMetricFamily(name, text, labels=["condition"])
        for condition in listed:
            family.add_metric([condition], 1.0)
        yield family


def _workers(status: Mapping[str, Any]) -> Iterator[Metric]:
    starts = CounterMetricFamily("edge_guard_worker_starts", "Starts of a worker", labels=["worker"])
    ages = GaugeMetricFamily(
        "edge_guard_worker_beat_age_seconds", "Since a worker last finished work", labels=["worker"]
    )
    works = GaugeMetricFamily("edge_guard_worker_working", "1 while a worker beats", labels=["worker"])
    for worker in status["workers"]:
        starts.add_metric([worker["name"]], worker["starts"])
        works.add_metric([worker["name"]], float(worker["phase"] == "working"))
        if worker["age_ms"] is not None:
            ages.add_metric([worker["name"]], worker["age_ms"] / 1000)
    yield from (starts, ages, works)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))
