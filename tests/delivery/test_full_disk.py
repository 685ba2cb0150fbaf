"""Kind 12, the disk is full, on the whole road: room is made by eviction, what is there goes on, restarts work."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.outbox import Health
from sim.road import Device, Server
from tests.rigs.roads import ONE, a_device, assert_sums, logs, put, settled, status, wait_for
from tests.rigs.small_disk import fill_up, small_disk
from tests.rigs.submitter import approved

_LIMITS = {"quota_bytes": 64 << 20, "ballast_bytes": 1 << 20, "retry_disk_s": 1}


@pytest.fixture
def device(server: Server, name: str, tmp_path: Path) -> Iterator[Device]:
    folder = tmp_path / name
    with contextlib.ExitStack() as stack:
        stack.enter_context(small_disk(folder / "state"))
        yield stack.enter_context(a_device(server, folder, name, limits=_LIMITS, health_period_s=0.5))


def _sentences(server: Server, device: Device) -> str:
    """What the device last told the operator."""
    health = server.fleet("device", "show", device.name)["health"]
    return " ".join(health["degraded"]) if health else ""


def _state(device: Device) -> Health | None:
    found = status(device)
    return None if found is None else found.state


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_12_a_full_disk_costs_the_oldest_and_stops_nothing(server: Server, device: Device) -> None:
    keys = put(device, [approved(number % 3) for number in range(50)])
    settled(server, device)
    device.cable.cut()
    keys += put(device, [approved(1) for _ in range(500)])
    filler = fill_up(device.state.path)
    keys += put(device, [approved(2) for _ in range(1500)])  # severer: the oldest of the others give way
    full = status(device)
    assert full is not None
    assert full.ledger.balances
    assert full.ledger.evicted > 0
    assert full.ledger.lost == 0
    assert full.state is Health.DEGRADED
    assert "the disk is full" in " ".join(full.sentences)

    device.kill()
    device.start()  # with no room for as much as a log line
    again = status(device)
    assert again is not None
    assert (again.ledger, again.epoch) == (full.ledger, full.epoch)
    keys += put(device, [approved(3) for _ in range(5)])

    device.cable.heal()
    settled(server, device)  # what was delivered could be deleted
    # full, or after the restart without room for the ballast: either way the operator is told
    assert wait_for(lambda: "the disk" in _sentences(server, device)), logs(server, device)
    keys += put(device, [approved(number % 4) for number in range(100)])
    sums = assert_sums(server, device, keys)
    assert sums.device.ledger.delivered + sums.device.ledger.evicted == len(keys)
    assert sums.balance[0].settled["evicted"] == sums.device.ledger.evicted

    filler.unlink()
    assert wait_for(lambda: _state(device) is Health.HEALTHY), status(device)
    assert wait_for(lambda: "the disk" not in _sentences(server, device)), logs(server, device)
    keys += put(device, [approved(number % 4) for number in range(20)])
    assert_sums(server, device, keys)
