"""A device's own network namespace: what the kernel does to a link, under the same interface as the proxy.

Left out and counted where the machine permits no namespace.
"""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.namespace import Namespace, NamespaceNetwork
from sim.network import Impairment
from sim.road import Server, enrol, running
from tests.rigs.road_events import CONFIGURATION, submissions
from tests.rigs.roads import assert_sums, put, status, wait_for

pytestmark = pytest.mark.netns

PAYLOAD = bytes(range(256)) * 400


@pytest.fixture(name="namespace", scope="module")
def _namespace() -> Iterator[Namespace]:
    with Namespace() as namespace:
        yield namespace


@pytest.fixture(name="network")
def _network(namespace: Namespace, echo: tuple[str, int]) -> Iterator[NamespaceNetwork]:
    with NamespaceNetwork(echo, namespace) as network:
        yield network
        network.heal()
        network.become(Impairment())


def connect(namespace: Namespace, network: NamespaceNetwork) -> socket.socket:
    """A connection from inside."""
    with namespace.inside():
        return socket.create_connection((network.host, network.port), timeout=60)


def back(end: socket.socket, data: bytes) -> bytes:
    """What comes back."""
    threading.Thread(target=end.sendall, args=(data,), daemon=True).start()
    found = bytearray()
    while len(found) < len(data) and (part := end.recv(65_536)):
        found += part
    return bytes(found)


def test_the_link_is_the_only_way_out(
    namespace: Namespace, network: NamespaceNetwork, echo: tuple[str, int]
) -> None:
    with connect(namespace, network) as end:
        assert back(end, PAYLOAD) == PAYLOAD
    assert network.bytes_up == network.bytes_down == len(PAYLOAD)
    with namespace.inside(), pytest.raises(OSError, match=r"refused|unreachable"):
        socket.create_connection(echo, timeout=5)
    with socket.create_connection(echo, timeout=5):
        pass  # this thread is back where it was


def test_nobody_is_told_of_a_cut_and_what_was_sent_comes_after_it(
    namespace: Namespace, network: NamespaceNetwork
) -> None:
    with connect(namespace, network) as end:
        assert back(end, b"before") == b"before"
        network.cut()
        end.sendall(b"during")
        end.settimeout(0.3)
        with pytest.raises(TimeoutError):
            end.recv(1)
        carrier = [sys.executable, "-c", "print(open('/sys/class/net/uplink0/carrier').read())"]
        seen = subprocess.run(network.within(carrier), capture_output=True, text=True, timeout=60, check=True)
        assert seen.stdout.strip() == "0", "the device sees that its cable has no carrier"
        assert network.breaks == 0
        network.heal()
        end.settimeout(60)
        assert end.recv(6) == b"during"
        network.kick()
        assert end.recv(1) == b""


def test_bandwidth_is_limited_by_the_kernel(namespace: Namespace, network: NamespaceNetwork) -> None:
    network.become(Impairment(bytes_per_s=200_000))
    assert "tbf" in namespace.counters()
    with connect(namespace, network) as end:
        assert back(end, PAYLOAD) == PAYLOAD
    held = re.search(r"overlimits (\d+)", namespace.counters())
    assert held is not None
    assert int(held[1]) > 0, "packets had to wait for the bucket"
    network.become(Impairment())
    assert "tbf" not in namespace.counters()


def test_what_a_killed_run_left_is_cleared_away() -> None:
    code = "import os; from sim.namespace import Namespace; print(Namespace().name, flush=True); os._exit(0)"
    left = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    path = Path("/run/netns") / left.stdout.strip()
    assert path.exists()
    with Namespace():
        assert not path.exists()


@pytest.mark.trial
def test_a_device_in_its_own_namespace_delivers_through_a_cut(tmp_path: Path) -> None:
    """Outbox and uplink run inside; nothing of the server is told that the cable was pulled."""
    with Namespace() as namespace, running(Server(tmp_path, hosts=[namespace.here])) as server:
        device = enrol(
            server,
            tmp_path / "device",
            "alone",
            CONFIGURATION,
            pace={"silence_s": 3.0, "cap_s": 2.0, "keepalive_s": 5, "report_period_s": 0.3},
            cable=NamespaceNetwork(server.broker, namespace),
        )
        try:
            device.start()
            keys = put(device, submissions(20))
            assert wait_for(lambda: (found := status(device)) and found.ledger.delivered == 20, 60)
            device.cable.cut()
            keys += put(device, submissions(20))
            assert wait_for(lambda: (found := status(device)) and found.ledger.queued == 20)
            device.cable.heal()
            assert wait_for(lambda: (found := status(device)) and found.ledger.delivered == 40, 90)
            assert_sums(server, device, keys)
            assert device.cable.bytes_up > 0
        finally:
            device.stop()
