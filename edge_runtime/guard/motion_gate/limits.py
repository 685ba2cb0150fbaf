"""Limits of commands: absolute, rate and window, per axis and per table; pure.

A value is judged by how far it lies from the axis's safe value, on which side. Growing away from it is bounded by
the rate and by the window; returning to it never is, because losing the permission sets the safe value at once and
no command can be more abrupt than that. So a change to stricter limits never leaves a body between two of them.

What the actuator does when no command comes is taken at its worst: when the last command's time to live has ended
it may have stopped, so the next one is judged as if it had.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from edge_runtime.guard.motion_gate.reasons import Reason

NS_PER_S = 1_000_000_000

LONGEST_WINDOW_NS = NS_PER_S
MOST_PER_S = 1000
"""Commands per second; with the longest window it bounds what has to be remembered."""


class AxisLimits(NamedTuple):
    """What one axis may do under one table.

    Attributes:
        low: smallest value, in the axis's unit.
        high: largest value.
        rise_per_s: largest growth away from the safe value, in units per second; 0 forbids any.
        step_ns: at most this much time counts for the rate, so that a long silence allows no leap; greater than 0.
        window_ns: length of the window, in (0, 1 s].
        window_rise: largest growth away from the safe value within the window, in units.
    """

    low: float
    high: float
    rise_per_s: float
    step_ns: int
    window_ns: int
    window_rise: float


class Table(NamedTuple):
    """The limits that apply while the lease names this table.

    Attributes:
        name: such as `normal` or `degraded`.
        actions: what may be proposed; others are refused.
        axes: limits of every axis of these actions.
    """

    name: str
    actions: frozenset[str]
    axes: Mapping[str, AxisLimits]


class Profile(NamedTuple):
    """What a body's motion gate lets pass.

    Attributes:
        axes: every axis with its safe value, which is sent when the permission is lost.
        actions: every action with the axes that its command gives, all of them and no others.
        risky: actions that need an approval each time.
        tables: by the lease's index.
        longest_ttl_ns: a proposal may not ask to live longer, greater than 0.
        most_per_s: commands passed in a second, 1 to 1000.
        refusals: so many refusals within `refusals_ns` close the gate; at least 1.
        refusals_ns: see `refusals`; greater than 0.
        states: of the guard in which motion is permitted.
        longest_approval_ns: an approval may not be valid for longer than this after it was signed.
    """

    axes: Mapping[str, float]
    actions: Mapping[str, frozenset[str]]
    risky: frozenset[str]
    tables: tuple[Table, ...]
    longest_ttl_ns: int
    most_per_s: int
    refusals: int
    refusals_ns: int
    states: frozenset[str]
    longest_approval_ns: int


class _Axis:
    """What was passed on one axis: distances from the safe value, and until when they are taken to hold."""

    __slots__ = ("_held", "_passed_ns", "_until_ns")

    def __init__(self, now_ns: int) -> None:
        self._held: deque[tuple[int, float]] = deque([(now_ns, 0.0)])
        self._passed_ns = now_ns
        self._until_ns = now_ns

    def refusal(self, now_ns: int, distance: float, limits: AxisLimits) -> Reason | None:
        side = math.copysign(1.0, distance)
        grown = abs(distance)
        if grown > self._floor(now_ns, now_ns, side) + self._step(now_ns, limits):
            return Reason.RATE
        if grown > self._floor(now_ns, now_ns - limits.window_ns, side) + limits.window_rise:
            return Reason.WINDOW
        return None

    def passed(self, now_ns: int, distance: float, until_ns: int) -> None:
        if self._until_ns < now_ns:
            self._held.append((self._until_ns, 0.0))
        self._held.append((now_ns, distance))
        self._passed_ns, self._until_ns = now_ns, until_ns
        # The newest entry before the window is what was held when it began, and stays.
        while self._held[1][0] <= now_ns - LONGEST_WINDOW_NS:
            self._held.popleft()

    def _step(self, now_ns: int, limits: AxisLimits) -> float:
        return limits.rise_per_s * (min(now_ns - self._passed_ns, limits.step_ns) / NS_PER_S)

    def _floor(self, now_ns: int, since_ns: int, side: float) -> float:
        """The smallest distance on this side that was held since a time; 0 if the other side was, or none."""
        if self._until_ns < now_ns:
            return 0.0
        least = math.inf
        for at_ns, distance in reversed(self._held):
            least = min(least, max(0.0, distance * side))
            if at_ns <= since_ns:
                break
        return least


class Bounds:
    """Judges values by the limits and by what was passed before.

    Args:
        profile: of the body.
        now_ns: when the safe value was sent.
    """

    def __init__(self, profile: Profile, now_ns: int) -> None:
        self._profile = profile
        self._period_ns = NS_PER_S // profile.most_per_s
        self._passed_ns: int | None = None
        self._axes: dict[str, _Axis]
        self.rest(now_ns)

    def rest(self, now_ns: int) -> None:
        """The safe value was sent: what comes next starts from it."""
        self._axes = {name: _Axis(now_ns) for name in self._profile.axes}

    def refusal(self, now_ns: int, table: Table, values: Mapping[str, float]) -> Reason | None:
        """Why these values may not be passed now; None if they may.

        Args:
            now_ns: not before the last command that was passed.
            table: the one that applies.
            values: of axes that the table has limits for.
        """
        if not all(math.isfinite(value) for value in values.values()):
            return Reason.NOT_FINITE
        for name, value in values.items():
            if not table.axes[name].low <= value <= table.axes[name].high:
                return Reason.ABSOLUTE
        if self._passed_ns is not None and now_ns - self._passed_ns < self._period_ns:
            return Reason.TOO_SOON
        for name, value in values.items():
            reason = self._axes[name].refusal(now_ns, value - self._profile.axes[name], table.axes[name])
            if reason is not None:
                return reason
        return None

    def passed(self, now_ns: int, values: Mapping[str, float], until_ns: int) -> None:
        """These values were sent.

        Args:
            now_ns: when.
            values: as they were judged.
            until_ns: when the command's time to live ends.
        """
        self._passed_ns = now_ns
        for name, value in values.items():
            self._axes[name].passed(now_ns, value - self._profile.axes[name], until_ns)
