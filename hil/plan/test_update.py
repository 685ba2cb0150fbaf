"""Releases: one that is taken in peace, and power cuts at random points of others."""

import random

from hil.device_parts import Standing, Updates
from hil.parts import Power
from hil.plan.reactions import recovery
from hil.plugin import Measure
from hil.rig import Rig

LATEST_CUT = 1.2
"""Cuts fall up to here, in times of an update that nobody disturbs: some of them into the time after it."""


def test_an_update_and_power_cuts_in_others(
    rig: Rig, power: Power, updates: Updates, measure: Measure
) -> None:
    """After each cut the device runs a whole release, the old one or the new, and takes the new one in the end."""
    within_s = rig.file.times.update
    with rig.clock.long_run("minutes"):
        began = rig.clock.now()
        undisturbed = _taken(rig, updates, updates.begin(), within_s)
        took = rig.clock.now() - began
        torn, strange, unfinished = _cut(rig, power, updates, LATEST_CUT * took)
    measure("update", undisturbed, "s", at_most=within_s)
    measure("update_cuts", float(rig.file.times.cuts), "times", at_least=1)
    measure("update_torn", float(torn), "times", at_most=0)
    measure("update_strange", float(strange), "times", at_most=0)
    measure("update_unfinished", float(unfinished), "times", at_most=0)


def _cut(rig: Rig, power: Power, updates: Updates, latest_s: float) -> tuple[int, int, int]:
    """How often what ran after a cut was not whole, was neither the old nor the new, or never became the new."""
    rng = random.Random(11)  # noqa: S311 - the same points in every run
    torn = strange = unfinished = 0
    for _ in range(rig.file.times.cuts):
        before = updates.standing().runs
        new = updates.begin()
        rig.clock.wait(rng.uniform(0.0, latest_s))
        power.off()
        rig.clock.wait(rig.file.times.off)
        power.on()
        recovery(rig)
        after = updates.standing()
        torn += not after.whole
        strange += after.runs not in (before, new)
        unfinished += _taken(rig, updates, new, rig.file.times.update) is None
    return torn, strange, unfinished


def _taken(rig: Rig, updates: Updates, release: str, within_s: float) -> float | None:
    def there() -> bool:
        found: Standing = updates.standing()
        return found.runs == release and not found.under_way and found.whole

    return rig.until(there, within_s)
