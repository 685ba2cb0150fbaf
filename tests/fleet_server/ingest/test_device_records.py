"""What devices say of themselves: the newest counts, the stale is counted, another's is never touched."""

from typing import Any

from sqlalchemy import select

from edge_runtime.protocol.delivery import Ledger, PresenceState
from edge_runtime.protocol.operation import GateCounts, Health, HeldItem, HeldList, LinkSignals
from edge_runtime.protocol.topics import Channel
from fleet_server.storage.device_tables import HealthRow, HeldListRow, HeldRow, PresenceRow
from tests.fleet_server.ingest.conftest import Server
from tests.rigs.deliveries import DeviceRig, decision_for, event_record, new_key

OFFLINE, ONLINE = PresenceState.OFFLINE, PresenceState.ONLINE


def _presence(server: Server, device: str = "dev-1") -> PresenceRow:
    with server.store.read() as session:
        return session.get_one(PresenceRow, device)


def _health(rig: DeviceRig, session: int, ledger: Ledger | None = None) -> tuple[str, bytes]:
    record = Health(
        device=rig.name,
        session=session,
        boot_id="b",
        uptime_s=1,
        runtime="1.0",
        ledger=ledger or Ledger(),
        gate=GateCounts(),
        link=LinkSignals(),
    )
    return rig.topic(Channel.HEALTH), record.encode()


def _held(rig: DeviceRig, *keys: bytes, total: int | None = None) -> tuple[str, bytes]:
    event = event_record()
    items = [
        HeldItem(key=key.hex(), receipt=decision_for(event, key, decision="hold"), left_ms=60_000, bytes=900)
        for key in keys
    ]
    record = HeldList(device=rig.name, total=len(items) if total is None else total, items=tuple(items))
    return rig.topic(Channel.HELD), record.encode()


def test_a_will_of_an_older_session_is_ignored_and_counted(server: Server) -> None:
    rig = DeviceRig()
    server.take(rig.presence(7))
    done = server.take(rig.presence(6, OFFLINE), rig.presence(5))
    found = _presence(server)
    assert (found.session, found.state, found.stale_ignored) == (7, "online", 2)
    assert done.counts == {("message", "presence_stale"): 2}


def test_the_will_of_this_session_counts_and_a_late_birth_does_not(server: Server) -> None:
    rig = DeviceRig()
    server.take(rig.presence(7), rig.presence(7, OFFLINE), rig.presence(7))
    found = _presence(server)
    assert (found.state, found.reason, found.stale_ignored) == ("offline", "connection_lost", 1)
    server.take(rig.presence(8))
    assert _presence(server).state == "online"


def test_a_retained_message_that_comes_again_changes_nothing(server: Server) -> None:
    rig = DeviceRig()
    server.take(rig.presence(7))
    since = _presence(server).since_ms
    server.clock.advance(60)
    server.take(rig.presence(7))
    found = _presence(server)
    assert (found.since_ms, found.stale_ignored) == (since, 0)


def test_each_device_has_its_own_presence(server: Server) -> None:
    server.take(DeviceRig("dev-1").presence(1), DeviceRig("dev-2").presence(9))
    server.take(DeviceRig("dev-2").presence(9, OFFLINE))
    assert (_presence(server).state, _presence(server, "dev-2").state) == ("online", "offline")


def test_the_newest_health_is_kept_with_its_ledger(server: Server) -> None:
    rig = DeviceRig()
    server.take(rig.sync(1))
    ledger = Ledger(accepted=3, queued=1, delivered=2)
    server.take(_health(rig, 1), _health(rig, 2, ledger))
    with server.store.read() as session:
        row = session.get_one(HealthRow, "dev-1")
    assert Health.decode(row.body).session == 2
    epoch = server.epoch("dev-1", rig.epoch)
    assert (epoch.accepted, epoch.queued, epoch.delivered) == (3, 1, 2)


def test_health_without_an_outbox_file_is_kept(server: Server) -> None:
    server.take(_health(DeviceRig(), 1))
    assert server.count(HealthRow) == 1


def test_a_list_of_held_items_replaces_the_one_before(server: Server) -> None:
    rig, other = DeviceRig(), DeviceRig("dev-2")
    first, second, third = new_key(), new_key(), new_key()
    server.take(_held(rig, first, second), _held(other, first))
    server.take(_held(rig, second, third, total=250))
    with server.store.read() as session:
        keys = {row.key for row in session.scalars(select(HeldRow).filter_by(device="dev-1"))}
        row = session.scalars(select(HeldRow).filter_by(device="dev-1", key=third.hex())).one()
        assert session.get_one(HeldListRow, "dev-1").total == 250
    assert keys == {second.hex(), third.hex()}
    assert HeldItem.decode(row.body).key == third.hex()
    assert row.expires_ms == server.clock.wall_ms + 60_000
    assert server.count(HeldRow, device="dev-2") == 1
    server.take(_held(rig))
    assert server.count(HeldRow, device="dev-1") == 0


def test_an_item_that_is_listed_twice_is_one(server: Server) -> None:
    key = new_key()
    server.take(_held(DeviceRig(), key, key))
    assert server.count(HeldRow) == 1


def test_records_in_the_name_of_another_device_go_nowhere(server: Server) -> None:
    rig = DeviceRig("dev-2")
    messages: list[tuple[Any, Any]] = [rig.presence(1), _health(rig, 1), _held(rig, new_key()), rig.sync(1)]
    done = server.take(*[(topic.replace("dev-2", "dev-1"), payload) for topic, payload in messages])
    assert done.counts == {("dead_letter", "wrong_device"): 4}
    assert server.count(PresenceRow) + server.count(HealthRow) + server.count(HeldRow) == 0
