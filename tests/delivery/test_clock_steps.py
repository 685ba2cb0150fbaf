"""Kind 13, the clock steps, on the whole road: no deadline moves, and nothing is lost or refused for a wrong label.

All processes of the device see the clock of the test, TLS included. The server has one as well, which is right and
synchronised whatever the machine's is, so that it judges deadlines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sim.road import Device, Server, running
from tests.rigs.roads import ONE, a_device, assert_sums, logs, make_server, put, settled, status, wait_for
from tests.rigs.stepped_clock import SteppedClock
from tests.rigs.submitter import approved

_HOUR = 3600
_YEARS = 50 * 365 * 86_400
_HALF_AN_HOUR = 1800.0


@dataclass
class Scene:
    """A device with a clock of its own, and every key that its outbox acknowledged."""

    server: Server
    device: Device
    clock: SteppedClock
    keys: list[bytes]

    def put(self, count: int, ttl_s: float = _HALF_AN_HOUR) -> None:
        """Events with the labels that the device's clock gives them now."""
        events = [approved(number % 4, ttl_s=ttl_s, wall=self.clock.wall()) for number in range(count)]
        self.keys += put(self.device, events)

    def ledger(self) -> tuple[int, int, int]:
        """(queued, delivered, expired)."""
        found = status(self.device)
        assert found is not None
        return found.ledger.queued, found.ledger.delivered, found.ledger.expired

    def says(self, words: str) -> bool:
        """Whether the uplink's log has words."""
        return words in self.device.uplink.log.read_text(errors="replace")


@pytest.fixture(scope="module", params=ONE)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("clocks")
    made = make_server(request, folder, request.param)
    made.process.variables = SteppedClock(folder / "clock").variables
    with running(made) as started:
        yield started


@pytest.fixture
def scene(server: Server, name: str, tmp_path: Path) -> Iterator[Scene]:
    clock = SteppedClock(tmp_path / "clock")

    def prepare(device: Device) -> None:
        device.outbox.variables = device.uplink.variables = clock.variables

    with a_device(server, tmp_path / name, name, prepare=prepare) as device:
        found = Scene(server, device, clock, [])
        found.put(1)
        settled(server, device)
        yield found


def test_13_steps_while_it_runs_move_no_deadline(scene: Scene) -> None:
    scene.clock.step(-_HOUR)  # an open session goes on; events that live for less than the step are not late
    scene.put(20)
    settled(scene.server, scene.device)
    assert scene.ledger() == (0, 21, 0)

    scene.device.cable.cut()
    scene.put(20)
    scene.put(5, ttl_s=1.0)
    scene.clock.step(_YEARS)
    scene.put(20)
    assert wait_for(lambda: scene.ledger() == (40, 21, 5)), scene.ledger()
    scene.device.cable.heal()
    # by this clock the broker's certificate ended long ago: what is there waits for a better one
    assert wait_for(lambda: scene.says("certificate has expired")), logs(scene.server, scene.device)
    assert scene.ledger() == (40, 21, 5)

    scene.clock.step(-_HOUR)
    sums = assert_sums(scene.server, scene.device, scene.keys)
    assert (sums.device.ledger.delivered, sums.device.ledger.expired) == (61, 5)


@pytest.mark.trial
def test_13_a_boot_in_1970_waits_for_the_time_and_loses_nothing(scene: Scene) -> None:
    device = scene.device
    device.cable.cut()
    scene.put(20)
    scene.put(5, ttl_s=10.0)  # as long as the new boot has run when the outbox opens
    device.kill()
    scene.clock.reboot(up_s=10.0)
    scene.clock.step(-scene.clock.wall().unix_ns / 10**9 + 100, synced=False)
    assert scene.clock.wall().isoformat().startswith("1970-01-01T00:01:")
    device.start()
    device.cable.heal()
    scene.put(20)
    assert wait_for(lambda: scene.ledger() == (40, 1, 5)), scene.ledger()
    assert wait_for(lambda: scene.says("certificate is not yet valid")), logs(scene.server, device)
    scene.clock.step(0.0)
    sums = assert_sums(scene.server, device, scene.keys)
    assert (sums.device.ledger.delivered, sums.device.ledger.expired) == (41, 5)
    assert len(sums.balance) == 1  # one file of the outbox all along


@pytest.mark.trial
def test_13_a_clock_that_is_ahead_after_a_reboot_expires_nothing_that_the_server_knows_better(
    scene: Scene,
) -> None:
    device = scene.device
    device.cable.cut()
    scene.put(20)
    device.kill()
    scene.clock.reboot(up_s=10.0)
    scene.clock.step(_HOUR)  # as if it had been without power for an hour, which is twice what they live for
    device.start()
    found = status(device)
    assert found is not None
    assert "waits for confirmation" in " ".join(found.sentences)
    device.cable.heal()
    sums = assert_sums(scene.server, device, scene.keys)
    assert (sums.device.ledger.delivered, sums.device.ledger.expired) == (21, 0)
