"""The whole road on real brokers with a real outbox: what goes up arrives once, and both sides agree."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.protocol.delivery import Presence, PresenceState, Rejection, RejectionCode
from edge_runtime.protocol.topics import Channel
from tests.rigs.brokers import KINDS, Broker, connected, running_broker, wait_until
from tests.rigs.fake_receipts import ReceiptingPeer
from tests.rigs.uplinks import ThreadedUplink, identity, submission, submissions

_NAMES = [f"dev-{number}" for number in range(1, 31)]


@pytest.fixture(scope="module", params=KINDS)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp(request.param)
    with running_broker(request.param, folder, _NAMES) as started:
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
    assert started.defects == []


@pytest.fixture
def device(tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str) -> Iterator[ThreadedUplink]:
    who = identity(broker.parties[name], broker.host, broker.port)
    with ThreadedUplink(tmp_path, who) as started:
        yield started


def settled(device: ThreadedUplink, timeout: float = 15.0) -> bool:
    return wait_until(lambda: device.outbox.status().ledger.queued == 0, timeout)


def test_what_goes_up_arrives_once_and_the_ledger_balances(
    device: ThreadedUplink, peer: ReceiptingPeer, name: str
) -> None:
    keys = device.put(submissions(500))
    assert settled(device)
    assert set(peer.rows(name)) == set(keys)
    ledger = device.outbox.status().ledger
    assert ledger.delivered == 500
    assert ledger.balances
    topics = {topic.rsplit("/", 1)[1] for topic, _, _ in peer.bundles}
    assert topics <= {"0", "1", "2", "3"}
    for topic, bundle, size in peer.bundles:
        assert size <= 128 * 1024
        assert len(bundle.items) <= 64
        assert topic.startswith(f"fleet/v1/{name}/up/ev/")


def test_presence_is_retained_and_a_clean_end_says_so(
    device: ThreadedUplink, peer: ReceiptingPeer, broker: Broker, name: str
) -> None:
    assert wait_until(lambda: bool(peer.presence(name) and peer.health and peer.syncs))
    birth = peer.presence(name)[-1]
    assert (birth.state, birth.reason) == (PresenceState.ONLINE, "connected")
    assert peer.health[-1].session == birth.session
    device.stop()
    assert wait_until(lambda: peer.presence(name)[-1].reason == "stopped")
    with connected(broker, "fleet-ingest", "late") as late:
        assert late.subscribe("fleet/v1/+/presence")
        topic = f"fleet/v1/{name}/presence"
        assert wait_until(lambda: topic in [found for found, _ in late.messages])
    last = Presence.decode(dict(late.messages)[topic])
    assert (last.state, last.session) == (PresenceState.OFFLINE, birth.session)


def test_a_clean_end_leaves_the_last_ledger(device: ThreadedUplink, peer: ReceiptingPeer) -> None:
    device.put(submissions(20))
    assert settled(device)
    device.stop()
    assert wait_until(lambda: peer.health[-1].ledger.delivered == 20), peer.health[-1].ledger
    assert (peer.health[-1].ledger.accepted, peer.health[-1].ledger.queued) == (20, 0)


def test_who_is_stopped_while_connecting_still_reports(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    device = ThreadedUplink(tmp_path, identity(broker.parties[name], broker.host, broker.port))
    device.put([submission(1, ttl_s=0.01) for _ in range(3)])
    assert wait_until(lambda: device.outbox.status().ledger.expired == 3)
    with device:
        assert wait_until(lambda: device.uplink.attempts >= 1)  # 2 at once where the broker wants 3.1.1
    assert wait_until(lambda: [found.reason for found in peer.presence(name)][-1:] == ["stopped"])
    assert wait_until(lambda: bool(peer.outcomes and peer.health))
    assert peer.health[-1].ledger.expired == 3


def test_lost_receipts_are_made_up_for_by_the_same_keys(
    device: ThreadedUplink, peer: ReceiptingPeer, name: str
) -> None:
    assert wait_until(lambda: device.uplink.online)
    peer.silent = True
    keys = device.put(submissions(20))
    assert peer.wait_rows(name, 20)
    assert device.outbox.status().ledger.delivered == 0
    peer.silent = False
    assert settled(device)
    assert set(peer.rows(name)) == set(keys)
    books = next(iter(peer.books.values()))
    assert max(books.attempts.values()) > 1
    assert device.outbox.status().ledger.delivered == 20


def test_an_acknowledged_publication_is_no_delivery(device: ThreadedUplink, peer: ReceiptingPeer) -> None:
    assert wait_until(lambda: device.uplink.online)
    peer.deaf = True
    device.put(submissions(40))
    assert not wait_until(lambda: device.outbox.status().ledger.queued < 40, 0.5)
    peer.deaf = False
    assert settled(device)


def test_credit_bounds_what_is_in_flight_and_none_stops_until_a_sync_brings_some(
    device: ThreadedUplink, peer: ReceiptingPeer, name: str
) -> None:
    assert wait_until(lambda: device.uplink.online)
    peer.credit = 0
    device.put([submission(3)])
    assert settled(device)
    device.put(submissions(640))
    before = len(peer.bundles)
    assert not wait_until(lambda: len(peer.bundles) > before, 0.4)
    peer.credit = 2
    assert settled(device)
    assert len(peer.rows(name)) == 641


def test_refusals_are_final_or_tried_again(device: ThreadedUplink, peer: ReceiptingPeer) -> None:
    events = [submission(3) for _ in range(3)]
    peer.refuse = {
        1: Rejection(seq=1, key=events[0].key, code=RejectionCode.INVALID, permanent=True),
        2: Rejection(seq=2, key=events[1].key, code=RejectionCode.STORE_FAILED, permanent=False),
    }
    device.put(events)
    assert wait_until(lambda: device.outbox.status().ledger.rejected == 1)
    assert wait_until(lambda: device.outbox.status().ledger.delivered == 1)
    assert device.outbox.status().ledger.queued == 1
    peer.refuse = {}
    assert settled(device)
    ledger = device.outbox.status().ledger
    assert (ledger.delivered, ledger.rejected) == (2, 1)


def test_a_poisonous_event_goes_alone_and_holds_up_nobody(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    peer.ignore = lambda seq: seq == 5
    who = identity(broker.parties[name], broker.host, broker.port)
    with ThreadedUplink(tmp_path, who, retry_first_s=0.05, retry_cap_s=0.2, silence_s=60) as device:
        device.put([submission(1) for _ in range(50)])
        assert wait_until(lambda: device.outbox.status().ledger.delivered == 49)
        assert wait_until(lambda: next(iter(peer.books.values())).attempts[5] >= 7)
        alone = [bundle for _, bundle, _ in peer.bundles if [item.seq for item in bundle.items] == [5]]
        assert len(alone) >= 2
        device.put(submissions(10))
        assert wait_until(lambda: device.outbox.status().ledger.delivered == 59)
        peer.ignore = lambda _seq: False
        assert settled(device)


def test_what_never_arrives_is_reported_so_that_the_gap_closes(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    who = identity(broker.parties[name], broker.host, broker.port)
    device = ThreadedUplink(tmp_path, who)
    device.put([submission(1, ttl_s=0.01) for _ in range(5)])
    device.put([submission(1)])
    device.put([submission(1, ttl_s=0.01) for _ in range(5)])
    assert wait_until(lambda: device.outbox.status().ledger.expired == 10)
    with device:
        assert settled(device)
        assert wait_until(lambda: bool(peer.books) and next(iter(peer.books.values())).high == 11)
        assert wait_until(lambda: device.outbox.outcomes(10) == [])
        assert {(found.first, found.last) for report in peer.outcomes for found in report.ranges} == {
            (1, 5),
            (7, 11),
        }
        assert peer.outcomes[-1].ledger.balances


def test_garbage_on_every_topic_is_counted_and_costs_nothing(
    device: ThreadedUplink, peer: ReceiptingPeer, name: str
) -> None:
    assert wait_until(lambda: device.uplink.online)
    garbage = [
        b"",
        b"\x00" * 100,
        b"\x81\xa1v\x92\x01\x00",
        b"x\x9c" + b"\xff" * 50,
        b"\xde\xff\xff",
        b"\xc1" * 5000,
    ]
    for channel in (Channel.RECEIPT, Channel.COMMAND, Channel.DESIRED):
        for payload in garbage:
            peer.send(name, channel, payload)
    peer.send(name, Channel.RECEIPT, b"\x91" * 130_000)
    peer.send(name, Channel.RECEIPT, b"old", retain=True)
    device.put(submissions(20))
    assert settled(device)
    counts, refused = device.uplink.counts, device.uplink.updates.refused
    assert wait_until(lambda: sum(counts.values()) + sum(refused.values()) >= 13)
    assert sum(refused.values()) == len(garbage)
    assert not (device.state.updates / "desired").exists()
    assert device.uplink.counts["receipt_malformed"] >= 3
    peer.send(name, Channel.RECEIPT, b"", retain=True)


def test_a_killed_broker_costs_no_event(
    device: ThreadedUplink, peer: ReceiptingPeer, broker: Broker, name: str
) -> None:
    keys = device.put(submissions(200))
    broker.kill()
    keys += device.put(submissions(200))
    broker.start()
    assert settled(device, 20)
    assert set(peer.rows(name)) == set(keys)
    assert device.outbox.status().ledger.delivered == 400
    assert not device.uplink.sentences()


def test_a_broker_that_hangs_is_left_and_found_again(
    tmp_path: Path, broker: Broker, peer: ReceiptingPeer, name: str
) -> None:
    who = identity(broker.parties[name], broker.host, broker.port)
    with ThreadedUplink(tmp_path, who, silence_s=1.0, connect_timeout_s=1.0) as device:
        assert wait_until(lambda: device.uplink.online)
        broker.pause()
        keys = device.put(submissions(30))
        assert wait_until(lambda: not device.uplink.online, 5)
        broker.resume()
        assert settled(device, 20)
        assert set(peer.rows(name)) == set(keys)
