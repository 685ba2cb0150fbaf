"""Trees that look like /sys, /proc, /etc and /var of boards, written by tests into their own folder.

Names, units and oddities are those of real boards: zone names and the powered-off GPU from the logs of tegrastats
in the shared data, paths and the rest from NVIDIA's developer guides and users' notes, as `health/jetson.py` says.
A value of None leaves a name in the tree that cannot be read as a file, which is how a powered-off sensor looks to
whoever reads it (the kernel answers with an error).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, WallLabel

MEMINFO = (
    "MemTotal: {total} kB\nMemFree: 100 kB\nMemAvailable: {available} kB\n"
    "SwapTotal: 3900 kB\nSwapFree: 3000 kB\n"
)
PRESSURE = (
    "some avg10=1.50 avg60=2.25 avg300=0.00 total=1234\nfull avg10=0.25 avg60=0.50 avg300=0.00 total=99\n"
)


class FixedClock:
    """A clock that stands, or goes on by `step_ms` at each look."""

    def __init__(self, step_ms: float = 0.0) -> None:
        self.now_ns = 1_000_000_000
        self._step_ns = int(step_ms * NS_PER_MS)

    def monotonic_ns(self) -> int:
        self.now_ns += self._step_ns
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def wall(self) -> WallLabel:
        return WallLabel(1_700_000_000_000_000_000, synced=True, boot_id="a-boot")


class Board:
    """Writes files below a root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, path: str, text: str | int | None) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            place.mkdir()
        else:
            place.write_text(f"{text}\n", encoding="utf-8")

    def zones(
        self,
        temperatures: Mapping[str, int | str | None],
        trips: Sequence[tuple[str, int]] = (),
        bound: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        for number, (name, value) in enumerate(temperatures.items()):
            zone = f"/sys/class/thermal/thermal_zone{number}"
            self.put(f"{zone}/type", name)
            self.put(f"{zone}/temp", value)
            for trip, (kind, at) in enumerate(trips):
                self.put(f"{zone}/trip_point_{trip}_type", kind)
                self.put(f"{zone}/trip_point_{trip}_temp", at)
            pairs = ((trip, kind) for trip, kinds in (bound or {}).items() for kind in kinds)
            for link, (trip, kind) in enumerate(pairs):
                self.put(f"{zone}/cdev{link}_trip_point", trip)
                self.put(f"{zone}/cdev{link}/type", kind)

    def cooling(self, states: Mapping[str, tuple[int | str | None, int]]) -> None:
        for number, (name, (state, highest)) in enumerate(states.items()):
            device = f"/sys/class/thermal/cooling_device{number}"
            self.put(f"{device}/type", name)
            self.put(f"{device}/cur_state", state)
            self.put(f"{device}/max_state", highest)

    def hwmon(self, number: int, name: str, values: Mapping[str, str | int | None]) -> None:
        self.put(f"/sys/class/hwmon/hwmon{number}/name", name)
        for file, value in values.items():
            self.put(f"/sys/class/hwmon/hwmon{number}/{file}", value)

    def usual(self, *, processors: str, total_kb: int, available_kb: int) -> None:
        self.put("/proc/loadavg", "1.78 2.04 1.45 6/202 7679")
        self.put("/proc/meminfo", MEMINFO.format(total=total_kb, available=available_kb))
        self.put("/sys/devices/system/cpu/online", processors)
        for name in ("cpu", "memory", "io"):
            self.put(f"/proc/pressure/{name}", PRESSURE)

    def tegra(self, model: str, soc: str, release: str, mode: tuple[int, str]) -> None:
        (self.root / "proc/device-tree").mkdir(parents=True, exist_ok=True)
        (self.root / "proc/device-tree/model").write_bytes(model.encode() + b"\0")
        (self.root / "proc/device-tree/compatible").write_bytes(f"nvidia,p3768\0nvidia,{soc}\0".encode())
        major, _, rest = release.partition(".")
        self.put("/etc/nv_tegra_release", f"# R{major} (release), REVISION: {rest}, GCID: 1, BOARD: generic")
        number, name = mode
        self.put("/var/lib/nvpmodel/status", f"pmode:{number:04d}")
        self.put(
            "/etc/nvpmodel.conf",
            f"< POWER_MODEL ID=9 NAME=OTHER >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID={number} NAME={name} >\n",
        )

    def frequencies(self, folder: str, now: int, highest: int, least: int) -> None:
        for kind, value in (("cur", now), ("max", highest), ("min", least)):
            self.put(f"{folder}/{kind}_freq", value)


ORIN_TRIPS = (("passive", 99_000), ("critical", 104_500), ("passive", 70_000))
ORIN_BOUND = {0: ("cpufreq-cpu0", "cpu-throttle-alert", "devfreq-17000000.gpu"), 2: ("hot-surface-alert",)}
"""The passive trip at 70 C only warns of a hot surface; a user measured what is bound to which."""


def orin_nano(root: Path) -> Board:
    """An Orin Nano, L4T 36.4.3: an INA3221 with three rails, sensors of the vision parts powered off."""
    board = Board(root)
    board.usual(processors="0-5", total_kb=7_800_000, available_kb=1_500_000)
    board.tegra("NVIDIA Jetson Orin Nano Developer Kit", "tegra234", "36.4.3", (2, "MAXN_SUPER"))
    board.zones(
        {
            "cpu-thermal": 53_968,
            "gpu-thermal": 53_343,
            "cv0-thermal": None,
            "cv1-thermal": -256_000,
            "cv2-thermal": "",
            "soc0-thermal": 50_750,
            "soc1-thermal": 51_656,
            "soc2-thermal": 52_437,
            "tj-thermal": 53_968,
        },
        ORIN_TRIPS,
        ORIN_BOUND,
    )
    board.cooling(
        {
            "pwm-fan": (2, 3),
            "cpu-throttle-alert": (0, 1),
            "gpu-throttle-alert": (0, 1),
            "hot-surface-alert": (1, 1),
            "devfreq-17000000.gpu": (0, 8),
            "cpufreq-cpu0": (0, 20),
        }
    )
    board.hwmon(0, "cpu_thermal", {"temp1_input": 53_968})
    board.hwmon(1, "pwmfan", {"pwm1": 51})
    board.hwmon(2, "pwm_tach", {"rpm": 2140})
    board.hwmon(
        3,
        "ina3221",
        {
            **rail(1, "VDD_IN", 4984, 1856, 0),
            **rail(2, "VDD_CPU_GPU_CV", 4976, 560, 0),
            **rail(3, "VDD_SOC", 4976, 480, 0),
            "in7_label": "sum of shunt voltages",
            "in7_input": 1240,
            "curr7_input": 1600,
        },
    )
    board.hwmon(4, "soctherm_oc", over_current(0, 15, 37))
    board.frequencies("/sys/class/devfreq/17000000.gpu", 305_000_000, 1_020_000_000, 305_000_000)
    board.put("/sys/class/devfreq/17000000.gpu/device/load", 630)
    board.frequencies("/sys/class/devfreq/15340000.vic", 1, 1, 1)
    for kind, value in (("scaling_cur", 729_600), ("scaling_max", 1_728_000), ("cpuinfo_max", 1_728_000)):
        board.put(f"/sys/devices/system/cpu/cpufreq/policy0/{kind}_freq", value)
    return board


def agx_orin(root: Path) -> Board:
    """An AGX Orin, L4T 35.4.1, its GPU off: two INA3221, of which two channels are not connected."""
    board = Board(root)
    board.usual(processors="0-7", total_kb=62_801_000, available_kb=58_000_000)
    board.tegra("Jetson AGX Orin Developer Kit", "tegra234", "35.4.1", (3, "MODE_50W"))
    names = ("CPU", "GPU", "CV0", "CV1", "CV2", "SOC0", "SOC1", "SOC2", "tj", "Tboard", "Tdiode")
    values: list[int | None] = [
        44_562,
        -256_000,
        -256_000,
        None,
        None,
        41_093,
        41_250,
        40_093,
        44_343,
        32_000,
        33_000,
    ]
    board.zones(
        {
            f"{name}-therm" if name.isupper() else name: value
            for name, value in zip(names, values, strict=True)
        }
    )
    board.cooling({"gpu-throttle-alert": (1, 1), "cpu-throttle-alert": (0, 1), "pwm-fan": (0, 4)})
    board.hwmon(
        0,
        "ina3221",
        {
            **rail(1, "VDD_GPU_SOC", 19_640, 119, 0),
            **rail(2, "VDD_CPU_CV", 19_640, 20, 1),
            **rail(3, "VIN_SYS_5V0", 5_040, 798, 0),
        },
    )
    board.hwmon(
        1,
        "ina3221",
        {**rail(1, "NC", 0, 0, 0), **rail(2, "VDDQ_VDD2_1V8AO", 5_040, 60, 0), **rail(3, "NC", 0, 0, 0)},
    )
    board.put("/sys/devices/platform/gpu.0/load", 0)
    board.frequencies("/sys/class/devfreq/17000000.ga10b", 114_750_000, 1_300_500_000, 114_750_000)
    return board


def xavier(root: Path) -> Board:
    """An AGX Xavier with JetPack 4 (L4T 32.7.1): rails under iio, the old fan, no PSI."""
    board = Board(root)
    board.usual(processors="0-3,6", total_kb=15_692_000, available_kb=900_000)
    for name in ("cpu", "memory", "io"):
        (root / f"proc/pressure/{name}").unlink()
    board.tegra("Jetson-AGX", "tegra194", "32.7.1", (0, "MAXN"))
    board.zones(
        {
            "CPU-therm": 31_500,
            "GPU-therm": 30_500,
            "AUX-therm": 30_500,
            "AO-therm": 30_000,
            "PMIC-Die": 100_000,
            "Tboard_tegra": 31_000,
            "Tdiode_tegra": 32_000,
            "thermal-fan-est": 30_800,
        },
        (("passive", 86_000), ("critical", 90_500)),
    )
    base = "/sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0"
    for number, (name, power, volts, amperes) in enumerate(
        (("GPU", 463, 19_232, 24), ("CPU", 618, 19_232, 32), ("SOC", 2936, 19_232, 152))
    ):
        board.put(f"{base}/rail_name_{number}", name)
        board.put(f"{base}/in_power{number}_input", power)
        board.put(f"{base}/in_voltage{number}_input", volts)
        board.put(f"{base}/in_current{number}_input", amperes)
    board.put("/sys/devices/pwm-fan/cur_pwm", 255)
    board.put("/sys/devices/pwm-fan/rpm_measured", 0)
    board.put("/sys/devices/17000000.gv11b/load", 5)
    board.frequencies("/sys/class/devfreq/17000000.gv11b", 318_750_000, 1_377_000_000, 114_750_000)
    return board


def thor(root: Path) -> Board:
    """An AGX Thor, L4T 38.4: no load of the GPU anywhere, its sensor off while idle, two clocks of the GPU."""
    board = Board(root)
    board.usual(processors="0-13", total_kb=125_773_000, available_kb=120_000_000)
    board.tegra("NVIDIA Jetson AGX Thor Developer Kit", "tegra264", "38.4.0", (0, "MAXN"))
    board.zones(
        {
            "cpu-thermal": 53_700,
            "gpu-thermal": None,
            "soc012-thermal": 55_100,
            "soc345-thermal": 53_700,
            "tj-thermal": 55_100,
        },
        (("passive", 109_000), ("critical", 114_500)),
        {0: ("cpu-throttle-alert",)},
    )
    board.cooling(
        {
            "pwm-fan": (1, 4),
            "cpu-throttle-alert": (0, 2),
            "gpu-throttle-alert": (0, 2),
            "devfreq-gpu-gpc-0": (18, 169),
            "devfreq-gpu-nvd-0": (0, 182),
        }
    )
    board.hwmon(0, "pwmfan", {"pwm1": 58, "fan1_input": 1786})
    board.hwmon(1, "tmp451", {"temp1_input": 47_125, "temp2_input": 50_250, "temp2_label": "remote"})
    board.hwmon(
        2,
        "ina3221",
        {
            **rail(1, "VDD_GPU", 12_040, 0, 0),
            **rail(2, "VDD_CPU_SOC_MSS", 12_040, 541, 0),
            **rail(3, "VIN_SYS_5V0", 5_088, 1_281, 0),
            "in7_label": "sum of shunt voltages",
            "in7_input": 1240,
        },
    )
    board.hwmon(3, "ina238", {"in1_input": 19_000, "curr1_input": 1_500, "power1_input": 28_500_000})
    board.hwmon(5, "soctherm_oc", over_current(0, 0, 179))
    board.frequencies("/sys/class/devfreq/gpu-gpc-0", 314_000_000, 1_575_000_000, 306_000_000)
    board.frequencies("/sys/class/devfreq/gpu-nvd-0", 1_556_000_000, 1_692_000_000, 306_000_000)
    board.frequencies("/sys/class/devfreq/bwmgr", 665_000_000, 4_266_000_000, 665_000_000)
    return board


def computer(root: Path) -> Board:
    """A PC: coretemp, ACPI's cooling devices, no Tegra."""
    board = Board(root)
    board.usual(processors="0-3", total_kb=16_000_000, available_kb=8_000_000)
    board.put("/sys/class/dmi/id/product_name", "NUC7i5BNH")
    board.zones({"acpitz": 27_800, "x86_pkg_temp": 71_000}, (("passive", 95_000), ("critical", 100_000)))
    board.cooling({"Processor": (0, 10), "Fan": (1, 1), "intel_powerclamp": (-1, 50), "TCC Offset": (3, 63)})
    board.hwmon(0, "acpitz", {"temp1_input": 27_800})
    board.hwmon(1, "coretemp", {"temp1_input": 71_000, "temp1_label": "Package id 0", "temp1_crit": 100_000})
    for number in range(4):
        board.put(f"/sys/devices/system/cpu/cpu{number}/thermal_throttle/core_throttle_count", number)
    return board


def rail(number: int, name: str, millivolts: int, milliamperes: int, alarm: int) -> dict[str, str | int]:
    return {
        f"in{number}_label": name,
        f"in{number}_input": millivolts,
        f"curr{number}_input": milliamperes,
        f"curr{number}_crit_alarm": alarm,
    }


def over_current(*events: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, count in enumerate(events, 1):
        found[f"oc{number}_event_cnt"] = count
        found[f"oc{number}_throt_en"] = 1
    return found
