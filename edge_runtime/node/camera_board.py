"""What cameras and models do, left where other processes find it for the device's health: one small file."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter

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
_MOST_MODELS = 64
_CAMERAS: TypeAdapter[tuple[CameraHealth, ...]] = TypeAdapter(tuple[CameraHealth, ...])


class ModelStanding(BaseModel):
    """What really runs one model.

    Attributes:
        name: in the configuration.
        backend: library and version.
        effective: the provider that runs it.
        degraded: why it is not the one that was asked for, or None.
        release: SHA-256 of the bundle that brought it; None for the package of the configuration.
        given_up: the release that was assigned, and did not stay or open at the start.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    backend: str
    effective: str
    degraded: str | None = None
    release: str | None = None
    given_up: str | None = None


_Kind = TypeVar("_Kind")
_MODELS: TypeAdapter[tuple[ModelStanding, ...]] = TypeAdapter(tuple[ModelStanding, ...])


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
    models = [
        ModelStanding(
            name=name,
            backend=model.backend,
            effective=model.effective,
            degraded=model.degraded,
            release=model.release,
            given_up=model.given_up,
        ).model_dump(mode="json")
        for name, model in list(snapshot.models.items())[:_MOST_MODELS]
    ]
    data = json.dumps({"boottime_ns": clock.boottime_ns(), "cameras": cameras, "models": models}).encode()
    write_file(_path(state), data, 0o600)


def read_board(state: StateDirectory, clock: Clock) -> tuple[CameraHealth, ...]:
    """The cameras as last written; empty where nobody has written for 20 s, or where nobody knows."""
    return look_at_board(state, clock).value or ()


def look_at_board(state: StateDirectory, clock: Clock) -> Reading[tuple[CameraHealth, ...]]:
    """The cameras as last written, or why nobody knows of any."""
    return _look(state, clock, "cameras", _CAMERAS, "no camera has been heard of for 20 s")


def look_at_models(state: StateDirectory, clock: Clock) -> Reading[tuple[ModelStanding, ...]]:
    """The models as last written, or why nobody knows of any."""
    return _look(state, clock, "models", _MODELS, "no model has been heard of for 20 s")


def degraded_models(state: StateDirectory, clock: Clock) -> tuple[str, ...]:
    """A sentence for each model that does not run on what was asked for."""
    models = look_at_models(state, clock).value or ()
    return tuple(f"model {model.name} is degraded: {model.degraded}" for model in models if model.degraded)


def _look(
    state: StateDirectory, clock: Clock, what: str, kind: "TypeAdapter[tuple[_Kind, ...]]", silent: str
) -> Reading[tuple[_Kind, ...]]:
    path = _path(state)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        age_ns = clock.boottime_ns() - int(found["boottime_ns"])
        listed = kind.validate_python(found.get(what, ())) if 0 <= age_ns <= _STALE_NS else ()
    except FileNotFoundError:
        listed = ()
    except OSError as error:
        return unknown(f"{path} cannot be read: {error.strerror}")
    except (ValueError, KeyError, TypeError):
        return unknown(f"{path} is damaged")
    return Reading(listed) if listed else unknown(silent)


def _path(state: StateDirectory) -> Path:
    return state.run / _NAME
