"""The network: late, narrow, lossy, and somebody else's; what comes through is whole and in order."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from sim.network import Network, Weather

PAYLOAD = bytes(range(256)) * 400


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(end: socket.socket) -> None:
        with end:
            while data := end.recv(65_536):
                end.sendall(data)

    def serve() -> None:
        while True:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(end,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def back(port: int, data: bytes) -> tuple[bytes, float]:
    """What comes back, and how long that took."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as end:
        began = time.monotonic()
        threading.Thread(target=end.sendall, args=(data,), daemon=True).start()
        found = bytearray()
        while len(found) < len(data) and (part := end.recv(65_536)):
            found += part
        return bytes(found), time.monotonic() - began


@pytest.mark.parametrize(
    ("weather", "least_s"),
    [
        (Weather(), 0.0),
        (Weather(delay_s=0.2), 0.4),
        (Weather(jitter_s=0.05), 0.0),
        (Weather(loss=0.02), 0.0),
        (Weather(bytes_per_s=400_000), 0.4),  # 102,400 bytes each way, out of one bucket
    ],
)
def test_everything_comes_through_in_order_and_not_sooner(
    echo: tuple[str, int], weather: Weather, least_s: float
) -> None:
    with Network(echo) as network:
        network.become(weather)
        found, took_s = back(network.port, PAYLOAD)
        assert found == PAYLOAD
        assert took_s >= least_s
        assert network.bytes_up == network.bytes_down == len(PAYLOAD)


def test_a_portal_answers_in_the_targets_place_and_goes_away(echo: tuple[str, int]) -> None:
    with Network(echo) as network:
        before = socket.create_connection(("127.0.0.1", network.port), timeout=30)
        before.sendall(b"x")
        assert before.recv(1) == b"x"
        network.become(Weather(portal=True))
        assert before.recv(1) == b"", "what was open breaks"
        before.close()
        with socket.create_connection(("127.0.0.1", network.port), timeout=30) as end:
            assert end.recv(64).startswith(b"HTTP/1.1 302")
        network.become(Weather())
        assert back(network.port, b"hello")[0] == b"hello"


def test_it_still_is_a_cable(echo: tuple[str, int]) -> None:
    with Network(echo) as network:
        network.become(Weather(delay_s=0.01))
        network.cut()
        with socket.create_connection(("127.0.0.1", network.port), timeout=30) as end:
            assert end.recv(1) == b""
        network.heal()
        assert back(network.port, b"hello")[0] == b"hello"
