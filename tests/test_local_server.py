"""A socket for processes of the same user: bounded, and whole again after whatever happens to one connection."""

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime import local_server
from edge_runtime.local_server import LocalServer
from tests.rigs.brokers import wait_until

MOST = 2


def echo(connection: socket.socket) -> None:
    while data := connection.recv(100):
        connection.sendall(data)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "a.sock"
    server = LocalServer(made, echo, name="echo", most=MOST, join_s=5)
    server.start()
    yield made
    server.stop()
    assert not made.exists()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("echo")] == []


@contextlib.contextmanager
def connected(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(20)
        line.connect(str(path))
        yield line


def is_served(path: Path) -> bool:
    with connected(path) as line, contextlib.suppress(OSError):
        line.sendall(b"x")
        return line.recv(1) == b"x"
    return False


def test_only_its_owner_may_use_it(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert is_served(path)


def test_another_user_is_turned_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "peer_uid", lambda _connection: os.geteuid() + 1)
    assert not is_served(path)


def test_too_many_are_turned_away_and_there_is_room_again(path: Path) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(MOST):
            line = stack.enter_context(connected(path))
            line.sendall(b"x")
            assert line.recv(1) == b"x"
        assert not is_served(path)
    assert wait_until(lambda: is_served(path))


def test_a_system_without_threads_costs_that_connection_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def no_more(thread: threading.Thread) -> None:
        if thread.name == "echo":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_more)
    for _ in range(MOST + 1):
        assert not is_served(path)
    monkeypatch.undo()
    assert is_served(path)


def test_what_another_process_bound_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    first = LocalServer(path, echo, name="echo", most=MOST, join_s=5)
    second = LocalServer(path, echo, name="echo", most=MOST, join_s=5)
    first.start()
    second.start()
    first.stop()
    assert is_served(path)
    second.stop()


def test_where_it_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        LocalServer(tmp_path / "absent" / "a.sock", echo, name="echo", most=MOST, join_s=5)
