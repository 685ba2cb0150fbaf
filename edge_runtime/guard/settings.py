"""What the guard is told at its start: one JSON object, compiled from the device's configuration by its parent."""

import json
from enum import Enum
from typing import NamedTuple

from edge_runtime.errors import ConfigError
from edge_runtime.guard.page import MAX_SLOTS
from edge_runtime.guard.profile import Profile, from_json
from edge_runtime.guard.refusals import check
from edge_runtime.guard.strict_json import JsonObject, read_settings, settings_in

LARGEST_SETTINGS = 1 << 18
"""Bytes of JSON."""

LARGEST_HANDED = 1 << 15
"""Bytes of JSON for one process: what a pipe holds, so that writing it never waits."""

_NS_PER_MS = 1_000_000
_LONGEST_MS = 3_600_000
_MOST_FILES = 8


class Ends(str, Enum):
    """Which end of a process ends the whole run."""

    NEVER = "never"
    """It is started again, whatever it ended with."""
    DONE = "done"
    """With exit code 0 its work is done; with 2 before it ever beat, it cannot work as it is set up."""
    ALWAYS = "always"
    """Any end."""


class Row(NamedTuple):
    """One process that the guard starts and watches. Times are in nanoseconds.

    Attributes:
        name: of its slot, at most 15 characters.
        command: program and arguments.
        after: rows that must have beaten before it is started.
        start_ns: from its start, or from the last sign of progress that it gave while starting, to its first beat.
        start_longest_ns: from its start to its first beat, whatever progress it makes.
        longest_ns: between two beats, whatever deadline it gives itself.
        stop_ns: from being asked to end to being killed.
        restarts: how often it may be started again within `window_ns`; once more is a crash loop.
        window_ns: see `restarts`.
        backoff_ns: the longest pause before it is started again; the first is a tenth of it.
        critical: what befalls it is a condition. One that is not is started again for ever; what it evaluates is
            not evaluated meanwhile.
        ends: which end of it ends the whole run, with its exit code.
        ring: it is handed the flight ring.
        settings: JSON that it is handed by a descriptor, with `--settings-fd N` after its arguments; empty: none.
        lives_on: it is not told to die with the guard: the motion gate, which closes by itself.
    """

    name: str
    command: tuple[str, ...]
    after: tuple[str, ...]
    start_ns: int
    start_longest_ns: int
    longest_ns: int
    stop_ns: int
    restarts: int
    window_ns: int
    backoff_ns: int
    critical: bool
    ends: Ends
    ring: bool
    settings: bytes
    lives_on: bool


class Settings(NamedTuple):
    """Everything that the guard needs to know.

    Attributes:
        device: this device's id; acknowledgements name it.
        directory: of the latch and the flight recorder; exists.
        control: path of the socket for requests.
        profile: what the body allows.
        rows: the process table, in the order of starting.
        keys: Ed25519 public keys of those who may acknowledge, 32 bytes in hex, by name.
        configuration: the files from which all this was compiled, each with its SHA-256.
        hardware: path and time-out in seconds of a hardware watchdog; None where none is used.
        real_time: whether to ask for SCHED_FIFO and locked memory.
        arms_itself: in STANDBY it needs no request to arm; only for a body that cannot move.
    """

    device: str
    directory: str
    control: str
    profile: Profile
    rows: tuple[Row, ...]
    keys: dict[str, str]
    configuration: tuple[tuple[str, str], ...]
    hardware: tuple[str, int] | None
    real_time: bool
    arms_itself: bool

    @property
    def moves(self) -> bool:
        """Whether this body can move at all: it travels, or a motion gate passes commands to it."""
        return self.profile.stopping.travels or self.gated

    @property
    def gated(self) -> bool:
        """Whether there is a motion gate."""
        return any(row.lives_on for row in self.rows)


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
    device, directory = top.text("device", 128), top.text("directory", 4096)
    control = top.text("control", 4096)
    profile = from_json(top.take("profile"))
    rows = tuple(
        _row(JsonObject(item, f"processes[{at}]"))
        for at, item in enumerate(top.items("processes", MAX_SLOTS))
    )
    keys = {name: _key(value, name) for name, value in _mapping(top.take("keys"), "keys").items()}
    configuration = tuple(
        _configuration(JsonObject(item, f"configuration[{at}]"))
        for at, item in enumerate(top.items("configuration", _MOST_FILES))
    )
    watchdog = top.take("hardware_watchdog")
    real_time, arms_itself = top.flag("real_time"), top.flag("arms_itself")
    top.end()
    hardware = None if watchdog is None else _hardware(JsonObject(watchdog, "hardware_watchdog"))
    _check_table(rows)
    settings = Settings(
        device, directory, control, profile, rows, keys, configuration, hardware, real_time, arms_itself
    )
    if arms_itself and settings.moves:
        raise ConfigError(
            "settings.arms_itself: only where nothing can move: a still body without a motion gate"
        )
    return settings


def require_safe(settings: Settings, *, realtime: bool) -> None:
    """Refuse a profile that would be unsafe.

    Args:
        settings: with the profile.
        realtime: whether the guard has a real-time schedule; without one it detects later.

    Raises:
        ConfigError: why, the first reason.
    """
    if unsafe := check(settings.profile, realtime=realtime, gated=settings.gated):
        raise ConfigError(f"profile {settings.profile.name}: {unsafe[0]}")


def _row(part: JsonObject) -> Row:
    start_ms = part.whole("start_ms", 1, _LONGEST_MS)
    row = Row(
        name=part.text("name", 15),
        command=part.texts("command", 64),
        after=part.texts("after", MAX_SLOTS),
        start_ns=start_ms * _NS_PER_MS,
        start_longest_ns=_start_longest_ms(part, start_ms) * _NS_PER_MS,
        longest_ns=part.whole("longest_ms", 1, _LONGEST_MS) * _NS_PER_MS,
        stop_ns=part.whole("stop_ms", 1, _LONGEST_MS) * _NS_PER_MS,
        restarts=part.whole("restarts", 0, 1000),
        window_ns=part.whole("window_ms", 1, 86_400_000) * _NS_PER_MS,
        backoff_ns=part.whole("backoff_ms", 1, _LONGEST_MS) * _NS_PER_MS,
        critical=part.flag("critical"),
        ends=_ends(part),
        ring=part.flag("ring"),
        settings=_handed(part.take("settings"), part.place),
        lives_on=part.flag("lives_on"),
    )
    part.end()
    if not row.command:
        raise ConfigError(f"{part.place}.command: empty")
    return row


def _start_longest_ms(part: JsonObject, start_ms: int) -> int:
    """The one setting that may be left out: ten times `start_ms`."""
    if not part.has("start_longest_ms"):
        return 10 * start_ms
    return part.whole("start_longest_ms", start_ms, 10 * _LONGEST_MS)


def _ends(part: JsonObject) -> Ends:
    word = part.text("ends", 10)
    if word not in [ends.value for ends in Ends]:
        raise ConfigError(f"{part.place}.ends: not one of {', '.join(ends.value for ends in Ends)}")
    return Ends(word)


def _handed(value: object, place: str) -> bytes:
    data = b"" if value is None else json.dumps(value).encode()
    if len(data) > LARGEST_HANDED:
        raise ConfigError(f"{place}.settings: longer than {LARGEST_HANDED} bytes")
    return data


def _check_table(rows: tuple[Row, ...]) -> None:
    """Names are there once, and each row comes after those that it waits for: so there is no circle."""
    before: set[str] = set()
    for row in rows:
        if row.name in before:
            raise ConfigError(f"processes: {row.name} is there twice")
        if missing := set(row.after) - before:
            raise ConfigError(
                f"processes: {row.name} waits for {min(missing)}, which does not come before it"
            )
        before.add(row.name)
    if not rows:
        raise ConfigError("processes: empty")


def _mapping(value: object, place: str) -> dict[str, object]:
    return JsonObject(value, place).rest()


def _configuration(part: JsonObject) -> tuple[str, str]:
    path, digest = part.text("path", 4096), _hex(part.take("sha256"))
    part.end()
    if digest is None:
        raise ConfigError(f"{part.place}.sha256: not 64 hexadecimal digits")
    return path, digest


def _hex(value: object) -> str | None:
    """64 hexadecimal digits; None if it is anything else."""
    good = isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")
    return str(value) if good else None


def _key(value: object, name: str) -> str:
    found = _hex(value)
    if found is None:
        raise ConfigError(f"keys.{name[:40]}: not 64 hexadecimal digits of an Ed25519 public key")
    return found


def _hardware(part: JsonObject) -> tuple[str, int]:
    found = part.text("path", 4096), part.whole("timeout_s", 1, 3600)
    part.end()
    return found
