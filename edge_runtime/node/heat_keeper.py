"""Keeps the device out of its own throttling: reads its health each second and says how much work is done.

The decision is `edge_runtime.health.governor.step`, which is pure. A device of which no temperature was ever known
(a virtual machine, a board without sensors) works in full: there is nothing to hold on to, and half of the frames
for ever would help nobody. Where a temperature was known and is not any more, the governor is careful; where the
hardware says that it slows itself down, work is left out even without a temperature.
"""

import threading
from collections.abc import Callable
from dataclasses import replace

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config.governor import GovernorConfig
from edge_runtime.health import HealthReader, HealthSnapshot, read_health
from edge_runtime.health.governor import LADDER, GovernorSettings, Level, ThermalReading, start, step
from edge_runtime.health.heat import thermal_reading
from edge_runtime.health.sustained import SustainedRate, shortest_deadline_s, sustained_rate
from edge_runtime.node.snapshot import HeatSnapshot
from edge_runtime.perception.pipeline import StageTimes
from edge_runtime.telemetry import get_logger

PERIOD_S = 1.0
WINDOW_S = 60.0
"""Length of a window of the sustained rate."""

_MOST_WINDOWS = 60
_REST = ("decode", "preprocess", "postprocess", "track", "rules")
_LOWEST_C, _HIGHEST_C = 40.0, 130.0


LEAST_RELIED_ON = 0.5
"""Share of the work that is left on a body that relies on its cameras. With less it would be blind for longer than
a frame may be old, and stop. Where half is still too hot, the guard slows or stops the body for that."""


def ladder(variants: int, least_share: float) -> tuple[Level, ...]:
    """The governor's levels with so many smaller models; one that would change nothing is left out.

    Args:
        variants: smaller models, 0 or more.
        least_share: no level does less of the work, above 0, at most 0.75.
    """
    levels = (Level(max(level.frame_share, least_share), min(level.variant, variants)) for level in LADDER)
    return tuple(dict.fromkeys(levels))


class Heat:
    """The governor's state, stepped with each look at the device.

    Args:
        governor: what it may do.
        variants: how many smaller models there are, at most.
        max_temperature_c: the hottest that the device may become, where that is known.
        now_ns: CLOCK_MONOTONIC.
        least_share: see `ladder`.

    Attributes:
        level: that holds.
        why: it does.
        celsius: of the last reading; of the sensor nearest to its limit, as if the limit were `limit_c`.
    """

    def __init__(
        self,
        governor: GovernorConfig,
        variants: int,
        max_temperature_c: float | None,
        now_ns: int,
        *,
        least_share: float = 0.0,
    ) -> None:
        given_c = governor.limit_c if governor.limit_c is not None else max_temperature_c
        self._absolute = given_c is not None
        limit_c = GovernorSettings().limit_c if given_c is None else min(max(given_c, _LOWEST_C), _HIGHEST_C)
        levels = ladder(variants, least_share)
        self._settings = GovernorSettings(
            limit_c=limit_c,
            careful_level=min(governor.careful_level, len(levels) - 1),
            ladder=levels,
        )
        self._state = start(now_ns, self._settings)
        self.level = self._settings.ladder[0]
        self.why = self._state.why
        self.celsius: float | None = None

    @property
    def limit_c(self) -> float:
        """No sensor shall come near this."""
        return self._settings.limit_c

    def step(self, snapshot: HealthSnapshot, now_ns: int) -> bool:
        """Take a look at the device into account; whether the level changed."""
        reading = self._reading(snapshot)
        if self._state.celsius is None:
            # A temperature that never was does not grow old: see above.
            self._state = replace(self._state, taken_ns=now_ns)
        before = self.level
        self._state, self.level = step(now_ns, self._state, reading, self._settings)
        self.celsius = reading.celsius
        known = self._state.celsius is not None or self._state.index > 0
        self.why = self._state.why if known else f"not governed: {snapshot.hottest.celsius.reason}"
        return self.level != before

    def _reading(self, snapshot: HealthSnapshot) -> ThermalReading:
        reading, hottest_c = thermal_reading(snapshot, self._settings), snapshot.hottest.celsius.value
        if not self._absolute or reading.celsius is None or hottest_c is None:
            return reading
        # A limit that a person gave holds beside those that the sensors have.
        return replace(reading, celsius=max(reading.celsius, hottest_c))


class Rates:
    """The rate that the models hold, from what their inferences took, in windows."""

    def __init__(self) -> None:
        self._windows: list[float] = []
        self._before = (0, 0.0)

    def add(self, inferences: int, seconds: float) -> None:
        """At the end of a window: inferences since the start, and what they took together."""
        count, taken_s = inferences - self._before[0], seconds - self._before[1]
        self._before = inferences, seconds
        if count > 0 and taken_s > 0:
            self._windows = [*self._windows[1 - _MOST_WINDOWS :], count / taken_s]

    def rate(self) -> SustainedRate | None:
        """The rate so far; None before the first window with an inference."""
        return sustained_rate(self._windows) if self._windows else None


def work_so_far(times: StageTimes) -> tuple[int, float, float]:
    """Inferences since the start, their seconds together, and the seconds of all else that one frame takes."""
    stages = times.totals()
    count, infer_s = stages.get("infer", (0, 0.0))
    return count, infer_s, sum(stages[name][1] / stages[name][0] for name in _REST if name in stages)


class HeatKeeper:
    """Looks at the device on a thread of its own, and runs the governor on that of whoever calls `turn`.

    So a sensor that hangs holds nobody, and what it said last grows old.

    Args:
        heat: the governor.
        reader: where to look.
        apply: told each new level.
        work: see `work_so_far`.
        deadline_s: the shortest that the configuration promises from capture to event.
        clock: monotonic time.
    """

    def __init__(
        self,
        heat: Heat,
        reader: HealthReader,
        *,
        apply: Callable[[Level], None],
        work: Callable[[], tuple[int, float, float]],
        deadline_s: float,
        clock: Clock,
    ) -> None:
        self._heat, self._reader, self._apply, self._work = heat, reader, apply, work
        self._deadline_s, self._clock = deadline_s, clock
        self._rates = Rates()
        self._rest_s = 0.0
        self._window_ns = clock.monotonic_ns()
        self._warned = False
        self._log = get_logger()
        self._looked: HealthSnapshot | None = None
        self._turned_ns = clock.monotonic_ns()
        self._ending = threading.Event()
        # Daemon: a sensor's driver that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="heat", daemon=True)
        self._snapshot = self._taken()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End; a look that hangs is left behind."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def snapshot(self) -> HeatSnapshot:
        """How it stood after the last turn; from any thread."""
        return self._snapshot

    def turn(self) -> None:
        """Do what follows from the last look; call it from one thread, often: it acts once in `PERIOD_S`."""
        looked = self._looked
        now_ns = self._clock.monotonic_ns()  # after the look: a reading from the future is none
        if looked is None or now_ns - self._turned_ns < PERIOD_S * NS_PER_S:
            return
        self._turned_ns = now_ns
        changed = self._heat.step(looked, now_ns)
        if changed:
            level = self._heat.level
            self._apply(level)
            self._log.warning(
                "heat: share of frames looked at",
                share=level.frame_share,
                variant=level.variant,
                why=self._heat.why,
                celsius=self._heat.celsius,
            )
        if now_ns - self._window_ns >= WINDOW_S * NS_PER_S:
            self._window_ns = now_ns
            inferences, seconds, self._rest_s = self._work()
            self._rates.add(inferences, seconds)
        self._snapshot = self._taken()
        self._warn()

    def _run(self) -> None:
        while not self._ending.is_set():
            self.look()
            self._ending.wait(PERIOD_S)

    def look(self) -> None:
        """Look at the device once; what follows comes with the next turn."""
        self._looked = read_health(self._reader)

    def _taken(self) -> HeatSnapshot:
        heat, rate = self._heat, self._rates.rate()
        return HeatSnapshot(
            frame_share=heat.level.frame_share,
            variant=heat.level.variant,
            why=heat.why,
            celsius=heat.celsius,
            limit_c=heat.limit_c,
            peak_hz=None if rate is None else rate.peak_hz,
            sustained_hz=None if rate is None else rate.sustained_hz,
            settled=rate is not None and rate.settled,
            shortest_deadline_s=None
            if rate is None
            else shortest_deadline_s(rate.sustained_hz, rest_s=self._rest_s),
        )

    def _warn(self) -> None:
        """Say once that a deadline is shorter than what the device holds when it is warm."""
        held_s = self._snapshot.shortest_deadline_s
        if self._warned or held_s is None or not self._snapshot.settled or held_s <= self._deadline_s:
            return
        self._warned = True
        self._log.warning(
            "a deadline is shorter than this device can hold",
            deadline_ms=round(self._deadline_s * 1000),
            held_ms=round(held_s * 1000),
        )
