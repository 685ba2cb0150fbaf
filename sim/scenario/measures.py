"""What can be measured of a run: one function for each, from the trace alone, so that every rig means the same.

What never happened has no time: a measure says None, and an expectation about it fails.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sim.scenario.records import Expectation
from sim.scenario.trace import Trace

PERMITTING = ("NOMINAL", "DEGRADED")


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure.

    Attributes:
        unit: of what it gives.
        text: what it is.
        needs: fields of the expectation that it cannot do without.
        of: takes it.
    """

    unit: str
    text: str
    needs: tuple[str, ...]
    of: Callable[[Trace, Expectation], float | None]


def _reaction(trace: Trace, expected: Expectation) -> float | None:
    begins = trace.window(expected.after or "").begins
    state = None
    for change in trace.changes:
        if change.at <= begins:
            state = change.state
        elif change.state in expected.states:
            return change.at - begins
    return 0.0 if state in expected.states else None


def _recovery(trace: Trace, expected: Expectation) -> float | None:
    ends = trace.window(expected.after or "").ends
    state = next((change.state for change in reversed(trace.changes) if change.at <= ends), None)
    if state in expected.states:
        return 0.0
    return next(
        (
            change.at - ends
            for change in trace.changes
            if change.at > ends and change.state in expected.states
        ),
        None,
    )


def _moving(trace: Trace, expected: Expectation) -> float | None:
    """How long after the fault the last command passed, until its end."""
    window = trace.window(expected.after or "")
    series = trace.series.get("commands")
    if series is None:
        return None
    last = 0.0
    for (at, value), (_, before) in zip(series.points[1:], series.points, strict=False):
        if window.begins < at <= window.ends and value > before:
            last = at - window.begins
    return last


def _trips(trace: Trace, expected: Expectation) -> float | None:
    return float(len(trace.tripped.get(expected.condition or "", ())))


def _condition(trace: Trace, expected: Expectation) -> float | None:
    begins = trace.window(expected.after or "").begins
    return next((at - begins for at in trace.tripped.get(expected.condition or "", ()) if at >= begins), None)


def _in_states(trace: Trace, expected: Expectation) -> float | None:
    end, total = trace.values["duration"], 0.0
    for change, after in zip(trace.changes, [*trace.changes[1:], None], strict=True):
        if change.state in expected.states:
            total += (end if after is None else after.at) - change.at
    return total


def _changes(trace: Trace, _: Expectation) -> float | None:
    return float(max(0, len(trace.changes) - 1))


def _count(name: str) -> Callable[[Trace, Expectation], float | None]:
    return lambda trace, _: float(trace.counts[name])


def _value(name: str) -> Callable[[Trace, Expectation], float | None]:
    return lambda trace, _: trace.values.get(name)


def _peak(name: str) -> Callable[[Trace, Expectation], float | None]:
    def peak(trace: Trace, _: Expectation) -> float | None:
        series = trace.series.get(name)
        return None if series is None or not series.points else max(value for _, value in series.points)

    return peak


def _least(name: str) -> Callable[[Trace, Expectation], float | None]:
    def least(trace: Trace, _: Expectation) -> float | None:
        series = trace.series.get(name)
        return None if series is None or not series.points else min(value for _, value in series.points)

    return least


MEASURES: Mapping[str, Measure] = {
    "reaction": Measure("s", "from a fault to one of the states", ("after", "states"), _reaction),
    "recovery": Measure("s", "from the end of a fault to one of the states", ("after", "states"), _recovery),
    "moving": Measure("s", "after a fault, until the last command passed", ("after",), _moving),
    "condition": Measure("s", "from a fault until a condition held", ("after", "condition"), _condition),
    "trips": Measure("times", "how often a condition began to hold", ("condition",), _trips),
    "in_states": Measure("s", "time in the states", ("states",), _in_states),
    "changes": Measure("times", "changes of the guard's state", (), _changes),
    "accepted": Measure("events", "accepted by the outbox", (), _count("accepted")),
    "delivered": Measure("events", "that the server has", (), _count("delivered")),
    "lost": Measure(
        "events", "accepted, and neither queued, delivered nor given up by count", (), _count("lost")
    ),
    "duplicates": Measure("events", "that the server has twice", (), _count("duplicates")),
    "expired": Measure("events", "given up for their age", (), _count("expired")),
    "left": Measure("events", "that left without a policy's permission", (), _count("left")),
    "held": Measure("events", "held back for a person", (), _count("held")),
    "false_absences": Measure(
        "events", "said that nobody was there while nobody could see", (), _count("false_absences")
    ),
    "missed_absences": Measure(
        "events", "absences of the world that were seen and not told", (), _count("missed_absences")
    ),
    "injections": Measure("events", "of injected faults, that the server has", (), _count("injections")),
    "restarts": Measure("times", "processes that were started again", (), _count("restarts")),
    "late_frames": Measure("share", "frames older than their deadline", (), _value("late_frames")),
    "frames": Measure("frames", "that were looked at", (), _count("frames")),
    "hottest": Measure("C", "of the die", (), _peak("die")),
    "throttled": Measure("s", "the hardware was below its full clock", (), _value("throttled")),
    "queue_peak": Measure("events", "waiting at most", (), _peak("queue")),
    "charge": Measure("share", "least charge while motion was permitted", (), _least("charge_moving")),
    "stop": Measure("m", "way of the body after a fault, until it stood", (), _value("stop")),
    "range_left": Measure("m", "free range left where it stood", (), _value("range_left")),
}


def measure_problem(expected: Expectation) -> str:
    """Why this cannot be measured; empty where it can."""
    measure = MEASURES.get(expected.measure)
    if measure is None:
        return f"there is no measure {expected.measure}; measures are {', '.join(sorted(MEASURES))}"
    missing = [field for field in measure.needs if not getattr(expected, field)]
    if missing:
        return f"{expected.measure} needs {' and '.join(missing)}"
    if expected.unit != measure.unit:
        return f"{expected.measure} is measured in {measure.unit}, not in {expected.unit}"
    return ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One expectation, and what was measured.

    Attributes:
        expected: with limits and unit.
        measured: None where it never happened.
        met: whether it lies within the limits.
    """

    expected: Expectation
    measured: float | None
    met: bool

    @property
    def text(self) -> str:
        """What was expected and measured, in one line."""
        one = self.expected
        words = [one.measure.replace("_", " ")]
        words += [f"of {one.condition}"] if one.condition else []
        words += [" or ".join(one.states)] if one.states else []
        words += [f"after {one.after}"] if one.after else []
        return f"{' '.join(words)}: {self.measured_text} ({limits_text(one)})"

    @property
    def measured_text(self) -> str:
        """What was measured, with its unit."""
        return "never" if self.measured is None else f"{self.measured:.4g} {self.expected.unit}"


def limits_text(expected: Expectation) -> str:
    """The limits in words."""
    low = [] if expected.at_least is None else [f"at least {expected.at_least:g}"]
    high = [] if expected.at_most is None else [f"at most {expected.at_most:g}"]
    return f"{' and '.join(low + high)} {expected.unit}"


def judge(trace: Trace, expected: Expectation) -> Finding:
    """Measure, and hold against the limits."""
    found = MEASURES[expected.measure].of(trace, expected)
    met = (
        found is not None
        and (expected.at_least is None or found >= expected.at_least)
        and (expected.at_most is None or found <= expected.at_most)
    )
    return Finding(expected, found, met)
