"""Updates on real brokers: the desired state comes down into its file, sealed reports go up, events go first."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.protocol.update_wire import Desired, StateReports
from tests.rigs.brokers import KINDS, Broker, Recorder, connected, running_broker, wait_until
from tests.rigs.fake_receipts import ReceiptingPeer
from tests.rigs.uplinks import DeviceProcesses, ThreadedUplink, identity, submissions

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
def server(broker: Broker, name: str) -> Iterator[Recorder]:
    """The server's own session, which hears this device's reports."""
    with connected(broker, "fleet-ingest", f"fleet-ingest-{name}") as session:
        assert session.subscribe(str(Topic(name, Channel.STATE)))
        yield session


@pytest.fixture
def peer(broker: Broker) -> Iterator[ReceiptingPeer]:
    started = ReceiptingPeer(broker).start()
    yield started
    started.stop()
    assert started.defects == []


def _uplink(folder: Path, broker: Broker, name: str, **settings: Any) -> ThreadedUplink:
    return ThreadedUplink(folder, identity(broker.parties[name], broker.host, broker.port), **settings)


def _desired(name: str, word: bytes) -> bytes:
    return Desired(device=name, assignments=(b"assignment " + word,), settled=b"settlement").encode()


def _topic(name: str) -> str:
    return str(Topic(name, Channel.DESIRED))


def _leave(device: ThreadedUplink, number: int, kind: str = "progress", size: int = 8) -> Path:
    """Leave a report as updates does."""
    folder = device.state.updates / "reports"
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:016d}.{kind}"
    (folder / f"new-{number}").write_bytes(f"{number:08d}".encode().ljust(size, b"r"))
    return (folder / f"new-{number}").replace(path)


def _heard(server: Recorder) -> list[list[int]]:
    """Numbers of the reports of each message."""
    records = [StateReports.decode(payload) for _, payload in server.messages]
    return [[int(report[:8]) for report in record.reports] for record in records]


def test_what_the_broker_kept_is_there_when_the_device_comes(
    tmp_path: Path, broker: Broker, name: str, server: Recorder
) -> None:
    first, second = _desired(name, b"one"), _desired(name, b"two")
    assert server.publish(_topic(name), first, retain=True)
    with _uplink(tmp_path, broker, name) as device:
        path = device.state.updates / "desired"
        assert wait_until(path.exists)
        assert path.read_bytes() == first
        assert server.publish(_topic(name), second, retain=True)
        assert wait_until(lambda: path.read_bytes() == second)
        inode = path.stat().st_ino
    with _uplink(tmp_path, broker, name) as device:  # the same again, in a new session, is no news
        assert wait_until(lambda: device.uplink.sessions == 1 and device.uplink.budget.used > 100)
        assert path.stat().st_ino == inode
        assert path.read_bytes() == second


def test_what_is_no_desired_state_of_this_device_changes_nothing(
    tmp_path: Path, broker: Broker, name: str, server: Recorder
) -> None:
    good = _desired(name, b"good")
    with _uplink(tmp_path, broker, name) as device:
        path = device.state.updates / "desired"
        assert wait_until(lambda: device.uplink.sessions == 1)
        for payload in (_desired("dev-other", b"x"), b"\xff rubbish", good[:-3]):
            assert server.publish(_topic(name), payload, retain=True)
        assert server.publish(_topic(name), good, retain=True)
        assert wait_until(path.exists)
        assert path.read_bytes() == good
        assert server.publish(_topic(name), b"", retain=True)  # the fleet put this device out
        desk = device.uplink.updates
        assert wait_until(lambda: desk.refused["cleared"] == 1)
        assert desk.refused == {"other_device": 1, "malformed": 2, "cleared": 1}
        assert path.read_bytes() == good
    assert server.publish(_topic(name), b"", retain=True)


def test_no_device_writes_or_reads_another_ones_desired_state(
    broker: Broker, name: str, server: Recorder
) -> None:
    assert server.publish(_topic(name), _desired(name, b"kept"), retain=True)
    with connected(broker, "dev-30", "dev-30-curious") as other:
        other.publish(_topic(name), _desired(name, b"forged"), retain=True, timeout=1)
        other.publish(_topic("dev-30"), _desired("dev-30", b"forged"), retain=True, timeout=1)
    with connected(broker, "dev-30", "dev-30-again") as other:
        other.subscribe(_topic(name), timeout=1)
        other.subscribe("fleet/v1/dev-30/down/#")
        assert server.publish(_topic("dev-30"), _desired("dev-30", b"last"), retain=True)
        assert wait_until(lambda: len(other.messages) > 0)
        assert other.messages == [(_topic("dev-30"), _desired("dev-30", b"last"))]
    with connected(broker, name, f"{name}-reads") as own:
        assert own.subscribe(f"fleet/v1/{name}/down/#")
        assert wait_until(lambda: own.messages == [(_topic(name), _desired(name, b"kept"))])


def test_reports_go_up_and_only_progress_is_deleted(
    tmp_path: Path, broker: Broker, name: str, server: Recorder
) -> None:
    with _uplink(tmp_path, broker, name) as device:
        progress, terminal = _leave(device, 1), _leave(device, 2, "terminal")
        assert wait_until(lambda: not progress.exists())
        assert wait_until(lambda: len(_heard(server)) >= 2)  # it is sent again: nobody has settled it
        assert terminal.exists()
        heard = _heard(server)
        assert heard[0] in ([1, 2], [1])
        assert heard[-1] == [2]
        terminal.unlink()
        later = _leave(device, 3)
        assert wait_until(lambda: [3] in _heard(server))
        assert wait_until(lambda: not later.exists())
        silent = len(_heard(server))
        time.sleep(1.0)
        assert len(_heard(server)) == silent
        assert device.uplink.budget.used > 0


def test_after_a_broken_connection_everything_open_is_sent_again(
    tmp_path: Path, broker: Broker, name: str, server: Recorder
) -> None:
    with _uplink(tmp_path, broker, name, state_retry_first_s=600.0) as device:
        _leave(device, 7, "terminal")
        assert wait_until(lambda: _heard(server) == [[7]])
        with connected(broker, name, device.uplink.identity.device):  # takes the session over
            assert wait_until(lambda: not device.uplink.online)
        assert wait_until(lambda: _heard(server)[1:] == [[7]], 20)


def test_a_killed_uplink_loses_no_report_and_no_desired_state(
    tmp_path: Path, broker: Broker, name: str, server: Recorder
) -> None:
    party = broker.parties[name]
    with DeviceProcesses(tmp_path, party, broker.host, broker.port, state_retry_first_s=600.0) as device:
        folder = device.state.updates / "reports"
        folder.mkdir()
        (folder / "0000000000000001.terminal").write_bytes(b"00000001")
        assert wait_until(lambda: _heard(server) == [[1]], 15)
        device.kill_uplink()
        (folder / "0000000000000002.progress").write_bytes(b"00000002")
        desired = _desired(name, b"while it was away")
        assert server.publish(_topic(name), desired, retain=True)
        device.start_uplink()
        assert wait_until(lambda: _heard(server)[1:] == [[1, 2]], 15), _heard(server)
        assert wait_until(lambda: not (folder / "0000000000000002.progress").exists())
        assert wait_until((device.state.updates / "desired").exists)
        assert (device.state.updates / "desired").read_bytes() == desired
        assert (folder / "0000000000000001.terminal").exists()


def test_a_heap_of_reports_holds_up_no_event(
    tmp_path: Path, broker: Broker, name: str, server: Recorder, peer: ReceiptingPeer
) -> None:
    device = _uplink(tmp_path, broker, name)
    keys = device.put(submissions(640))
    for number in range(1, 201):
        _leave(device, number, size=1400)
    with device:
        assert peer.wait_rows(name, 640, 20)
        assert set(peer.rows(name)) == set(keys)
        assert wait_until(lambda: sum(map(len, _heard(server))) == 200, 20)
        assert wait_until(lambda: not list((device.state.updates / "reports").iterdir()), 10)
    assert [number for numbers in _heard(server) for number in numbers] == list(range(1, 201))
    assert all(len(payload) < 64 * 1024 for _, payload in server.messages)


def test_when_the_days_bytes_are_spent_only_ends_are_told(
    tmp_path: Path, broker: Broker, name: str, server: Recorder, peer: ReceiptingPeer
) -> None:
    with _uplink(tmp_path, broker, name, daily_bytes=10_000, health_period_s=600.0) as device:
        device.put(submissions(200, size=1000))
        assert wait_until(lambda: device.uplink.delivery_floor == 3, 15)
        waiting = _leave(device, 1)
        terminal = _leave(device, 2, "terminal")
        assert wait_until(lambda: [2] in _heard(server))
        terminal.unlink()
        assert waiting.exists()
        assert not any(1 in numbers for numbers in _heard(server))


def test_a_disk_that_takes_no_desired_state_is_told_and_stops_nothing(
    tmp_path: Path, broker: Broker, name: str, server: Recorder, peer: ReceiptingPeer
) -> None:
    device = _uplink(tmp_path, broker, name)
    device.state.updates.rmdir()
    device.state.updates.write_text("in the way")
    assert server.publish(_topic(name), _desired(name, b"one"), retain=True)
    with device:
        device.put(submissions(20))
        assert peer.wait_rows(name, 20)
        assert wait_until(lambda: any("desired state" in text for text in device.uplink.sentences()))
        device.state.updates.unlink()
        assert wait_until((device.state.updates / "desired").exists)
