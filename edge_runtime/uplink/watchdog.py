"""Whether the server still answers, and when to try again. Pure.

A connection that is up says nothing about receipts: a window that a broker believes full, or an ingest that hangs,
would stop delivery in silence (paho #24, cumulocity mapper #495). So receipts have a clock of their own.
"""

import random
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S

ALONE_AFTER = 5
"""After so many tries without a receipt an event goes alone, so that a poisonous one holds up no other."""


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Seconds.

    Attributes:
        first_s: after so long without a receipt a bundle's events are sent again.
        cap_s: the longest wait between two tries.
        silence_s: without any receipt for so long, while something waits for one, the connection is renewed.
    """

    first_s: float = 10.0
    cap_s: float = 300.0
    silence_s: float = 30.0


def retry_ns(settings: RetrySettings, tries: int, rng: random.Random) -> int:
    """Nanoseconds from one try to the next.

    Args:
        settings: first and longest wait.
        tries: that got no receipt or a refusal that is not final, 1 or more.
        rng: for the jitter.

    Returns:
        `first_s` doubled with each further try up to `cap_s`, lengthened by up to a quarter at random so that
        devices do not resend in step.
    """
    ceiling_s = min(settings.cap_s, settings.first_s * 2.0 ** min(max(tries, 1) - 1, 32))
    return int(ceiling_s * rng.uniform(1.0, 1.25) * NS_PER_S)


class ReceiptWatchdog:
    """Asks for a new connection when nothing was receipted for too long.

    Its patience doubles with each time it barked in vain, up to `cap_s`: a server that is away for hours is not
    helped by reconnecting every half minute.
    """

    def __init__(self, settings: RetrySettings) -> None:
        self._settings = settings
        self._patience_s = settings.silence_s
        self._since_ns: int | None = None

    def waiting(self, now_ns: int) -> None:
        """Something that asks for a receipt went out."""
        if self._since_ns is None:
            self._since_ns = now_ns

    def receipt(self, now_ns: int, *, more: bool) -> None:
        """A receipt came.

        Args:
            now_ns: monotonic time.
            more: other data still waits for one.
        """
        self._patience_s = self._settings.silence_s
        self._since_ns = now_ns if more else None

    def reset(self) -> None:
        """The connection ended: what waited will be sent again."""
        self._since_ns = None

    def due_ns(self) -> int | None:
        """When it will bark, if no receipt comes; None while nothing waits."""
        return None if self._since_ns is None else self._since_ns + int(self._patience_s * NS_PER_S)

    def barks(self, now_ns: int) -> bool:
        """Whether the connection must be renewed; True at most once per wait."""
        due = self.due_ns()
        if due is None or now_ns < due:
            return False
        self._since_ns = None
        self._patience_s = min(self._settings.cap_s, self._patience_s * 2.0)
        return True
