"""What only a Jetson tells: its model and release, power rails, power mode, fan, GPU, and over-current events.

Where the facts come from (no board is at hand; nothing was copied from jetson_stats, which is AGPL):

- rails by hwmon (`in1_label`, `in1_input` mV, `curr1_input` mA, alarms), the power mode, and the OC events:
  NVIDIA's Jetson Linux developer guide, "Platform Power and Performance", R35.6 and R36.3 (Orin), R35 (Xavier);
- rails of JetPack 4 under `iio:device*` (`rail_name_0`, `in_power0_input` mW): the same guide of R32 and the TX2's;
- `oc1_event_cnt` to `oc3_event_cnt` of a hwmon called `soctherm_oc`: NVIDIA's tegra23x-oc-event driver;
- `devfreq` names (`17000000.gpu`, `17000000.ga10b`, `17000000.gv11b`, `57000000.gpu`, `gpu-gpc-0` on Thor),
  `/sys/devices/platform/gpu.0/load` in per mille, the tachometer's `rpm`: notes of users of such boards;
- Thor shows no GPU load in sysfs, and its rails' channels 4 to 7 are shunt voltages and their sum: a user's notes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.health.linux import HWMON
from edge_runtime.health.reading import Reading, distinct_name, unknown
from edge_runtime.health.sysfiles import SysFiles

DEVFREQ = "/sys/class/devfreq"
_INA_OLD = "/sys/bus/i2c/drivers/ina3221x"
_PWM_FAN_OLD = "/sys/devices/pwm-fan"

_GPU = re.compile(r"\d+\.(?:gpu|gm20b|gp10b|gv11b|ga10b)|gpu-(?:gpc|nvd)-\d+|gpu\S*")
_GPU_LOADS = (
    "/sys/devices/platform/gpu.0/load",
    "/sys/devices/gpu.0/load",
    "/sys/devices/platform/17000000.gpu/load",
    "/sys/devices/platform/bus@0/17000000.gpu/load",
    "/sys/devices/17000000.ga10b/load",
    "/sys/devices/17000000.gv11b/load",
    "/sys/devices/57000000.gpu/load",
)
_PER_MILLE = 1000
_PWM_FULL = 255

OC_NAMES = {1: "under_voltage", 2: "average_over_current", 3: "instantaneous_over_current"}
"""What Orin's and Thor's events 1 to 3 mean (developer guide, R36.3); Xavier numbers them otherwise."""


@dataclass(frozen=True, slots=True)
class PowerRail:
    """One rail: power in mW, voltage in mV, current in mA; `alarm` is the sensor's own critical alarm."""

    milliwatts: Reading[float]
    millivolts: Reading[int]
    milliamperes: Reading[int]
    alarm: Reading[bool]


@dataclass(frozen=True, slots=True)
class PowerMode:
    """nvpmodel: the mode that was set last, and its name."""

    number: Reading[int]
    name: Reading[str]


@dataclass(frozen=True, slots=True)
class Fan:
    """How hard the fan is driven, 0 to 100 %, and how fast it turns. A stuck fan has a drive and no turns."""

    drive_percent: Reading[float]
    rpm: Reading[int]


@dataclass(frozen=True, slots=True)
class GpuClock:
    """MHz of a GPU or one of its clusters: now, what is allowed now, the least."""

    now: Reading[float]
    allowed: Reading[float]
    least: Reading[float]


@dataclass(frozen=True, slots=True)
class OverCurrent:
    """Events since the start of the board, and whether they slow it down."""

    events: Reading[int]
    throttles: Reading[bool]


@dataclass(frozen=True, slots=True)
class JetsonHealth:
    """What a Jetson tells beside the rest.

    Attributes:
        l4t: release of the board support, like `36.4.3`.
        gpu_load_percent: how busy the GPU is.
        over_current: by name (`OC_NAMES`).
    """

    l4t: Reading[str]
    power: Mapping[str, PowerRail]
    mode: PowerMode
    fan: Fan
    gpu_load_percent: Reading[float]
    gpu_clocks: Mapping[str, GpuClock]
    over_current: Mapping[str, OverCurrent]


SOCS = {"tegra234": ("Orin", "8.7"), "tegra264": ("Thor", "11.0")}
"""Name and compute capability of the GPU in each system on chip that this runtime knows."""


def read_model(files: SysFiles) -> Reading[str]:
    """The machine as the device tree or the firmware names it."""
    for path in (
        "/proc/device-tree/model",
        "/sys/firmware/devicetree/base/model",
        "/sys/class/dmi/id/product_name",
    ):
        found = files.text(path)
        if found.value is not None:
            return Reading(found.value[:120])
    return unknown("neither a device tree nor a firmware names it")


def is_jetson(files: SysFiles) -> bool:
    """Whether this is a Tegra with NVIDIA's board support."""
    compatible = files.text("/proc/device-tree/compatible").value or ""
    return "nvidia,tegra" in compatible or files.text("/etc/nv_tegra_release").known


def read_jetson(files: SysFiles) -> JetsonHealth:
    """All of it; what the board does not have is unknown or absent."""
    chips = {
        entry: files.text(f"{HWMON}/{entry}/name").value or "" for entry in files.names(HWMON, r"hwmon\d+")
    }
    return JetsonHealth(
        l4t=read_l4t(files),
        power=_rails(files, chips),
        mode=_mode(files),
        fan=_fan(files, chips),
        gpu_load_percent=_gpu_load(files),
        gpu_clocks=_gpu_clocks(files),
        over_current=_over_current(files, chips),
    )


def read_l4t(files: SysFiles) -> Reading[str]:
    """Release of the board support: `# R36 (release), REVISION: 4.3, GCID: …` is 36.4.3."""
    found = files.text("/etc/nv_tegra_release")
    if found.value is None:
        return unknown(found.reason)
    words = re.search(r"R(\d{1,3}) \(release\), REVISION: ([\d.]{1,12})", found.value)
    return Reading(f"{words[1]}.{words[2]}") if words else unknown("the file names no release")


def _rails(files: SysFiles, chips: Mapping[str, str]) -> Mapping[str, PowerRail]:
    rails: dict[str, PowerRail] = {}
    for entry, chip in chips.items():
        if not re.match(r"ina\d", chip):
            continue
        for current in files.names(f"{HWMON}/{entry}", r"curr\d+_input"):
            number = current[len("curr") : -len("_input")]
            channel = f"{HWMON}/{entry}"
            label = files.text(f"{channel}/in{number}_label").value
            if label and "shunt" in label.lower():  # the sum of the other channels, not a rail
                continue
            name = distinct_name(rails, (label or f"{chip}.{entry}.{number}")[:60])
            rails[name] = _rail(files, channel, number, label)
    for device in files.names(_INA_OLD, r"\d+-[0-9a-f]+"):
        for sensor in files.names(f"{_INA_OLD}/{device}", r"iio[:_]device\d*"):
            for entry in files.names(f"{_INA_OLD}/{device}/{sensor}", r"rail_name_\d+"):
                path, number = f"{_INA_OLD}/{device}/{sensor}", entry.rpartition("_")[2]
                label = files.text(f"{path}/{entry}").value
                name = distinct_name(rails, (label or f"{device}.{number}")[:60])
                rails[name] = _old_rail(files, path, number, label)
    return rails


_NOT_CONNECTED = "not connected: the sensor's channel has no rail"


def _rail(files: SysFiles, channel: str, number: str, label: str | None) -> PowerRail:
    if label == "NC":
        return PowerRail(
            unknown(_NOT_CONNECTED), unknown(_NOT_CONNECTED), unknown(_NOT_CONNECTED), unknown(_NOT_CONNECTED)
        )
    volts = files.natural(f"{channel}/in{number}_input")
    amperes = files.natural(f"{channel}/curr{number}_input")
    alarm = files.natural(f"{channel}/curr{number}_crit_alarm")
    measured = files.natural(f"{channel}/power{number}_input")  # INA238 multiplies by itself, in microwatts
    if measured.value is not None:
        power: Reading[float] = Reading(measured.value / 1000)
    elif volts.value is None or amperes.value is None:
        power = unknown(volts.reason or amperes.reason)
    else:
        power = Reading(volts.value * amperes.value / 1000)
    return PowerRail(
        power, volts, amperes, unknown(alarm.reason) if alarm.value is None else Reading(alarm.value > 0)
    )


def _old_rail(files: SysFiles, path: str, number: str, label: str | None) -> PowerRail:
    if label == "NC":
        return _rail(files, path, number, label)
    power = files.natural(f"{path}/in_power{number}_input")
    return PowerRail(
        unknown(power.reason) if power.value is None else Reading(float(power.value)),
        files.natural(f"{path}/in_voltage{number}_input"),
        files.natural(f"{path}/in_current{number}_input"),
        unknown("JetPack 4 shows no alarm"),
    )


def _mode(files: SysFiles) -> PowerMode:
    """`pmode:0002` in the status, `< POWER_MODEL ID=2 NAME=MAXN >` in the table."""
    status = files.text("/var/lib/nvpmodel/status")
    found = re.search(r"pmode:\s*(\d{1,6})", status.value or "")
    if found is None:
        reason = status.reason or "the status names no mode"
        return PowerMode(unknown(reason), unknown(reason))
    number = int(found[1])
    table = files.text("/etc/nvpmodel.conf")
    named = re.search(rf"<\s*POWER_MODEL\s+ID={number}\s+NAME=(\S{{1,40}})\s*>", table.value or "")
    name: Reading[str] = Reading(named[1]) if named else unknown(table.reason or "the table does not name it")
    return PowerMode(Reading(number), name)


def _fan(files: SysFiles, chips: Mapping[str, str]) -> Fan:
    drive: Reading[float] = unknown("no fan is driven here")
    rpm: Reading[int] = unknown("nothing counts its turns")
    for entry, chip in chips.items():
        if chip in ("pwmfan", "pwm_fan", "pwm-fan"):
            drive = _drive(files.natural(f"{HWMON}/{entry}/pwm1"))
            turns = files.natural(f"{HWMON}/{entry}/fan1_input")
            rpm = turns if turns.known else rpm
        elif "tach" in chip:
            turns = files.natural(f"{HWMON}/{entry}/rpm")
            rpm = turns if turns.known else files.natural(f"{HWMON}/{entry}/fan1_input")
    if not drive.known:  # JetPack 4
        old = files.natural(f"{_PWM_FAN_OLD}/cur_pwm")
        drive = _drive(old) if old.known else drive
    if not rpm.known:
        old = files.natural(f"{_PWM_FAN_OLD}/rpm_measured")
        rpm = old if old.known else rpm
    return Fan(drive, rpm)


def _drive(pwm: Reading[int]) -> Reading[float]:
    if pwm.value is None:
        return unknown(pwm.reason)
    if pwm.value > _PWM_FULL:
        return unknown(f"{pwm.value} is more than a drive of {_PWM_FULL}")
    return Reading(round(100 * pwm.value / _PWM_FULL, 1))


def _gpu_load(files: SysFiles) -> Reading[float]:
    nodes = [f"{DEVFREQ}/{name}/device/load" for name in files.names(DEVFREQ, _GPU.pattern)]
    reason = "this board shows no GPU load in sysfs"
    for path in (*nodes, *_GPU_LOADS):
        found = files.natural(path)
        if found.value is not None and found.value <= _PER_MILLE:
            return Reading(found.value / 10)
        if found.reason != "not there":
            reason = found.reason or f"{found.value} is more than {_PER_MILLE} per mille"
    return unknown(reason)


def _gpu_clocks(files: SysFiles) -> Mapping[str, GpuClock]:
    return {
        name: GpuClock(
            *(_megahertz(files.natural(f"{DEVFREQ}/{name}/{kind}_freq")) for kind in ("cur", "max", "min"))
        )
        for name in files.names(DEVFREQ, _GPU.pattern)
    }


def _megahertz(hertz: Reading[int]) -> Reading[float]:
    return unknown(hertz.reason) if hertz.value is None else Reading(hertz.value / 1e6)


def _over_current(files: SysFiles, chips: Mapping[str, str]) -> Mapping[str, OverCurrent]:
    found: dict[str, OverCurrent] = {}
    for entry, chip in chips.items():
        if chip != "soctherm_oc":
            continue
        for name in files.names(f"{HWMON}/{entry}", r"oc\d_event_cnt"):
            number = int(name[2])
            enabled = files.natural(f"{HWMON}/{entry}/oc{number}_throt_en")
            found[OC_NAMES.get(number, f"oc{number}")] = OverCurrent(
                files.natural(f"{HWMON}/{entry}/{name}"),
                unknown(enabled.reason) if enabled.value is None else Reading(enabled.value > 0),
            )
    return found
