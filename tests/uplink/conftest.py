"""A clock that stands still until it is told to go on."""

import pytest

from edge_runtime.clock import NS_PER_S, WallLabel

DAY_S = 86_400
NOON = 1_900_000_000 // DAY_S * DAY_S + DAY_S // 2


class StandingClock:
    """Monotonic, boot and wall time that only `go` moves."""

    def __init__(self) -> None:
        self.now = 1_000 * NS_PER_S
        self.wall_s = float(NOON)
        self.synced = True

    def go(self, seconds: float) -> int:
        self.now += int(seconds * NS_PER_S)
        self.wall_s += seconds
        return self.now

    def monotonic_ns(self) -> int:
        return self.now

    def boottime_ns(self) -> int:
        return self.now

    def wall(self) -> WallLabel:
        return WallLabel(int(self.wall_s * NS_PER_S), self.synced, "boot")


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()
