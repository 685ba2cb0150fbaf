"""Desired states and state reports through the real ingest process, real brokers and both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from edge_runtime.clock import NS_PER_MS, SystemClock
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.update_wire import Desired
from fleet_server.director.desired import compose
from fleet_server.storage import Store, open_store
from fleet_server.storage.device_tables import CertificateRow, DeviceRow
from fleet_server.storage.event_tables import DeadLetterRow
from fleet_server.storage.rollout_tables import DesiredRow
from tests.rigs.brokers import Broker, connected, running_broker
from tests.rigs.databases import migrated_database
from tests.rigs.ingest_process import IngestProcess, running, wait_for
from tests.rigs.state_reports import key_in, message, sealed, state_report

DEVICES = ("dev-1", "dev-2")


@pytest.fixture(params=[("nats", "sqlite"), ("mosquitto", "postgresql")], ids="-".join)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with running_broker(request.param[0], tmp_path / "broker", DEVICES) as started:
        yield started


@pytest.fixture
def store(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Iterator[Store]:
    kind = "sqlite" if broker.kind == "nats" else "postgresql"
    opened = open_store(migrated_database(request, tmp_path, kind))
    with opened.write() as session:
        for name in DEVICES:
            party = broker.parties[name]
            session.add(DeviceRow(id=name, state="active", labels={}, created_ms=1, changed_ms=1))
            session.flush()
            session.add(
                CertificateRow(
                    device=name,
                    serial=party.serial,
                    state="active",
                    key_sha256="00" * 32,
                    csr="",
                    pem=party.certificate.read_text(),
                    not_after_ms=1 << 50,
                    created_ms=1,
                    changed_ms=1,
                )
            )
    yield opened
    opened.close()


@pytest.fixture
def process(store: Store, broker: Broker, tmp_path: Path) -> Iterator[IngestProcess]:
    url = store.engine.url.render_as_string(hide_password=False).replace("+psycopg", "")
    made = IngestProcess(tmp_path / "data", broker, url)
    with running(made):
        yield made


def _want(store: Store, name: str, word: bytes) -> bytes:
    """What the director writes; the payload."""
    assignments = (b"assignment " + word,)
    body = compose(name, assignments, ())
    now_ms = SystemClock().wall().unix_ns // NS_PER_MS
    with store.write() as session:
        session.merge(DesiredRow(device=name, body=body, state="queued", changed_ms=now_ms, sent_ms=None))
    return Desired(device=name, assignments=assignments).encode()


def _state(store: Store, name: str) -> str:
    with store.read() as session:
        return session.get_one(DesiredRow, name).state


def test_the_broker_keeps_the_newest_and_forgets_who_was_put_out(
    process: IngestProcess, broker: Broker, store: Store
) -> None:
    topic = str(Topic("dev-1", Channel.DESIRED))
    _want(store, "dev-1", b"first")
    assert wait_for(lambda: _state(store, "dev-1") == "sent"), process.said()
    newest = _want(store, "dev-1", b"second")
    assert wait_for(lambda: _state(store, "dev-1") == "sent")
    with connected(broker, "dev-1") as device:
        assert device.subscribe("fleet/v1/dev-1/down/#")
        assert wait_for(lambda: device.messages == [(topic, newest)]), device.messages
        process.kill()
        later = _want(store, "dev-1", b"third")
        process.start()
        assert wait_for(lambda: (topic, later) in device.messages)
        with store.write() as session:
            session.execute(update(DeviceRow).where(DeviceRow.id == "dev-1").values(state="revoked"))
        assert wait_for(lambda: (topic, b"") in device.messages)
    assert wait_for(lambda: _state(store, "dev-1") == "cleared")
    with connected(broker, "dev-1", "dev-1-later") as device:
        assert device.subscribe("fleet/v1/dev-1/down/#")
        other = str(Topic("dev-1", Channel.RECEIPT))
        with connected(broker, "fleet-ingest", "fleet-ingest-test") as server:
            assert server.publish(other, b"mark")
        assert wait_for(lambda: len(device.messages) > 0)
        assert device.messages == [(other, b"mark")]  # and nothing that was kept before it


def test_a_report_that_another_device_signed_is_a_dead_letter(
    process: IngestProcess, broker: Broker, store: Store
) -> None:
    others = key_in(broker.parties["dev-2"].key)
    report = state_report("dev-1")
    with connected(broker, "dev-1") as device:
        topic, payload = message("dev-1", sealed(report, others), b"no envelope")
        assert device.publish(topic, payload)
    with connected(broker, "dev-2") as device:  # its own signature, on another's topic: the broker drops it
        topic, payload = message("dev-1", sealed(report, others))
        device.publish(topic, payload, timeout=1)

    def letters() -> list[tuple[str, str]]:
        with store.read() as session:
            rows = session.scalars(select(DeadLetterRow).order_by(DeadLetterRow.id))
            return [(row.device, row.code) for row in rows]

    assert wait_for(lambda: letters() == [("dev-1", "wrong_signer"), ("dev-1", "malformed")]), letters()
