"""The whole road of a device: enrolled over HTTP, let in by the broker, renewed, revoked and cut."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from edge_runtime.clock import SystemClock
from edge_runtime.identity import Identity, Refused, enrol, renew, ssl_context
from edge_runtime.protocol.enrolment import EnrolmentToken
from edge_runtime.state import StateDirectory
from fleet_server.authority import CertificateFiles, subject_of
from fleet_server.broker import BrokerFollower, BrokerUser, EmbeddedBroker, EmbeddedSettings
from tests.rigs.brokers import Recorder, accepts, wait_until
from tests.rigs.fleet_api import FleetApi, fleet_api, served
from tests.rigs.pki import Credentials, MovableClock


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetApi]:
    clock = MovableClock()
    yield from fleet_api(tmp_path / "server", f"sqlite:///{tmp_path / 'fleet.db'}", clock=clock)  # type: ignore[arg-type]


@pytest.fixture
def broker(fleet: FleetApi) -> Iterator[EmbeddedBroker]:
    paths = fleet.application.settings.paths
    settings = EmbeddedSettings(
        directory=paths.broker,
        server=CertificateFiles(paths.server_key, paths.server_certificate),
        ingest=CertificateFiles(paths.ingest_key, paths.ingest_certificate),
        authority=paths.ca_certificate,
        host="127.0.0.1",
        port=0,
    )
    broker = EmbeddedBroker(settings, SystemClock())
    follower = BrokerFollower(
        fleet.application.store,
        broker,
        lambda: BrokerUser(*subject_of(paths.ingest_certificate)),
        SystemClock(),
    )
    follower.start()
    yield broker
    follower.stop()


def connect(identity: Identity, broker: EmbeddedBroker) -> Recorder:
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2, client_id=identity.client_id, protocol=MQTTProtocolVersion.MQTTv311
    )
    client.tls_set_context(ssl_context(identity))
    client.reconnect_delay_set(60, 60)
    recorder = Recorder(client)
    client.connect("localhost", broker.port, 20)
    client.loop_start()
    wait_until(lambda: recorder.accepted is not None or bool(recorder.reasons))
    return recorder


def connects(identity: Identity, broker: EmbeddedBroker) -> bool:
    files = (identity.certificate_path, identity.key_path, identity.authority_path)
    return accepts(broker.port, Credentials(identity.device, "", *files))


def test_a_device_from_its_token_to_its_end(fleet: FleetApi, broker: EmbeddedBroker, tmp_path: Path) -> None:
    registry = fleet.application.services.registry
    state = StateDirectory(tmp_path / "device")
    stolen = StateDirectory(tmp_path / "stolen")
    with served(fleet) as url:
        enrol(url, EnrolmentToken.parse(registry.invite("alice").token), state, device="dev-1")
        first = Identity.load(state)
        assert first is not None
        assert wait_until(lambda: connects(first, broker), 5)

        # renewed while it is connected: the old connection goes on, the new certificate opens another
        live = connect(first, broker)
        second = renew(first)
        assert wait_until(lambda: connects(replace(second, client_id="dev-1-other"), broker), 5)
        assert live.reasons == []
        assert live.publish("fleet/v1/dev-1/up/health", b"x")

        # a thief with a copy of the disk: both can speak until the operator hears of it

        shutil.copytree(state.path, stolen.path)
        thief = replace(second, state=stolen, client_id="dev-1-thief")
        theirs = connect(thief, broker)
        assert theirs.accepted is True
        assert not theirs.subscribe("fleet/v1/dev-2/down/#")
        registry.revoke("bob", "dev-1", "stolen")
        assert wait_until(lambda: bool(live.reasons) and bool(theirs.reasons), 3)
        assert not connects(second, broker)
        assert not connects(thief, broker)
        with pytest.raises(Refused):
            renew(thief)

        # the real one comes back with a new key, once a person has seen it
        token = EnrolmentToken.parse(registry.invite("alice", device="dev-1").token)
        assert enrol(url, token, state).state.value == "pending"
        registry.approve("bob", "dev-1")
        assert enrol(url, token, state).state.value == "active"
        third = Identity.load(state)
        assert third is not None
        assert wait_until(lambda: connects(third, broker), 5)
        assert not connects(thief, broker)
        live.close()
        theirs.close()
