"""A port that was given out is taken by nobody else before it is listened at."""

import socket

import pytest

from sim.ports import free_port


def test_a_port_can_be_listened_at_and_no_connection_takes_it() -> None:
    port = free_port()
    assert port < 32_768
    with socket.create_server(("127.0.0.1", 0)) as server:
        ends = [socket.create_connection(server.getsockname()) for _ in range(50)]
        with socket.create_server(("127.0.0.1", port)):
            pass
        for end in ends:
            end.close()


def test_one_that_is_listened_at_is_not_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        busy = taken.getsockname()[1]
        draws = iter([busy, busy, free_port()])
        monkeypatch.setattr("random.randint", lambda *_: next(draws))
        assert free_port() != busy
