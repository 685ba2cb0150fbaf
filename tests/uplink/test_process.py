"""The process itself: exit codes, one sentence for what is wrong, a clean end, the renewal of its certificate."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.protocol.enrolment import BrokerAddress
from edge_runtime.state import StateDirectory
from edge_runtime.uplink import Hands, LinkIdentity
from edge_runtime.uplink.__main__ import main
from edge_runtime.uplink.enrolled import enrolled
from tests.rigs.brokers import running_broker, wait_until
from tests.rigs.fake_receipts import ReceiptingPeer
from tests.rigs.pki import Pki
from tests.rigs.uplinks import (
    DeviceProcesses,
    ThreadedUplink,
    enrol_by_hand,
    identity,
    submission,
    submissions,
)

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def uplink(state: Path, settings: str = "{}") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "edge_runtime.uplink", "--state", str(state), "--settings", settings],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=REPOSITORY,
    )


def test_what_cannot_be_used_is_one_sentence_and_code_2(tmp_path: Path) -> None:
    done = uplink(tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: not enrolled: edge-runtime enrol --server URL --token TOKEN\n"


@pytest.mark.parametrize(
    ("settings", "identity_file", "named"),
    [('{"profil": 1}', None, "profil"), ("{", None, "JSON"), ("{}", "{", "enrol again")],
)
def test_other_things_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, identity_file: str | None, named: str
) -> None:
    if identity_file is not None:
        (StateDirectory(tmp_path).ensure().identity / "identity.json").write_text(identity_file)
    assert main(["--state", str(tmp_path), "--settings", settings]) in (1, 2)
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_it_is_ready_without_a_broker_or_an_outbox_and_ends_at_once(tmp_path: Path) -> None:
    party = Pki(tmp_path / "pki").device("dev-1")
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        contextlib.closing(
            DeviceProcesses(tmp_path, party, "127.0.0.1", silent.getsockname()[1], stop_s=0.5)
        ) as device,
    ):
        device.start_uplink()
        assert device.terminate_uplink() == 0
        device.start_outbox()
        device.start_uplink()
        connection, _ = silent.accept()  # it shakes hands with nobody now
        assert device.terminate_uplink() == 0
        connection.close()
    assert "Traceback" not in device.log


def test_processes_may_hang_be_killed_and_be_ended(tmp_path: Path) -> None:
    with running_broker("nats", tmp_path / "broker", ["dev-1"]) as broker:
        peer = ReceiptingPeer(broker).start()
        with DeviceProcesses(tmp_path, broker.parties["dev-1"], broker.host, broker.port) as device:
            keys = device.put(submissions(50))
            assert peer.wait_rows("dev-1", 50)
            # a hung uplink holds up no enqueue
            assert device.uplink is not None
            device.uplink.send_signal(signal.SIGSTOP)
            clock = SystemClock()
            begin = clock.monotonic_ns()
            keys += device.put(submissions(200))
            assert clock.monotonic_ns() - begin < 5e9
            # a killed one leaves its will
            device.kill_uplink()
            assert wait_until(lambda: peer.presence("dev-1")[-1].reason == "connection_lost")
            born = [found.session for found in peer.presence("dev-1") if found.reason == "connected"]
            assert peer.presence("dev-1")[-1].session == born[-1]
            device.start_uplink()
            assert peer.wait_rows("dev-1", 250)
            assert wait_until(lambda: peer.presence("dev-1")[-1].session > born[-1])
            # a killed outbox is found again
            device.kill_outbox()
            device.start_outbox()
            keys += device.put(submissions(50))
            assert peer.wait_rows("dev-1", 300)
            assert wait_until(lambda: device.client.status().ledger.delivered == 300)
            # one that comes back with another database is noticed before its numbers are mixed with the old ones
            device.kill_outbox()
            for file in device.state.outbox.glob("outbox.db*"):
                file.unlink()
            device.start_outbox()
            keys += device.put(submissions(30))
            assert peer.wait_rows("dev-1", 330)
            assert wait_until(lambda: device.client.status().ledger.queued == 0)
            assert sorted(len(books.rows) for books in peer.books.values()) == [30, 300]
            assert set(peer.rows("dev-1")) == set(keys)
            assert device.uplink.poll() is None
            assert device.terminate_uplink() == 0
            assert wait_until(lambda: peer.presence("dev-1")[-1].reason == "stopped")
            assert "Traceback" not in device.log
        peer.stop()


def test_a_certificate_that_is_due_is_renewed_and_used(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    clock = SystemClock()
    with running_broker("mosquitto", tmp_path / "broker", ["dev-1"]) as broker:
        peer = ReceiptingPeer(broker).start()
        address = BrokerAddress(host=broker.host, port=broker.port)
        enrol_by_hand(state, broker.parties["dev-1"], address, renew_at_ms=0)
        calls: list[int] = []

        def renew() -> LinkIdentity:
            calls.append(1)
            enrol_by_hand(state, broker.pki.device("dev-1"), address)
            return enrolled(state, clock)

        with ThreadedUplink(tmp_path, enrolled(state, clock), Hands(renew=renew)) as device:
            assert wait_until(lambda: (device.uplink.identity.renew_in_s() or 0.0) > 40_000)
            device.put([submission()])
            assert peer.wait_rows("dev-1", 1)
            assert calls == [1]
        peer.stop()


def test_a_renewal_that_fails_is_said_in_health_and_costs_nothing_else(tmp_path: Path) -> None:
    tried = threading.Event()

    def renew() -> LinkIdentity:
        tried.set()
        raise EdgeRuntimeError("the server does not answer")

    with running_broker("mosquitto", tmp_path / "broker", ["dev-1"]) as broker:
        peer = ReceiptingPeer(broker).start()
        who = identity(broker.parties["dev-1"], broker.host, broker.port, renew_in_s=lambda: -1.0)
        with ThreadedUplink(tmp_path, who, Hands(renew=renew)) as device:
            device.put([submission()])
            assert peer.wait_rows("dev-1", 1)
            assert tried.wait(5)
            assert wait_until(lambda: any("does not answer" in text for text in device.uplink.sentences()))
            assert wait_until(
                lambda: any("could not be renewed" in " ".join(h.degraded) for h in peer.health), 10
            )
        peer.stop()


def test_a_command_renews_the_certificate(tmp_path: Path) -> None:
    from edge_runtime.protocol.ids import uuid7
    from edge_runtime.protocol.operation import Command, CommandKind

    calls: list[int] = []
    with running_broker("nats", tmp_path / "broker", ["dev-1"]) as broker:
        peer = ReceiptingPeer(broker).start()
        who = identity(broker.parties["dev-1"], broker.host, broker.port)

        def renew() -> LinkIdentity:
            calls.append(1)
            return who

        with ThreadedUplink(tmp_path, who, Hands(renew=renew)) as device:
            assert wait_until(lambda: device.uplink.online)
            now = peer.now_ms()
            peer.command(
                Command(
                    id=uuid7(10**9),
                    device="dev-1",
                    kind=CommandKind.RENEW_CERTIFICATE,
                    issued_ms=now,
                    expires_ms=now + 60_000,
                    by="ada",
                )
            )
            assert wait_until(lambda: bool(calls and peer.results))
            assert peer.results[-1].done
            assert wait_until(lambda: device.uplink.sessions == 2)
        peer.stop()
