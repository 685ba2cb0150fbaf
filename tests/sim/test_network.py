"""The network: late, narrow, lossy, and somebody else's; what comes through is whole and in order."""

import socket
import threading

import pytest

from sim.network import PACKET_BYTES, RETRANSMIT_S, Impairment, Network
from tests.rigs.cameras import FakeClock
from tests.rigs.roads import wait_for

PAYLOAD = bytes(range(256)) * 400


def back(port: int, data: bytes) -> bytes:
    """What comes back."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as end:
        threading.Thread(target=end.sendall, args=(data,), daemon=True).start()
        found = bytearray()
        while len(found) < len(data) and (part := end.recv(65_536)):
            found += part
        return bytes(found)


@pytest.mark.parametrize(
    "impairment",
    [
        Impairment(),
        Impairment(delay_s=0.05),
        Impairment(jitter_s=0.05),
        Impairment(loss=0.02),
        Impairment(bytes_per_s=1_000_000),
    ],
)
def test_everything_comes_through_whole_and_in_order(echo: tuple[str, int], impairment: Impairment) -> None:
    with Network(echo) as network:
        network.become(impairment)
        assert back(network.port, PAYLOAD) == PAYLOAD
        assert network.bytes_up == network.bytes_down == len(PAYLOAD)


def held(end: socket.socket) -> None:
    """Nothing comes while the network's clock stands."""
    end.settimeout(0.3)
    with pytest.raises(TimeoutError):
        end.recv(1)
    end.settimeout(30)


@pytest.mark.parametrize(
    ("impairment", "late_s"),
    [
        (Impairment(delay_s=0.5), 0.5),
        (Impairment(jitter_s=100.0), 100.0),
        (Impairment(loss=1.0), RETRANSMIT_S),
    ],
)
def test_nothing_comes_before_its_time(echo: tuple[str, int], impairment: Impairment, late_s: float) -> None:
    clock = FakeClock()
    with Network(echo, clock=clock) as network:
        network.become(impairment)
        with socket.create_connection(("127.0.0.1", network.port), timeout=30) as end:
            end.sendall(b"x")
            held(end)
            assert network.bytes_up == 0, "the way there takes its time"
            clock.advance(late_s)
            assert wait_for(lambda: network.bytes_up == 1)
            held(end)
            assert network.bytes_down == 0, "and so does the way back"
            clock.advance(late_s)
            assert end.recv(1) == b"x"


def test_a_narrow_link_lets_through_what_its_rate_allows(echo: tuple[str, int]) -> None:
    clock = FakeClock()
    with Network(echo, clock=clock) as network:
        network.become(Impairment(bytes_per_s=1000))
        with socket.create_connection(("127.0.0.1", network.port), timeout=30) as end:
            end.sendall(bytes(5000))
            held(end)
            assert network.bytes_up == 0
            clock.advance(0.5)
            assert wait_for(lambda: network.bytes_up + network.bytes_down == 500)
            clock.advance(0.1)
            assert wait_for(lambda: network.bytes_up + network.bytes_down == 600)


def test_lateness_follows_from_the_seed_and_from_luck_alone(echo: tuple[str, int]) -> None:
    def late(impairment: Impairment, seed: int, size: int = 1) -> list[float]:
        with Network(echo, seed=seed) as network:
            network.become(impairment)
            return [network._late_s(size) for _ in range(2000)]

    jitter = late(Impairment(delay_s=1.0, jitter_s=0.5), 7)
    assert jitter == late(Impairment(delay_s=1.0, jitter_s=0.5), 7)
    assert jitter != late(Impairment(delay_s=1.0, jitter_s=0.5), 8)
    assert 1.0 <= min(jitter) < 1.01
    assert 1.49 < max(jitter) <= 1.5
    lost = late(Impairment(loss=0.25), 7)
    assert set(lost) == {0.0, RETRANSMIT_S}
    assert sum(one > 0 for one in lost) == pytest.approx(500, abs=80)
    assert max(late(Impairment(loss=0.5), 7, 10 * PACKET_BYTES)) > 5 * RETRANSMIT_S, (
        "each packet has its own luck"
    )


def test_a_portal_answers_in_the_targets_place_and_goes_away(echo: tuple[str, int]) -> None:
    with Network(echo) as network:
        before = socket.create_connection(("127.0.0.1", network.port), timeout=30)
        before.sendall(b"x")
        assert before.recv(1) == b"x"
        network.become(Impairment(portal=True))
        assert before.recv(1) == b"", "what was open breaks"
        before.close()
        with socket.create_connection(("127.0.0.1", network.port), timeout=30) as end:
            assert end.recv(64).startswith(b"HTTP/1.1 302")
        network.become(Impairment())
        assert back(network.port, b"hello") == b"hello"


def test_it_still_is_a_cable(echo: tuple[str, int]) -> None:
    with Network(echo) as network:
        network.become(Impairment(delay_s=0.01))
        network.cut()
        with socket.create_connection(("127.0.0.1", network.port), timeout=30) as end:
            assert end.recv(1) == b""
        network.heal()
        assert back(network.port, b"hello") == b"hello"
