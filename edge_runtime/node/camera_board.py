"""What cameras do, left where the uplink's process finds it for the device's health: one small file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.durable import write_file
from edge_runtime.protocol.operation import CameraHealth
from edge_runtime.state import StateDirectory

if TYPE_CHECKING:  # those who only read the board load no pipeline
    from edge_runtime.node.snapshot import RunSnapshot

PERIOD_S = 5.0
_STALE_NS = 4 * int(PERIOD_S) * NS_PER_S
_NAME = "cameras.json"
_MOST_CAMERAS = 64
_CAMERAS: TypeAdapter[tuple[CameraHealth, ...]] = TypeAdapter(tuple[CameraHealth, ...])


def write_board(state: StateDirectory, snapshot: "RunSnapshot", clock: Clock) -> None:
    """Replace the board.

    Raises:
        OSError: the state directory cannot be written.
    """
    cameras = [
        CameraHealth(
            name=name,
            state=camera.state,
            evaluated=camera.evaluated,
            dropped=sum(camera.drops.values()),
            age_ms=max(0.0, camera.age_ms),
        ).model_dump(mode="json")
        for name, camera in list(snapshot.cameras.items())[:_MOST_CAMERAS]
    ]
    data = json.dumps({"boottime_ns": clock.boottime_ns(), "cameras": cameras}).encode()
    write_file(_path(state), data, 0o600)


def read_board(state: StateDirectory, clock: Clock) -> tuple[CameraHealth, ...]:
    """The cameras as last written; empty where nobody has written for 20 s."""
    try:
        found = json.loads(_path(state).read_text(encoding="utf-8"))
        age_ns = clock.boottime_ns() - int(found["boottime_ns"])
        return _CAMERAS.validate_python(found["cameras"]) if 0 <= age_ns <= _STALE_NS else ()
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return ()


def _path(state: StateDirectory) -> Path:
    return state.run / _NAME
