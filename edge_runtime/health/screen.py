"""A snapshot for people: one screen of at most 80 columns."""

from collections.abc import Iterator

from edge_runtime.health.jetson import JetsonHealth
from edge_runtime.health.reading import Reading
from edge_runtime.health.snapshot import HealthSnapshot

WIDTH = 80
_LABEL = 13
_GIGA = 1 << 30


def screen_lines(snapshot: HealthSnapshot) -> list[str]:
    """The lines, none longer than `WIDTH`."""
    lines: list[str] = []
    for label, words in _rows(snapshot):
        room = WIDTH - _LABEL
        line = ""
        first = True
        for word in words or ["-"]:
            part = word if len(word) <= room else word[: room - 1] + "…"
            if line and len(line) + 3 + len(part) > room:
                lines.append(f"{label if first else '':{_LABEL}}{line}")
                line, first = "", False
            line = f"{line} · {part}" if line else part
        lines.append(f"{label if first else '':{_LABEL}}{line}")
    return lines


def _rows(snapshot: HealthSnapshot) -> Iterator[tuple[str, list[str]]]:
    clock = snapshot.clock
    yield "machine", [_text(snapshot.model)]
    yield "clock", [clock.time, "synchronised" if clock.synced else "NOT synchronised"]
    hot = snapshot.hottest
    words = [f"{_text(hot.name)} {_number(hot.celsius, ' C', 1)}" if hot.name.known else hot.celsius.reason]
    if hot.margin_c.known:
        words.append(f"{_number(hot.margin_c, ' C', 1)} below where {_text(hot.margin_name)} throttles")
    yield "hottest", words
    throttling = snapshot.throttling
    yield (
        "throttling",
        list(throttling.by) or [throttling.active.reason or "none"],
    )
    yield (
        "temperature",
        [
            f"{name} {_number(zone.celsius, ' C', 1) if zone.celsius.known else 'off or unread'}"
            for name, zone in snapshot.temperatures.items()
        ],
    )
    load = snapshot.load
    averages = " ".join(_number(value, "", 2) for value in (load.one, load.five, load.fifteen))
    yield "load", [f"{averages} on {_number(load.processors, '', 0)} processors"]
    memory = snapshot.memory
    yield (
        "memory",
        [
            f"{_giga(memory.available_bytes)} of {_giga(memory.total_bytes)} available",
            f"swap {_giga(memory.swap_free_bytes)} of {_giga(memory.swap_total_bytes)} free",
        ],
    )
    yield (
        "waiting",
        [f"{name} {_number(found.some_10s, ' %', 1)}" for name, found in snapshot.pressure.items()],
    )
    for folder, disk in snapshot.disks.items():
        state = "READ-ONLY" if disk.read_only.value else ""
        words = [folder, f"{_giga(disk.free_bytes)} of {_giga(disk.total_bytes)} free", state]
        yield "disk", [word for word in words if word]
    if snapshot.jetson.value is not None:
        yield from _jetson_rows(snapshot.jetson.value)


def _jetson_rows(jetson: JetsonHealth) -> Iterator[tuple[str, list[str]]]:
    mode = jetson.mode
    yield "jetson", [f"L4T {_text(jetson.l4t)}", f"mode {_text(mode.name)} ({_number(mode.number, '', 0)})"]
    clocks = [f"{name} {_number(clock.now, ' MHz', 0)}" for name, clock in jetson.gpu_clocks.items()]
    yield "gpu", [f"load {_number(jetson.gpu_load_percent, ' %', 1)}", *clocks]
    rails = ((name, rail.milliwatts) for name, rail in jetson.power.items())
    yield (
        "power",
        [
            f"{name} {_number(power, ' mW', 0)}"
            for name, power in rails
            if not power.reason.startswith("not connected")
        ],
    )
    fan = jetson.fan
    yield "fan", [f"drive {_number(fan.drive_percent, ' %', 0)}", f"turns {_number(fan.rpm, ' rpm', 0)}"]
    if jetson.over_current:
        events = jetson.over_current.items()
        yield "overcurrent", [f"{name} {_number(found.events, '', 0)}" for name, found in events]


def _text(reading: Reading[str]) -> str:
    return reading.value if reading.value is not None else f"unknown ({reading.reason})"


def _number(reading: Reading[int] | Reading[float], unit: str, digits: int) -> str:
    return "unknown" if reading.value is None else f"{reading.value:.{digits}f}{unit}"


def _giga(reading: Reading[int]) -> str:
    return "unknown" if reading.value is None else f"{reading.value / _GIGA:.1f} GiB"
