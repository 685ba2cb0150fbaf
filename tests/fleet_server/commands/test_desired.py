"""Desired states: sent once the broker has them, again when a device came back, cleared for who was put out."""

from collections.abc import Sequence

import pytest

from edge_runtime.protocol.delivery import PresenceState
from fleet_server.commands.desired import AT_ONCE, DesiredPublisher
from fleet_server.ingest import Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.storage import Store
from fleet_server.storage.device_tables import DeviceRow
from fleet_server.storage.rollout_tables import DesiredRow
from tests.rigs.deliveries import DeviceRig, FakeClock


class Broker:
    """What the broker keeps: the newest payload of each topic; none where it is empty."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.taken: list[str] = []
        self.refuses: set[str] = set()
        self.is_up = True

    def retain(self, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        return [self._keep(topic, payload) for topic, payload in messages]

    def _keep(self, topic: str, payload: bytes) -> bool:
        if not self.is_up or topic in self.refuses:
            return False
        self.taken.append(topic)
        self.kept[topic] = payload
        if not payload:
            del self.kept[topic]
        return True


class Desk:
    """Desired states, a publisher, and devices that come and go."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.broker = store, FakeClock(), Broker()
        self.publisher = DesiredPublisher(store, self.broker.retain, self.clock)

    def device(self, name: str, state: str = "active") -> None:
        with self.store.write() as session:
            session.merge(DeviceRow(id=name, state=state, labels={}, created_ms=1, changed_ms=1))

    def want(self, name: str, body: bytes) -> None:
        """The director writes."""
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

    assert DesiredPublisher(desk.store, slowly, desk.clock).step() == 1
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
