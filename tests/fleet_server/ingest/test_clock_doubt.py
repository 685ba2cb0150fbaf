"""A clock that leapt deletes nothing, until it has gone on from there for hours."""

from pathlib import Path
from typing import cast

import pytest

from fleet_server.ingest.chores import Chores
from fleet_server.ingest.clock_doubt import AGREE_MS, LEAP_MS, ClockDoubt
from fleet_server.ingest.intake import Intake
from fleet_server.ingest.metrics import IngestMetrics
from fleet_server.ingest.retention import leapt
from fleet_server.ingest.session import Session, SessionCounts
from fleet_server.settings import ServerSettings
from fleet_server.storage.event_tables import EventRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import WALL_MS, DeviceRig

DAY_S = 24 * 3600
YEARS_S = 50 * 365 * DAY_S
KEEP = {"days": 8, "max_ttl_days": 4, "max_offline_days": 4}


class Away:
    """No session: nothing goes down."""

    is_up = False
    counts = SessionCounts()


class Rig:
    """The chores of a server, round by round."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server, self.metrics, self._directory = server, IngestMetrics(1), directory
        self.restart()

    def restart(self) -> None:
        self.chores = Chores(
            ServerSettings.at(self._directory, retention=KEEP),
            self.server.store,
            cast("Session", Away()),
            Intake(16, 1 << 20),
            metrics=self.metrics,
            clock=self.server.clock,
            worker=1,
        )

    def round(self, minutes: int = 10) -> int:
        """So much later; events that are left."""
        self.server.clock.advance(minutes * 60)
        self.chores._step(self.server.clock.monotonic_ns())
        return self.server.count(EventRow)

    def leap(self, seconds: int) -> None:
        """Somebody sets the wall clock."""
        self.server.clock.wall_ms += seconds * 1000

    @property
    def is_doubted(self) -> bool:
        return b'fleet_ingest_clock_doubted{worker="1"} 1.0' in self.metrics.text()


@pytest.fixture
def rig(server: Server, tmp_path: Path) -> Rig:
    device = DeviceRig()
    server.take(device.bundle(*device.items(5)))
    return Rig(server, tmp_path)


def test_a_clock_far_ahead_for_some_minutes_deletes_nothing(rig: Rig) -> None:
    device = DeviceRig("dev-2")
    assert rig.round() == 5
    rig.leap(YEARS_S)
    assert rig.round() == 5
    assert rig.is_doubted
    rig.server.take(device.bundle(device.item()))  # does not make it right
    assert rig.round() == 6
    rig.restart()
    assert [rig.round() for _ in range(4)] == [6] * 4
    assert rig.is_doubted
    rig.leap(-YEARS_S)
    assert rig.round() == 6


def test_a_server_that_was_off_for_long_forgets_some_hours_later(rig: Rig) -> None:
    rig.server.clock.advance(100 * DAY_S)
    assert [rig.round(60) for _ in range(6)] == [5] * 6
    assert rig.is_doubted
    assert rig.round(60) == 1
    assert not rig.is_doubted


def test_a_quiet_fleet_is_no_leap(rig: Rig) -> None:
    assert [rig.round(60 * 60) for _ in range(4)] == [5, 5, 5, 1], "the newest stays"
    assert not rig.is_doubted


def test_a_server_without_events_believes_its_clock(server: Server) -> None:
    with server.store.read() as session:
        assert not leapt(session, WALL_MS + YEARS_S * 1000)


@pytest.mark.parametrize(
    ("leaps", "believed"),
    [
        ([0, 0], [True, True]),
        ([0, LEAP_MS, 2 * LEAP_MS], [True, True, True]),
        ([0, -LEAP_MS - 1, 0], [True, False, True]),
        ([0, LEAP_MS + 1, LEAP_MS + 1, LEAP_MS + 1], [True, False, False, True]),
        ([0, 9 * LEAP_MS, 5 * LEAP_MS, 9 * LEAP_MS], [True, False, False, False]),
    ],
)
def test_what_is_believed(leaps: list[int], believed: list[bool]) -> None:
    doubt, half = ClockDoubt(), AGREE_MS // 2
    assert [
        doubt.believes(WALL_MS + turn * half + leap, turn * half, first_seems_right=True)
        for turn, leap in enumerate(leaps)
    ] == believed
