"""What the motion gate is told at its start: one JSON object, compiled and handed over by the guard's parent.

It is read once, whole, and refused with one sentence that names the place. docs/motion-gate.md describes the keys.
"""

import ipaddress
import os
from pathlib import Path
from typing import NamedTuple

from edge_runtime.errors import ConfigError
from edge_runtime.guard.motion_gate.limits import (
    LONGEST_WINDOW_NS,
    MOST_PER_S,
    AxisLimits,
    Profile,
    Table,
)
from edge_runtime.guard.motion_gate.proposals import MOST_AXES
from edge_runtime.guard.motion_gate.verification import Approvers
from edge_runtime.guard.strict_json import JsonObject, finite, read_settings, settings_in

LARGEST_SETTINGS = 1 << 16
"""Bytes of JSON."""

_NS_PER_MS = 1_000_000
_DAY_MS = 86_400_000
_LONGEST_PATH = 107  # of a Unix socket


class FileStop(NamedTuple):
    """An emergency stop read from a file."""

    path: Path


class DescriptorStop(NamedTuple):
    """An emergency stop at an inherited descriptor."""

    fd: int


class DatagramStop(NamedTuple):
    """An emergency stop that keeps saying "released" to a socket."""

    path: Path
    fresh_ns: int


class ToDatagrams(NamedTuple):
    """Commands go to a UDP address or to the path of a Unix datagram socket."""

    address: tuple[str, int] | Path


class ToPrograms(NamedTuple):
    """Commands go to a program, the safe value to another."""

    command: tuple[str, ...]
    safe: tuple[str, ...]
    limit_ns: int


class Settings(NamedTuple):
    """Everything that the motion gate needs to know.

    Attributes:
        device: this device's id; approvals name it.
        listen: path of the socket for proposals.
        profile: what may pass.
        output: where it goes.
        stops: emergency stop channels, at most 4.
        approvers: who approves risky actions; None where none is risky.
        real_time: whether to ask for SCHED_FIFO and locked memory.
    """

    device: str
    listen: Path
    profile: Profile
    output: ToDatagrams | ToPrograms
    stops: tuple[FileStop | DescriptorStop | DatagramStop, ...]
    approvers: Approvers | None
    real_time: bool


def read(fd: int) -> Settings:
    """Read the settings from a descriptor to its end, and close it.

    Raises:
        ConfigError: they cannot be read, or not be used as they are.
    """
    return parse(read_settings(fd, LARGEST_SETTINGS))


def parse(data: bytes) -> Settings:
    """Settings from JSON.

    Raises:
        ConfigError: naming the first place that cannot be used.
    """
    top = settings_in(data, LARGEST_SETTINGS)
    device, listen = top.text("device", 128), _socket_path(top, "listen")
    profile = profile_of(top.take("profile"))
    output = _output(JsonObject(top.take("output"), "output"))
    stops = tuple(_stop(JsonObject(item, f"estop[{at}]")) for at, item in enumerate(top.items("estop", 4)))
    real_time = top.flag("real_time")
    approvals = top.take("approvals")
    top.end()
    approvers = None if approvals is None else _approvers(JsonObject(approvals, "approvals"))
    if profile.risky and approvers is None:
        raise ConfigError("approvals: null, but the profile has risky actions; name the approvers' keys")
    return Settings(device, listen, profile, output, stops, approvers, real_time)


def _names(value: object, place: str) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{place}: not a list of names")
    return frozenset(value)


def _number(value: object, place: str) -> float:
    found = finite(value)
    if found is None:
        raise ConfigError(f"{place}: not a finite number")
    return found


def profile_of(value: object) -> Profile:
    """The profile part of the settings, from what JSON gave.

    Raises:
        ConfigError: naming the first place that cannot be used.
    """
    part = JsonObject(value, "profile")
    axes = part.named("axes", MOST_AXES, _number)
    actions = part.named("actions", 64, _names)
    for name, needed in actions.items():
        if not needed or not needed <= axes.keys():
            raise ConfigError(f"{part.place}.actions.{name}: names axes that the profile lacks, or none")
    risky = _names(part.take("risky"), f"{part.place}.risky")
    if not risky <= actions.keys():
        raise ConfigError(f"{part.place}.risky: names actions that the profile lacks")
    tables = tuple(
        _table(JsonObject(item, f"{part.place}.tables[{at}]"), axes, actions)
        for at, item in enumerate(part.items("tables", 8))
    )
    if not tables:
        raise ConfigError(f"{part.place}.tables: empty")
    states = _names(part.take("states"), f"{part.place}.states")
    profile = Profile(
        axes=axes,
        actions=actions,
        risky=risky,
        tables=tables,
        longest_ttl_ns=part.whole("longest_ttl_ms", 1, 60_000) * _NS_PER_MS,
        most_per_s=part.whole("most_per_s", 1, MOST_PER_S),
        refusals=part.whole("refusals", 1, 1000),
        refusals_ns=part.whole("refusals_ms", 1, 60_000) * _NS_PER_MS,
        states=states,
        longest_approval_ns=part.whole("longest_approval_ms", 1000, _DAY_MS) * _NS_PER_MS,
    )
    part.end()
    return profile


def _table(part: JsonObject, axes: dict[str, float], actions: dict[str, frozenset[str]]) -> Table:
    name = part.text("name", 15)
    allowed = _names(part.take("actions"), f"{part.place}.actions")
    if not allowed <= actions.keys():
        raise ConfigError(f"{part.place}.actions: names actions that the profile lacks")
    limits = part.named("axes", MOST_AXES, lambda item, place: _axis(JsonObject(item, place)))
    part.end()
    needed = frozenset(axis for action in allowed for axis in actions[action])
    if limits.keys() != needed:
        raise ConfigError(
            f"{part.place}.axes: not exactly the axes of its actions: {', '.join(sorted(needed))}"
        )
    for axis, limit in limits.items():
        if not limit.low <= axes[axis] <= limit.high:
            raise ConfigError(f"{part.place}.axes.{axis}: its safe value {axes[axis]:g} is out of its range")
    return Table(name, allowed, limits)


def _axis(part: JsonObject) -> AxisLimits:
    found = AxisLimits(
        low=part.number("low"),
        high=part.number("high"),
        rise_per_s=part.number("rise_per_s"),
        step_ns=part.whole("step_ms", 1, 1000) * _NS_PER_MS,
        window_ns=part.whole("window_ms", 1, LONGEST_WINDOW_NS // _NS_PER_MS) * _NS_PER_MS,
        window_rise=part.number("window_rise"),
    )
    part.end()
    if found.rise_per_s < 0 or found.window_rise < 0:
        raise ConfigError(f"{part.place}: rise_per_s and window_rise are not negative")
    return found


def _output(part: JsonObject) -> ToDatagrams | ToPrograms:
    kind = part.text("kind", 16)
    if kind == "udp":
        host, port = part.text("host", 64), part.whole("port", 1, 65535)
        part.end()
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise ConfigError(f"{part.place}.host: not a numeric address; names are not looked up") from None
        return ToDatagrams((host, port))
    if kind == "unix":
        path = _socket_path(part, "path")
        part.end()
        return ToDatagrams(path)
    if kind == "exec":
        command, safe = part.texts("command", 64), part.texts("safe", 64)
        limit_ns = part.whole("limit_ms", 1, 60_000) * _NS_PER_MS
        part.end()
        if not command or not safe:
            raise ConfigError(f"{part.place}: command and safe name a program each")
        return ToPrograms(command, safe, limit_ns)
    raise ConfigError(f"{part.place}.kind: {kind!r} is none of udp, unix and exec")


def _stop(part: JsonObject) -> FileStop | DescriptorStop | DatagramStop:
    kind = part.text("kind", 16)
    found: FileStop | DescriptorStop | DatagramStop
    if kind == "file":
        found = FileStop(Path(part.text("path", 1024)))
    elif kind == "fd":
        found = DescriptorStop(part.whole("fd", 3, 1 << 20))
    elif kind == "datagram":
        found = DatagramStop(_socket_path(part, "path"), part.whole("fresh_ms", 20, 60_000) * _NS_PER_MS)
    else:
        raise ConfigError(f"{part.place}.kind: {kind!r} is none of file, fd and datagram")
    part.end()
    return found


def _approvers(part: JsonObject) -> Approvers:
    keys = part.named("keys", 16, _key)
    used = Path(part.text("used", 1024))
    answer_ns = part.whole("answer_within_ms", 100, 60_000) * _NS_PER_MS
    part.end()
    return Approvers(keys, used, answer_ns)


def _key(value: object, place: str) -> str:
    letters = "0123456789abcdef"
    if not isinstance(value, str) or len(value) != 64 or not all(letter in letters for letter in value):
        raise ConfigError(f"{place}: not a public key of 32 bytes in lower-case hex")
    return value


def _socket_path(part: JsonObject, key: str) -> Path:
    path = Path(part.text(key, 1024))
    if not path.is_absolute() or len(os.fsencode(path)) > _LONGEST_PATH:
        raise ConfigError(f"{part.place}.{key}: not an absolute path of at most {_LONGEST_PATH} bytes")
    return path
