"""How far a download is, told now and then: a report a piece once filled a server's quota (hawkBit #1249)."""

from collections.abc import Callable
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S

_EVERY_NS = NS_PER_S


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes of everything that one call wants.

    Attributes:
        done: bytes that are here, 0 to `total`.
        total: bytes that are wanted.
    """

    done: int
    total: int


class Teller:
    """Tells progress once a second at most, and always the end.

    Args:
        told: is given it, in the thread that downloads.
        total: bytes.
    """

    def __init__(self, told: Callable[[Progress], None], total: int) -> None:
        self._told, self._total = told, total
        self._last_ns: int | None = None

    def tell(self, done: int, now_ns: int) -> None:
        """So much is here."""
        if self._last_ns is None or now_ns - self._last_ns >= _EVERY_NS or done >= self._total:
            self._last_ns = now_ns
            self._told(Progress(done, self._total))
