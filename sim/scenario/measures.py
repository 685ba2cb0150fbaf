"""What can be measured of a run: one function for each, from the trace alone, so that every rig means the same.

What never happened, or was so already before the fault, has no time: a measure says None, and an expectation about
it fails. So does one that a rig did not count.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sim.scenario.records import Expectation, Rig
from sim.scenario.trace import Trace

BOTH: tuple[Rig, ...] = ("sim", "local")
SIM: tuple[Rig, ...] = ("sim",)
LOCAL: tuple[Rig, ...] = ("local",)


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure.

    Attributes:
        unit: of what it gives.
        text: what it is.
        needs: fields of the expectation that it cannot do without.
        of: takes it.
        rigs: that measure it.
    """

    unit: str
    text: str
    needs: tuple[str, ...]
    of: Callable[[Trace, Expectation], float | None]
    rigs: tuple[Rig, ...] = BOTH


MOVING_S = 0.5
"""A body moves at a fault where a command passed within this time before it; its planner speaks every 50 ms."""


def _reaction(trace: Trace, expected: Expectation) -> float | None:
    begins = trace.window(expected.after or "").begins
    before = [change.state for change in trace.changes if change.at <= begins]
    if not before or before[-1] in expected.states:
        return None  # nobody can say that the fault did it
    after = (change.at for change in trace.changes if change.at > begins and change.state in expected.states)
    return next((at - begins for at in after), None)


def _recovery(trace: Trace, expected: Expectation) -> float | None:
    window = trace.window(expected.after or "")
    ends = window.ends
    state = next((change.state for change in reversed(trace.changes) if change.at <= ends), None)
    if state in expected.states:
        before = [change.state for change in trace.changes if change.at <= window.begins][-1:]
        during = [change.state for change in trace.changes if window.begins < change.at <= ends]
        return 0.0 if set(before + during) - set(expected.states) else None  # it never left them
    return next(
        (
            change.at - ends
            for change in trace.changes
            if change.at > ends and change.state in expected.states
        ),
        None,
    )


def _moving(trace: Trace, expected: Expectation) -> float | None:
    """How long after the fault the last command passed, until its end; None where none passed just before it."""
    window = trace.window(expected.after or "")
    series = trace.series.get("commands")
    if series is None:
        return None
    pairs = zip(series.points[1:], series.points, strict=False)
    passed = [at for (at, value), (_, before) in pairs if value > before]
    if not any(window.begins - MOVING_S <= at <= window.begins for at in passed):
        return None
    return max((at - window.begins for at in passed if window.begins < at <= window.ends), default=0.0)


def _tripped(trace: Trace, expected: Expectation) -> list[float]:
    return trace.tripped.get(expected.condition.value, []) if expected.condition else []


def _trips(trace: Trace, expected: Expectation) -> float | None:
    return float(len(_tripped(trace, expected)))


def _condition(trace: Trace, expected: Expectation) -> float | None:
    begins = trace.window(expected.after or "").begins
    return next((at - begins for at in _tripped(trace, expected) if at >= begins), None)


def _in_states(trace: Trace, expected: Expectation) -> float | None:
    end, total = trace.values["duration"], 0.0
    for change, after in zip(trace.changes, [*trace.changes[1:], None], strict=True):
        if change.state in expected.states:
            total += (end if after is None else after.at) - change.at
    return total


def _count(name: str) -> Callable[[Trace, Expectation], float | None]:
    return lambda trace, _: float(trace.counts[name]) if name in trace.counts else None


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
    "reaction": Measure(
        "s",
        "from a fault to one of the states; never, where it was in one already",
        ("after", "states"),
        _reaction,
    ),
    "recovery": Measure(
        "s",
        "from the end of a fault back to one of the states; never, where it never left them",
        ("after", "states"),
        _recovery,
    ),
    "moving": Measure(
        "s",
        "after a fault, until the last command passed; never, where none passed before",
        ("after",),
        _moving,
    ),
    "condition": Measure("s", "from a fault until a condition held", ("after", "condition"), _condition),
    "trips": Measure("times", "how often a condition began to hold", ("condition",), _trips),
    "in_states": Measure("s", "time in the states", ("states",), _in_states),
    "accepted": Measure("events", "of the steady load, accepted by the outbox", (), _count("accepted")),
    "delivered": Measure("events", "of the accepted load, that the server has", (), _count("delivered")),
    "lost": Measure(
        "events", "of the accepted load, neither queued, delivered nor given up by count", (), _count("lost")
    ),
    "duplicates": Measure(
        "events", "of whatever origin, that the server has twice", (), _count("duplicates")
    ),
    "expired": Measure("events", "of whatever origin, given up for their age", (), _count("expired")),
    "refused": Measure("events", "that the outbox did not accept, and said so", (), _count("refused")),
    "disk_told": Measure("s", "the outbox said that its disk is full", (), _value("disk_told")),
    "left": Measure("events", "that left without a policy's permission", (), _count("left"), SIM),
    "held": Measure(
        "events", "held back for a person; the load of rig local does not pass the gate", (), _count("held")
    ),
    "false_absences": Measure(
        "events",
        "said that nobody was there while the world had somebody in view",
        (),
        _count("false_absences"),
        SIM,
    ),
    "injections": Measure(
        "events", "of injected faults, that the server has", (), _count("injections"), LOCAL
    ),
    "renewals": Measure("times", "certificates that the server signed anew", (), _count("renewals"), LOCAL),
    "restarts": Measure("times", "processes that were started again", (), _count("restarts")),
    "breaks": Measure("times", "open connections to the server that broke", (), _count("breaks")),
    "late_frames": Measure("share", "frames older than their deadline", (), _value("late_frames"), SIM),
    "frames": Measure("frames", "that were looked at", (), _count("frames")),
    "frame_share": Measure(
        "share", "least share of the frames that heat left to be looked at", (), _least("share"), LOCAL
    ),
    "kept": Measure("times", "releases that stayed in use, by the device's reports", (), _count("kept")),
    "taken_back": Measure(
        "times",
        "releases that were refused or taken back, by the device's reports",
        (),
        _count("taken_back"),
    ),
    "bad_in_use": Measure("s", "a bad release was in use", (), _value("bad_in_use"), SIM),
    "hottest": Measure("C", "of the die", (), _peak("die"), SIM),
    "throttled": Measure("s", "the hardware was below its full clock", (), _value("throttled"), SIM),
    "queue_peak": Measure("events", "waiting at most", (), _peak("queue")),
    "charge": Measure("share", "least charge while motion was permitted", (), _least("charge_moving")),
    "stop": Measure("m", "way of a body that moved, from a fault until it stood", (), _value("stop")),
}


def measure_problem(expected: Expectation, rigs: Sequence[Rig]) -> str:
    """Why this cannot be measured; empty where it can.

    Args:
        expected: with the rigs that it is for, or none.
        rigs: of its scenario.
    """
    measure = MEASURES.get(expected.measure)
    if measure is None:
        return f"there is no measure {expected.measure}; measures are {', '.join(sorted(MEASURES))}"
    missing = [field for field in measure.needs if not getattr(expected, field)]
    if missing:
        return f"{expected.measure} needs {' and '.join(missing)}"
    if expected.unit != measure.unit:
        return f"{expected.measure} is measured in {measure.unit}, not in {expected.unit}"
    strange = [rig for rig in expected.rigs if rig not in rigs]
    if strange:
        return f"is expected in rig {strange[0]}, and the scenario is for {', '.join(rigs)}"
    unable = [rig for rig in expected.rigs or rigs if rig not in measure.rigs]
    if unable:
        return f"{expected.measure} is not measured in rig {unable[0]}; say rigs = {list(measure.rigs)}"
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
        words += [f"of {one.condition.value}"] if one.condition else []
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
