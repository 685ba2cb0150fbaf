"""From what a watch saw to figures with units. Pure but for what the watch holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sim.soak.slope import Slope, settled, theil_sen
from sim.soak.watch import Life, Watch

Measure = Literal[
    "cpu", "memory", "memory_slope", "descriptors", "descriptor_slope", "log", "starts", "jitter"
]
MEASURES: tuple[Measure, ...] = get_args(Measure)
UNITS: dict[Measure, str] = {
    "cpu": "% of a core",
    "memory": "MiB",
    "memory_slope": "MiB/h",
    "descriptors": "open",
    "descriptor_slope": "open/h",
    "log": "KiB/h",
    "starts": "starts",
    "jitter": "ms",
}

_S_PER_HOUR, _KIB = 3600.0, 1024.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing that was measured.

    Attributes:
        subject: a process, or whoever writes a log.
        measure: what; `UNITS` has its unit.
        value: None where the run was too short to say.
        low, high: of a slope, within which it lies with 95 of 100; the value itself otherwise.
    """

    subject: str
    measure: Measure
    value: float | None
    low: float | None = None
    high: float | None = None

    @property
    def unit(self) -> str:
        """Of the value."""
        return UNITS[self.measure]

    @property
    def least(self) -> float | None:
        """What it is at least: growth within the noise is no growth."""
        return self.value if self.low is None else self.low


def figures_of(watch: Watch, warm_up: float) -> list[Figure]:
    """Figures of every process and log.

    A process that was started again is judged by the life in which it was looked at longest. Warm-up is left out of
    everything but the most memory and the most descriptors.

    Args:
        watch: after the run.
        warm_up: share of each life, and of the run for logs, that is left out.
    """
    found: list[Figure] = []
    for name, lives in watch.lives.items():
        seen = [life for life in lives if life.samples]
        if seen:
            found.extend(_of_process(name, seen, warm_up))
    for name, sizes in watch.logs.items():
        found.append(Figure(name, "log", _log_rate(settled(sizes, warm_up))))
    return found


def jitter(subject: str, p50_ms: float, p95_ms: float) -> Figure:
    """How uneven frames come out: the 95th percentile of their age over the median, milliseconds."""
    return Figure(subject, "jitter", p95_ms - p50_ms)


def _of_process(name: str, lives: Sequence[Life], warm_up: float) -> Iterator[Figure]:
    longest = max(lives, key=lambda life: life.seconds)
    kept = longest.samples[-len(settled([(one.at_s, 0.0) for one in longest.samples], warm_up)) :]
    passed = kept[-1].at_s - kept[0].at_s
    used = kept[-1].cpu_s - kept[0].cpu_s
    yield Figure(name, "cpu", 100.0 * used / passed if passed > 0 else None)
    yield Figure(name, "memory", max(one.memory_mib for one in longest.samples))
    yield _slope(name, "memory_slope", theil_sen([(one.at_s, one.memory_mib) for one in kept]))
    yield Figure(name, "descriptors", float(max(one.descriptors for one in longest.samples)))
    yield _slope(name, "descriptor_slope", theil_sen([(one.at_s, float(one.descriptors)) for one in kept]))
    yield Figure(name, "starts", float(len(lives)))


def _slope(name: str, measure: Measure, found: Slope | None) -> Figure:
    if found is None:
        return Figure(name, measure, None)
    return Figure(name, measure, found.per_hour, found.low, found.high)


def _log_rate(sizes: Sequence[tuple[float, float]]) -> float | None:
    if len(sizes) < 2 or sizes[-1][0] <= sizes[0][0]:
        return None
    (begin, before), (end, after) = sizes[0], sizes[-1]
    return (after - before) / _KIB * _S_PER_HOUR / (end - begin)
