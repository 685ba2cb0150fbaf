"""Forgetting: what is old goes with its evidence, `high` and ids stay, and a late resend is never stored twice."""

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import func, select

from edge_runtime.protocol.delivery import RejectionCode
from fleet_server.evidence import EvidenceStore
from fleet_server.ingest import Limits, Rules
from fleet_server.ingest.retention import Forgotten, forget_old
from fleet_server.settings import EvidenceSettings, RetentionSettings
from fleet_server.storage import Store
from fleet_server.storage.device_tables import CommandRow
from fleet_server.storage.event_tables import EpochRow, EventRow, EvidenceRow, FateCountRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import DeviceRig, FakeClock, grant

CROP = b"a crop"
SHA = hashlib.sha256(CROP).hexdigest()
DAY_S = 24 * 3600
KEEP = RetentionSettings(days=90)


@pytest.fixture
def evidence(store: Store, tmp_path: Path) -> EvidenceStore:
    return EvidenceStore(tmp_path / "evidence", store, EvidenceSettings(keep_free_bytes=0), FakeClock())


def _forget(server: Server, evidence: EvidenceStore) -> Forgotten:
    return forget_old(server.store, evidence, KEEP, server.clock.wall_ms)


def test_old_events_go_and_high_and_the_newest_id_stay(server: Server, evidence: EvidenceStore) -> None:
    rig = DeviceRig()
    old = rig.items(1200)
    for start in range(0, 1200, 60):
        server.take(rig.bundle(*old[start : start + 60]))
    with server.store.read() as session:
        newest = session.scalar(select(func.max(EventRow.id)))
    server.clock.advance(89 * DAY_S)
    assert _forget(server, evidence) == Forgotten()
    server.clock.advance(2 * DAY_S)

    assert _forget(server, evidence).events == 1199

    row = server.epoch("dev-1", rig.epoch)
    assert row.high == 1200
    server.take(rig.bundle(rig.item()))
    with server.store.read() as session:
        assert (session.scalar(select(func.max(EventRow.id))) or 0) > (newest or 0)
    assert server.epoch("dev-1", rig.epoch).high == 1201


def test_an_event_that_may_outlive_its_key_is_refused(store: Store) -> None:
    server = Server(store, Rules(), Limits())
    rig = DeviceRig()
    answer = server.answer(rig.bundle(rig.item(left_ms=(KEEP.max_ttl_days * DAY_S + 1) * 1000)))
    assert answer.rejected[0].code is RejectionCode.INVALID


def test_evidence_goes_with_the_last_event_that_names_it(server: Server, evidence: EvidenceStore) -> None:
    rig = DeviceRig()
    server.take(rig.bundle(rig.item(decision={"evidence": grant(SHA, len(CROP))})))
    evidence.append("dev-1", SHA, 0, CROP)
    path = evidence.path("dev-1", SHA)
    server.clock.advance(50 * DAY_S)
    server.take(rig.bundle(rig.item(decision={"evidence": grant(SHA, len(CROP))})), rig.bundle(rig.item()))

    server.clock.advance(50 * DAY_S)
    assert _forget(server, evidence) == Forgotten(events=1)
    assert path.exists()

    server.clock.advance(50 * DAY_S)
    done = _forget(server, evidence)
    assert (done.events, done.evidence) == (1, 1)
    assert not path.exists()
    assert server.count(EvidenceRow) == 0


def test_only_outbox_files_that_were_replaced_go(server: Server, evidence: EvidenceStore) -> None:
    old, new = DeviceRig(), DeviceRig()
    server.take(old.bundle(old.item()))
    server.clock.advance(1)
    server.take(new.bundle(new.item()))
    server.clock.advance(200 * DAY_S)

    done = _forget(server, evidence)

    assert (done.events, done.epochs) == (1, 1)
    with server.store.read() as session:
        assert list(session.scalars(select(EpochRow.epoch))) == [new.epoch]
        assert list(session.scalars(select(FateCountRow.epoch))) == [new.epoch]
    assert server.answer(new.sync(2)).high == 1


def test_ended_commands_go_and_open_ones_stay(server: Server, evidence: EvidenceStore) -> None:
    with server.store.write() as session:
        for number, state in enumerate(("queued", "sent", "done", "failed", "expired")):
            session.add(
                CommandRow(
                    id=str(number),
                    device="dev-1",
                    kind="report_health",
                    state=state,
                    by="ann",
                    issued_ms=server.clock.wall_ms,
                    expires_ms=server.clock.wall_ms,
                    sent_ms=None,
                    body=b"",
                    result=None,
                )
            )
    server.clock.advance(31 * DAY_S)
    assert _forget(server, evidence).commands == 3


def test_it_stops_when_asked(server: Server, evidence: EvidenceStore) -> None:
    rig = DeviceRig()
    server.take(rig.bundle(*rig.items(5)))
    server.clock.advance(200 * DAY_S)
    done = forget_old(server.store, evidence, KEEP, server.clock.wall_ms, stopping=lambda: True)
    assert done.events == 0
