"""How a device answers to something that goes wrong, and how it comes back."""

from hil.rig import LATCHED, Rig

ALERT = ("DEGRADED", "STOPPED", "SAFE", "LOCKOUT")
"""States of a guard that has noticed."""


def reaction(rig: Rig, began: float, within_s: float) -> float | None:
    """Seconds from a moment until the guard says so; None where it did not in time."""
    found = rig.until(lambda: rig.device.state() in ALERT, within_s)
    return None if found is None else rig.clock.now() - began


def _works(rig: Rig) -> bool:
    """Whether it works; what latched is acknowledged, again and again until its causes are gone."""
    if rig.device.state() in LATCHED:
        rig.device.acknowledge()
        return False
    return rig.ready(0.0) is not None


def recovery(rig: Rig) -> float | None:
    """Seconds until the device works again, a person's acknowledgement included; None where it did not."""
    began, within_s = rig.clock.now(), rig.file.times.settle
    found = rig.until(lambda: _works(rig), within_s)
    return None if found is None else rig.clock.now() - began
