"""Without a clear permission nothing of an event leaves the device, nor stands anywhere but in its outbox."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge_runtime.protocol.delivery import EventBundle
from sim.road import Device, Server, ask
from tests.rigs.roads import ONE, a_device, settled, status, wait_for

CANARY = "canary7c1f53d9"

_SITE = """\
version: 1
name: wire
recipients:
  fleet: {{place: organisation, accepts: [{accepts}], purposes: [safety]}}
permits:
  - {{name: all, when: {{classes: [internal]}}, to: [{to}], purpose: safety, evidence: redacted}}
"""
GOOD = _SITE.format(accepts="internal", to="fleet")

HELD = {
    "no class": (GOOD, ["--data-class", "unknown"]),
    "every recipient unknown": (_SITE.format(accepts="internal", to="nobody"), []),
    "every recipient refuses the class": (_SITE.format(accepts="public", to="fleet"), []),
    "redaction fails": (GOOD, ["--crop", "bad"]),
    "policy file broken": (f"version: 1\npermits: [{CANARY}\n", []),
    "policy file missing": (None, []),
}


class Listener:
    """Somebody at the broker who reads with ingest's rights.

    Attributes:
        bundles: payloads on the topics of events.
    """

    def __init__(self, server: Server, device: str) -> None:
        self.bundles: list[bytes] = []
        tls = server.data / "tls"
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=f"listener-{device}")
        self._client.tls_set(
            ca_certs=str(server.data / "authority" / "ca.pem"),
            certfile=str(tls / "ingest.pem"),
            keyfile=str(tls / "ingest.key"),
        )
        granted: list[bool] = []
        self._client.on_message = lambda _c, _u, message: self.bundles.append(bytes(message.payload))
        self._client.on_subscribe = lambda *_: granted.append(True)
        self._client.connect(*server.broker)
        self._client.loop_start()
        self._client.subscribe(f"fleet/v1/{device}/up/ev/#", 1)
        assert wait_for(lambda: bool(granted), 10)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        self._client.on_message = self._client.on_subscribe = None


@pytest.fixture
def device(server: Server, name: str, tmp_path: Path) -> Iterator[Device]:
    with a_device(server, tmp_path / name, name, health_period_s=0.5) as started:
        yield started


@pytest.fixture
def listener(server: Server, name: str) -> Iterator[Listener]:
    found = Listener(server, name)
    yield found
    found.close()


def gate(device: Device, folder: Path, policy: str | None, *options: str) -> None:
    """Run the gate over three events until it crashes; what it says is kept in the device's folder."""
    path = device.state.path / "policy.yaml"
    path.unlink(missing_ok=True)
    if policy is not None:
        path.write_text(policy)
    command = [sys.executable, "-m", "tests.rigs.gate_process", "--canary", CANARY, *options]
    places = ["--state", str(device.state.path), "--policy", str(path), "--ring", str(folder / "ring")]
    with (device.state.path.parent / "gate.log").open("a") as log:
        done = subprocess.run([*command, *places], stdout=log, stderr=log, timeout=60, check=False)
    assert done.returncode < 0, "the gate did not crash as it was told"
    text = (device.state.path.parent / "gate.log").read_text()
    assert "Fatal Python error: Aborted" in text
    assert text.count('ready {"whole": true') == text.count("Fatal Python error")


def holds_canary(folder: Path) -> set[str]:
    """Names of files below a folder with the canary in their content or their name."""
    return {
        path.name
        for path in folder.rglob("*")
        if CANARY in path.name or (path.is_file() and CANARY.encode() in path.read_bytes())
    }


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_what_is_not_permitted_is_held_and_no_byte_of_it_leaves(
    server: Server, device: Device, listener: Listener, tmp_path: Path
) -> None:
    crossed = bytearray()
    device.cable.tap = crossed.extend
    for number, (policy, options) in enumerate(HELD.values(), 1):
        gate(device, tmp_path, policy, *options)
        found = status(device)
        assert found is not None
        assert (found.held, found.ledger.accepted) == (3 * number, 0), list(HELD)[number - 1]
    before = device.cable.bytes_up
    assert wait_for(lambda: device.cable.bytes_up > before, 15)  # the device goes on to report its health
    assert CANARY.encode() not in crossed
    assert listener.bundles == []
    folder = device.state.path.parent
    # the policy file that is broken has it, which is how its problem could have got into a log
    assert holds_canary(folder) <= {"outbox.db", "outbox.db-wal", "policy.yaml"}
    assert holds_canary(server.data.parent) == set()
    told = [
        ask("edge-runtime", "outbox", "status", "--state", str(device.state.path)),
        ask("edge-runtime", "gate", "list", "--state", str(device.state.path), "--json"),
        ask("edge-runtime", "gate", "receipts", "--state", str(device.state.path), "--json"),
        ask("fleet", "device", "show", device.name, "--data", str(server.data), "--json"),
    ]
    assert not [text for text in told if CANARY in text]

    # and the same ears hear what is permitted: they are not deaf
    gate(device, tmp_path, GOOD)
    settled(server, device)
    assert wait_for(lambda: bool(listener.bundles))
    bundles = [EventBundle.decode(payload) for payload in listener.bundles]
    assert sum(len(bundle.items) for bundle in bundles) >= 3
    assert all(CANARY.encode() in item.body for bundle in bundles for item in bundle.items)
    assert CANARY.encode() not in crossed  # TLS
