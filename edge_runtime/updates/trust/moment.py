"""What time it is, as far as a device may believe it: the wall clock, a floor under it, and a signed answer.

Clocks of devices start in 1970, jump ahead by decades, and come right hours later. Whatever they say, nothing is
believed before a time that has surely passed (the floor), and nothing is deleted because of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from edge_runtime.clock import NS_PER_MS, WallLabel
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused

EARLIEST_MS = 1_767_225_600_000
"""2026-01-01: no release of this runtime was signed before. A clock that says less was never set."""


@dataclass(frozen=True, slots=True)
class JudgedTime:
    """Now, with what is known about it.

    Attributes:
        wall_ms: the wall clock, milliseconds since 1970.
        synced: whether the kernel says that it is synchronised.
        floor_ms: a time that has surely passed; 0 where nothing is known.
    """

    wall_ms: int
    synced: bool
    floor_ms: int

    @classmethod
    def of(cls, label: WallLabel, floor_ms: int) -> "JudgedTime":
        """The moment of a reading of the clock."""
        return cls(label.unix_ns // NS_PER_MS, label.synced, floor_ms)

    def judged_ms(self, proved_ms: int | None = None) -> int:
        """The time by which ends and openings are judged.

        Args:
            proved_ms: when a signed answer was made that repeats this device's own nonce; None without one. It
                pulls back a clock that is not synchronised and runs ahead. It never pushes one forward: who holds
                the director's key could open rings early by it.
        """
        wall_ms = self.wall_ms
        if proved_ms is not None and not self.synced:
            wall_ms = min(wall_ms, proved_ms)
        return max(wall_ms, self.floor_ms)

    def refuse_unset(self) -> None:
        """Refuse to judge by a clock that was never set, where nothing says what has passed.

        Raises:
            UpdateRefused: CLOCK.
        """
        if self.floor_ms == 0 and self.wall_ms < EARLIEST_MS:
            raise UpdateRefused(
                UpdateCode.CLOCK,
                f"this device's clock says {iso(self.wall_ms)} and was never set: it has to be synchronised first",
                again=True,
            )

    def refuse_ended(self, ends_ms: Mapping[str, int], proved_ms: int | None = None) -> None:
        """Refuse metadata that has expired.

        Args:
            ends_ms: when each role's metadata ends, milliseconds since 1970.
            proved_ms: see `judged_ms`.

        Raises:
            UpdateRefused: METADATA_EXPIRED; CLOCK where only a clock that is not synchronised says so.
        """
        at_ms = self.judged_ms(proved_ms)
        ended = sorted((end, role) for role, end in ends_ms.items() if end <= at_ms)
        if ended:
            end, role = ended[0]
            raise self.ended(f"{role} metadata ended at {iso(end)}", surely=end <= self.floor_ms)

    def ended(self, what: str, *, surely: bool = False) -> UpdateRefused:
        """The refusal of something that has expired.

        Args:
            what: ended, and when.
            surely: it ended before the time floor, so that the clock does not matter.
        """
        if surely or self.synced:
            return UpdateRefused(
                UpdateCode.METADATA_EXPIRED,
                f"{what}, and it is {iso(self.judged_ms())}: the fleet server has to be reached, or to sign anew",
                again=True,
            )
        return UpdateRefused(
            UpdateCode.CLOCK,
            f"{what}, and this device's clock, which is not synchronised, says {iso(self.wall_ms)}: "
            "synchronise it; if it is right, the fleet server has to sign anew",
            again=True,
        )


def iso(time_ms: int) -> str:
    """Milliseconds since 1970 for people, in UTC, or the number where it is no date."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
