"""A moment that can be written down: the boot's own clock counts, and the wall clock only across reboots."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from edge_runtime.clock import NS_PER_MS, Clock

Milliseconds = Annotated[int, Field(ge=0, lt=1 << 53)]


class OnDisk(BaseModel):
    """Base of what lies on the device's own disk: exact, since one installation writes and reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Moment(OnDisk):
    """When something was, on this device's clocks.

    Attributes:
        boot_id: of the boot it was in.
        boot_ms: milliseconds since that boot, suspension included.
        wall_ms: milliseconds since 1970 as the device believed them.
        synced: whether the kernel held the wall clock for synchronised.
    """

    boot_id: Annotated[str, Field(max_length=64)]
    boot_ms: Milliseconds
    wall_ms: Milliseconds
    synced: bool

    @classmethod
    def now(cls, clock: Clock) -> "Moment":
        """The present one."""
        label = clock.wall()
        return cls(
            boot_id=label.boot_id[:64],
            boot_ms=clock.boottime_ns() // NS_PER_MS,
            wall_ms=max(0, label.unix_ns // NS_PER_MS),
            synced=label.synced,
        )

    def age_ms(self, now: "Moment") -> int:
        """Milliseconds from this moment to `now`, at least 0.

        Across a reboot the wall clock is believed where it was synchronised both times. Elsewhere only the time
        since the present boot is certain.
        """
        if self.boot_id == now.boot_id:
            return max(0, now.boot_ms - self.boot_ms)
        if self.synced and now.synced:
            return max(0, now.wall_ms - self.wall_ms)
        return now.boot_ms

    def ran_ms(self, now: "Moment") -> int:
        """The same, without the time that the device was off: of an earlier boot only the present one counts.

        What has to prove itself in use is not to blame for a night without power. A device that is reset again and
        again is bounded by counting its starts.
        """
        return max(0, now.boot_ms - self.boot_ms) if self.boot_id == now.boot_id else now.boot_ms
