"""From a device's configuration to what its guard is told: the process table and the body's profile.

The process that compiles this becomes the guard (`guard.client.become`). So the guard's process id is that of the
service, and nothing of what reading a configuration takes stays in its memory.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS
from edge_runtime.config import LoadedConfig, load_config
from edge_runtime.config.body_file import read_body_file
from edge_runtime.config.checks import Finding
from edge_runtime.config.node import CameraConfig, NodeConfig
from edge_runtime.errors import ConfigError
from edge_runtime.guard import refusals
from edge_runtime.guard.conditions import FROM_LATENESS, Condition, conditions_in
from edge_runtime.guard.motion_gate.judge import EVALUATED as BY_MOTION_GATE
from edge_runtime.guard.motion_gate.settings import DescriptorStop
from edge_runtime.guard.motion_gate.settings import parse as parse_motion_gate
from edge_runtime.guard.profile import Profile, from_json
from edge_runtime.guard.settings import parse
from edge_runtime.guard.severity import Need
from edge_runtime.guard.still import still_body
from edge_runtime.guard.table import OWN
from edge_runtime.monitor.conditions import evaluated_by
from edge_runtime.node.camera_watch import EVALUATED as BY_PERCEPTION
from edge_runtime.node.watch import live_max_age_ns, perception_longest_ms
from edge_runtime.state import StateDirectory

OUTBOX, UPLINK, UPDATES, MONITOR = "outbox", "uplink", "updates", "monitor"
PERCEPTION, MOTION_GATE = "perception", "motion-gate"

_SECOND = 1000
_WINDOW_MS = 600 * _SECOND
_BACKOFF_MS = 30 * _SECOND
_RESTARTS = 5
_LONGEST_START_MS = 6 * 3600 * _SECOND


def compile_settings(
    loaded: LoadedConfig,
    state: StateDirectory,
    arguments: Sequence[str],
    *,
    finite: bool,
    monitor: Sequence[str] = (),
) -> dict[str, object]:
    """What the guard is told.

    Args:
        loaded: a configuration of a device.
        state: where everything lies that survives a restart.
        arguments: of `edge-runtime` for the process of the cameras.
        finite: whether that process is told to end by itself.
        monitor: more arguments of the monitor's process.

    Raises:
        ConfigError: the profile or the motion gate's settings cannot be used, or would be unsafe.
    """
    config = loaded.config.guarding
    files = _files(loaded)  # before they are read: what changes meanwhile is a change that the guard sees
    if load_config(loaded.path).digest != loaded.digest:
        raise ConfigError(f"{loaded.path}: changed while it was read; start again")
    profile = body_profile(loaded)
    watchdog = config.hardware_watchdog
    rows = [*_delivery_rows(loaded, state), *_updates_rows(loaded, state)]
    rows.append(_monitor_row(loaded, state, monitor))
    rows.append(_perception_row(loaded, arguments, finite=finite))
    motion_gate = motion_gate_settings(loaded, state)
    if motion_gate is not None:
        rows.append(_motion_gate_row(motion_gate))
    settings: dict[str, object] = {
        "device": loaded.config.device.name,
        "directory": str(state.guard),
        "control": str(state.guard_socket),
        "profile": profile,
        "processes": rows,
        "keys": dict(config.keys),
        "configuration": files,
        "hardware_watchdog": None
        if watchdog is None
        else {"path": watchdog.device, "timeout_s": watchdog.timeout},
        "real_time": config.real_time,
        "arms_itself": config.profile is None and config.motion_gate is None,
    }
    parse(json.dumps(settings).encode())  # what the guard would refuse is said here, by who can be read
    return settings


def guard_problems(loaded: LoadedConfig, state: StateDirectory) -> list[Finding]:
    """Everything in the files about the body that keeps the guard from using them."""
    return _refusals("profile", lambda: body_profile(loaded)) or _refusals(
        "motion_gate", lambda: motion_gate_settings(loaded, state)
    )


def _refusals(key: str, read: Callable[[], object]) -> list[Finding]:
    try:
        read()
    except ConfigError as error:
        return [(("guard", key), sentence) for sentence in str(error).split("\n")]
    return []


def body_profile(loaded: LoadedConfig) -> Any:
    """The body's profile as plain data; that of a body which cannot move where the configuration names none.

    Raises:
        ConfigError: it cannot be read or used, or would be unsafe even with a real-time schedule.
    """
    config = loaded.config.guarding
    if config.profile is None:
        return still_body(
            delivers=loaded.config.delivery is not None, batteries=bool(config.monitor.batteries)
        )
    path = loaded.resolve(config.profile)
    data = read_body_file(path)
    try:
        profile = from_json(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if faults := body_faults(loaded, profile, realtime=True):
        raise ConfigError("\n".join(f"{path}: {sentence}" for sentence in faults))
    return data


def body_faults(loaded: LoadedConfig, profile: Profile, *, realtime: bool) -> list[str]:
    """Why a body may not be guarded on this device, a sentence each; an empty list if it may.

    Args:
        loaded: the configuration that names the profile.
        profile: of the body.
        realtime: whether the guard has a real-time schedule.
    """
    gated = loaded.config.guard is not None and loaded.config.guard.motion_gate is not None
    faults = refusals.check(profile, realtime=realtime, gated=gated)
    faults += [*_too_old(loaded, profile), *_unwatched(loaded, profile, gated=gated)]
    if profile.stopping.travels and not gated:
        faults.append("this body travels, and without guard.motion_gate nothing would hold it")
    return faults


def _too_old(loaded: LoadedConfig, profile: Profile) -> list[str]:
    """Cameras whose frames may be older than the body relies on."""
    bound_ns = dict(profile.freshness_ns).get(Need.CAMERA)
    ages = {name: live_max_age_ns(camera) for name, camera in loaded.config.cameras.items()}
    return [
        f"freshness_ms.camera is {bound_ns // NS_PER_MS}, and frames of camera {name} may be "
        f"{age_ns // NS_PER_MS} ms old (max_age)"
        for name, age_ns in ages.items()
        if bound_ns is not None and age_ns is not None and age_ns > bound_ns
    ]


def _unwatched(loaded: LoadedConfig, profile: Profile, *, gated: bool) -> list[str]:
    """Conditions that count, and that no process of this device would evaluate: it would never start to move."""
    monitor = loaded.config.guarding.monitor
    watched = OWN | FROM_LATENESS | BY_PERCEPTION | evaluated_by(monitor)
    if (
        gated or profile.stopping.travels
    ):  # one that travels without a motion gate is told that, and only that
        watched |= BY_MOTION_GATE | Condition.MOTION_GATE_MISMATCH.mask
    if loaded.config.delivery is not None:
        watched |= Condition.QUEUE_NEAR_FULL.mask | Condition.LINK_LOST.mask
    return [
        f"conditions.{condition.value}: nothing on this device looks at it; "
        f"{_TO_WATCH.get(condition.value.partition('_')[0], 'name a motion gate')}, or ignore it and say why"
        for condition in conditions_in(profile.counted & ~watched)
    ]


_TO_WATCH = {
    "battery": "name a battery in guard.monitor",
    "pose": "say in guard.monitor how old a pose may be",
    "map": "say in guard.monitor how old a map may be",
    "queue": "add a delivery section",
    "link": "add a delivery section",
}


def motion_gate_settings(loaded: LoadedConfig, state: StateDirectory) -> dict[str, Any] | None:
    """The motion gate's settings; None where there is no motion gate.

    Its tables of limits are put into the order in which the lease names them.

    Raises:
        ConfigError: they cannot be read or used, or do not have the limits that the body's modes name.
    """
    config = loaded.config.guarding
    if config.motion_gate is None:
        return None
    path = loaded.resolve(config.motion_gate)
    if config.profile is None:
        raise ConfigError(f"{path}: a motion gate needs guard.profile, which says what the body allows")
    data = read_body_file(path)
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: not a section with the motion gate's settings")
    settings: dict[str, Any] = {
        "device": loaded.config.device.name,
        "listen": str(state.motion_socket),
        "estop": [],
        "approvals": None,
        "real_time": config.real_time,
        **data,
    }
    try:
        parsed = parse_motion_gate(json.dumps(settings).encode())
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    if any(isinstance(stop, DescriptorStop) for stop in parsed.stops):
        raise ConfigError(f"{path}: estop: a service inherits no descriptor; use a file or a datagram socket")
    tables = parsed.profile.tables
    names = [table.name for table in tables]
    wanted = from_json(body_profile(loaded)).limits
    if missing := set(wanted) - set(names):
        raise ConfigError(f"{path}: no table is called {min(missing)}, which a mode of the profile names")
    given = settings["profile"]["tables"]
    settings["profile"] = {**settings["profile"], "tables": [given[names.index(name)] for name in wanted]}
    return settings


def is_finite(camera: CameraConfig, *, limited: bool) -> bool:
    """Whether a camera ends by itself: a recording that is not played again and again, or one with a limit."""
    source = camera.source
    recorded = getattr(source, "pacing", None) is not None and source.kind != "synthetic"
    return limited or (recorded and not getattr(source, "loop", False))


def _delivery_rows(loaded: LoadedConfig, state: StateDirectory) -> list[dict[str, object]]:
    """The outbox, which owns the queue, and the uplink, which may die or hang without an event being lost."""
    if loaded.config.delivery is None:
        return []
    place = ("--state", str(state.path), "--with-parent")
    limits = json.dumps(loaded.config.delivery.outbox_settings())
    outbox = _python("edge_runtime.outbox", *place, "--settings", limits)
    # It reads the configuration itself: a proxy's password must not stand on a command line.
    uplink = _python("edge_runtime.node.uplink_process", *place, "--config", str(loaded.path))
    return [
        _row(OUTBOX, outbox, start_ms=120 * _SECOND, longest_ms=15 * _SECOND),
        _row(UPLINK, uplink, start_ms=60 * _SECOND, longest_ms=60 * _SECOND, critical=False),
    ]


def _updates_rows(loaded: LoadedConfig, state: StateDirectory) -> list[dict[str, object]]:
    """Updates may die or hang, and what runs goes on: perception alone bounds the starts of a release on trial."""
    if not loaded.config.takes_updates:
        return []
    place = ("--state", str(state.path), "--with-parent", "--config", str(loaded.path))
    command = _python("edge_runtime.node.updates_process", *place)
    return [_row(UPDATES, command, start_ms=120 * _SECOND, longest_ms=60 * _SECOND, critical=False)]


def _monitor_row(loaded: LoadedConfig, state: StateDirectory, more: Sequence[str]) -> dict[str, object]:
    place = ("--config", str(loaded.path), "--state", str(state.path))
    command = _python("edge_runtime.node.monitor_process", *place, *more)
    return _row(MONITOR, command, start_ms=60 * _SECOND, longest_ms=5 * _SECOND, ring=True)


def _perception_row(loaded: LoadedConfig, arguments: Sequence[str], *, finite: bool) -> dict[str, object]:
    row = _row(
        PERCEPTION,
        _python("edge_runtime.cli.main", *arguments),
        start_ms=180 * _SECOND,
        longest_ms=perception_longest_ms(loaded.config),
        stop_ms=30 * _SECOND,
        ends="always" if finite else "done",
    )
    building_ms = engines_longest_ms(loaded.config)
    if not building_ms:
        return row
    # Each sign of progress begins the time anew; one long step of TensorRT must fit into it.
    start_ms = 600 * _SECOND
    return row | {"start_ms": start_ms, "start_longest_ms": min(building_ms + start_ms, _LONGEST_START_MS)}


def engines_longest_ms(config: NodeConfig) -> int:
    """How long building the engines of all models may take at a start; 0 where no model has `tensorrt`."""
    used = {camera.model for camera in config.cameras.values()}
    used |= {name for names in config.guarding.governor.variants.values() for name in names}
    wanting = [name for name in used if "tensorrt" in config.models[name].providers]
    # twice: one that turns out to be damaged is built once more
    return int(len(wanting) * 2 * config.engines.build_budget * _SECOND)


def _motion_gate_row(settings: dict[str, Any]) -> dict[str, object]:
    row = _row(
        MOTION_GATE,
        _python("edge_runtime.guard.motion_gate"),
        start_ms=60 * _SECOND,
        longest_ms=_SECOND,
        lives_on=True,
    )
    return row | {"settings": settings}


def _row(
    name: str,
    command: Sequence[str],
    *,
    start_ms: int,
    longest_ms: int,
    stop_ms: int = 10 * _SECOND,
    critical: bool = True,
    ends: str = "never",
    ring: bool = False,
    lives_on: bool = False,
) -> dict[str, object]:
    return {
        "name": name,
        "command": list(command),
        "after": [],
        "start_ms": start_ms,
        "longest_ms": longest_ms,
        "stop_ms": stop_ms,
        "restarts": _RESTARTS,
        "window_ms": _WINDOW_MS,
        "backoff_ms": _BACKOFF_MS,
        "critical": critical,
        "ends": ends,
        "ring": ring,
        "settings": None,
        "lives_on": lives_on,
    }


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


def _files(loaded: LoadedConfig) -> list[dict[str, str]]:
    """Everything of which the guard's settings were made."""
    config = loaded.config.guarding
    named = [name for name in (config.profile, config.motion_gate) if name is not None]
    paths = [loaded.path.absolute(), *(loaded.resolve(name) for name in named)]
    return [{"path": str(path), "sha256": _sha256(path)} for path in paths]


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
