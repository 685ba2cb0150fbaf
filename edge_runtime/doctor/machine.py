"""The computer: its name, its system, its Python, what a Jetson says of itself, memory, disk and clock."""

import re
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.doctor.facts import ClockFacts, ComputerFacts, DiskFacts, JetsonFacts, MemoryFacts
from edge_runtime.doctor.look import Look, cleaned
from edge_runtime.health import Reading
from edge_runtime.health.jetson import DEVFREQ, is_jetson, read_jetson, read_model
from edge_runtime.health.linux import read_cpu_clocks, read_disk, read_load, read_memory
from edge_runtime.health.reading import unknown

_SYSTEM = re.compile(r'^PRETTY_NAME="?([^"\n]{1,120})', re.MULTILINE)
_SYSTEM_PYTHON = re.compile(r"python(3\.\d{1,2})")
_MODE = re.compile(r"<\s*POWER_MODEL\s+ID=(\d{1,4})\s+NAME=([\w.+-]{1,40})\s*>")
_HERTZ = re.compile(r"[1-9]\d{0,11}")
_SOC = re.compile(r"nvidia,(tegra\d{1,4})\b")
_ARCHITECTURES = ("aarch64", "x86_64")


def machine(look: Look) -> ComputerFacts:
    """What is true of any Linux machine."""
    files, python = look.files, look.interpreter
    system = files.text("/etc/os-release")
    if system.value is not None:
        named = _SYSTEM.search(system.value)
        system = Reading(named[1]) if named else unknown("/etc/os-release has no PRETTY_NAME")
    alone = unknown("this Python is no virtual environment's")
    seen = alone if python.system_site_packages is None else Reading(python.system_site_packages)
    return ComputerFacts(
        model=look.keep("machine.model", cleaned(read_model(files))),
        architecture=look.keep("machine.architecture", _architecture(look)),
        system=look.keep("machine.system", cleaned(system)),
        kernel=look.keep("machine.kernel", cleaned(files.text("/proc/sys/kernel/osrelease"))),
        python=look.keep("machine.python", Reading(python.version)),
        system_python=look.keep("machine.system_python", _system_python(look.root)),
        virtual_environment=python.virtual,
        system_site_packages=look.keep("machine.system_site_packages", seen),
        processors=look.keep("machine.processors", read_load(files).processors),
    )


def _architecture(look: Look) -> Reading[str]:
    found = look.files.text("/proc/sys/kernel/arch")  # since Linux 6.1
    if found.value is not None:
        return cleaned(found)
    said = look.run(["uname", "-m"], 5.0)
    if said.value is not None and said.value.strip() not in _ARCHITECTURES:
        return unknown(f"{said.value.strip()[:20]!r} is not an architecture that this runtime knows")
    return cleaned(said)


def _system_python(root: Path) -> Reading[str]:
    """`3.10` where /usr/bin/python3 is a link to python3.10, as in Debian and Ubuntu."""
    try:
        target = (root / "usr/bin/python3").readlink().name
    except (OSError, ValueError):
        return unknown("/usr/bin/python3 is not a link to a version")
    version = _SYSTEM_PYTHON.fullmatch(target)
    return Reading(version[1]) if version else unknown("/usr/bin/python3 is not a link to a version")


def jetson(look: Look, packages: dict[str, str]) -> JetsonFacts | None:
    """What a Jetson says of itself; None elsewhere.

    Args:
        look: at the machine.
        packages: apt's, by name.
    """
    files = look.files
    if not is_jetson(files):
        return look.keep("jetson", unknown("this machine is not a Jetson"))
    said = read_jetson(files)
    soc = _SOC.search(files.text("/proc/device-tree/compatible").value or "")
    package = packages.get("nvidia-jetpack")
    absent = unknown("the package nvidia-jetpack is not installed")
    modes = _MODE.findall(files.text("/etc/nvpmodel.conf").value or "")
    named = Reading(soc[1]) if soc else unknown("the device tree names no Tegra")
    return JetsonFacts(
        l4t=look.keep("jetson.l4t", cleaned(said.l4t)),
        soc=look.keep("jetson.soc", named),
        jetpack=look.keep("jetson.jetpack", absent if package is None else Reading(package)),
        power_mode=look.keep("jetson.power_mode", cleaned(said.mode.name)),
        power_modes={name: int(number) for number, name in modes},
    )


def clocks(look: Look) -> dict[str, ClockFacts]:
    """Of the processors that run fastest, and of a Jetson's GPU."""
    found: dict[str, ClockFacts] = {}
    groups = read_cpu_clocks(look.files).values()
    fastest = max(groups, key=lambda group: group.hardware.value or 0.0, default=None)
    if fastest is not None:
        found["cpu"] = _clock(look, "cpu", fastest.now, fastest.allowed, fastest.hardware)
    if is_jetson(look.files):
        for name, clock in read_jetson(look.files).gpu_clocks.items():
            steps = look.files.text(f"{DEVFREQ}/{name}/available_frequencies").value or ""
            hertz = [int(step) for step in steps.split() if _HERTZ.fullmatch(step)]
            silent = unknown("the kernel lists no steps of it")
            shown = name.replace(".", "_")  # a dot would part the path of its values
            found[shown] = _clock(
                look, shown, clock.now, clock.allowed, Reading(max(hertz) / 1e6) if hertz else silent
            )
    return found


def _clock(
    look: Look, name: str, now: Reading[float], allowed: Reading[float], highest: Reading[float]
) -> ClockFacts:
    return ClockFacts(
        now_mhz=look.keep(f"clocks.{name}.now_mhz", now),
        allowed_mhz=look.keep(f"clocks.{name}.allowed_mhz", allowed),
        highest_mhz=look.keep(f"clocks.{name}.highest_mhz", highest),
    )


def memory(look: Look) -> MemoryFacts:
    """RAM."""
    found = read_memory(look.files)
    return MemoryFacts(
        total_bytes=look.keep("memory.total_bytes", found.total_bytes),
        available_bytes=look.keep("memory.available_bytes", found.available_bytes),
    )


def disk(look: Look, folder: Path) -> DiskFacts:
    """The file system of `folder`, or of the nearest folder above it that is there."""
    place = folder
    while not _is_there(place) and place != place.parent:
        place = place.parent
    found = read_disk(place)
    return DiskFacts(
        path=str(folder),
        total_bytes=look.keep("disk.total_bytes", found.total_bytes),
        free_bytes=look.keep("disk.free_bytes", found.free_bytes),
        read_only=look.keep("disk.read_only", found.read_only),
    )


def _is_there(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):
        return False


def clock_synced(look: Look, clock: Clock) -> bool | None:
    """Whether the kernel holds the wall clock for synchronised."""
    return look.keep("clock_synced", Reading(clock.wall().synced))
