"""What a run left behind: series, states, events and counts, the same from every rig."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Series:
    """One curve.

    Attributes:
        unit: of its values.
        points: (seconds, value), in order.
    """

    unit: str
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Change:
    """The guard's state changed; times are seconds from the moment in which the device works."""

    at: float
    state: str
    causes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """When a fault was at work; `ends` is the end of the run where nothing put it right."""

    name: str
    text: str
    begins: float
    ends: float


@dataclass(slots=True)
class Trace:
    """A run.

    Attributes:
        series: curves by name.
        changes: of the guard's state, the first at 0.
        windows: of faults.
        tripped: by condition, the times at which it began to hold.
        log: (seconds, sentence), for people.
        counts: whole numbers, by the name of their measure; what a rig does not count has no entry.
        values: other numbers, by name, in the unit of the measure that asks for them.
    """

    series: dict[str, Series] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    tripped: dict[str, list[float]] = field(default_factory=dict)
    log: list[tuple[float, str]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    values: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, unit: str, at: float, value: float) -> None:
        """A point of a curve; what does not change is left out between its ends."""
        series = self.series.setdefault(name, Series(unit))
        points = series.points
        if len(points) >= 2 and points[-1][1] == value == points[-2][1]:
            points[-1] = (at, value)
        else:
            points.append((at, value))

    def changed(self, at: float, state: str, causes: Sequence[str] = ()) -> None:
        """The guard's state, where it is another one."""
        if not self.changes or self.changes[-1].state != state:
            self.changes.append(Change(at, state, tuple(causes)))

    def trips(self, at: float, conditions: frozenset[str], before: frozenset[str]) -> None:
        """Conditions that hold now, and those that held before."""
        for name in sorted(conditions - before):
            self.tripped.setdefault(name, []).append(at)

    def window(self, name: str) -> Window:
        """Of a fault.

        Raises:
            KeyError: there is none of this name.
        """
        for window in self.windows:
            if window.name == name:
                return window
        raise KeyError(name)
