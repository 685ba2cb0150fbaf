"""Whether a new happening may become an event: the cooldown of its cause and the rate cap of its rule."""

from collections import deque
from enum import Enum

from edge_runtime.clock import NS_PER_S

WINDOW_NS = 60 * NS_PER_S

Cause = int | str
"""A track id, or a name where a zone or a camera as a whole is the cause."""


class Verdict(Enum):
    """What became of a request; the two refusals are counted apart."""

    ADMITTED = "admitted"
    COOLDOWN = "cooldown"
    RATE = "rate"


class Admission:
    """Admits at most `max_per_minute` events in any 60 s, and none of a cause that is still quiet.

    Args:
        cooldown_ns: how long a cause stays quiet after an event of it is over.
        max_per_minute: events that may begin within any 60 s.
    """

    def __init__(self, cooldown_ns: int, max_per_minute: int) -> None:
        self._cooldown_ns = cooldown_ns
        self._begun: deque[int] = deque(maxlen=max_per_minute)
        self._quiet_until: dict[Cause, int] = {}

    def ask(self, cause: Cause, now_ns: int) -> Verdict:
        """Whether an event of this cause may begin now; an admitted one uses up its place."""
        until = self._quiet_until.get(cause)
        if until is not None and now_ns < until:
            return Verdict.COOLDOWN
        if len(self._begun) == self._begun.maxlen and now_ns - self._begun[0] < WINDOW_NS:
            return Verdict.RATE
        self._begun.append(now_ns)
        return Verdict.ADMITTED

    def over(self, cause: Cause, now_ns: int) -> None:
        """An event of this cause is over: its quiet time begins."""
        if self._cooldown_ns == 0:
            return
        # Causes are tracks, which never come back once they are gone: drop what has run out.
        if len(self._quiet_until) >= 1024:
            self._quiet_until = {name: until for name, until in self._quiet_until.items() if until > now_ns}
        self._quiet_until[cause] = now_ns + self._cooldown_ns

    def new_epoch(self) -> None:
        """Track ids start again: what an old id did must not quieten the object that has it now."""
        self._quiet_until = {
            name: until for name, until in self._quiet_until.items() if isinstance(name, str)
        }
