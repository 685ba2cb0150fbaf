"""Desired states: sent once the broker has them, again when a device came back, cleared for who was put out."""

from collections.abc import Sequence

import pytest
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import CryptoSigner

from edge_runtime.protocol.delivery import PresenceState
from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.update import SETTLED_TYPE, Settled, SettledEnd
from edge_runtime.protocol.update_wire import Desired
from fleet_server.commands.desired import AT_ONCE, DesiredPublisher, Retain
from fleet_server.director.desired import compose
from fleet_server.director.signing import Signing, SigningNow
from fleet_server.ingest import Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.releases.problems import ReleaseRefused
from fleet_server.storage import Store
from fleet_server.storage.device_tables import DeviceRow
from fleet_server.storage.rollout_tables import DesiredRow
from tests.rigs.deliveries import DeviceRig, FakeClock


class Broker:
    """What the broker keeps: the newest assignment of each topic; none where the payload is empty."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.payloads: dict[str, bytes] = {}
        self.taken: list[str] = []
        self.refuses: set[str] = set()
        self.is_up = True

    def retain(self, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        return [self._keep(topic, payload) for topic, payload in messages]

    def _keep(self, topic: str, payload: bytes) -> bool:
        if not self.is_up or topic in self.refuses:
            return False
        self.taken.append(topic)
        self.payloads[topic] = payload
        if payload:
            (self.kept[topic],) = Desired.decode(payload).assignments
        else:
            self.kept.pop(topic, None)
        return True


class Desk:
    """Desired states, a publisher, and devices that come and go."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.broker = store, FakeClock(), Broker()
        self.signer = CryptoSigner.generate_ed25519()
        self.publisher = self.publishing(self.broker.retain)

    def device(self, name: str, state: str = "active") -> None:
        with self.store.write() as session:
            session.merge(DeviceRow(id=name, state=state, labels={}, created_ms=1, changed_ms=1))

    def publishing(self, retain: Retain) -> DesiredPublisher:
        return DesiredPublisher(self.store, retain, lambda _reader: Signing(self.signer, 1, 1), self.clock)

    def want(self, name: str, assignment: bytes, settled: Sequence[tuple[int, int]] = ()) -> None:
        """The director writes."""
        self.write(name, compose(name, [assignment], settled))

    def write(self, name: str, body: bytes) -> None:
        with self.store.write() as session:
            session.merge(
                DesiredRow(
                    device=name, body=body, state="queued", changed_ms=self.clock.wall_ms, sent_ms=None
                )
            )

    def row(self, name: str) -> DesiredRow:
        with self.store.read() as session:
            return session.get_one(DesiredRow, name)

    def says(self, topic: str, payload: bytes) -> None:
        parcel = inspect(Arrival(topic, payload, 0), Rules(), Now(0, self.clock.wall_ms))
        Committer(self.store, Limits()).commit([parcel], self.clock.wall_ms)


@pytest.fixture
def desk(store: Store) -> Desk:
    made = Desk(store)
    for name in ("dev-1", "dev-2"):
        made.device(name)
    return made


def _topic(name: str) -> str:
    return f"fleet/v1/{name}/down/desired"


def test_what_the_director_wrote_is_kept_by_the_broker(desk: Desk) -> None:
    desk.want("dev-1", b"one")
    desk.want("dev-2", b"two")
    assert desk.publisher.step() == 2
    assert desk.broker.kept == {_topic("dev-1"): b"one", _topic("dev-2"): b"two"}
    assert (desk.row("dev-1").state, desk.row("dev-1").sent_ms) == ("sent", desk.clock.wall_ms)
    assert desk.publisher.step() == 0


def test_what_the_broker_does_not_take_stays_queued(desk: Desk) -> None:
    desk.want("dev-1", b"one")
    desk.want("dev-2", b"two")
    desk.broker.refuses.add(_topic("dev-1"))
    assert desk.publisher.step() == 1
    assert (desk.row("dev-1").state, desk.row("dev-2").state) == ("queued", "sent")
    desk.broker.is_up = False
    assert desk.publisher.step() == 0
    desk.broker.is_up, desk.broker.refuses = True, set()
    assert desk.publisher.step() == 1
    assert desk.broker.kept[_topic("dev-1")] == b"one"


def test_what_is_written_while_it_is_sent_goes_out_as_well(desk: Desk) -> None:
    """In the same millisecond: the time of the change is not what tells."""
    desk.want("dev-1", b"one")
    retain = desk.broker.retain

    def slowly(messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        taken = retain(messages)
        desk.want("dev-1", b"newer")
        return taken

    assert desk.publishing(slowly).step() == 1
    assert desk.row("dev-1").state == "queued"
    assert desk.publisher.step() == 1
    assert desk.broker.kept == {_topic("dev-1"): b"newer"}


def test_it_goes_out_again_when_the_device_came_back(desk: Desk) -> None:
    desk.says(*DeviceRig("dev-1").presence(1))
    desk.clock.advance(1)
    desk.want("dev-1", b"one")
    desk.publisher.step()
    desk.clock.advance(1)
    desk.says(*DeviceRig("dev-1").presence(1, PresenceState.OFFLINE))
    desk.clock.advance(1)
    assert desk.publisher.step() == 0
    desk.broker.kept.clear()  # a broker that lost its store
    desk.says(*DeviceRig("dev-1").presence(2))
    desk.clock.advance(1)
    assert desk.publisher.step() == 1
    assert desk.broker.kept == {_topic("dev-1"): b"one"}
    assert desk.publisher.step() == 0


@pytest.mark.parametrize("state", ["revoked", "removed"])
def test_a_device_that_was_put_out_leaves_nothing_at_the_broker(desk: Desk, state: str) -> None:
    desk.want("dev-1", b"one")
    desk.want("dev-2", b"two")
    desk.publisher.step()
    desk.device("dev-1", state)
    assert desk.publisher.step() == 1
    assert desk.broker.kept == {_topic("dev-2"): b"two"}
    assert desk.row("dev-1").state == "cleared"
    desk.says(*DeviceRig("dev-1").presence(9))
    assert desk.publisher.step() == 0


def test_what_was_queued_for_a_device_that_is_out_is_never_sent(desk: Desk) -> None:
    desk.device("dev-1", "revoked")
    desk.want("dev-1", b"one")
    assert desk.publisher.step() == 1
    assert desk.broker.kept == {}
    assert desk.row("dev-1").state == "cleared"


def test_a_device_that_is_let_in_again_gets_what_is_written_for_it_then(desk: Desk) -> None:
    desk.want("dev-1", b"old key")
    desk.device("dev-1", "revoked")
    desk.publisher.step()
    desk.device("dev-1", "active")
    assert desk.publisher.step() == 0
    desk.want("dev-1", b"new key")
    assert desk.publisher.step() == 1
    assert desk.broker.kept == {_topic("dev-1"): b"new key"}


def test_who_waits_for_an_operator_gets_nothing_yet(desk: Desk) -> None:
    desk.device("dev-1", "pending")
    desk.want("dev-1", b"one")
    assert desk.publisher.step() == 0
    desk.device("dev-1", "active")
    assert desk.publisher.step() == 1


def test_many_go_out_in_the_order_of_their_change(desk: Desk) -> None:
    names = [f"box-{number}" for number in range(AT_ONCE + 20)]
    for name in names:
        desk.device(name)
        desk.want(name, name.encode())
        desk.clock.advance(0.001)
    assert [desk.publisher.step(), desk.publisher.step(), desk.publisher.step()] == [AT_ONCE, 20, 0]
    assert desk.broker.taken == [_topic(name) for name in names]


def test_the_director_signs_which_reports_arrived(desk: Desk) -> None:
    desk.want("dev-1", b"one", [(9, 40), (8, 31)])
    desk.want("dev-2", b"two")
    assert desk.publisher.step() == 2
    sealed = Desired.decode(desk.broker.payloads[_topic("dev-1")]).settled
    assert sealed is not None
    envelope = read_envelope(sealed, SETTLED_TYPE)
    envelope.verify([desk.signer.public_key], 1)
    ends = (SettledEnd(seq=8, report_no=31), SettledEnd(seq=9, report_no=40))
    assert record_in(envelope, Settled) == Settled(device="dev-1", ends=ends)
    with pytest.raises(VerificationError):
        envelope.verify([CryptoSigner.generate_ed25519().public_key], 1)
    assert Desired.decode(desk.broker.payloads[_topic("dev-2")]).settled is None


def test_without_the_directors_key_assignments_go_out_and_nothing_is_settled(desk: Desk) -> None:
    def no_key(_reader: object) -> Signing:
        raise ReleaseRefused("no_key", "this server has not the director's key")

    signing: SigningNow = no_key
    desk.want("dev-1", b"one", [(9, 40)])
    assert DesiredPublisher(desk.store, desk.broker.retain, signing, desk.clock).step() == 1
    found = Desired.decode(desk.broker.payloads[_topic("dev-1")])
    assert (found.assignments, found.settled) == ((b"one",), None)


def test_of_a_row_that_another_build_wrote_the_device_keeps_what_it_has(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.want("dev-1", b"one")
    assert desk.publisher.step() == 1
    desk.write("dev-1", b"of another time")
    desk.want("dev-2", b"two")
    assert [desk.publisher.step() for _ in range(3)] == [1, 0, 0]
    assert desk.broker.kept == {_topic("dev-1"): b"one", _topic("dev-2"): b"two"}
    assert desk.row("dev-1").state == "queued", "a build that can read it still sends it"
    desk.write("dev-1", b"of a third time")
    assert desk.publisher.step() == 0
    said = [one.getMessage() for one in caplog.records]
    assert [text.partition(" cannot be read: ")[0] for text in said] == ["the desired state of dev-1"] * 2
    desk.want("dev-1", b"newer")
    assert desk.publisher.step() == 1
    assert desk.broker.kept[_topic("dev-1")] == b"newer"


def test_a_device_that_is_put_out_keeps_nothing_of_a_row_that_cannot_be_read(desk: Desk) -> None:
    desk.want("dev-1", b"one")
    desk.publisher.step()
    desk.write("dev-1", b"of another time")
    assert desk.publisher.step() == 0
    desk.device("dev-1", "revoked")
    assert desk.publisher.step() == 1
    assert desk.broker.kept == {}


def test_rows_that_cannot_be_read_keep_no_others_waiting(desk: Desk) -> None:
    for number in range(AT_ONCE):
        desk.device(f"box-{number}")
        desk.write(f"box-{number}", b"of another time")
    desk.clock.advance(1)
    desk.want("dev-2", b"two")
    assert [desk.publisher.step(), desk.publisher.step()] == [0, 1]
    assert desk.broker.kept == {_topic("dev-2"): b"two"}
