"""A real server is backed up while events come in, is lost with its disk, and comes back out of its backup."""

import contextlib
import shutil
import socket
import ssl
import threading
import time
from pathlib import Path

import httpx
import pytest

from edge_runtime.protocol.delivery import BundleItem
from fleet_server.cli.client import FleetClient
from fleet_server.cli.target import LocalTarget
from tests.rigs.databases import new_database
from tests.rigs.fleet_server import FleetServer, RealDevice

MOST = 600


@pytest.mark.trial
@pytest.mark.timeout(900)
def test_a_server_that_lost_its_disk_goes_on_and_misses_nothing_that_it_had_receipted(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        database = new_database(request, tmp_path, "postgresql")
        with FleetServer(tmp_path / "data", database) as server:
            assert manager.recv(1000).startswith(b"READY=1\nSTATUS=devices reach https://")
            monkeypatch.delenv("NOTIFY_SOCKET")
            device = RealDevice.enrol(server, "dock-1")
            sent: list[BundleItem] = []
            stop = threading.Event()
            thread = threading.Thread(target=_deliver, args=(device, sent, stop))
            thread.start()
            _until(server, 20)
            receipted = _keys(server)
            backup = server.fleet("backup", "create", str(tmp_path / "backups"), within_s=300.0).out.strip()
            stop.set()
            thread.join(60)
            assert _scraped(server)["fleet_backup_point_seconds"] > 0
            server.kill()
        assert len(receipted) >= 20
        shutil.rmtree(server.directory)
        again = ("--database", new_database(request, tmp_path, "postgresql"))
        restored = server.fleet(
            "backup", "restore", backup, str(server.directory), *again, "--json", within_s=300.0, HOME="/"
        )
        assert restored.json["database"] == "postgresql"
        assert restored.err == ""
        server.start()
        assert server.fleet("backup", "verify", backup).code == 0
        after = _keys(server)
        assert receipted <= after
        assert server.fleet("audit", "verify").code == 0
        # the device sends again whatever it has no receipt of, and goes on
        with device.connected() as session:
            for start in range(0, len(sent), 20):
                assert session.publish(*device.rig.bundle(*sent[start : start + 20]))
        _until(server, len(sent))
        server.kill()


def _scraped(server: FleetServer) -> dict[str, float]:
    """Numbers without labels, as a monitoring system gets them."""
    token = server.fleet("token", "create", "prometheus", "--role", "viewer").out.strip()
    context = ssl.create_default_context(cafile=str(server.authority))
    with httpx.Client(base_url=server.url, verify=context, trust_env=False) as client:
        text = client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
    rows = [line.split() for line in text.splitlines() if not line.startswith("#") and "{" not in line]
    return {name: float(value) for name, value in rows}


def _deliver(device: RealDevice, sent: list[BundleItem], stop: threading.Event) -> None:
    with device.connected() as session:
        while not stop.is_set() and len(sent) < MOST:
            items = device.rig.items(2)
            sent.extend(items)
            with contextlib.suppress(AssertionError):
                session.publish(*device.rig.bundle(*items))
            time.sleep(0.02)


def _keys(server: FleetServer) -> set[str]:
    """Of every event that is committed."""
    client = FleetClient.to(LocalTarget(server.directory))
    try:
        return {event["key"] for event in client.get("/v1/events", limit=1000)["events"]}
    finally:
        client.close()


def _until(server: FleetServer, count: int, within_s: float = 90.0) -> None:
    deadline = time.monotonic() + within_s
    while len(_keys(server)) < count:
        assert time.monotonic() < deadline, server.log
        time.sleep(0.1)
