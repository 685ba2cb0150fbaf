"""The queue's own time: it ages events by the boot clock, and asks the wall clock only how long the power was off.

Deadlines are points of this time, in milliseconds, so that one comparison expires an event whatever the wall
clock does. Inside a boot it is CLOCK_BOOTTIME, which no step moves and no suspend stops. At a new boot it goes
on from the last stored value by the time since the kernel started; the time that the power was off is added once
a synchronised wall clock, or the server, tells it. Devices boot in 1970 (raspberrypi/linux #1751) and step by
days (dotnet/orleans #1524): an unsynchronised clock, and one behind the last that was believed, adds nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from edge_runtime.outbox.books import Books

TOLERANCE_MS = 5_000
"""Two clocks agree within this: slewing, the quantum of a receipt, a leap second."""

CONFIRMATIONS = 2
"""Readings after the first that must agree with it before a suspicious one is believed."""

MAX_OFF_MS = 400 * 86_400_000
"""A longer time without power is believed from the server alone: a wall clock that says so is broken."""


class Verdict(str, Enum):
    """What a reading of the wall clock came to.

    Attributes:
        AGREES: as expected; it moved nothing.
        ADVANCED: the time without power was added.
        HELD: it would expire too much, and waits for confirmation.
        STEPPED: the clock stepped inside this boot, or is behind; it moves no deadline.
    """

    AGREES = "agrees"
    ADVANCED = "advanced"
    HELD = "held"
    STEPPED = "stepped"


@dataclass(slots=True)
class _Doubt:
    """A reading that waits for others to agree with it."""

    difference_ms: int
    at_boot_ms: int
    agreed: int = 0


class QueueTime:
    """Time that deadlines are measured in.

    Args:
        books: where it was left; empty books begin at zero.
        boot_id: of this boot.
        boot_ms: CLOCK_BOOTTIME now.
        jump_share: an addition that would expire more than this share of the queue is held.
        confirm_ms: between two readings that confirm each other.
    """

    def __init__(
        self, books: Books, *, boot_id: str, boot_ms: int, jump_share: float, confirm_ms: int
    ) -> None:
        self._boot_id, self._share, self._confirm_ms = boot_id, jump_share, confirm_ms
        self._anchor_ms, self._anchor_wall_ms = books.anchor_ms, books.anchor_wall_ms
        self._off_time_known = bool(books.off_time_known)
        self._base_ms, self._base_boot_ms = books.time_ms, books.boot_ms
        self._doubt: _Doubt | None = None
        if not books.boot_id:
            self._base_boot_ms = boot_ms
        elif books.boot_id != boot_id or boot_ms < books.boot_ms:
            # The kernel has certainly run for boot_ms since the value was stored.
            self._base_ms, self._base_boot_ms = books.time_ms + boot_ms, boot_ms
            self._off_time_known = self._anchor_ms is None

    @property
    def waits(self) -> bool:
        """Whether a correction is held until it is confirmed."""
        return self._doubt is not None and not self._off_time_known

    def now(self, boot_ms: int) -> int:
        """Milliseconds of the queue's time at a reading of the boot clock."""
        return self._base_ms + max(0, boot_ms - self._base_boot_ms)

    def store(self, books: Books, boot_ms: int) -> None:
        """Write where it stands into the books; part of every transaction."""
        books.time_ms, books.boot_id, books.boot_ms = self.now(boot_ms), self._boot_id, boot_ms
        books.anchor_ms, books.anchor_wall_ms = self._anchor_ms, self._anchor_wall_ms
        books.off_time_known = int(self._off_time_known)

    def read_wall(
        self, boot_ms: int, wall_ms: int, would_expire: Callable[[int], float], *, server: bool = False
    ) -> Verdict:
        """Compare with a synchronised wall clock, or with the server's.

        Args:
            boot_ms: CLOCK_BOOTTIME of the reading.
            wall_ms: milliseconds since 1970. The caller passes no reading of an unsynchronised clock.
            would_expire: share of the queue, 0 to 1, that is past its deadline at a given queue time.
            server: from a receipt; needs no confirmation.
        """
        now = self.now(boot_ms)
        if self._anchor_ms is None or self._anchor_wall_ms is None:
            self._believe(now, wall_ms)
            return Verdict.AGREES
        difference = wall_ms - (self._anchor_wall_ms + now - self._anchor_ms)
        if self._off_time_known or difference < -TOLERANCE_MS:
            return self._read_step(boot_ms, now, wall_ms, difference, server=server)
        added = max(0, difference)
        plausible = added <= MAX_OFF_MS and would_expire(now + added) <= self._share
        if plausible or server or (added <= MAX_OFF_MS and self._confirmed(boot_ms, difference)):
            self._base_ms += added
            self._believe(now + added, wall_ms)
            return Verdict.ADVANCED if added > TOLERANCE_MS else Verdict.AGREES
        if added > MAX_OFF_MS:
            self._doubt = _Doubt(difference, boot_ms)
        return Verdict.HELD

    def _read_step(self, boot_ms: int, now: int, wall_ms: int, difference: int, *, server: bool) -> Verdict:
        """The clock stepped inside this boot, or is behind: deadlines stay, the label follows once it is sure."""
        if abs(difference) <= TOLERANCE_MS:
            self._believe(now, wall_ms)
            return Verdict.AGREES
        if server or self._confirmed(boot_ms, difference):
            self._believe(now, wall_ms)
        return Verdict.STEPPED

    def _believe(self, now: int, wall_ms: int) -> None:
        self._anchor_ms, self._anchor_wall_ms = now, wall_ms
        self._off_time_known = True
        self._doubt = None

    def _confirmed(self, boot_ms: int, difference: int) -> bool:
        doubt = self._doubt
        if doubt is None or abs(difference - doubt.difference_ms) > TOLERANCE_MS:
            self._doubt = _Doubt(difference, boot_ms)
            return False
        if boot_ms - doubt.at_boot_ms >= self._confirm_ms:
            doubt.at_boot_ms, doubt.agreed = boot_ms, doubt.agreed + 1
        return doubt.agreed >= CONFIRMATIONS
