"""One identity on two machines: what the server concludes from what each of them says."""

from typing import Any

import pytest
from sqlalchemy import update

from edge_runtime.protocol.delivery import Ledger
from edge_runtime.protocol.operation import TWO_PLACES, GateCounts, Health, LinkSignals
from fleet_server.operators import Role
from fleet_server.operators.places import LOOKED_BACK_MS, devices_in_two_places, in_two_places
from fleet_server.storage.device_tables import CertificateRow, HealthRow, PresenceRow
from tests.rigs.deliveries import WALL_MS
from tests.rigs.fleet_api import FleetApi, fleet_api


def health(boot_id: str = "boot-a", *degraded: str) -> Health:
    return Health(
        device="dock-1",
        session=7,
        boot_id=boot_id,
        uptime_s=60.0,
        runtime="1.0",
        ledger=Ledger(),
        gate=GateCounts(),
        link=LinkSignals(),
        degraded=degraded,
    )


def presence(boot_id: str = "boot-a", since_ms: int = 100_000, **changes: Any) -> PresenceRow:
    fields = {"device": "dock-1", "session": 7, "state": "online", "reason": "connected", "runtime": "1.0"}
    return PresenceRow(**fields, boot_id=boot_id, since_ms=since_ms, stale_ignored=4, **changes)


@pytest.mark.parametrize(
    ("born", "said", "health_ms", "is_two"),
    [
        pytest.param(presence(), health(), 200_000, False, id="one machine"),
        pytest.param(None, None, None, False, id="nothing known"),
        pytest.param(None, health(), 200_000, False, id="no birth yet"),
        pytest.param(presence("boot-b"), health(), 99_000, False, id="started anew since"),
        pytest.param(presence("boot-b"), health(), 105_000, False, id="committed in another order"),
        pytest.param(presence("boot-b"), health(), 200_000, True, id="the other machine goes on"),
        pytest.param(presence(), health("boot-a", "the disk is full"), 200_000, False, id="another trouble"),
        pytest.param(presence(), health("boot-a", TWO_PLACES), 200_000, True, id="it says so itself"),
    ],
)
def test_two_places(
    born: PresenceRow | None, said: Health | None, health_ms: int | None, *, is_two: bool
) -> None:
    assert in_two_places(born, said, health_ms) is is_two


@pytest.fixture
def api(tmp_path: Any) -> Any:
    yield from fleet_api(tmp_path, f"sqlite:///{tmp_path / 'fleet.db'}")


def test_the_operator_is_told_in_one_sentence_with_what_to_do(api: FleetApi) -> None:
    for name in ("dock-1", "dock-2", "gone-1"):
        api.add_device(name, "revoked" if name == "gone-1" else "active")
    with api.write() as session:
        session.add(presence("boot-b", WALL_MS - 60_000))
        session.add(HealthRow(device="dock-1", received_ms=WALL_MS, body=health().encode()))
        session.add(HealthRow(device="dock-2", received_ms=WALL_MS, body=b"of a newer version"))
        session.add(HealthRow(device="gone-1", received_ms=WALL_MS, body=health("b", TWO_PLACES).encode()))
        assert devices_in_two_places(session, WALL_MS) == ["dock-1"]
        assert devices_in_two_places(session, WALL_MS + LOOKED_BACK_MS) == []
    client = api.client(Role.VIEWER)
    (warning,) = client.get("/v1/health").json()["warnings"]
    assert warning == {
        "subject": "dock-1",
        "text": (
            "connects from two places: fleet device revoke dock-1, then enrol each with a token of its own"
        ),
    }
    shown = client.get("/v1/devices/dock-1").json()
    assert (shown["two_places"], shown["stale_sessions"]) == (True, 4)
    assert client.get("/v1/devices/dock-2").json()["two_places"] is False


def test_certificates_that_end_soon_do_not_hide_it(api: FleetApi) -> None:
    """A fleet that was away long enough has more of them than there are places for warnings."""
    for number in range(120):
        api.add_device(f"dock-{number}")
    with api.write() as session:
        session.execute(update(CertificateRow).values(not_after_ms=WALL_MS + 3_600_000))
        session.add(presence("boot-b", WALL_MS - 60_000))
        session.add(HealthRow(device="dock-1", received_ms=WALL_MS, body=health().encode()))
    warnings = api.client(Role.VIEWER).get("/v1/health").json()["warnings"]
    assert len(warnings) == 100
    assert "connects from two places" in warnings[0]["text"]
