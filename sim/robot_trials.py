"""Random trials of a robot that loses what it relies on: does it stop within its free range?

    python -m sim.robot_trials --trials 200 [--without guard] [--seed 1]

Each trial draws what fails, when, how badly, and how often pictures come; at that moment something stands at the
end of the profile's free range. The planner notices nothing and goes on proposing. The camera's picture is a moving
square: what is drawn plays no part here, only whether pictures come, and whether they change.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.sources import Image
from sim.scenario.records import DeviceSpec, Expectation, Fault, Scenario, World
from sim.scene.render import Renderer
from sim.scene.world import HEIGHT, WIDTH
from sim.simulated.device import View
from sim.simulated.rig import run_simulated

NOTICED: tuple[tuple[str, str], ...] = (
    ("camera", "off"),
    ("camera", "stuck"),
    ("camera", "slow"),
    ("camera", "delayed"),
    ("camera", "intermittent"),
    ("lens", "covered"),
    ("pose", "silent"),
    ("battery", "off"),
    ("worker", "hung"),
    ("guard", "stopped"),
    ("guard", "killed"),
)
"""Faults after which it has to stand. Pictures of noise, and pictures with left and right exchanged, are not among
them: nothing in the runtime notices either, and a body that has to survive them needs a second sensor."""

_MOMENT = {("worker", "hung"), ("guard", "killed")}
_AMOUNTS = {
    ("camera", "slow"): (1.0, 3.0),
    ("camera", "delayed"): (0.7, 4.0),
    ("camera", "intermittent"): (3.0, 6.0),
}
_LASTS = 9.0


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial.

    Attributes:
        number: of it.
        fault: unit and kind.
        way_m: from the fault until it stood; None where it never did while the fault lasted.
        range_m: what was free.
    """

    number: int
    fault: tuple[str, str]
    way_m: float | None
    range_m: float

    @property
    def within(self) -> bool:
        """Whether it stood before it was through the free range."""
        return self.way_m is not None and self.way_m <= self.range_m


def trial(number: int, seed: int, *, guarded: bool) -> Trial:
    """Run one; the same number and seed give the same one."""
    rng = np.random.default_rng((seed, number))
    unit, kind = NOTICED[number % len(NOTICED)]
    low, high = _AMOUNTS.get((unit, kind), (0.0, 0.0))
    fault: dict[str, Any] = {
        "name": "fault",
        "unit": unit,
        "kind": kind,
        "at": round(float(rng.uniform(0.2, 1.5)), 3),
    }
    if (unit, kind) not in _MOMENT:
        fault["lasts"] = _LASTS
    if high:
        fault["amount"] = round(float(rng.uniform(low, high)), 2)
    scenario = Scenario(
        name="trial",
        title="",
        about="",
        rigs=("sim",),
        duration=11.0,
        step=0.01,
        world=World(seed=number + 1),
        device=DeviceSpec(
            body="cart",
            camera_fps=round(float(rng.uniform(8, 20)), 1),
            battery=round(float(rng.uniform(0.5, 1.0)), 2),
            pose=True,
        ),
        fault=(Fault.model_validate(fault),),
        expect=(Expectation(measure="stop", at_most=1, unit="m"),),
    )
    trace = run_simulated(scenario, frozenset() if guarded else frozenset({"guard"}), _square)
    way = trace.values.get("stop")
    return Trial(number, (unit, kind), way, trace.values["free_range"])


def _square(renderer: Renderer) -> View:
    """A square that moves with each picture; dark where the lens is covered."""
    ground: Image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)

    def draw(seconds: float) -> Image:
        if renderer.covered:
            return np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        image: Image = ground.copy()
        left = int(seconds * 1000) % (WIDTH - 40)
        image[100:140, left : left + 40] = 200
        return image

    return View(draw, lambda _: [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run trials and print the longest way of each fault; 1 where a body went too far."""
    parser = argparse.ArgumentParser(
        prog="python -m sim.robot_trials", description="Does the robot stop in time?"
    )
    parser.add_argument("--trials", type=int, default=22)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", choices=["guard"])
    chosen = parser.parse_args(arguments)
    done = [
        trial(number, chosen.seed, guarded=chosen.without is None) for number in range(max(1, chosen.trials))
    ]
    for fault in NOTICED:
        own = [one for one in done if one.fault == fault]
        if not own:
            continue
        ways = [one.way_m for one in own if one.way_m is not None]
        longest = f"{max(ways):.3f} m" if ways else "never stood"
        never = len(own) - len(ways)
        sys.stdout.write(
            f"{' '.join(fault):<22} {len(own):>3} trials  longest way {longest:<12} {never} never stood\n"
        )
    far = sum(not one.within for one in done)
    sys.stdout.write(f"{len(done) - far} of {len(done)} within the free range of {done[0].range_m:g} m\n")
    return 1 if far else 0


if __name__ == "__main__":
    sys.exit(main())
