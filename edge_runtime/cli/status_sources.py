"""What `edge-runtime status` asks, and of whom: each answers for itself, or one sentence says why it does not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge_runtime.cli.guard_orders import asked_status
from edge_runtime.cli.outbox import status_record
from edge_runtime.clock import Clock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.latch import LatchFile
from edge_runtime.guard.memory import State
from edge_runtime.guard.permission import LATCH_FILE
from edge_runtime.health import HealthReader, HealthSnapshot, Reading, read_health
from edge_runtime.health.reading import unknown
from edge_runtime.node.camera_board import ModelStanding, look_at_board, look_at_models
from edge_runtime.node.way_out import WayOut, WayState, look
from edge_runtime.node.workers import workers_of
from edge_runtime.outbox import OutboxClient, OutboxStatus
from edge_runtime.protocol.operation import CameraHealth
from edge_runtime.state import StateDirectory

ANSWER_S = 1.0
"""Each source that has to be asked is given so long."""

EXIT_NO_GUARD, EXIT_NOTHING_MOVES = 1, 3
_WELL = (State.NOMINAL, State.DEGRADED, State.STANDBY)


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """A device at one moment.

    Attributes:
        guard: as the guard tells it.
        health: of the machine.
        outbox: how the queue stands.
        cameras: as the process of the cameras last wrote them down.
        models: likewise, with what really runs each of them.
        way_out: whether events reach the server.
        left: what a guard that does not answer left on the disk, one sentence; empty where one answers.
    """

    guard: Reading[dict[str, Any]]
    health: Reading[HealthSnapshot]
    outbox: Reading[OutboxStatus]
    cameras: Reading[tuple[CameraHealth, ...]]
    models: Reading[tuple[ModelStanding, ...]]
    way_out: Reading[WayOut]
    left: str = ""

    @property
    def exit_code(self) -> int:
        """0 where it may move or stands by."""
        if self.guard.value is None:
            return EXIT_NO_GUARD
        return 0 if self.guard.value["state"] in _WELL else EXIT_NOTHING_MOVES

    def to_json(self) -> dict[str, Any]:
        """For programs: null for what does not answer, and why under `unknown`."""
        outbox, way = self.outbox.value, self.way_out.value
        answers: dict[str, Reading[Any]] = {
            "guard": self.guard,
            "health": self.health,
            "outbox": self.outbox,
            "cameras": self.cameras,
            "models": self.models,
            "way_out": self.way_out,
        }
        return {
            "guard": self.guard.value,
            "health": None if self.health.value is None else self.health.value.to_json(),
            "outbox": None if outbox is None else status_record(outbox),
            "cameras": None
            if self.cameras.value is None
            else [camera.model_dump(mode="json", exclude={"v"}) for camera in self.cameras.value],
            "models": None
            if self.models.value is None
            else [model.model_dump(mode="json") for model in self.models.value],
            "way_out": None
            if way is None
            else {"state": way.state.value, "why": way.why, "connected": way.connected},
            "unknown": {name: answer.reason for name, answer in answers.items() if not answer.known},
        }


def gather(state: StateDirectory, clock: Clock) -> DeviceStatus:
    """Ask everybody; takes two seconds at most where nobody answers."""
    guard: Reading[dict[str, Any]]
    left = ""
    try:
        guard = Reading(asked_status(state.guard_socket, ANSWER_S))
    except EdgeRuntimeError as error:
        guard, left = unknown(str(error)), _left(state)
    return DeviceStatus(
        guard=guard,
        health=_health(state, clock),
        outbox=_outbox(state, guard.value, clock),
        cameras=look_at_board(state, clock),
        models=look_at_models(state, clock),
        way_out=_way_out(state, guard.value, clock),
        left=left,
    )


def _left(state: StateDirectory) -> str:
    """What will hold when a guard starts; nothing is changed by looking."""
    found = LatchFile(state.guard / LATCH_FILE).find()
    if found.missing:
        return ""
    if found.record is None:
        return f"on the disk: {found.why}"
    latch = found.record.latch
    return (
        "" if latch is None else f"{latch.state.value} is on the disk, latch {latch.id}: it will hold again"
    )


def _health(state: StateDirectory, clock: Clock) -> Reading[HealthSnapshot]:
    return Reading(read_health(HealthReader(clock, disks=(state.path,))))


def _outbox(state: StateDirectory, guard: Mapping[str, Any] | None, clock: Clock) -> Reading[OutboxStatus]:
    if _lacks(guard, "outbox"):
        return unknown("the configuration delivers nothing, so there is no queue")
    client = OutboxClient(state.outbox_socket, clock, ANSWER_S)
    try:
        return Reading(client.status())
    except (EdgeRuntimeError, ValueError) as error:
        return unknown(str(error))
    finally:
        client.close()


def _way_out(state: StateDirectory, guard: Mapping[str, Any] | None, clock: Clock) -> Reading[WayOut]:
    if _lacks(guard, "uplink"):
        return unknown("the configuration delivers nothing, so no server is spoken to")
    rows = workers_of(None if guard is None else dict(guard))
    try:
        found = look(state, next((row for row in rows if row.name == "uplink"), None), clock)
    except OSError as error:
        return unknown(f"{error.filename} cannot be read: {error.strerror}")
    if guard is None and found.state is WayState.CONNECTING:
        return unknown("no guard answers, so nobody can say whether an uplink runs")
    return Reading(found)


def _lacks(guard: Mapping[str, Any] | None, worker: str) -> bool:
    """Whether a guard answers, and has no such worker."""
    return guard is not None and all(row["name"] != worker for row in guard["workers"])
