"""Ways to the broker, and what keeps a device from it: WebSocket, proxy, versions, permissions, a stolen name."""

import contextlib
import random
import re
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.enrolment import BrokerAddress, BrokerTransport
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.operation import Command, CommandKind, HeldList
from edge_runtime.uplink import CommandAnswer, Hands
from edge_runtime.uplink.memory import BrokerMemory
from sim.ports import free_port
from tests.rigs.brokers import (
    KINDS,
    Broker,
    MosquittoBroker,
    NatsBroker,
    connected,
    running_broker,
    wait_until,
)
from tests.rigs.connect_proxy import ConnectProxy
from tests.rigs.fake_receipts import ReceiptingPeer
from tests.rigs.pki import Pki
from tests.rigs.uplinks import ThreadedUplink, identity, submission, submissions

_NAMES = [f"dev-{number}" for number in range(1, 31)]


@pytest.fixture(scope="module", params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(request.param, tmp_path_factory.mktemp(request.param), _NAMES) as started:
        request.module.fresh_names = iter(_NAMES)
        yield started


@pytest.fixture
def name(request: pytest.FixtureRequest, broker: Broker) -> str:
    """A device that no other test has used on this broker."""
    return str(next(request.module.fresh_names))


@pytest.fixture
def peer(broker: Broker) -> Iterator[ReceiptingPeer]:
    started = ReceiptingPeer(broker).start()
    yield started
    started.stop()


def delivered(device: ThreadedUplink, count: int) -> bool:
    return wait_until(lambda: device.outbox.status().ledger.delivered == count, 10)


def connect_once(folder: Path, broker: Broker, name: str) -> None:
    with ThreadedUplink(folder, identity(broker.parties[name], broker.host, broker.port)) as device:
        assert wait_until(lambda: device.uplink.online)


@pytest.mark.parametrize("password", [None, "p@ss:w/rd"])
def test_through_an_http_proxy(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str, password: str | None
) -> None:
    user = None if password is None else "user"
    with ConnectProxy(user, password) as proxy:
        secret = "" if password is None else "user:p%40ss%3Aw%2Frd@"
        settings: dict[str, Any] = {"proxy": f"http://{secret}127.0.0.1:{proxy.port}"}
        with ThreadedUplink(
            tmp_path, identity(broker.parties[name], broker.host, broker.port), **settings
        ) as device:
            device.put(submissions(100))
            assert delivered(device, 100)
            assert proxy.asked
            assert set(proxy.asked) == {f"localhost:{broker.port}"}
            assert proxy.up_bytes > 5_000
            proxy.cut()
            device.put(submissions(100))
            assert delivered(device, 200)


def test_a_proxy_that_refuses_is_named_without_the_password(
    tmp_path: Path, broker: Broker, name: str
) -> None:
    with ConnectProxy("user", "right") as proxy:
        who = identity(broker.parties[name], broker.host, broker.port)
        with ThreadedUplink(tmp_path, who, proxy=f"http://user:wrong-one@127.0.0.1:{proxy.port}") as device:
            assert wait_until(lambda: proxy.refused >= 2)
            trouble = device.uplink.trouble
            assert trouble is not None
            assert "proxy" in trouble
            assert "wrong-one" not in trouble


def test_the_version_that_works_is_remembered(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    address = BrokerAddress(host=broker.host, port=broker.port)
    for _ in range(2):
        connect_once(tmp_path, broker, name)
        memory = BrokerMemory(tmp_path / "state" / "uplink" / "brokers.json")
        assert memory.speaks_mqtt5(address) == broker.speaks_mqtt5
    sessions = [found.session for found in peer.presence(name) if found.reason == "connected"]
    # where the first attempt of all found that MQTT 5 does not work, its number was used up; the second run knew
    assert len(sessions) >= 2
    assert sessions[-1] == sessions[-2] + 1


def test_a_forced_version_is_not_changed(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    who = identity(broker.parties[name], broker.host, broker.port)
    with ThreadedUplink(tmp_path, who, protocol="3.1.1") as device:
        device.put(submissions(10))
        assert delivered(device, 10)


def test_certificates_that_do_not_fit_are_refused_on_both_sides(
    tmp_path: Path, broker: Broker, name: str
) -> None:
    rogue = Pki(tmp_path / "rogue", "rogue")
    stranger, party = rogue.device(name), broker.parties[name]

    def context(authority: Path, certificate: Path, key: Path) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(authority))
        made.load_cert_chain(certificate, key)
        return made

    for number, tls in enumerate(
        (
            lambda: context(party.authority, stranger.certificate, stranger.key),
            lambda: context(stranger.authority, party.certificate, party.key),
        )
    ):
        who = identity(party, broker.host, broker.port, tls=tls)
        with ThreadedUplink(tmp_path / str(number), who) as device:
            device.put([submission(3)])
            assert wait_until(lambda device=device: device.uplink.attempts >= 3)
            assert not device.uplink.online
            trouble = device.uplink.trouble
            assert trouble is not None
            assert ("not trusted" in trouble) == (number == 1)
            assert device.outbox.status().ledger.queued == 1


def test_a_refused_publication_is_no_delivery(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    other = identity(broker.parties[name], broker.host, broker.port, device="someone-else")
    with ThreadedUplink(tmp_path, other, silence_s=1.0) as device:
        device.put(submissions(5))
        assert wait_until(lambda: device.uplink.attempts >= 2 or bool(device.uplink.sentences()), 10)
        assert not wait_until(lambda: device.outbox.status().ledger.queued < 5, 0.5)
        assert device.outbox.status().ledger.delivered == 0
    assert peer.rows("someone-else") == {}
    assert peer.presence("someone-else") == []


def test_a_stolen_identity_is_noticed_and_not_fought_over(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    who = identity(broker.parties[name], broker.host, broker.port)
    with ThreadedUplink(tmp_path, who, short_s=30.0, quarrel_s=60.0) as device:
        for _ in range(8):
            if "another client seems to use this device's identity" in device.uplink.sentences():
                break
            wait_until(lambda: device.uplink.online, 3)
            with connected(broker, name):
                wait_until(lambda: not device.uplink.online, 3)
        assert "another client seems to use this device's identity" in device.uplink.sentences()
        attempts = device.uplink.attempts
        assert attempts <= 6
        assert not wait_until(lambda: device.uplink.attempts > attempts, 1.0)


class Review:
    """What the composition hands in: remembers what was asked."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.asked: list[Command] = []

    def __call__(self, command: Command) -> CommandAnswer:
        self.asked.append(command)
        if command.note == "explode":
            raise RuntimeError("inside")
        return CommandAnswer(done=True, text=f"released {command.item}")

    def held(self) -> HeldList:
        return HeldList(device=self.device, total=len(self.asked), items=())


def test_commands_are_carried_out_once_and_answered(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    review = Review(name)
    hands = Hands(review=review, held=review.held)
    who = identity(broker.parties[name], broker.host, broker.port)
    now = peer.now_ms()
    made = iter(range(100))

    def command(kind: CommandKind, **changes: object) -> Command:
        fields: dict[str, object] = {
            "id": uuid7(next(made) * 10**6 + 10**9),
            "device": name,
            "kind": kind,
            "issued_ms": now,
            "expires_ms": now + 60_000,
            "by": "ada",
        }
        return Command.model_validate({**fields, **changes})

    release = command(CommandKind.RELEASE_HELD, item="0" * 32, note="harmless")
    explode = command(CommandKind.DROP_HELD, item="0" * 32, note="explode")
    late = command(
        CommandKind.RELEASE_HELD, item="1" * 32, note="late", issued_ms=now - 9_000, expires_ms=now - 5_000
    )
    bare = command(CommandKind.RELEASE_HELD)
    health, held = command(CommandKind.REPORT_HEALTH), command(CommandKind.REPORT_HELD)
    with ThreadedUplink(tmp_path, who, hands) as device:
        assert wait_until(lambda: device.uplink.online)
        before = len(peer.health)
        for sent in (release, release, explode, late, bare, health, held):
            peer.command(sent)
        peer.command(command(CommandKind.RELEASE_HELD, item="2" * 32, note="kept"), retain=True)
        assert wait_until(lambda: len(peer.results) >= 7)
        answers = {result.id: result for result in peer.results}
        assert answers[release.id].done
        assert not answers[explode.id].done
        assert "inside" not in answers[explode.id].text
        assert "expired" in answers[late.id].text
        assert not answers[bare.id].done
        assert answers[health.id].done
        assert answers[held.id].done
        assert [asked.id for asked in review.asked if asked.note != "kept"] == [release.id, explode.id]
        assert wait_until(lambda: len(peer.health) > before and bool(peer.held))
    with ThreadedUplink(tmp_path, who, hands) as device:
        asked, answered = len(review.asked), len(peer.results)
        assert wait_until(lambda: device.uplink.online)
        peer.command(release)
        assert wait_until(lambda: len(peer.results) > answered)
        assert peer.results[-1] == answers[release.id]
        assert len(review.asked) == asked, "neither the same id after a restart, nor a retained command"
    peer.send_retained_nothing(name)


def test_a_metered_link_sends_only_what_matters_once_the_days_bytes_are_spent(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    who = identity(broker.parties[name], broker.host, broker.port)
    settings: dict[str, Any] = {
        "profile": "lte",
        "daily_bytes": 20_000,
        "linger_ms": 300,
        "retry_first_s": 5.0,
        "critical_overdraft": 0.5,
    }
    with ThreadedUplink(tmp_path, who, **settings) as device:
        assert wait_until(lambda: device.uplink.online)
        rng = random.Random(1)
        for _ in range(80):
            event = submission(1, size=600)
            device.put([submission(1, key=event.key, body=rng.randbytes(600))])
        assert wait_until(lambda: device.uplink.delivery_floor == 3)
        urgent = device.put([submission(3)])
        assert wait_until(lambda: urgent[0] in peer.rows(name))
        assert wait_until(lambda: device.outbox.status().ledger.delivered == len(peer.rows(name)))
        status = device.outbox.status()
        assert 0 < status.ledger.queued < 80
        assert device.uplink.budget.used <= 30_000
        assert any("budget" in sentence for sentence in device.uplink.sentences())
        assert not wait_until(lambda: device.outbox.status().ledger.queued < status.ledger.queued, 0.5)


class WebsocketBroker(NatsBroker):
    """nats-server that also listens for WebSockets."""

    def __init__(self, directory: Path, devices: list[str]) -> None:
        super().__init__(directory, devices)
        self.websocket_port = free_port()

    def _write_files(self) -> None:
        super()._write_files()
        file = self.directory / "nats.conf"
        tls = re.search(r"^  tls \{.*?^  \}$", file.read_text(), re.DOTALL | re.MULTILINE)
        assert tls is not None
        listen = f'  host: "127.0.0.1", port: {self.websocket_port}\n'
        file.write_text(f"{file.read_text()}websocket {{\n{listen}{tls[0]}\n}}\n")


class NarrowBroker(MosquittoBroker):
    """mosquitto that takes few publications at once, and small packets."""

    def __init__(self, directory: Path, devices: Sequence[str], at_once: int) -> None:
        self.at_once = at_once
        super().__init__(directory, devices)

    def _write_files(self) -> None:
        super()._write_files()
        file = self.directory / "mosquitto.conf"
        lines = [line for line in file.read_text().splitlines() if "max_packet_size" not in line]
        kept = [line for line in lines if "max_inflight_messages" not in line]
        file.write_text(
            "\n".join([*kept, "max_packet_size 6000", f"max_inflight_messages {self.at_once}", ""])
        )


@contextlib.contextmanager
def started(broker: Broker) -> Iterator[ReceiptingPeer]:
    broker.start()
    peer = ReceiptingPeer(broker)
    try:
        yield peer.start()
    finally:
        peer.stop()
        broker.stop()


@pytest.mark.parametrize("proxied", [False, True])
def test_over_a_websocket(tmp_path: Path, proxied: bool) -> None:
    broker = WebsocketBroker(tmp_path / "broker", ["dev-1"])
    with started(broker), ConnectProxy() as proxy:
        address = BrokerAddress(
            host="localhost", port=broker.websocket_port, transport=BrokerTransport.WEBSOCKETS, path="/mqtt"
        )
        who = identity(broker.parties["dev-1"], broker.host, broker.port, broker=address)
        settings: dict[str, Any] = {"proxy": f"http://127.0.0.1:{proxy.port}"} if proxied else {}
        with ThreadedUplink(tmp_path, who, **settings) as device:
            device.put([submission(3) for _ in range(200)])
            assert delivered(device, 200)
            assert bool(proxy.asked) == proxied


def test_a_broker_that_acknowledges_nothing_is_left(tmp_path: Path) -> None:
    """Its connection lives, and no event waits for a receipt: health alone has no PUBACK."""
    broker = MosquittoBroker(tmp_path / "broker", ["dev-1"])
    with started(broker):
        who = identity(broker.parties["dev-1"], broker.host, broker.port)
        with ThreadedUplink(tmp_path, who, silence_s=1.0, health_period_s=0.5, keepalive_s=600) as device:
            assert wait_until(lambda: device.uplink.online)
            attempts = device.uplink.attempts
            broker.pause()
            try:
                assert wait_until(lambda: device.uplink.attempts > attempts)
            finally:
                broker.resume()


@pytest.mark.parametrize("at_once", [1, 2])
def test_a_small_receive_maximum_and_small_packets_are_kept_to(tmp_path: Path, at_once: int) -> None:
    broker = NarrowBroker(tmp_path / "broker", ["dev-1"], at_once)
    with started(broker) as peer:
        who = identity(broker.parties["dev-1"], broker.host, broker.port)
        with ThreadedUplink(tmp_path, who) as device:
            rng = random.Random(2)
            device.put([submission(3, body=rng.randbytes(700)) for _ in range(60)])
            assert delivered(device, 60)
            assert max(size for _, _, size in peer.bundles) <= 6_000
            assert device.uplink.sessions == 1
            assert not device.uplink.sentences()
