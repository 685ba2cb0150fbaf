"""The road of the monitor's events: a gate of its own with the outbox behind it, and how the queue stands."""

from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config.delivery import DeliveryConfig
from edge_runtime.gate import Gate, GateSettings, PolicyFile
from edge_runtime.monitor.announcer import Announcer
from edge_runtime.monitor.changes import Labels
from edge_runtime.outbox import OutboxClient, OutboxError, OutboxStatus
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger

OUTBOX_S = 0.2
"""The outbox may take so long to say how the queue stands."""

ASK_NS = 5 * NS_PER_S
"""It is asked so often: it counts a long queue for the answer."""

AGAIN_NS = 10 * NS_PER_S
"""One that did not answer is left alone for so long."""

_CALL_S = 2.0
_GATE_S = 2.0


class EventRoad:
    """Lets events out, by the device's policy. None of them has a crop, so no model is loaded to redact any.

    Args:
        state: of the device.
        policy: the file that decides.
        delivery: bounds of the gate's ring.
        labels: of the events.
        clock: time.

    Attributes:
        announcer: takes what is to become an event.
    """

    def __init__(
        self, state: StateDirectory, policy: Path, delivery: DeliveryConfig, labels: Labels, clock: Clock
    ) -> None:
        self._clock = clock
        self._gates_client = OutboxClient(state.outbox_socket, clock, _CALL_S)
        self._client = OutboxClient(state.outbox_socket, clock, OUTBOX_S)
        self._again_ns = 0
        self._queue: OutboxStatus | None = None
        settings = GateSettings(delivery.ring_bytes, delivery.ring_events)
        self._gate = Gate(
            self._gates_client,
            PolicyFile(policy, clock, state.assigned_policy),
            state,
            settings=settings,
            clock=clock,
        )
        self._gate.start()
        self.announcer = Announcer(self._gate, labels, clock)

    def queue(self) -> OutboxStatus | None:
        """How the queue stood a moment ago; None where the outbox does not answer in time, or did not."""
        if self._clock.monotonic_ns() < self._again_ns:
            return self._queue
        try:
            self._queue, pause_ns = self._client.status(), ASK_NS
        except OutboxError:
            self._queue, pause_ns = None, AGAIN_NS
        self._again_ns = self._clock.monotonic_ns() + pause_ns
        return self._queue

    def hand_over(self) -> None:
        """Take no more events, and hand over what is inside."""
        self._gate.close(_GATE_S)
        if self.announcer.unsettled:
            get_logger().error(
                "the outbox has not taken all events; the next monitor hands them over",
                events=self.announcer.unsettled,
            )

    def close(self) -> None:
        """End the connections."""
        self._gates_client.close()
        self._client.close()
