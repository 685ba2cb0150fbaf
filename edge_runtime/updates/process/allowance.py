"""How often something may be done that anybody who can reach this device can bring about."""

from dataclasses import dataclass

from edge_runtime.updates.machine import Moment


@dataclass(slots=True)
class Allowance:
    """A few times at once, and then once in a while.

    Args:
        most: times in a row, after a long rest.
        every_ms: after so many milliseconds there is one more.
    """

    most: int
    every_ms: int
    _used: float = 0.0
    _at: Moment | None = None

    def take(self, now: Moment) -> bool:
        """Use one up; False where none is left."""
        rested = 0.0 if self._at is None else self._at.age_ms(now) / self.every_ms
        self._used, self._at = max(0.0, self._used - rested), now
        if self._used + 1 > self.most:
            return False
        self._used += 1
        return True
