"""What a device says about itself: fates that the server cannot know, health, and held items. When, and what.

All are repeated until they are known to have arrived or are replaced; none is worth a queue.
"""

from collections.abc import Callable

from edge_runtime import __version__
from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.outbox import OutboxStatus
from edge_runtime.protocol.delivery import (
    MAX_RANGES,
    Ledger,
    OutcomeRange,
    Outcomes,
    Presence,
    PresenceState,
)
from edge_runtime.protocol.operation import GateCounts, Health, HeldList
from edge_runtime.protocol.wire import WireError
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.ports import Hands

_LEAST_HEALTH_NS = 5 * NS_PER_S
_LEAST_HELD_NS = 30 * NS_PER_S
_FIRST_REPEAT_NS = 10 * NS_PER_S
_LAST_REPEAT_NS = 300 * NS_PER_S
RUNTIME = __version__[:32]


def presence(device: str, boot_id: str) -> Callable[[int, PresenceState, str], Presence]:
    """Makes presence records of this device in this boot."""

    def record(session: int, state: PresenceState, reason: str) -> Presence:
        return Presence.model_validate(
            {
                "device": device,
                "session": session,
                "state": state,
                "boot_id": boot_id[:64],
                "runtime": RUNTIME,
                "reason": reason,
            }
        )

    return record


class OutcomeReport:
    """Says which fates to report now: on a change at once, else again with growing waits while nobody answers."""

    def __init__(self) -> None:
        self._last: tuple[OutcomeRange, ...] = ()
        self._next_ns = 0
        self._repeat_ns = _FIRST_REPEAT_NS

    def connected(self) -> None:
        """A session began: whatever is open is reported at once."""
        self._last, self._next_ns, self._repeat_ns = (), 0, _FIRST_REPEAT_NS

    def due(self, ranges: list[OutcomeRange], now_ns: int) -> bool:
        """Whether these, the open ones, should be reported now; True counts as reported."""
        found = tuple(ranges[:MAX_RANGES])
        if not found:
            self._last = ()
            return False
        if found != self._last:
            self._repeat_ns = _FIRST_REPEAT_NS
        elif now_ns < self._next_ns:
            return False
        else:
            self._repeat_ns = min(_LAST_REPEAT_NS, 2 * self._repeat_ns)
        self._last = found
        self._next_ns = now_ns + self._repeat_ns
        return True


def outcomes(device: str, epoch: str, ranges: list[OutcomeRange], ledger: Ledger) -> Outcomes:
    """The message of these ranges, the first that fit."""
    return Outcomes(device=device, epoch=epoch, ranges=tuple(ranges[:MAX_RANGES]), ledger=ledger)


class HealthReport:
    """Says when health goes up, and what is in it.

    Args:
        device: id.
        period_s: between two messages without a change.
        hands: for cameras and further sentences.
        link: for the link's signals.
        clock: for uptime.
    """

    def __init__(self, device: str, period_s: float, hands: Hands, link: LinkMeter, clock: Clock) -> None:
        self._device, self._hands, self._link, self._clock = device, hands, link, clock
        self._period_ns = int(period_s * NS_PER_S)
        self._sent_ns: int | None = None
        self._last: tuple[str, ...] = ()

    def connected(self) -> None:
        """A session began: health is due."""
        self._sent_ns = None

    def due(self, sentences: tuple[str, ...], now_ns: int) -> bool:
        """Whether health should go up now; True counts as sent."""
        if self._sent_ns is not None:
            age = now_ns - self._sent_ns
            if age < self._period_ns and (
                sentences == self._last or age < min(_LEAST_HEALTH_NS, self._period_ns)
            ):
                return False
        self._sent_ns = now_ns
        self._last = sentences
        return True

    def record(
        self, session: int, status: OutboxStatus | None, sentences: tuple[str, ...], now_ns: int
    ) -> Health:
        """Health now.

        Args:
            session: number of the present one.
            sentences: what is worse than it should be.
            now_ns: monotonic time.
            status: of the outbox; None while it does not answer.
        """
        gate = {} if status is None else status.gate
        return Health(
            device=self._device,
            session=session,
            boot_id=self._clock.wall().boot_id[:64],
            uptime_s=self._clock.boottime_ns() / NS_PER_S,
            runtime=RUNTIME,
            ledger=Ledger() if status is None else status.ledger,
            gate=GateCounts(
                sent=0 if status is None else status.ledger.accepted,
                kept=gate.get("kept", 0),
                held=0 if status is None else status.held,
                released=gate.get("released", 0),
                dropped=gate.get("dropped", 0),
                held_expired=gate.get("held_expired", 0),
                not_accepted=0 if status is None else sum(status.not_accepted.values()),
            ),
            link=self._link.signals(now_ns),
            cameras=self._hands.cameras()[:64],
            degraded=tuple(sentence[:200] for sentence in sentences[:16]),
        )


class HeldReport:
    """Says when the list of held items goes up: on a change, and on request."""

    def __init__(self) -> None:
        self._last: HeldList | None = None
        self._sent_ns: int | None = None

    def connected(self) -> None:
        """A session began: the list is due."""
        self._last, self._sent_ns = None, None

    def due(self, held: HeldList | None, now_ns: int, *, asked: bool = False) -> bytes | None:
        """The message to publish, or None."""
        if held is None:
            return None
        # What is left of each item's life changes all the time; that is no news.
        news = held.model_copy(
            update={"items": tuple(item.model_copy(update={"left_ms": 0}) for item in held.items)}
        )
        soon = self._sent_ns is not None and now_ns - self._sent_ns < _LEAST_HELD_NS
        if not asked and (news == self._last or soon):
            return None
        self._last, self._sent_ns = news, now_ns
        return _fitting(held)


def _fitting(held: HeldList) -> bytes:
    """The list with as many of its items, from the first on, as one payload takes."""
    try:
        return held.encode()
    except WireError:
        return _fitting(held.model_copy(update={"items": held.items[: len(held.items) // 2]}))
