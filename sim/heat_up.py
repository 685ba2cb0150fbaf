"""A camera in a box that gets hot, with the thermal governor and without it.

The camera offers frames at a fixed rate; the model takes the newest, so a frame waits at most for the one before
it; its time goes up as the clock goes down. An event is late when its frame's age at the end is above the deadline.
The sensor is read once a second and steps by half a degree, as those of the real boards do.
"""

from dataclasses import dataclass, field

from edge_runtime.clock import NS_PER_S
from edge_runtime.health.governor import (
    GovernorSettings,
    GovernorState,
    Level,
    ThermalReading,
    start,
    step,
)
from sim.thermal import STEP_S, Body, Chip, Device, Throttle


@dataclass(frozen=True, slots=True)
class Work:
    """What is asked of the device.

    Attributes:
        camera_hz: frames that the camera offers.
        model_s: time of a frame at the full clock, for each variant from the largest.
        deadline_s: from capture to event.
    """

    camera_hz: float = 30.0
    model_s: tuple[float, ...] = (0.030, 0.013, 0.007)
    deadline_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Ambient:
    """Air around the device: from `from_c` to `to_c` in `ramp_s`, then steady."""

    from_c: float = 25.0
    to_c: float = 55.0
    ramp_s: float = 1200.0

    def at(self, seconds: float) -> float:
        """Degrees Celsius at a time."""
        return self.from_c + (self.to_c - self.from_c) * min(seconds / self.ramp_s, 1.0)


@dataclass(frozen=True, slots=True)
class Moment:
    """One second of the run: temperatures, clock, level, and the worst age of a frame within it."""

    seconds: float
    die_c: float
    ambient_c: float
    clock: float
    index: int
    frame_share: float
    worst_age_s: float


@dataclass(slots=True)
class Outcome:
    """What came of it.

    Attributes:
        frames: that the model looked at. late: of them, older than the deadline at the end.
        worst_age_s: of any frame. worst_gap_s: longest time between two frames that were looked at.
        throttled_s: how long the hardware was below its full clock. hottest_c: of the die.
        changes: how often the level changed.
        moments: one a second.
    """

    frames: int = 0
    late: int = 0
    worst_age_s: float = 0.0
    worst_gap_s: float = 0.0
    throttled_s: float = 0.0
    hottest_c: float = 0.0
    changes: int = 0
    moments: list[Moment] = field(default_factory=list)


def sealed_box() -> Device:
    """A board in a box without a fan: 12 W at most, hardware that drops to a third of its clock at 95 C."""
    return Device(
        Body(die_j_k=8.0, case_j_k=250.0, die_to_case_k_w=1.6, case_to_air_k_w=3.0),
        Chip(full_mhz=1020, idle_w=3.0, busy_w=9.0),
        Throttle(trip_c=95.0, release_c=88.0, floor=231 / 680),
    )


class Camera:
    """Frames in and out: the newest one waits, the one before it is looked at."""

    def __init__(self, work: Work, outcome: Outcome) -> None:
        self._work, self._outcome = work, outcome
        self._next_s = 0.0  # when the camera offers the next frame
        self._waiting_s: float | None = None  # capture time of the newest frame
        self._busy: tuple[float, float] | None = None  # capture time, work that is left at the full clock
        self._last_s = 0.0
        self.worst_age_s = 0.0

    def advance(self, now_s: float, clock: float, level: Level) -> float:
        """Let `STEP_S` pass and return the share of it in which the model was busy."""
        period = 1 / (self._work.camera_hz * level.frame_share)
        until, busy_s = now_s + STEP_S, 0.0
        while now_s < until:
            if self._next_s <= now_s:
                self._waiting_s = self._next_s
                self._next_s += period
                continue
            if self._busy is None and self._waiting_s is not None:
                variant = min(level.variant, len(self._work.model_s) - 1)
                self._busy, self._waiting_s = (self._waiting_s, self._work.model_s[variant]), None
                self._outcome.worst_gap_s = max(self._outcome.worst_gap_s, self._busy[0] - self._last_s)
                self._last_s = self._busy[0]
            rest = min(until, self._next_s) - now_s
            if self._busy is None:
                now_s += rest
                continue
            captured, left = self._busy
            spent = min(rest, left / clock)
            now_s, busy_s = now_s + spent, busy_s + spent
            left -= spent * clock
            self._busy = (captured, left)
            if left <= 1e-9:
                self._finish(now_s - captured)
        return busy_s / STEP_S

    def _finish(self, age_s: float) -> None:
        self._busy = None
        self._outcome.frames += 1
        self._outcome.late += age_s > self._work.deadline_s
        self.worst_age_s = max(self.worst_age_s, age_s)
        self._outcome.worst_age_s = max(self._outcome.worst_age_s, age_s)


def heat_up(
    *,
    governed: bool,
    seconds: float = 3600.0,
    work: Work | None = None,
    air: Ambient | None = None,
    settings: GovernorSettings | None = None,
    device: Device | None = None,
) -> Outcome:
    """Run a camera for `seconds`, with the governor or at full work throughout."""
    device, work, air = device or sealed_box(), work or Work(), air or Ambient()
    settings = settings or GovernorSettings(limit_c=device.throttle.trip_c)
    outcome = Outcome()
    camera, state, level = Camera(work, outcome), start(0, settings), settings.ladder[0]
    device.ambient_c = device.die_c = device.case_c = air.at(0.0)
    next_second = 0.0
    while device.now_s < seconds:
        device.ambient_c = air.at(device.now_s)
        if device.now_s >= next_second:
            next_second += 1.0
            if governed:
                state, level = _govern(device, state, settings, outcome)
            outcome.moments.append(
                Moment(
                    device.now_s,
                    device.die_c,
                    device.ambient_c,
                    device.clock,
                    state.index,
                    level.frame_share,
                    camera.worst_age_s,
                )
            )
            camera.worst_age_s = 0.0
        device.advance(camera.advance(device.now_s, device.clock, level))
        outcome.hottest_c = max(outcome.hottest_c, device.die_c)
    outcome.throttled_s = device.throttled_s
    return outcome


def _govern(
    device: Device, state: GovernorState, settings: GovernorSettings, outcome: Outcome
) -> tuple[GovernorState, Level]:
    now_ns = int(device.now_s * NS_PER_S)
    measured = round(device.die_c * 2) / 2
    after, level = step(
        now_ns, state, ThermalReading(measured, now_ns, throttled=device.clock < 1.0), settings
    )
    outcome.changes += after.index != state.index
    return after, level
