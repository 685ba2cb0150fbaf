"""The server's own metadata never runs out while it runs, and people are told long before theirs does."""

from pathlib import Path

import pytest
from tuf.api.metadata import Metadata, Timestamp

from fleet_server.releases import catalog, shelf
from fleet_server.releases.freshness import endings
from fleet_server.releases.online import Lives
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.storage import Store
from tests.rigs.deliveries import FakeClock
from tests.rigs.release_parties import SignedFleet, configuration

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
LIVES = Lives(14 * DAY_MS, DAY_MS)


def version(fleet: SignedFleet, role: str) -> int:
    with fleet.store.read() as session:
        return catalog.newest_version(session, role)


def test_nothing_is_made_before_half_of_its_life(fleet: SignedFleet, clock: FakeClock) -> None:
    assert (version(fleet, "snapshot"), version(fleet, "timestamp")) == (1, 1)
    clock.wall_ms += 11 * HOUR_MS
    assert fleet.desk.freshness.keep() == []
    clock.wall_ms += HOUR_MS
    assert fleet.desk.freshness.keep() == ["timestamp"]
    assert fleet.desk.freshness.keep() == []
    assert (version(fleet, "snapshot"), version(fleet, "timestamp")) == (1, 2)


def test_over_a_month_nothing_runs_out_and_old_ones_are_forgotten(
    fleet: SignedFleet, clock: FakeClock
) -> None:
    for _ in range(30 * 4):
        clock.wall_ms += 6 * HOUR_MS
        fleet.desk.freshness.keep()
        with fleet.store.read() as session:
            ends = shelf.ends(session)
        assert ends["timestamp"] - clock.wall_ms >= 11 * HOUR_MS
        assert ends["snapshot"] - clock.wall_ms >= 6 * DAY_MS
    with fleet.store.read() as session:
        kept = [version for version in range(1, 100) if catalog.metadata(session, "timestamp", version)]
    assert kept == [version(fleet, "timestamp")]


def test_a_server_that_was_off_goes_on_at_once(fleet: SignedFleet, clock: FakeClock) -> None:
    clock.wall_ms += 20 * DAY_MS
    assert fleet.desk.freshness.keep() == ["snapshot", "timestamp"]
    with fleet.store.read() as session:
        body = catalog.metadata(session, "timestamp")
        stamp: Metadata[Timestamp] = Metadata.from_bytes(body or b"")
        assert stamp.signed.snapshot_meta.version == catalog.newest_version(session, "snapshot")


def test_with_no_keys_there_is_nothing_to_keep(tmp_path: Path, sqlite: Store, clock: FakeClock) -> None:
    from fleet_server.audit import Audit
    from fleet_server.paths import ServerPaths
    from fleet_server.releases.desk import ReleaseDesk
    from fleet_server.settings import ReleaseSettings

    desk = ReleaseDesk(ServerPaths(tmp_path), sqlite, ReleaseSettings(), audit=Audit(clock), clock=clock)
    assert desk.freshness.keep() == []
    with pytest.raises(ReleaseRefused, match="no repository"):
        desk.freshness.recover(5, 5, "admin")
    assert endings({}, clock.wall_ms, LIVES) == []


def test_a_server_without_its_keys_says_so(fleet: SignedFleet, clock: FakeClock) -> None:
    for path in (fleet.people.folder.parent / "server/releases/keys").iterdir():
        path.unlink()
    clock.wall_ms += DAY_MS
    with pytest.raises(ReleaseRefused, match="key that the signed metadata names"):
        fleet.desk.freshness.keep()


def test_it_goes_on_above_what_a_thief_has_shown(fleet: SignedFleet, clock: FakeClock) -> None:
    assert fleet.desk.freshness.recover(500, 900, "admin") == {"snapshot": 501, "timestamp": 901}
    assert fleet.desk.freshness.recover(3, 3, "admin") == {"snapshot": 502, "timestamp": 902}, "never back"
    clock.wall_ms += DAY_MS
    fleet.desk.freshness.keep()
    assert version(fleet, "timestamp") == 903
    fleet.publish(configuration(fleet.people.folder / "c"), name="base")
    assert version(fleet, "snapshot") == 503
    with pytest.raises(ReleaseRefused, match="rotate the key"):
        fleet.desk.freshness.recover((1 << 31) - 1, 0, "admin")
    assert version(fleet, "snapshot") == 503


@pytest.mark.parametrize(
    ("role", "left_ms", "told"),
    [
        ("root", 61 * DAY_MS, None),
        ("root", 59 * DAY_MS, "runs out in 59 days: people sign it anew with fleet keys renew --role root"),
        ("targets", 44 * DAY_MS, "runs out in 44 days"),
        ("models", 31 * DAY_MS, None),
        ("models", 30 * HOUR_MS, "runs out in 30 h"),
        ("configurations", 0, "has run out, and no device installs anything"),
        ("snapshot", 4 * DAY_MS, None),
        ("snapshot", 3 * DAY_MS, "the server should have made it anew"),
        ("timestamp", 7 * HOUR_MS, None),
        ("timestamp", 5 * HOUR_MS, "the server should have made it anew"),
    ],
)
def test_somebody_is_told_in_time(role: str, left_ms: int, told: str | None) -> None:
    found = endings({role: 1000 * DAY_MS + left_ms}, 1000 * DAY_MS, LIVES)
    assert [ending.role for ending in found] == ([] if told is None else [role])
    assert told is None or told in found[0].text


def test_what_is_most_urgent_comes_first() -> None:
    ends = {"models": 20 * DAY_MS, "root": DAY_MS, "timestamp": HOUR_MS}
    assert [one.role for one in endings(ends, 0, LIVES)] == ["timestamp", "root", "models"]
