"""Kind 6, kicked after connecting, on the whole road: sessions slow down, somebody is told, and nothing is lost."""

import contextlib
import functools
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge_runtime.identity import Identity, ssl_context
from sim.road import Device, Server
from tests.rigs.roads import ONE, a_device, assert_sums, logs, put, status, wait_for
from tests.rigs.submitter import approved

_ALARM = "another client seems to use this device's identity"
_QUARREL_S = 3.0
_QUIET_S = 2.5
"""Less than the least wait of a quarrel: within it nobody who keeps to that connects twice."""

_PACE: dict[str, Any] = {"quarrel_s": _QUARREL_S, "short_s": 30.0, "stable_s": 3600.0, "health_period_s": 0.5}


class Twin:
    """A client with a device's identity that comes back at once, whenever it is put out.

    Attributes:
        sessions: that it had.
    """

    def __init__(self, server: Server, device: Device) -> None:
        identity = Identity.load(device.state)
        assert identity is not None
        self.sessions = 0
        self._broker, self._context = server.broker, ssl_context(identity)
        self._name = identity.client_id or identity.device
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Go away for good."""
        self._stopping.set()
        self._thread.join(30)

    def _live(self) -> None:
        while not self._stopping.is_set():
            client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=self._name)
            client.tls_set_context(self._context)
            client.on_connect = self._connected
            with contextlib.suppress(OSError, ssl.SSLError):
                client.connect(*self._broker)
                while client.loop(0.1) == mqtt.MQTT_ERR_SUCCESS and not self._stopping.is_set():
                    pass
            client.disconnect()
            if (left := client.socket()) is not None:
                left.close()
            self._stopping.wait(0.02)

    def _connected(self, _client: mqtt.Client, _data: object, _flags: object, reason: Any, _: object) -> None:
        self.sessions += not reason.is_failure


@contextlib.contextmanager
def _twin(server: Server, device: Device) -> Iterator[Twin]:
    found = Twin(server, device)
    try:
        yield found
    finally:
        found.stop()


def _told(server: Server, device: Device) -> bool:
    """Whether the operator sees the alarm."""
    health = server.fleet("device", "show", device.name)["health"]
    return health is not None and _ALARM in health["degraded"]


def _grows(device: Device, by: int) -> bool:
    """Whether the device connects so often within less than one wait of a quarrel."""
    before = device.cable.connections
    return wait_for(lambda: device.cable.connections >= before + by, _QUIET_S)


@pytest.mark.parametrize("server", ONE, indirect=True)
def test_06_two_clients_with_one_identity_do_not_fight(server: Server, name: str, tmp_path: Path) -> None:
    with a_device(server, tmp_path / name, name, **_PACE) as device:
        keys = put(device, [approved()])
        assert wait_for(lambda: (found := status(device)) is not None and found.ledger.delivered == 1)
        with _twin(server, device) as twin:
            assert wait_for(lambda: twin.sessions >= 3, 60), logs(server, device)
            keys += put(device, [approved(number % 4) for number in range(40)])
            assert wait_for(lambda: _quarrels(device), 60), logs(server, device)
            # each of its sessions may take two attempts, of the newer protocol and the older
            assert not _grows(device, by=3), logs(server, device)
        assert wait_for(lambda: _told(server, device), 60), logs(server, device)
        sums = assert_sums(server, device, keys)
    assert sums.device.ledger.delivered == len(keys)


@pytest.mark.trial
@pytest.mark.parametrize("server", ONE, indirect=True)
def test_06_a_broker_that_closes_at_once_is_not_run_against(
    server: Server, name: str, tmp_path: Path
) -> None:
    with a_device(server, tmp_path / name, name, **_PACE) as device:
        keys = put(device, [approved()])
        assert wait_for(lambda: (found := status(device)) is not None and found.ledger.delivered == 1)
        for _ in range(3):
            sessions = _sessions(device)
            device.cable.kick()
            assert wait_for(functools.partial(_came_back_or_quarrels, device, sessions))
        keys += put(device, [approved(number % 4) for number in range(40)])
        assert _quarrels(device), logs(server, device)
        assert not _grows(device, by=3)
        assert_sums(server, device, keys)


def _sessions(device: Device) -> int:
    return device.uplink.log.read_text(errors="replace").count("connected session=")


def _came_back_or_quarrels(device: Device, sessions: int) -> bool:
    return _sessions(device) > sessions or _quarrels(device)


def _quarrels(device: Device) -> bool:
    """Whether it waits as for a quarrel: the log says for how long."""
    waits = [
        float(line.partition("again_in_s=")[2].split()[0])
        for line in device.uplink.log.read_text(errors="replace").splitlines()
        if "again_in_s=" in line and len(line.partition("again_in_s=")[2].split()) > 1
    ]
    return any(wait >= _QUARREL_S for wait in waits)
