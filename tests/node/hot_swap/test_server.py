"""Perception's socket: its owner's alone, bounded, and not to be held by anybody."""

import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edge_runtime import local_server
from edge_runtime.node.hot_swap import server as module
from edge_runtime.node.hot_swap.server import MAX_CONNECTIONS, SwapServer, SwapSocketError
from edge_runtime.protocol.swap import MAX_LINE_BYTES


@pytest.fixture
def asked() -> list[bytes]:
    return []


@pytest.fixture
def served(tmp_path: Path, asked: list[bytes]) -> Iterator[Path]:
    def answer(line: bytes) -> bytes:
        asked.append(line)
        return b"%d\n" % len(line)

    path = tmp_path / "perception.sock"
    server = SwapServer(path, answer)
    server.start()
    yield path
    server.stop()


def connected(path: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    line.settimeout(10)
    line.connect(str(path))
    return line


def said(line: socket.socket) -> bytes:
    try:
        return line.recv(100)
    except ConnectionResetError:
        return b""


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nobody_but_its_owner_may_connect(served: Path) -> None:
    found = served.stat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.geteuid()


def test_another_user_is_turned_away(
    served: Path, asked: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        local_server, "peer_uid", lambda connection: os.geteuid() + 1 if os.geteuid() else 12345
    )
    with connected(served) as line:
        assert said(line) == b""
    assert asked == []


def test_lines_are_answered_one_after_the_other(served: Path) -> None:
    with connected(served) as line:
        line.sendall(b"a\nbb\nccc")
        line.sendall(b"c\n")
        with line.makefile("rb") as reading:
            assert [reading.readline() for _ in range(3)] == [b"1\n", b"2\n", b"4\n"]


def test_a_line_without_an_end_is_cut_and_its_sender_turned_away(served: Path, asked: list[bytes]) -> None:
    with connected(served) as line:
        line.sendall(b"x" * (MAX_LINE_BYTES + 1))
        assert int(said(line)) > MAX_LINE_BYTES
        assert said(line) == b""
    assert len(asked) == 1
    assert len(asked[0]) <= MAX_LINE_BYTES + (1 << 16)


def test_who_drips_loses_its_place(served: Path, asked: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINE_S", 0.2)
    with connected(served) as line:

        def refused() -> bool:
            try:
                line.sendall(b"x")
            except OSError:
                return True
            return False

        until(refused)
    assert asked == []


def test_more_than_a_few_are_turned_away_and_places_come_free(served: Path) -> None:
    held = [connected(served) for _ in range(MAX_CONNECTIONS)]
    for line in held:
        line.sendall(b"a\n")
        assert said(line) == b"1\n"
    with connected(served) as line:
        assert said(line) == b""
    held.pop().close()

    def welcome() -> bool:
        with connected(served) as line:
            try:
                line.sendall(b"a\n")
            except OSError:
                return False
            return said(line) == b"1\n"

    until(welcome)
    for line in held:
        line.close()


def test_what_an_earlier_process_left_is_replaced_and_taken_away_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "perception.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    server = SwapServer(path, lambda line: b"ok\n")
    server.start()
    with connected(path) as line:
        line.sendall(b"a\n")
        assert said(line) == b"ok\n"
    server.stop()
    assert not path.exists()


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(SwapSocketError, match="cannot listen at"):
        SwapServer(tmp_path / "nowhere" / "perception.sock", lambda line: b"")
