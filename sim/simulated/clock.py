"""The clock of a simulated device: every clock of it moves when told."""

from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S, WallLabel

_BEGIN_NS = 1_000 * NS_PER_S
_UNIX_NS = 1_790_000_000 * NS_PER_S


@dataclass(slots=True)
class SimClock:
    """All clocks of one boot.

    Attributes:
        now_ns: CLOCK_MONOTONIC, which is CLOCK_BOOTTIME: a simulated device never sleeps.
        unix_ns: the wall clock.
        boot_is_wall: CLOCK_BOOTTIME follows the wall clock, as in software that measures by it.
        boot_id: of this boot.
    """

    now_ns: int = _BEGIN_NS
    unix_ns: int = _UNIX_NS
    boot_is_wall: bool = False
    boot_id: str = "simulated"

    def monotonic_ns(self) -> int:
        """Nanoseconds since it began."""
        return self.now_ns

    def boottime_ns(self) -> int:
        """The same; or the wall clock, see `boot_is_wall`."""
        return self.unix_ns - _UNIX_NS + _BEGIN_NS if self.boot_is_wall else self.now_ns

    def wall(self) -> WallLabel:
        """The wall clock; it says that it is synchronised."""
        return WallLabel(self.unix_ns, synced=True, boot_id=self.boot_id)

    def advance(self, nanoseconds: int) -> None:
        """Let time pass on every clock."""
        self.now_ns += nanoseconds
        self.unix_ns += nanoseconds

    def step_wall(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.unix_ns += round(seconds * NS_PER_S)
