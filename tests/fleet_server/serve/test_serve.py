"""`fleet serve` as its user meets it: real processes, a real broker, real signals."""

import contextlib
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_runtime.protocol.operation import Command, CommandKind, CommandResult, HeldList
from edge_runtime.protocol.topics import Channel
from tests.rigs.brokers import wait_until
from tests.rigs.deliveries import new_key
from tests.rigs.fleet_api import held_item
from tests.rigs.fleet_server import FLEET, FleetServer, RealDevice, environment


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FleetServer]:
    with FleetServer(tmp_path / "data") as running:
        yield running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetServer]:
    """One for tests that leave it as it was."""
    with FleetServer(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running


def events(server: FleetServer, count: int, within_s: float = 20.0) -> list[Any]:
    """Events once there are so many, the newest first."""
    deadline = time.monotonic() + within_s
    while True:
        found: list[Any] = server.ask("/v1/events")["events"]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, (len(found), server.log)
        time.sleep(0.1)


def test_an_event_goes_the_whole_road_and_everything_ends_with_the_server(server: FleetServer) -> None:
    device = RealDevice.enrol(server, "dock-1")
    device.deliver({"rule": "first"}, {"rule": "second"})
    assert [event["rule"] for event in events(server, 2)] == ["second", "first"]
    health = server.ask("/v1/health")
    assert {part["name"]: part["ready"] for part in health["ready"]["parts"]} == {
        "database": True,
        "server": True,
        "broker": True,
        "ingest": True,
    }
    children = server.children()
    assert len(children) >= 2
    assert server.stop() == 0
    assert psutil.wait_procs(children, timeout=5)[1] == []
    assert "Traceback" not in server.log
    assert not (server.directory / "run/server.json").exists()


@pytest.mark.trial
def test_a_killed_server_leaves_no_orphan_and_comes_back_with_everything(server: FleetServer) -> None:
    device = RealDevice.enrol(server, "dock-1")
    device.deliver({})
    events(server, 1)
    children = server.children()
    server.kill()
    assert psutil.wait_procs(children, timeout=15)[1] == []
    server.start()
    device.deliver({})
    assert len(events(server, 2)) == 2


@pytest.mark.parametrize(
    "part", ["nats-server", pytest.param("fleet_server.ingest", marks=pytest.mark.trial)]
)
def test_a_part_that_is_killed_comes_back_by_itself(server: FleetServer, part: str) -> None:
    device = RealDevice.enrol(server, "dock-1")
    victim = server.child(part)
    victim.kill()
    victim.wait(5)
    server.wait_until_ready()
    device.deliver({})
    events(server, 1)
    assert server.process is not None
    assert server.process.poll() is None


def test_a_revoked_device_loses_its_connection_at_once(shared: FleetServer) -> None:
    server = shared
    device = RealDevice.enrol(server, "stolen-1")
    with device.connected() as session:
        assert server.fleet("device", "revoke", "stolen-1", "--reason", "stolen").code == 0
        deadline = time.monotonic() + 5
        while not session.reasons and time.monotonic() < deadline:
            time.sleep(0.02)
        assert session.reasons
    audit = server.ask("/v1/audit")["entries"]
    assert audit[0]["action"] == "device.revoke"
    assert audit[0]["detail"]["reason"] == "stolen"
    assert server.fleet("audit", "verify").code == 0


def test_an_operator_follows_events_over_a_restart_of_the_server(server: FleetServer) -> None:
    device = RealDevice.enrol(server, "dock-1")
    token = server.fleet("token", "create", "anna").out.strip()
    device.deliver({"rule": "before"})
    events(server, 1)
    command = [*FLEET, "events", "tail", "--json", "--count", "3", "--last", "1"]
    with following(command, server.remote(token)) as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["rule"] == "before"
        server.stop()
        server.start()
        device.deliver({"rule": "after"}, {"rule": "last"})
        out, err = tail.communicate(timeout=60)
    assert [json.loads(line)["rule"] for line in out.splitlines()] == ["after", "last"]
    assert "waiting for it" in err
    assert "Traceback" not in err


@contextlib.contextmanager
def following(command: list[str], variables: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """A command that runs beside the test, and ends with it."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment() | variables,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_held_item_is_released_by_the_device_itself(shared: FleetServer) -> None:
    device = RealDevice.enrol(shared, "dock-1")
    key = new_key()
    held = HeldList(device="dock-1", total=1, items=(held_item(key),))
    with device.connected() as session:
        session.client.subscribe(device.rig.topic(Channel.COMMAND), qos=1)
        assert session.publish(device.rig.topic(Channel.HELD), held.encode())
        assert wait_until(lambda: bool(shared.ask("/v1/held")["held"]), 20)
        command_line = [*FLEET, "review", "release", key.hex()[-12:], "--reason", "seen", "--json"]
        with following(command_line, {"FLEET_DATA": str(shared.directory)}) as release:
            assert wait_until(lambda: bool(session.messages), 30)
            command = Command.decode(session.messages[0][1])
            assert (command.kind, command.item, command.note) == (CommandKind.RELEASE_HELD, key.hex(), "seen")
            done = CommandResult(id=command.id, device="dock-1", done=True, text="released")
            assert session.publish(device.rig.topic(Channel.RESULT), done.encode())
            out, err = release.communicate(timeout=30)
    assert (release.returncode, json.loads(out)["state"]) == (0, "done"), err


def test_a_second_server_a_taken_port_and_a_foreign_directory_are_one_sentence(
    shared: FleetServer, tmp_path: Path
) -> None:
    server = shared
    second = server.fleet("serve", "--data", str(server.directory))
    assert (second.code, second.out) == (2, "")
    assert "another server runs on" in second.err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        other = FleetServer(tmp_path / "other")
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = server.fleet("serve", "--data", str(other.directory), "--listen", listen)
    assert refused.code == 2
    assert "cannot listen on" in refused.err
    foreign = server.fleet("serve", "--data", str(tmp_path))
    assert foreign.code == 2
    assert "fleet init" in foreign.err
    for finished in (second, refused, foreign):
        assert "Traceback" not in finished.err


@pytest.mark.trial
def test_a_broker_port_that_is_taken_is_said_and_nothing_stays(tmp_path: Path) -> None:
    with FleetServer(tmp_path / "first") as first:
        settings = (first.directory / "settings.toml").read_text()
        port = first.broker_port
        other = FleetServer(tmp_path / "other")
        text = (other.directory / "settings.toml").read_text()
        lines = [f"port = {port}" if line == text.splitlines()[-1] else line for line in text.splitlines()]
        (other.directory / "settings.toml").write_text("\n".join(lines) + "\n")
        failed = first.fleet("serve", "--data", str(other.directory), within_s=120)
        assert failed.code == 1, failed
        assert "Traceback" not in failed.err
        assert settings


@pytest.mark.trial
def test_two_signals_end_it_at_once(server: FleetServer) -> None:
    children = server.children()
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(10) in (0, 130)
    assert psutil.wait_procs(children, timeout=15)[1] == []


@pytest.mark.trial
def test_it_ends_cleanly_while_streams_are_open(server: FleetServer) -> None:
    token = server.fleet("token", "create", "anna").out.strip()
    with following([*FLEET, "events", "tail"], server.remote(token)) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline().startswith("committed")
        wait_until(lambda: "/stream" in server.log, 1.0)
        began = time.monotonic()
        assert server.stop(signal.SIGINT) == 0
        assert time.monotonic() - began < 15
        assert tail.poll() is None
        tail.send_signal(signal.SIGINT)
        assert tail.wait(10) == 130
