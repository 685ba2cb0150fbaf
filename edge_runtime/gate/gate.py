"""The gate: what rules say happened goes in, what policy decides about it goes to the outbox.

The frame's thread only puts an event into a ring. A thread of the gate's own decides, redacts and hands over. While
the outbox is away the ring fills; what it cannot hold is counted and reported when the outbox is back.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.gate.crops import Crops
from edge_runtime.gate.desk import Decided, DecisionDesk
from edge_runtime.gate.places import note_policy_place
from edge_runtime.gate.policy_file import InForce, PolicyFile
from edge_runtime.gate.recall import last_hour
from edge_runtime.gate.redaction import Redactor, WholeBlur
from edge_runtime.gate.ring import HandOverRing, Waiting
from edge_runtime.gate.tally import GateStatus, Tally, notices
from edge_runtime.outbox import NotAccepted, OutboxError, OutboxUnavailable, Put, PutResult, Submission
from edge_runtime.outbox.records import MAX_TTL_NS
from edge_runtime.protocol import EventRecord, encode_event
from edge_runtime.state import StateDirectory
from edge_runtime.telemetry import get_logger

_BATCH = 32
"""Events decided before they are handed over together; the outbox commits them in one transaction."""

_LOOK_S = 0.25
_RETRY_FIRST_S = 0.05
_RETRY_MOST_S = 2.0
_PATIENCE = 10
"""An outbox that answers, and fails so often in a row, is taken to fail because of an event in the batch."""

_LARGEST_EVENT = 65_536
"""The configuration allows no larger event; with its decision it is still a payload."""


class OutboxPort(Protocol):
    """What the gate needs of the outbox, in this process or another."""

    def put(self, submissions: Sequence[Submission], /) -> Sequence[PutResult]:
        """Hand over; returns after the commit.

        Raises:
            OutboxError: it is away, or cannot do so now.
        """
        ...

    def decisions(self, limit: int, skip: int = 0, /) -> Sequence[bytes]:
        """The newest decision receipts, encoded, newest first, without the newest `skip`.

        Raises:
            OutboxError: it is away, or cannot do so now.
        """
        ...

    def count_not_accepted(self, reason: NotAccepted, count: int, /) -> None:
        """Events that were lost before they reached it.

        Raises:
            OutboxError: it is away, or cannot do so now.
        """
        ...


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Bounds of the ring in front of the gate.

    Attributes:
        ring_bytes: all waiting events together.
        ring_events: number of waiting events.
    """

    ring_bytes: int = 4 * 1024 * 1024
    ring_events: int = 4096


class Gate:
    """Takes every event of a node, and lets go what policy permits.

    Args:
        outbox: where decided events go.
        policy: the file that decides.
        state: where crops go that leave or wait for a person.
        crops: where crops of events come from; None where the device keeps none.
        redactor: makes redacted crops; belongs to the gate from now on.
        settings: bounds.
        clock: time.
    """

    def __init__(
        self,
        outbox: OutboxPort,
        policy: PolicyFile,
        state: StateDirectory,
        *,
        crops: Crops | None = None,
        redactor: Redactor | None = None,
        settings: GateSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        settings = settings or GateSettings()
        self._clock: Clock = clock or SystemClock()
        self._outbox = outbox
        self._policy = policy
        self._state = state
        self._ring = HandOverRing(settings.ring_bytes, settings.ring_events)
        self._desk = DecisionDesk(state, crops, redactor or WholeBlur(), self._clock)
        self._tally = Tally(in_force=policy.in_force())
        self._log = get_logger()
        self._give_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gate", daemon=True)
        self._started = False
        self._unreported = self._failures = 0
        self._complete = True

    def start(self) -> None:
        """Begin to decide."""
        self._started = True
        note_policy_place(self._state, self._policy.own)
        self._thread.start()

    def write(self, event: EventRecord) -> bool:
        """Take one revision; never waits, never raises.

        Returns:
            False when there was no room for it, or the gate is closed; that is counted.
        """
        try:
            size = len(encode_event(event, _LARGEST_EVENT))
            age_ns = max(0, self._clock.monotonic_ns() - event.at.monotonic_ns)
            left_ns = int(min(event.ttl_s * NS_PER_S, MAX_TTL_NS)) - age_ns
            waiting = Waiting(event, size, self._clock.boottime_ns() + left_ns)
            return self._ring.put(waiting, event.severity.rank)
        except Exception as error:  # noqa: BLE001 - the frame loop goes on whatever an event holds
            self._ring.count_overflow(1)
            self._log.error("event not taken", kind=type(error).__name__)
            return False

    def close(self, timeout_s: float = 5.0) -> bool:
        """Take no more events, and hand over what is inside.

        Args:
            timeout_s: after this long the rest is given up, counted.

        Returns:
            Whether everything was handed over.
        """
        self._ring.close()
        if self._started:
            self._thread.join(timeout_s)
            self._give_up.set()
            self._thread.join(1.0)
        rest = len(self._ring.take(self._ring.fill[0], 0))
        self._tally.overflow(rest + self._ring.take_overflow())
        return self._complete and rest == 0 and not self._thread.is_alive()

    def status(self) -> GateStatus:
        """The gate's numbers."""
        return self._tally.status(*self._ring.fill)

    def notices(self, configuration: Path | None = None) -> list[str]:
        """Sentences that belong into the summary of a run: what is held, why, and what to write.

        Args:
            configuration: the file that names the cameras, where it is known.
        """
        return notices(self.status(), self._tally.in_force, self._policy.path, configuration)

    # ---- the gate's thread

    def _run(self) -> None:
        if self._recalled():
            self._decide()

    def _recalled(self) -> bool:
        """Whether the budgets of before a restart could be read back; until then nothing is decided."""
        wait_s = _RETRY_FIRST_S
        while True:
            try:
                self._desk.recall(last_hour(self._outbox.decisions, self._clock))
            except OutboxError:
                self._away(away=True)
            except Exception as error:  # noqa: BLE001 - without a past the budgets begin full, and that is said
                self._log.error("budgets not read back", kind=type(error).__name__)
                return True
            else:
                self._away(away=False)
                return True
            if self._give_up.wait(wait_s):
                self._complete = False
                return False
            wait_s = min(wait_s * 2, _RETRY_MOST_S)

    def _decide(self) -> None:
        while not self._give_up.is_set():
            waiting = self._ring.take(_BATCH, _LOOK_S)
            in_force = self._policy.in_force()
            self._tally.in_force = in_force
            if not waiting:
                self._report_overflow()
                if self._ring.closed:
                    return
                continue
            decided = [answer for item in waiting if (answer := self._settle(item, in_force)) is not None]
            if decided:
                self._hand_over(decided)
            self._report_overflow()

    def _settle(self, item: Waiting, in_force: InForce) -> Decided | None:
        try:
            answer = self._desk.settle(item, in_force)
        except Exception as error:  # noqa: BLE001 - not even a hold could be written: counted, never let through
            self._log.error("event lost in the gate", kind=type(error).__name__)
            self._ring.count_overflow(1)
            return None
        camera = item.event.camera
        if self._tally.decision(answer.decision, item.event):
            self._log.warning(
                "class unknown: every event is held",
                camera=camera,
                write=f"data_class under cameras.{camera}",
            )
        return answer

    def _hand_over(self, decided: Sequence[Decided]) -> None:
        """Until the outbox has answered, or the gate is told to give up."""
        wait_s = _RETRY_FIRST_S
        while True:
            results = self._put(decided)
            if results is not None:
                break
            self._away(away=True)
            if self._give_up.wait(wait_s):
                self._ring.count_overflow(len(decided))
                self._complete = False
                return
            wait_s = min(wait_s * 2, _RETRY_MOST_S)
        self._failures = 0
        self._away(away=False)
        for item, result in zip(decided, results, strict=True):
            if result.accepted:
                self._tally.accept(item.decision.kind)
            else:
                self._tally.refuse("unknown" if result.reason is None else result.reason.value)

    def _put(self, decided: Sequence[Decided]) -> Sequence[PutResult] | None:
        """The outbox's answers, or None where it has to be asked again: a key that it has is a duplicate then."""
        now = self._clock.boottime_ns()
        try:
            results = self._outbox.put([item.at(now) for item in decided])
        except OutboxUnavailable:
            return None
        except Exception as error:  # noqa: BLE001 - one event that cannot be put must not stop all others
            if isinstance(error, OutboxError) and self._failures < _PATIENCE:
                self._failures += 1  # its database failed just now
                return None
            self._log.error("outbox refused", events=len(decided), kind=type(error).__name__)
            if len(decided) > 1:
                return self._put_one_by_one(decided)
            self._ring.count_overflow(1)
            return [PutResult(Put.NOT_ACCEPTED, NotAccepted.HAND_OVER)]
        draining = any(result.reason is NotAccepted.DRAINING for result in results)
        return None if draining or len(results) != len(decided) else results

    def _put_one_by_one(self, decided: Sequence[Decided]) -> list[PutResult] | None:
        results: list[PutResult] = []
        for item in decided:
            answer = self._put([item])
            if answer is None:
                return None
            results += answer
        return results

    def _away(self, *, away: bool) -> None:
        if away and not self._tally.outbox_away:
            self._log.warning("outbox away: events wait in memory")
        self._tally.outbox_away = away

    def _report_overflow(self) -> None:
        """Tell the outbox what never reached it; until it answers the number is kept."""
        count = self._ring.take_overflow()
        self._tally.overflow(count)
        self._unreported += count
        if not self._unreported:
            return
        try:
            self._outbox.count_not_accepted(NotAccepted.HAND_OVER, self._unreported)
        except OutboxError:
            return
        except Exception as error:  # noqa: BLE001 - a count that cannot be told is no reason to stop
            self._log.error("overflow not reported", kind=type(error).__name__)
            return
        self._unreported = 0
