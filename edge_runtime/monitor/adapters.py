"""Where a robot's own software reports: a datagram socket in the state directory.

One JSON object a datagram, with one or more of

    {"pose": {"captured_ns": 123, "spread_m": 0.1}}    when its measurements were made, and how uncertain it is
    {"map": {"built_ns": 123}}
    {"battery": {"name": "main", "charge": 0.7, "volts": 24.1, "charging": false}}

Times are CLOCK_MONOTONIC of this machine: an age on any other clock would be made up. What cannot be read is
counted, and answered in one sentence where the sender has an address.
"""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, Clock
from edge_runtime.guard.strict_json import finite, strict_json
from edge_runtime.health.reading import Reading, unknown
from edge_runtime.monitor.readings import BatteryReading, Pose
from edge_runtime.socket_path import DatagramSocket

LARGEST_DATAGRAM = 4096
MOST_AT_ONCE = 64
AHEAD_NS = NS_PER_MS
"""A time may lie so far ahead of the clock: two readings of it on two processors."""

_LARGEST_NS = (1 << 63) - 1


class BadReport(ValueError):
    """A datagram that is no report, in one sentence."""


@dataclass
class Heard:
    """The newest of everything that was reported.

    Attributes:
        pose, map_built_ns: None before the first report.
        batteries: by name.
        reports: datagrams that were understood.
        refused: datagrams that were not.
    """

    pose: Pose | None = None
    map_built_ns: int | None = None
    batteries: dict[str, BatteryReading] = field(default_factory=dict)
    reports: int = 0
    refused: int = 0


class AdapterSocket:
    """The monitor's end.

    Args:
        path: of the socket; one that a dead monitor left there is replaced.
        batteries: names that may be reported.
        clock: dates reports.

    Attributes:
        heard: what was reported.

    Raises:
        ConfigError: it cannot be made there, or another monitor listens at it.
    """

    def __init__(self, path: Path, batteries: frozenset[str], clock: Clock) -> None:
        self._batteries, self._clock = batteries, clock
        self.heard = Heard()
        self._socket = DatagramSocket(path, "monitor")

    def fileno(self) -> int:
        """To wait on."""
        return self._socket.fileno()

    def listen(self) -> None:
        """Take what has come, so many at a time that a flood cannot keep the monitor from its rounds."""
        for _ in range(MOST_AT_ONCE):
            try:
                data, sender = self._socket.end.recvfrom(LARGEST_DATAGRAM + 1)
            except OSError:
                return
            try:
                self._note(read_report(data, self._batteries, self._clock.monotonic_ns()))
                self.heard.reports += 1
            except BadReport as error:
                self.heard.refused += 1
                self._tell(sender, str(error))

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def _note(self, report: "Report") -> None:
        heard = self.heard
        # An older one that comes late changes nothing: an age never grows younger data.
        if report.pose is not None and (
            heard.pose is None or report.pose.captured_ns >= heard.pose.captured_ns
        ):
            heard.pose = report.pose
        if report.map_built_ns is not None:
            heard.map_built_ns = max(report.map_built_ns, heard.map_built_ns or 0)
        if report.battery is not None:
            name, reading = report.battery
            heard.batteries[name] = reading

    def _tell(self, sender: Any, sentence: str) -> None:
        if sender:
            with contextlib.suppress(OSError):
                self._socket.end.sendto(json.dumps({"refused": sentence}).encode(), sender)


@dataclass(frozen=True, slots=True)
class Report:
    """What one datagram says."""

    pose: Pose | None = None
    map_built_ns: int | None = None
    battery: tuple[str, BatteryReading] | None = None


def read_report(data: bytes, batteries: frozenset[str], now_ns: int) -> Report:
    """Read one datagram.

    Args:
        data: of the datagram.
        batteries: names that may be reported.
        now_ns: CLOCK_MONOTONIC.

    Raises:
        BadReport: why it is none.
    """
    if len(data) > LARGEST_DATAGRAM:
        raise BadReport(f"longer than {LARGEST_DATAGRAM} bytes")
    try:
        value = strict_json(data)
    except ValueError:
        raise BadReport("not JSON") from None
    if not isinstance(value, dict) or not value or set(value) - {"pose", "map", "battery"}:
        raise BadReport("takes one or more of `pose`, `map`, `battery`, and nothing else")
    pose, built, battery = value.get("pose"), value.get("map"), value.get("battery")
    return Report(
        None if "pose" not in value else _pose(pose, now_ns),
        None if "map" not in value else _map(built, now_ns),
        None if "battery" not in value else _battery(battery, batteries, now_ns),
    )


def _pose(value: object, now_ns: int) -> Pose:
    fields = _fields(value, "pose", {"captured_ns", "spread_m"}, set())
    spread = _number(fields["spread_m"], "pose.spread_m")
    if spread < 0:
        raise BadReport("`pose.spread_m` must not be negative")
    return Pose(_time(fields["captured_ns"], "pose.captured_ns", now_ns), spread)


def _map(value: object, now_ns: int) -> int:
    return _time(_fields(value, "map", {"built_ns"}, set())["built_ns"], "map.built_ns", now_ns)


def _battery(value: object, batteries: frozenset[str], now_ns: int) -> tuple[str, BatteryReading]:
    fields = _fields(value, "battery", {"name"}, {"charge", "volts", "charging"})
    name = fields["name"]
    if not isinstance(name, str) or name not in batteries:
        known = ", ".join(sorted(batteries)) or "none"
        raise BadReport(
            f"`battery.name` is none of those that the configuration has reported by an adapter: {known}"
        )
    charging = fields.get("charging", False)
    if not isinstance(charging, bool):
        raise BadReport("`battery.charging` must be true or false")
    charge, volts = fields.get("charge"), fields.get("volts")
    if charge is None and volts is None:
        raise BadReport("`battery` takes `charge`, `volts` or both")
    return name, BatteryReading(
        now_ns,
        _measured(charge, "battery.charge", 1.0),
        _measured(volts, "battery.volts", 1000.0),
        not charging,
        (repr(charge), repr(volts)),
    )


def _measured(value: object, place: str, most: float) -> Reading[float]:
    if value is None:
        return unknown("not reported")
    number = _number(value, place)
    if not 0 <= number <= most:
        raise BadReport(f"`{place}` must lie between 0 and {most:g}")
    return Reading(number)


def _fields(value: object, place: str, needed: set[str], more: set[str]) -> Mapping[str, object]:
    if not isinstance(value, dict) or needed - set(value) or set(value) - needed - more:
        names = ", ".join(f"`{name}`" for name in sorted(needed | more))
        raise BadReport(f"`{place}` takes {names}")
    return value


def _time(value: object, place: str, now_ns: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_NS:
        raise BadReport(f"`{place}` must be nanoseconds of CLOCK_MONOTONIC")
    if value > now_ns + AHEAD_NS:
        raise BadReport(f"`{place}` lies ahead of this machine's CLOCK_MONOTONIC")
    return value


def _number(value: object, place: str) -> float:
    number = finite(value)
    if number is None:
        raise BadReport(f"`{place}` must be a number")
    return number
