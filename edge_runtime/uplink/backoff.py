"""When to connect again: full jitter, so that no fleet and no quarrel over one identity becomes a storm. Pure.

Successful connects are no proof of health: a session that is kicked at once (the same identity in use twice) makes
a loop without any delay where only failed connects are counted (esp-rainmaker-neo #1, comqtt #157). So a short
session counts as a failure, and being kicked again and again waits for a minute or more and raises an alarm.
"""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum

from edge_runtime.clock import NS_PER_S

_MAX_EXPONENT = 32

ALARM_S = 3600
"""So long after the last takeover the alarm stays in health."""


class Ending(str, Enum):
    """How an attempt or a session ended.

    Attributes:
        UNREACHABLE: no connection: no network, no broker, no handshake.
        TURNED_AWAY: the broker was reached, and closed the connection before it answered. NATS does so to a client
            that comes back within a second of one with the same identity.
        REFUSED: the broker answered, and said no.
        LOST: an established session broke or was closed by the broker.
        TAKEN_OVER: the broker says that another client has this identity (MQTT 5).
        OWN: this side ended it, for a reason of its own.
    """

    UNREACHABLE = "unreachable"
    TURNED_AWAY = "turned_away"
    REFUSED = "refused"
    LOST = "lost"
    TAKEN_OVER = "taken_over"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class ReconnectSettings:
    """Bounds of the waits, in seconds.

    Attributes:
        base_s: ceiling of the first wait; it doubles with each failure.
        cap_s: ceiling of all waits.
        stable_s: a session that lived so long clears the failures.
        short_s: one that lived less counts as a failure.
        quarrel_s: least wait while another client seems to use this identity.
        kicks: so many short sessions within a minute are a quarrel.
        fleet: how many devices share the broker; after its loss the first waits are spread over
            `fleet / (0.5 * 300)` seconds, half of what one core of a broker can shake hands with.
    """

    base_s: float = 1.0
    cap_s: float = 300.0
    stable_s: float = 60.0
    short_s: float = 10.0
    quarrel_s: float = 60.0
    kicks: int = 3
    fleet: int = 1

    @property
    def spread_s(self) -> float:
        """Over how long the devices of this fleet come back after the broker was lost."""
        return self.fleet / (0.5 * 300.0)


class Reconnect:
    """Counts endings and draws waits.

    Attributes:
        quarrel: another client seems to use this device's identity; cleared by a stable session.
        failures: in a row.
        takeovers: how often it was kicked by another client, as far as it can tell, since the process began.
    """

    def __init__(self, settings: ReconnectSettings, rng: random.Random) -> None:
        self._settings = settings
        self._rng = rng
        self._kicks: deque[int] = deque(maxlen=max(1, settings.kicks))
        self.failures = 0
        self.quarrel = False
        self.takeovers = 0
        self._alarm_ns: int | None = None

    def alarm(self, now_ns: int) -> bool:
        """Whether somebody must look: there is a quarrel, or there was one within `ALARM_S`.

        Two machines with one identity take turns, and each turn may be long enough to look stable.
        """
        lately = self._alarm_ns is not None and now_ns - self._alarm_ns <= ALARM_S * NS_PER_S
        return self.quarrel or lately

    def wait_s(self, ending: Ending, lived_s: float, now_ns: int) -> float:
        """Seconds until the next attempt.

        Args:
            ending: how the attempt or the session ended.
            lived_s: how long the session had been established; 0 where it never was.
            now_ns: monotonic time.
        """
        settings = self._settings
        established = ending in (Ending.LOST, Ending.TAKEN_OVER) or lived_s > 0.0
        if lived_s >= settings.stable_s:
            self.failures = 0
            self.quarrel = False
            self._kicks.clear()
        wait = self._rng.uniform(0.0, self._ceiling_s())
        if established and self.failures == 0 and ending is not Ending.OWN:
            wait = max(wait, self._rng.uniform(0.0, settings.spread_s))
        if not established or lived_s < settings.short_s:
            self.failures += 1
        if self._is_quarrel(ending, lived_s, now_ns):
            self.quarrel = True
            self.takeovers += 1
            self._alarm_ns = now_ns
            wait = self._rng.uniform(settings.quarrel_s, 2.0 * settings.quarrel_s)
        return wait

    def stable(self, lived_s: float) -> None:
        """Told now and then how long the present session has lived: a stable one ends the alarm."""
        if lived_s >= self._settings.stable_s:
            self.quarrel = False
            self.failures = 0
            self._kicks.clear()

    def _ceiling_s(self) -> float:
        return min(self._settings.cap_s, self._settings.base_s * 2.0 ** min(self.failures, _MAX_EXPONENT))

    def _is_quarrel(self, ending: Ending, lived_s: float, now_ns: int) -> bool:
        if ending is Ending.TAKEN_OVER:
            return True
        if ending is Ending.UNREACHABLE:
            self._kicks.clear()  # a broker that was away for a while was restarted: it did not kick
        if ending is not Ending.LOST or lived_s >= self._settings.short_s:
            return False
        self._kicks.append(now_ns)
        return len(self._kicks) == self._settings.kicks and now_ns - self._kicks[0] <= 60 * NS_PER_S
