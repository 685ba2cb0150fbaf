"""The cable itself: it forwards whole, counts, cuts, freezes and heals."""

import socket
import threading

import pytest

from sim.cable import Cable


def _receive(end: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (data := end.recv(65_536)):
        found += data
    return bytes(found)


def test_everything_crosses_and_is_counted(echo: tuple[str, int]) -> None:
    data = bytes(range(256)) * 8192
    with Cable(echo) as cable, socket.create_connection(("127.0.0.1", cable.port), timeout=10) as end:
        sender = threading.Thread(target=end.sendall, args=(data,))
        sender.start()
        assert _receive(end, len(data)) == data
        sender.join()
        assert (cable.bytes_up, cable.bytes_down) == (len(data), len(data))


def test_a_cut_breaks_what_is_open_and_what_comes(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable:
        with socket.create_connection(("127.0.0.1", cable.port), timeout=10) as end:
            end.sendall(b"a")
            assert end.recv(1) == b"a"
            assert cable.breaks == 0
            cable.cut()
            assert end.recv(1) == b""
            assert cable.breaks == 1
        with socket.create_connection(("127.0.0.1", cable.port), timeout=10) as end:
            assert end.recv(1) == b""
        cable.heal()
        with socket.create_connection(("127.0.0.1", cable.port), timeout=10) as end:
            end.sendall(b"b")
            assert end.recv(1) == b"b"


def test_a_frozen_link_says_nothing_and_loses_nothing(echo: tuple[str, int]) -> None:
    with Cable(echo) as cable, socket.create_connection(("127.0.0.1", cable.port), timeout=10) as end:
        end.sendall(b"a")
        assert end.recv(1) == b"a"
        cable.freeze()
        end.sendall(b"b")
        end.settimeout(0.3)
        with pytest.raises(TimeoutError):
            end.recv(1)
        cable.heal()
        end.settimeout(10)
        assert end.recv(1) == b"b"
