"""What cameras do, left where the uplink's process finds it for the device's health: one small file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.durable import write_file
from edge_runtime.health.reading import Reading, unknown
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
    """The cameras as last written; empty where nobody has written for 20 s, or where nobody knows."""
    return look_at_board(state, clock).value or ()


def look_at_board(state: StateDirectory, clock: Clock) -> Reading[tuple[CameraHealth, ...]]:
    """The cameras as last written, or why nobody knows of any."""
    path = _path(state)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        age_ns = clock.boottime_ns() - int(found["boottime_ns"])
        cameras = _CAMERAS.validate_python(found["cameras"]) if 0 <= age_ns <= _STALE_NS else ()
    except FileNotFoundError:
        cameras = ()
    except OSError as error:
        return unknown(f"{path} cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        return unknown(f"{path} is damaged")
    return Reading(cameras) if cameras else unknown("no camera has been heard of for 20 s")


def _path(state: StateDirectory) -> Path:
    return state.run / _NAME
