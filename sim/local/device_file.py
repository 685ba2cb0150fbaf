"""The configuration of rig `local`'s device, with its body's files, and what a mutant of it lacks.

The cart is that of `deploy/bodies`, made slower and more patient: the machines that run this are shared and busy,
and its camera gives two pictures a second. Every bound that was widened is in its stopping distance, so that the
guard itself says that the cart stands within its free range.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edge_runtime.config.body_file import read_body_file
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.still import still_body
from edge_runtime.state import StateDirectory
from sim.scenario.records import DeviceSpec, Protection
from sim.simulated.body import MAP_S
from sim.simulated.machine import BATTERY
from sim.simulated.motion import BODIES, cart_profile

DEVICE, SLOT = "sim-1", "m"
MAX_AGE_S, DEADLINE_S = 4.0, 3.9
"""Of a picture, and from its capture to its event: a machine that many share may take seconds for one."""

MODEL = Path(__file__).parents[2] / "models" / "centerface"

_C = Condition
_CONTENT = (_C.SOURCE_DARK, _C.SOURCE_FROZEN)
_CAMERA = (*_CONTENT, _C.SOURCE_STALLED, _C.SOURCE_LATE, _C.EVENT_LATE, _C.OUTPUT_NOT_FINITE)
_HEALTH = (
    *(
        _C.BATTERY_MISSING,
        _C.BATTERY_FROZEN,
        _C.BATTERY_LOW,
        _C.BATTERY_CRITICAL,
        _C.POSE_STALE,
        _C.MAP_STALE,
    ),
    *(_C.SOC_HOT, _C.SOC_THROTTLED, _C.TEMPERATURE_UNKNOWN),
    *(_C.DISK_NEARLY_FULL, _C.MEMORY_PRESSURE, _C.CLOCK_STEPPED),
)
IGNORED: Mapping[Protection, tuple[Condition, ...]] = {
    "camera_watch": _CAMERA,
    "content_check": _CONTENT,
    "health_watch": _HEALTH,
}
"""Conditions that a body's profile ignores without a protection."""

_MUTANT = "a scenario takes it away"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the device finds what is around it.

    Attributes:
        folder: for its files.
        camera: URL of its video.
        broker: host and port of the network.
        state: its state directory.
        policy: its policy's file.
        root: tree that looks like /sys and /proc.
        drive: socket of the drive.
        key: public key of whoever acknowledges, in hex.
        clip: that is played in place of the camera's video.
    """

    folder: Path
    camera: str
    broker: tuple[str, int]
    state: StateDirectory
    policy: Path
    root: Path
    drive: Path
    key: str
    clip: Path | None = None


def has_profile(spec: DeviceSpec, without: Collection[Protection]) -> bool:
    """Whether the device names a body's profile, and has to be armed by a person."""
    return spec.body == "cart" or bool(IGNORED.keys() & set(without))


def write_device(places: Surroundings, spec: DeviceSpec, without: Collection[Protection]) -> Path:
    """Write the configuration and the files of the body; the configuration's file."""
    path = places.folder / "device.yaml"
    _write(path, _configuration(places, spec, without))
    if has_profile(spec, without):
        profile = _cart(spec) if spec.body == "cart" else still_body(batteries=spec.battery is not None)
        _write(places.folder / "body.yaml", lacking(profile, without, travels=spec.body == "cart"))
    if spec.body == "cart":
        (places.folder / "estop").write_text("0", encoding="ascii")
        _write(places.folder / "motion.yaml", _motion(places))
    return path


def lacking(profile: dict[str, Any], without: Collection[Protection], *, travels: bool) -> dict[str, Any]:
    """A profile that ignores what belongs to some protections.

    Args:
        profile: as plain data.
        without: the protections.
        travels: it is that of a body that may not ignore late answers.
    """
    gone = [condition for name, found in IGNORED.items() if name in without for condition in found]
    gone += [_C.INFERENCE_LATE] if "camera_watch" in without and not travels else []
    if not gone:
        return profile
    ignored = {condition.value: {"ignored": _MUTANT} for condition in gone}
    needs = {"camera", "inference"} if _C.SOURCE_DARK in gone else set()
    modes = {
        name: {**mode, "needs": [need for need in mode.get("needs", ()) if need not in needs]}
        for name, mode in profile["modes"].items()
    }
    return {**profile, "conditions": {**profile["conditions"], **ignored}, "modes": modes}


def _configuration(places: Surroundings, spec: DeviceSpec, without: Collection[Protection]) -> dict[str, Any]:
    guard: dict[str, Any] = {
        "monitor": _monitor(places, spec),
        "governor": {"enabled": "governor" not in without},
        "real_time": spec.body == "cart",
    }
    if has_profile(spec, without):
        guard |= {"profile": "body.yaml", "keys": {"ada": places.key}}
    if spec.body == "cart":
        guard["motion_gate"] = "motion.yaml"
    found: dict[str, Any] = {
        "device": {"name": DEVICE, "purpose": "bench"},
        "faults": {"enabled": True},
        "models": {SLOT: {"package": str(MODEL), "threads": 1}},
        "cameras": {"front": _camera(places, spec)},
        "guard": guard,
        "delivery": {
            "state": str(places.state.path),
            "policy": str(places.policy),
            "uplink": {
                "broker": {"host": places.broker[0], "port": places.broker[1]},
                "reconnect_cap": 1,
                "health_period": 5,
            },
        },
    }
    if spec.updates:
        found["updates"] = {"reserve_mb": 16, "trial_share": 1.0}
    return found


def _camera(places: Surroundings, spec: DeviceSpec) -> dict[str, Any]:
    moves = spec.body == "cart"
    source: dict[str, Any] = {
        "kind": "http",
        "url": places.camera,
        "max_age": MAX_AGE_S,
        "stall_after": 2.0,
        "frozen_after": 1.5 if moves else 3.0,
        "backoff_first": 0.2,
        "backoff_max": 1.0,
        "open_timeout": 3.0,
    }
    if places.clip is not None:
        source = {"kind": "file", "path": str(places.clip), "loop": True, "pacing": "real_time"}
    return {
        "source": source,
        "model": SLOT,
        "data_class": "public",
        "rules": [{"kind": "absence", "name": "empty", "seconds": 2, "deadline": DEADLINE_S}],
    }


def _monitor(places: Surroundings, spec: DeviceSpec) -> dict[str, Any]:
    """It reads the drawn machine; disks and clocks are those of this one."""
    found: dict[str, Any] = {
        "root": str(places.root),
        "disk_free": 0,
        "disk_free_bytes": 1 << 20,
        "memory_available": 0,
    }
    if spec.battery is not None:
        found["batteries"] = {BATTERY: {"supply": BATTERY}}
    if spec.pose:
        found |= {"pose": {"max_age": 2.0}, "map": {"max_age": MAP_S}}
    return found


def _cart(spec: DeviceSpec) -> dict[str, Any]:
    found = cart_profile(battery=spec.battery is not None, pose=spec.pose)
    stopping = {**found["stopping"], "v_max_m_s": 0.1, "t_detect_ms": 4500, "t_gate_ms": 350}
    return {
        **found,
        "freshness_ms": {**found["freshness_ms"], "camera": round(MAX_AGE_S * 1000)},
        "stopping": stopping,
        "lease_ms": 300,
        "late_ms": 150,
        "paused_ms": 1000,
        "start_ms": 600_000,
        "repeats": {"trips": 16},
    }


def _motion(places: Surroundings) -> dict[str, Any]:
    found: dict[str, Any] = read_body_file(BODIES / "cart_motion.yaml")
    profile = {**found["profile"], "longest_ttl_ms": 500, "refusals": 100}
    return {
        **found,
        "output": {"kind": "unix", "path": str(places.drive)},
        "estop": [{"kind": "file", "path": str(places.folder / "estop")}],
        "profile": profile,
    }


def _write(path: Path, value: Any) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")
