"""Batteries as the kernel shows them: /sys/class/power_supply.

Units and oddities are those of `Documentation/ABI/testing/sysfs-class-power`: a gauge that fails answers with an
error or vanishes, and one that is stuck repeats itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.health.reading import Reading, unknown
from edge_runtime.health.sysfiles import SysFiles

POWER_SUPPLY = "/sys/class/power_supply"

_RAW = ("capacity", "charge_now", "energy_now", "voltage_now", "current_now", "power_now")
_NOT_DRAINING = ("Charging", "Full", "Not charging")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")


@dataclass(frozen=True, slots=True)
class Battery:
    """One battery now.

    Attributes:
        charge: 0 to 1.
        volts: at its terminals.
        draining: False where it says that it is charged or full; True where it says nothing.
        raw: everything that it measures, in its own words; equal twice means that nothing at all has moved.
    """

    charge: Reading[float]
    volts: Reading[float]
    draining: bool
    raw: tuple[str, ...]


def read_battery(files: SysFiles, name: str) -> Battery | None:
    """One battery; None where there is none of that name, or it is taken out."""
    path = f"{POWER_SUPPLY}/{name}"
    if _NAME.fullmatch(name) is None or files.text(f"{path}/type").value != "Battery":
        return None
    if files.text(f"{path}/present").value == "0":
        return None
    raw = {field: files.integer(f"{path}/{field}") for field in _RAW}
    return Battery(
        charge=_charge(files, path, raw),
        volts=_volts(raw["voltage_now"]),
        draining=files.text(f"{path}/status").value not in _NOT_DRAINING,
        raw=tuple("" if reading.value is None else str(reading.value) for reading in raw.values()),
    )


def _charge(files: SysFiles, path: str, raw: Mapping[str, Reading[int]]) -> Reading[float]:
    """By its own percentage, else by what is left of a full charge."""
    capacity = raw["capacity"]
    if capacity.value is not None:
        good = 0 <= capacity.value <= 100
        return Reading(capacity.value / 100) if good else unknown(f"{capacity.value} % is no charge")
    for kind in ("charge", "energy"):
        now, full = raw[f"{kind}_now"].value, files.integer(f"{path}/{kind}_full").value
        if now is not None and full is not None and now >= 0 and full > 0:
            return Reading(min(1.0, now / full))
    return unknown(f"no percentage: {capacity.reason}")


def _volts(microvolts: Reading[int]) -> Reading[float]:
    if microvolts.value is None:
        return unknown(microvolts.reason)
    if microvolts.value <= 0:  # a battery at 0 V is one whose gauge cannot be reached
        return unknown(f"{microvolts.value} uV is no battery's voltage")
    return Reading(microvolts.value / 1_000_000)
