"""The real process on its real socket: killed, asked by many, stalled by one, and asked by strangers."""

import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.outbox import (
    EvidenceFile,
    NotAccepted,
    Outbox,
    OutboxClient,
    OutboxError,
    OutboxServer,
    OutboxUnavailable,
    Put,
    PutResult,
)
from edge_runtime.outbox.__main__ import BEAT_S
from edge_runtime.outbox.frames import MAX_FRAME_BYTES
from edge_runtime.protocol.vocabulary import DecisionKind
from edge_runtime.state import StateDirectory, short_socket_path
from tests.rigs.brokers import wait_until
from tests.rigs.outbox import client, key_of, process, quiet_settings, receipt, submission


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory(tmp_path / "state").ensure()


@pytest.fixture
def served(state: StateDirectory) -> Iterator[Outbox]:
    """An outbox served in this process."""
    clock = SystemClock()
    outbox = Outbox(state.outbox, quiet_settings(max_connections=8), clock, evidence=state.evidence)
    server = OutboxServer(outbox, state.outbox_socket, clock, 8)
    server.start()
    yield outbox
    server.stop()
    outbox.close()


def raw(state: StateDirectory) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(10)
    with short_socket_path(state.outbox_socket) as name:
        connection.connect(name)
    return connection


def test_every_method_answers_over_the_socket_as_in_the_process(
    state: StateDirectory, served: Outbox
) -> None:
    caller = client(state)
    crop = EvidenceFile("ab" * 32, 10)
    state.evidence_file(crop.sha256).write_bytes(bytes(10))
    items = [
        submission(1, 3, receipt=b"r1", evidence=crop),
        submission(2, kind=DecisionKind.HOLD, receipt=b"r2"),
        submission(3, kind=DecisionKind.KEEP, body=b"", receipt=b"r3"),
        submission(4, kind=DecisionKind.HOLD),
    ]
    assert caller.put(items) == [PutResult(Put.ACCEPTED)] * 4
    assert caller.wait(1)
    (entry,) = caller.queued(10)
    assert (entry.key, entry.seq, entry.severity, entry.bytes) == (key_of(1), 1, 3, len(submission(1).body))
    assert 3_500_000 < entry.left_ms <= 3_600_000
    assert caller.bodies(10) == [(1, submission(1).body)]
    assert [entry.key for entry in caller.held(10)] == [key_of(2), key_of(4)]
    assert [entry.key for entry in caller.held(10, key_of(2))] == [key_of(4)]
    held = caller.held_item(key_of(2))
    assert held is not None
    assert (held.body, held.receipt, held.evidence) == (submission(2).body, b"r2", None)
    assert caller.held_item(key_of(9)) is None
    assert caller.release(key_of(2), submission(20)) == PutResult(Put.ACCEPTED)
    assert caller.release(key_of(2), submission(21)) is None
    assert caller.drop(key_of(4), b"r4") is True
    assert caller.drop(key_of(4), b"r4") is False
    assert caller.decisions(10) == [b"r4", b"r3", b"r2", b"r1"]
    (first, second) = caller.lease(10, 10**6)
    assert (first.severity, second.severity) == (3, 1)
    assert caller.unlease([first.seq]) == 1
    point = caller.sync_point()
    assert caller.evidence_due(10) == []
    assert caller.settle(point.epoch, receipt(point.epoch, high=2)).delivered == 2
    (due,) = caller.evidence_due(10)
    assert (due.sha256, due.bytes, Path(due.path).read_bytes()) == (crop.sha256, 10, bytes(10))
    caller.evidence_failed(crop.sha256, False)
    assert caller.evidence_due(10) == []  # it rests
    assert caller.evidence_done(crop.sha256) is True
    assert not state.evidence_file(crop.sha256).exists()
    assert caller.outcomes(10) == []
    assert caller.dead_letters(10) == []
    assert caller.next_session() == 1
    caller.count_not_accepted(NotAccepted.HAND_OVER, 2)
    status = caller.status()
    assert status == served.status()
    assert status.not_accepted == {"hand_over": 2}
    assert (status.gate["kept"], status.gate["released"], status.gate["dropped"]) == (1, 1, 1)
    caller.close()


def test_a_client_that_dies_gives_its_leases_back(state: StateDirectory, served: Outbox) -> None:
    first, second = client(state), client(state)
    first.put([submission(n) for n in range(3)])
    assert len(first.lease(10, 10**6)) == 3
    assert second.lease(10, 10**6) == []
    first.close()
    assert second.wait(10)
    assert len(second.lease(10, 10**6)) == 3
    second.close()


def test_a_client_that_stops_reading_blocks_nobody(state: StateDirectory, served: Outbox) -> None:
    served.put([submission(n, body=bytes(16_000)) for n in range(200)])
    stalled = raw(state)
    call = msgpack.packb(["lease", {"max_items": 1000, "max_bytes": 4_000_000}])
    stalled.sendall(struct.pack(">I", len(call)) + call)  # and never reads the 3 MB of the answer
    other = client(state, 5)
    assert wait_until(lambda: other.status().leased == 200)  # or it would get some of what follows
    for n in range(1000, 1020):
        assert other.put([submission(n)])[0].outcome is Put.ACCEPTED
    stalled.close()
    assert len(other.lease(20, 4_000_000)) == 20
    assert other.wait(10)  # its leases are free again
    assert len(other.lease(1000, 4_000_000)) >= 1
    other.close()


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        struct.pack(">I", MAX_FRAME_BYTES + 1),
        struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        struct.pack(">I", 4) + b"\x81\x81\x81\x81",
        struct.pack(">I", 100) + b"half",
    ],
)
def test_what_is_no_frame_ends_that_connection_alone(
    state: StateDirectory, served: Outbox, frame: bytes
) -> None:
    stranger = raw(state)
    stranger.sendall(frame)
    stranger.shutdown(socket.SHUT_WR)
    with contextlib.suppress(ConnectionResetError):
        assert stranger.recv(10) == b""
    stranger.close()
    other = client(state)
    assert other.status().ledger.accepted == 0
    other.close()


@pytest.mark.parametrize(
    "request_",
    [
        "x",
        ["nothing", {}],
        ["close", {}],
        ["put", {}],
        ["put", {"submissions": [{"key": b"short"}]}],
        ["lease", {"max_items": 10**9, "max_bytes": 1}],
        ["lease", {"max_items": 1, "max_bytes": 1, "owner": "me"}],
        ["evidence_done", {"sha256": "../../../etc/passwd"}],
        ["wait", {"timeout_s": "long"}],
        ["queued", {"limit": 1, "after": 1 << 63}],
        ["bodies", {"limit": 1, "after": (1 << 64) - 1}],
        [["a"], {}],
    ],
)
def test_a_call_that_is_none_is_refused_in_a_sentence(
    state: StateDirectory, served: Outbox, request_: object
) -> None:
    stranger = raw(state)
    data = msgpack.packb(request_)
    stranger.sendall(struct.pack(">I", len(data)) + data)
    length = struct.unpack(">I", stranger.recv(4))[0]
    kind, text = msgpack.unpackb(stranger.recv(length))
    assert kind == "refused"
    assert 0 < len(text) < 300
    stranger.close()


def test_wrong_arguments_raise_at_the_caller(state: StateDirectory, served: Outbox) -> None:
    caller = client(state)
    with pytest.raises(ValueError, match="at most 256"):
        caller.put([submission(n) for n in range(300)])
    with pytest.raises(ValueError, match="items at a time"):
        caller.lease(0, 1)
    assert caller.status().ledger.accepted == 0
    caller.close()


def test_more_connections_than_allowed_are_turned_away(state: StateDirectory, served: Outbox) -> None:
    callers = [client(state) for _ in range(8)]
    for caller in callers:
        caller.status()
    with pytest.raises(OutboxUnavailable):
        client(state).status()
    callers[0].close()
    late = client(state)
    for _ in range(50):
        with contextlib.suppress(OutboxUnavailable):
            late.status()
            break
        time.sleep(0.02)
    assert late.status().ledger.accepted == 0
    for caller in [*callers, late]:
        caller.close()


def test_without_its_process_a_client_says_so_and_comes_back(state: StateDirectory) -> None:
    caller = client(state, 5)
    with pytest.raises(OutboxUnavailable, match="does not answer"):
        caller.put([submission(1)])
    for _ in range(2):
        with process(state) as child:
            caller.put([submission(1)])
            assert caller.status().ledger.queued == 1
            child.send_signal(signal.SIGTERM)
            assert child.wait(10) == 0
    with pytest.raises(OutboxUnavailable):
        caller.status()
    caller.close()


def test_one_that_was_stopped_goes_on_and_does_not_take_that_for_its_end(state: StateDirectory) -> None:
    with process(state) as child, contextlib.closing(client(state, 5)) as caller:
        for _ in range(2):
            child.send_signal(signal.SIGSTOP)
            time.sleep(1.5 * BEAT_S)
            child.send_signal(signal.SIGCONT)
            time.sleep(2 * BEAT_S)
            assert child.poll() is None
        assert caller.status().ledger.accepted == 0
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0


def test_a_second_process_and_bad_settings_end_with_one_sentence(state: StateDirectory) -> None:
    def begin(*more: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "edge_runtime.outbox", "--state", str(state.path), *more]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    with process(state):
        second, broken = begin(), begin("--settings", '{"quota_bytes": 1}')
        _, said = second.communicate(timeout=30)
        assert second.returncode == 1
        assert said.startswith("error: ")
        assert "in use by another process" in said
        _, said = broken.communicate(timeout=30)
        assert broken.returncode == 2
        assert said == "error: --settings: quota_bytes: greater_than_equal\n"


def test_a_long_state_path_still_has_a_socket(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / ("a" * 100) / ("b" * 100))
    with process(state):
        caller = client(state)
        assert caller.put([submission(1)])[0].outcome is Put.ACCEPTED
        assert state.outbox_socket.stat().st_mode & 0o777 == 0o600
        caller.close()


def kill_at_random(state: StateDirectory, kills: int, rng: random.Random) -> None:
    """Put, lease and settle without a pause while the process is killed; nothing acknowledged may be missing."""
    acknowledged: set[int] = set()
    delivered: set[bytes] = set()
    stop = threading.Event()

    def producer() -> None:
        caller, number = client(state), 0
        while not stop.is_set():
            batch = [submission(number + i, (number + i) % 4) for i in range(rng.choice((1, 1, 20)))]
            while not stop.is_set():
                try:
                    results = caller.put(batch)
                except OutboxUnavailable:
                    time.sleep(0.01)
                    continue
                assert all(result.accepted for result in results)
                acknowledged.update(range(number, number + len(batch)))
                break
            number += len(batch)
        caller.close()

    def consumer() -> None:
        caller = client(state)
        while not stop.is_set():
            with contextlib.suppress(OutboxUnavailable):
                point = caller.sync_point()
                items = caller.lease(16, 100_000)
                word = receipt(point.epoch, accepted=[(item.seq, item.seq) for item in items])
                delivered.update(item.key for item in items)  # the server has them, receipt or not
                caller.settle(point.epoch, word)
            time.sleep(0.002)
        caller.close()

    threads = [threading.Thread(target=producer), threading.Thread(target=consumer)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            with process(state) as child:
                time.sleep(rng.uniform(0.05, 0.4))
                child.kill()
                child.wait(10)
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert len(acknowledged) > 20 * kills
    with contextlib.closing(
        Outbox(state.outbox, quiet_settings(), SystemClock(), evidence=state.evidence)
    ) as outbox:
        status = outbox.status()
        assert status.sentences == ()
        assert status.ledger.balances
        queued: set[bytes] = set()
        after = 0
        while page := outbox.queued(1000, after):
            queued |= {entry.key for entry in page}
            after = page[-1].seq
        assert {key_of(n) for n in acknowledged} <= queued | delivered
        assert status.ledger.queued == len(queued)
        assert status.ledger.delivered <= len(delivered)


def test_kill_9_loses_nothing_that_was_acknowledged(state: StateDirectory) -> None:
    kill_at_random(state, 3, random.Random(1))


@pytest.mark.trial
def test_kill_9_twenty_five_times(state: StateDirectory) -> None:
    kill_at_random(state, 25, random.Random(2))


def test_another_user_is_not_served(state: StateDirectory, served: Outbox) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    for folder in (state.path, state.run, *state.path.parents):
        with contextlib.suppress(OSError):
            if folder != Path("/") and folder.stat().st_uid == 0 and "pytest" in str(folder):
                folder.chmod(0o755)
    state.outbox_socket.chmod(0o777)
    code = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "s.settimeout(5); sys.stdout.write(repr(s.recv(1)))"
    )
    with short_socket_path(state.outbox_socket) as name:
        handle = int(name.split("/")[4])
        done = subprocess.run(
            [sys.executable, "-c", code, name],
            capture_output=True,
            text=True,
            pass_fds=[handle],
            check=False,
            timeout=30,
        )
    assert done.stdout == "b''", done.stderr


def test_a_state_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give a directory away")
    path = tmp_path / "theirs"
    path.mkdir()
    os.chown(path, 12345, 12345)
    with pytest.raises(Exception, match="belongs to user 12345"):
        StateDirectory(path).ensure()


def test_a_socket_that_cannot_be_made_is_one_sentence(state: StateDirectory, served: Outbox) -> None:
    with pytest.raises(OutboxError, match="cannot listen"):
        OutboxServer(served, state.run / "missing" / "x.sock", SystemClock(), 1)


def test_a_client_asks_a_path_that_never_was(tmp_path: Path) -> None:
    with pytest.raises(OutboxUnavailable, match="No such file"):
        OutboxClient(tmp_path / "no" / "x.sock", SystemClock()).status()
