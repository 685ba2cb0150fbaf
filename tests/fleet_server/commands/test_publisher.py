"""Commands: sent once the broker has them, again when the device came back, never after they expired."""

import pytest

from edge_runtime.protocol.delivery import PresenceState
from edge_runtime.protocol.operation import Command, CommandKind, CommandResult
from edge_runtime.protocol.topics import Channel
from fleet_server.commands import CommandPublisher
from fleet_server.ingest import Arrival, Committer, Limits, Now, Rules, inspect
from fleet_server.storage import Store
from fleet_server.storage.device_tables import CommandRow
from tests.rigs.deliveries import DeviceRig, FakeClock


class Broker:
    """What the broker was given."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes, int]] = []
        self.is_up = True

    def publish(self, topic: str, payload: bytes, expiry_s: int) -> bool:
        if self.is_up:
            self.taken.append((topic, payload, expiry_s))
        return self.is_up


class Desk:
    """Commands, a publisher and what devices say of themselves."""

    def __init__(self, store: Store) -> None:
        self.store, self.clock, self.broker = store, FakeClock(), Broker()
        self.publisher = CommandPublisher(store, self.broker.publish, self.clock)

    def ask(self, number: int, device: str = "dev-1", life_ms: int = 600_000) -> Command:
        now = self.clock.wall_ms
        command = Command(
            id=f"01890000-0000-7000-8000-{number:012}",
            device=device,
            kind=CommandKind.REPORT_HEALTH,
            issued_ms=now,
            expires_ms=now + life_ms,
            by="ann",
        )
        with self.store.write() as session:
            session.add(
                CommandRow(
                    id=command.id,
                    device=device,
                    kind=command.kind.value,
                    state="queued",
                    by="ann",
                    issued_ms=now,
                    expires_ms=command.expires_ms,
                    sent_ms=None,
                    body=command.encode(),
                    result=None,
                )
            )
        return command

    def state(self, command: Command) -> tuple[str, str | None]:
        with self.store.read() as session:
            row = session.get_one(CommandRow, command.id)
            return row.state, row.result

    def hear(self, topic: str, payload: bytes) -> dict[tuple[str, str], int]:
        now = Now(0, self.clock.wall_ms)
        parcel = inspect(Arrival(topic, payload, 0), Rules(), now)
        return dict(Committer(self.store, Limits()).commit([parcel], now.wall_ms).counts)


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(store)


def _result(command: Command, *, device: str = "dev-1", done: bool = True) -> tuple[str, bytes]:
    result = CommandResult(id=command.id, device=device, done=done, text="as asked")
    return DeviceRig(device).topic(Channel.RESULT), result.encode()


def test_a_command_goes_to_its_device_alone(desk: Desk) -> None:
    command = desk.ask(1)
    assert desk.publisher.step() == 1
    ((topic, payload, expiry_s),) = desk.broker.taken
    assert (topic, expiry_s) == ("fleet/v1/dev-1/down/cmd", 600)
    assert Command.decode(payload) == command
    assert desk.state(command) == ("sent", None)
    assert desk.publisher.step() == 0


def test_while_the_broker_is_away_it_stays_queued(desk: Desk) -> None:
    command = desk.ask(1)
    desk.broker.is_up = False
    assert desk.publisher.step() == 0
    assert desk.state(command)[0] == "queued"
    desk.broker.is_up = True
    assert desk.publisher.step() == 1


def test_commands_go_in_the_order_in_which_they_were_asked(desk: Desk) -> None:
    asked = []
    for number in range(40):
        asked.append(desk.ask(number))
        desk.clock.advance(0.001)
    assert [desk.publisher.step(), desk.publisher.step()] == [32, 8]
    assert [Command.decode(payload).id for _, payload, _ in desk.broker.taken] == [c.id for c in asked]


def test_an_expired_command_is_never_sent(desk: Desk) -> None:
    command = desk.ask(1, life_ms=1000)
    desk.clock.advance(1)
    assert desk.publisher.step() == 0
    assert desk.state(command)[0] == "expired"
    assert desk.broker.taken == []


def test_a_sent_command_that_gets_no_answer_expires(desk: Desk) -> None:
    command = desk.ask(1, life_ms=5000)
    desk.publisher.step()
    desk.clock.advance(6)
    desk.publisher.step()
    assert desk.state(command)[0] == "expired"


def test_it_is_sent_again_to_a_device_that_came_back(desk: Desk) -> None:
    desk.hear(*DeviceRig().presence(1))
    desk.clock.advance(1)
    command = desk.ask(1)
    desk.publisher.step()
    desk.clock.advance(5)
    assert desk.publisher.step() == 0

    desk.hear(*DeviceRig().presence(1, PresenceState.OFFLINE))
    desk.clock.advance(60)
    assert desk.publisher.step() == 0  # it is away: no heap of copies
    desk.hear(*DeviceRig().presence(2))
    assert desk.publisher.step() == 1
    assert desk.publisher.step() == 0
    desk.clock.advance(31)
    assert desk.publisher.step() == 1
    assert desk.state(command)[0] == "sent"


@pytest.mark.parametrize(("done", "state"), [(True, "done"), (False, "failed")])
def test_a_result_ends_it(desk: Desk, done: bool, state: str) -> None:
    command = desk.ask(1)
    desk.publisher.step()
    answer = _result(command, done=done)
    assert desk.hear(*answer) == {("message", "result"): 1}
    assert desk.state(command) == (state, "as asked")
    assert desk.hear(*answer) == {("message", "result"): 1}  # the same again is no news


def test_a_result_that_comes_too_late_is_still_the_truth(desk: Desk) -> None:
    command = desk.ask(1, life_ms=1000)
    desk.publisher.step()
    desk.clock.advance(2)
    desk.publisher.step()
    desk.hear(*_result(command))
    assert desk.state(command)[0] == "done"


def test_nobody_ends_the_command_of_another_device(desk: Desk) -> None:
    command = desk.ask(1)
    desk.publisher.step()
    counts = desk.hear(*_result(command, device="dev-2"))
    assert counts["dead_letter", "invalid"] == 1
    assert desk.state(command)[0] == "sent"
