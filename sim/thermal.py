"""Heat of a small computer: two heat capacities, a chip whose power follows its clock, and hardware that throttles.

    python -m sim.thermal --plot docs/img/thermal.svg

The die warms within seconds, the case within minutes: that is why a device is fast at first and why a second of
rest between two runs gives nothing back. Two published measurements fix the two kinds of hardware: one takes its
clock down step by step (40 to 22.6 tokens a second within eight runs of a language model, throttled for 65 % of the
time), the other drops to a floor at a temperature (680 to 231 MHz at 78.3 C after six runs). `sim/heat_up.py` puts
a camera and the governor of `edge_runtime.health` on such a chip.
"""

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

STEP_S = 0.05
"""Time step; the fastest time constant of the bodies below is 8 s."""


@dataclass(frozen=True, slots=True)
class Body:
    """Where the heat goes: die, case, air.

    Attributes:
        die_j_k, case_j_k: heat capacities in joule per kelvin.
        die_to_case_k_w, case_to_air_k_w: thermal resistances in kelvin per watt.
        fan_k_w: resistance from case to air with the fan at full speed; None where there is no fan.
        fan_from_c, fan_full_c: temperatures of the die between which the fan goes from still to full.
    """

    die_j_k: float
    case_j_k: float
    die_to_case_k_w: float
    case_to_air_k_w: float
    fan_k_w: float | None = None
    fan_from_c: float = 50.0
    fan_full_c: float = 75.0

    def to_air_k_w(self, die_c: float) -> float:
        """Resistance from case to air at a temperature of the die."""
        if self.fan_k_w is None:
            return self.case_to_air_k_w
        drive = (die_c - self.fan_from_c) / (self.fan_full_c - self.fan_from_c)
        drive = min(max(drive, 0.0), 1.0)
        return 1 / ((1 - drive) / self.case_to_air_k_w + drive / self.fan_k_w)


@dataclass(frozen=True, slots=True)
class Throttle:
    """What the hardware does about heat, at each poll.

    Attributes:
        trip_c: at this temperature it begins; release_c: below this it lets go.
        floor: least share of the full clock.
        step: share of the full clock that is taken or given at a poll; 1 drops to the floor at once.
        poll_s: time between polls.
    """

    trip_c: float
    release_c: float
    floor: float
    step: float = 1.0
    poll_s: float = 1.0


@dataclass(frozen=True, slots=True)
class Chip:
    """Clock in MHz, power in watts at rest and in addition at full clock, and how power follows the clock.

    Dynamic power goes with clock times voltage squared, and the voltage rises with the clock: exponents of 2 to 3.
    """

    full_mhz: float
    idle_w: float
    busy_w: float
    exponent: float = 2.4

    def watts(self, clock_share: float, busy_share: float) -> float:
        """Power at a share of the clock, busy for a share of the time."""
        return self.idle_w + self.busy_w * math.pow(clock_share, self.exponent) * busy_share


@dataclass(slots=True)
class Device:
    """One device, from cold; `advance` is all that happens to it.

    Attributes:
        ambient_c: of the air; may be changed at any time.
        clock: share of the full clock at which it runs now.
        die_c, case_c: temperatures now.
        throttled_s: how long it has been below its full clock.
    """

    body: Body
    chip: Chip
    throttle: Throttle
    ambient_c: float = 25.0
    clock: float = 1.0
    now_s: float = 0.0
    throttled_s: float = 0.0
    die_c: float = field(init=False)
    case_c: float = field(init=False)
    _next_poll_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.die_c = self.case_c = self.ambient_c

    @property
    def mhz(self) -> float:
        """The clock now."""
        return self.clock * self.chip.full_mhz

    def advance(self, busy_share: float, seconds: float = STEP_S) -> None:
        """Let `seconds` pass, at most `STEP_S`, busy for a share of them."""
        inward = (self.die_c - self.case_c) / self.body.die_to_case_k_w
        outward = (self.case_c - self.ambient_c) / self.body.to_air_k_w(self.die_c)
        self.die_c += seconds * (self.chip.watts(self.clock, busy_share) - inward) / self.body.die_j_k
        self.case_c += seconds * (inward - outward) / self.body.case_j_k
        self.now_s += seconds
        if self.clock < 1.0:
            self.throttled_s += seconds
        if self.now_s >= self._next_poll_s:
            self._next_poll_s = self.now_s + self.throttle.poll_s
            self._poll()

    def _poll(self) -> None:
        throttle = self.throttle
        if self.die_c >= throttle.trip_c:
            self.clock = max(throttle.floor, self.clock - throttle.step)
        elif self.die_c < throttle.release_c:
            self.clock = min(1.0, self.clock + throttle.step)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a fixed amount of work.

    Attributes:
        number: from 1. seconds: how long it took. rate: units of work a second.
        end_c, end_mhz: temperature of the die and clock at its end.
    """

    number: int
    seconds: float
    rate: float
    end_c: float
    end_mhz: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Temperature of the die and clock at a time."""

    seconds: float
    die_c: float
    mhz: float


def runs(
    device: Device, full_rate: float, work: float, rest_s: float = 0.0, trace: list[Sample] | None = None
) -> Iterator[Run]:
    """Runs of `work` units, one after another, without end.

    Args:
        device: goes on from where it is.
        full_rate: units a second at the full clock; the rate follows the clock.
        work: units of one run.
        rest_s: pause after each run.
        trace: takes a sample each second.
    """
    number = 0
    while True:
        number += 1
        began, left = device.now_s, work
        while left > 0:
            left -= full_rate * device.clock * STEP_S
            device.advance(1.0)
            _trace(device, trace)
        seconds = device.now_s - began
        yield Run(number, seconds, work / seconds, device.die_c, device.mhz)
        for _ in range(round(rest_s / STEP_S)):
            device.advance(0.0)
            _trace(device, trace)


def _trace(device: Device, trace: list[Sample] | None) -> None:
    if trace is not None and (not trace or device.now_s - trace[-1].seconds >= 1.0):
        trace.append(Sample(device.now_s, device.die_c, device.mhz))


TOKENS_A_RUN, TOKENS_A_SECOND = 1200.0, 40.3
"""Work of a run and full rate; how long the runs of the sources were is not published, half a minute is usual."""


def stepwise_phone() -> Device:
    """The device whose 40 tokens a second become 22.6 within eight runs, throttled for 65 % of the time."""
    return Device(
        Body(die_j_k=4.0, case_j_k=46.0, die_to_case_k_w=2.2, case_to_air_k_w=16.0),
        Chip(full_mhz=1400, idle_w=0.6, busy_w=7.0),
        Throttle(trip_c=54.0, release_c=51.0, floor=0.56, step=0.05, poll_s=2.0),
    )


def floor_phone() -> Device:
    """The device that goes from 680 to 231 MHz at 78.3 C after six runs."""
    return Device(
        Body(die_j_k=4.0, case_j_k=37.4, die_to_case_k_w=2.2, case_to_air_k_w=10.0),
        Chip(full_mhz=680, idle_w=0.8, busy_w=9.0),
        Throttle(trip_c=78.3, release_c=50.0, floor=231 / 680),
    )


def main(arguments: list[str]) -> int:
    """Print both curves; draw them and the heat-up of a camera where a file is named."""
    parser = argparse.ArgumentParser(prog="python -m sim.thermal", description="Heat and throttling.")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the curves as SVG")
    chosen = parser.parse_args(arguments)
    for name, device in (("step by step", stepwise_phone()), ("to a floor", floor_phone())):
        sys.stdout.write(f"{name}\n  run  seconds   rate      C    MHz\n")
        for run in islice(runs(device, TOKENS_A_SECOND, TOKENS_A_RUN), 10):
            row = f"{run.number:5} {run.seconds:8.1f} {run.rate:6.1f} {run.end_c:6.1f} {run.end_mhz:6.0f}\n"
            sys.stdout.write(row)
    if chosen.plot is not None:
        from sim.thermal_plot import draw  # noqa: PLC0415 - drawn on demand

        chosen.plot.write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
