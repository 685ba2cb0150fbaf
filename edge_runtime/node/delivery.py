"""How events leave the process of the cameras: through the gate, into the outbox.

The frame's thread only puts an event into the gate's ring. The outbox's process owns the queue, the uplink's
process talks to the fleet server. The guard starts both; either may die and is started again, and no frame waits.
"""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.config.delivery import DeliveryConfig
from edge_runtime.gate import CropFolder, Gate, GateSettings, GateStatus, PolicyFile
from edge_runtime.gate.opening import open_redactor
from edge_runtime.gate.places import note_configuration_place
from edge_runtime.node.camera_board import PERIOD_S, write_board
from edge_runtime.node.places import is_enrolled, policy_path
from edge_runtime.node.snapshot import RunSnapshot
from edge_runtime.node.way_out import WayOut, look
from edge_runtime.node.workers import WorkerStatus, ask_guard, workers_of
from edge_runtime.outbox import OutboxClient, OutboxError, OutboxStatus
from edge_runtime.protocol import EventRecord
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger
from edge_runtime.telemetry.metrics import Metrics

UPLINK = "uplink"

DRAIN_S = 5.0
"""At the end of a run the uplink has so long to deliver what is queued; the rest waits for the next run."""

_CALL_S = 2.0
_GATE_S = 5.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class DeliverySnapshot:
    """How delivery stands.

    Attributes:
        enrolled: whether a fleet server knows this device.
        way_out: whether events reach the server, and why not.
        gate: what the gate decided since the run began.
        outbox: what the outbox says; None where it does not answer.
        processes: of the device, as its guard sees them; none where there is no guard.
        notices: sentences for a person: what is held and why, what is not delivered.
    """

    enrolled: bool
    way_out: WayOut
    gate: GateStatus
    outbox: OutboxStatus | None
    processes: tuple[WorkerStatus, ...]
    notices: tuple[str, ...]


class Delivery:
    """Takes the events of a node and lets out what policy permits. An `EventSink`.

    Args:
        loaded: a configuration with a `delivery` section.
        state: where everything lies that survives a restart.
        clock: time.
        metrics: told what the outbox counts, if given.

    Raises:
        ConfigError: the state directory cannot be used.
        PackageError, BackendError: the model that redacts crops cannot be used.
    """

    def __init__(
        self, loaded: LoadedConfig, state: StateDirectory, clock: Clock, metrics: Metrics | None = None
    ) -> None:
        config = loaded.config.delivery or DeliveryConfig()
        self._loaded, self._state, self._clock = loaded, state.ensure(), clock
        self._metrics = metrics
        self._log = get_logger()
        self._ending = threading.Event()
        self._board: threading.Thread | None = None
        if loaded.config.updates is None:  # what was assigned when the device took updates holds no longer
            with contextlib.suppress(OSError):
                state.assigned_policy.unlink(missing_ok=True)
        self._redactor = open_redactor(loaded)
        self._client = OutboxClient(state.outbox_socket, clock, _CALL_S)
        evidence = loaded.config.evidence
        self._gates_client = OutboxClient(state.outbox_socket, clock, _CALL_S)
        self._gate = Gate(
            self._gates_client,
            PolicyFile(policy_path(loaded, state), clock, state.assigned_policy),
            state,
            crops=None if evidence is None else CropFolder(loaded.resolve(evidence.directory)),
            redactor=self._redactor.redactor,
            settings=GateSettings(config.ring_bytes, config.ring_events),
            clock=clock,
        )

    def start(self, run: Callable[[], RunSnapshot]) -> None:
        """Start the gate; events may come at once, they wait for the outbox in the ring.

        Args:
            run: gives the run as it stands, for the cameras in the device's health.
        """
        if not is_enrolled(self._state):
            self._log.warning(
                "not enrolled: events are queued and not sent",
                write="edge-runtime enrol --server URL --token TOKEN",
            )
        note_configuration_place(self._state, self._loaded.path)
        self._gate.start()
        self._board = threading.Thread(target=self._report, args=(run,), name="report", daemon=True)
        self._board.start()

    def write(self, event: EventRecord) -> bool:
        """Take one revision; never waits. False, and counted, when there was no room for it."""
        return self._gate.write(event)

    def snapshot(self) -> DeliverySnapshot:
        """How delivery stands now; waits for the outbox's answer."""
        try:
            outbox = self._client.status()
        except OutboxError:
            outbox = None
        processes = workers_of(ask_guard(self._state))
        uplink = next((process for process in processes if process.name == UPLINK), None)
        return DeliverySnapshot(
            is_enrolled(self._state),
            look(self._state, uplink, self._clock),
            self._gate.status(),
            outbox,
            processes,
            tuple(self._gate.notices(self._loaded.path)),
        )

    def close(self) -> DeliverySnapshot:
        """Hand over what the gate has, and give the uplink `DRAIN_S` to deliver the queue."""
        if not self._gate.close(_GATE_S):
            self._log.error("events could not be handed to the outbox; they are counted")
        if is_enrolled(self._state):
            self._drain()
        snapshot = self.snapshot()
        if self._metrics is not None:
            self._export(self._metrics, snapshot)
        self._ending.set()
        if self._board is not None:
            self._board.join(_CALL_S)
        self._redactor.close()
        self._gates_client.close()
        self._client.close()
        return snapshot

    def _report(self, run: Callable[[], RunSnapshot]) -> None:
        while not self._ending.wait(PERIOD_S):
            # a full disk: the device's health goes without its cameras
            with contextlib.suppress(OSError):
                write_board(self._state, run(), self._clock)
            if self._metrics is not None:
                self._export(self._metrics, self.snapshot())

    def _export(self, metrics: Metrics, snapshot: DeliverySnapshot) -> None:
        for process in snapshot.processes:
            metrics.process(process.name, process.restarts)
        outbox = snapshot.outbox
        if outbox is not None:
            metrics.outbox(
                outbox.ledger.model_dump(exclude={"v"}),
                balanced=outbox.ledger.balances,
                not_accepted=outbox.not_accepted,
                held=outbox.held,
            )

    def _drain(self) -> None:
        deadline = self._clock.monotonic_ns() + int(DRAIN_S * NS_PER_S)
        while self._clock.monotonic_ns() < deadline:
            try:
                status = self._client.status()
            except OutboxError:
                return
            if not status.ledger.queued and not status.evidence.get("due", 0):
                return
            self._ending.wait(_LOOK_S)
