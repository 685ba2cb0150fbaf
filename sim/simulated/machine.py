"""What a simulated device runs on: heat, clock speed and battery, shown in a tree that looks like /sys and /proc.

The health readers of the runtime read the tree as they read a real one (`guard.monitor.root`). Disks are not in it:
how full one is comes from the real file system below the state directory.
"""

from pathlib import Path

from sim.heat_up import sealed_box
from sim.thermal import STEP_S

BATTERY = "pack"
_FULL_V, _EMPTY_V = 25.2, 18.0
_MEMINFO = "MemTotal: 8000000 kB\nMemAvailable: 5000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
_PRESSURE = "some avg10=0.10 avg60=0.10 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
_THROTTLES_MC, _CRITICAL_MC = 95_000, 105_000


class VirtualMachine:
    """A small computer in a sealed box.

    Args:
        root: folder of the tree; made.
        battery: charge that it starts with; None for mains.
        lasts_s: from full to empty.

    Attributes:
        heat: the box; `sim.thermal` says how it was fitted.
        held_c: what the sensor of the die shows, whatever the box would come to; None shows that.
        charge: of the battery.
        lasts_s: from full to empty.
    """

    def __init__(self, root: Path, *, battery: float | None, lasts_s: float) -> None:
        self.root, self.charge, self.lasts_s = root, battery, lasts_s
        self.heat = sealed_box()
        self.held_c: float | None = None
        self._shown: dict[str, str] = {}
        self._put("proc/meminfo", _MEMINFO)
        for name in ("cpu", "memory", "io"):
            self._put(f"proc/pressure/{name}", _PRESSURE)
        zone = "sys/class/thermal/thermal_zone0"
        self._put(f"{zone}/type", "cpu-thermal")
        for trip, (kind, at) in enumerate((("passive", _THROTTLES_MC), ("critical", _CRITICAL_MC))):
            self._put(f"{zone}/trip_point_{trip}_type", kind)
            self._put(f"{zone}/trip_point_{trip}_temp", str(at))
        self._put("sys/class/thermal/cooling_device0/type", "cpu-throttle-alert")
        self._put("sys/class/thermal/cooling_device0/max_state", "1")
        self.show()

    def warm_to(self, celsius: float) -> None:
        """It has stood in air of this temperature for long."""
        self.heat.ambient_c = self.heat.die_c = self.heat.case_c = celsius

    def advance(self, seconds: float, busy: float) -> None:
        """Let time pass, busy for a share of it."""
        left = seconds
        while left > 1e-9:
            self.heat.advance(busy, min(left, STEP_S))
            left -= STEP_S
        if self.charge is not None:
            self.charge = max(0.0, self.charge - seconds / self.lasts_s)

    def show(self) -> None:
        """Write what is measured into the tree, as a kernel would; sensors step by half a degree."""
        zone = "sys/class/thermal/thermal_zone0"
        die_c = self.heat.die_c if self.held_c is None else self.held_c
        self._put(f"{zone}/temp", str(round(die_c * 2) * 500))
        self._put("sys/class/thermal/cooling_device0/cur_state", "1" if self.heat.clock < 1.0 else "0")
        if self.charge is None:
            return
        supply = f"sys/class/power_supply/{BATTERY}"
        volts = _EMPTY_V + (_FULL_V - _EMPTY_V) * self.charge
        for name, text in (
            ("type", "Battery"),
            ("present", "1"),
            ("status", "Discharging"),
            ("capacity", str(int(100 * self.charge))),
            ("voltage_now", str(round(volts * 1_000_000))),
        ):
            self._put(f"{supply}/{name}", text)

    def _put(self, path: str, text: str) -> None:
        if self._shown.get(path) == text:
            return
        self._shown[path] = text
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.with_name(f".{place.name}")  # a kernel's files are never half written
        made.write_text(f"{text}\n", encoding="ascii")
        made.replace(place)
