"""What came over the link and could not be judged for good: it is tried again, after longer and longer waits."""

from dataclasses import dataclass

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine import Moment
from edge_runtime.updates.machine.backoff import wait_ms
from edge_runtime.updates.problems import UpdateRefused


@dataclass(slots=True, kw_only=True)
class Tried:
    """Something that waits.

    Attributes:
        code, text: why.
        tries: so far.
        judged, rest_ms: when the last one was, and how long to wait after it.
    """

    code: UpdateCode | None = None
    text: str = ""
    tries: int = 0
    judged: Moment | None = None
    rest_ms: int = 0

    def is_due(self, now: Moment) -> bool:
        """Whether it is worth another try."""
        return self.judged is None or self.judged.age_ms(now) >= self.rest_ms

    def put_off(self, refused: UpdateRefused, now: Moment, device: str, seq: int) -> None:
        """It was tried and refused; `device` and `seq` spread a fleet."""
        self.code, self.text, self.judged = refused.code, str(refused), now
        self.tries += 1
        self.rest_ms = wait_ms(self.tries, device, seq)
