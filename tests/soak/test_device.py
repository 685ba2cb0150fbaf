"""A whole device at its fleet server for minutes: every process, the log and the frames keep their budgets.

The device is `edge-runtime run` with a real clip and a real detector; it delivers over the server's broker.
"""

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from edge_runtime.clock import SystemClock
from edge_runtime.outbox import OutboxClient
from edge_runtime.state import StateDirectory
from sim.ports import free_port
from sim.road import Server, ask, running
from sim.soak import SoakRun, over
from sim.soak.figures import Figure, jitter
from sim.soak.subjects import of_device, of_server
from tests.rigs.cameras import wait_until
from tests.rigs.devices import running_device, write_device

pytestmark = pytest.mark.soak


def test_a_device_keeps_its_budgets(
    tmp_path: Path, media: Path, yolox_package: Path, soak: Callable[[str], SoakRun], minutes: float
) -> None:
    run, state, port = soak("device"), StateDirectory(tmp_path / "state"), free_port()
    source = {"kind": "file", "path": str(media / "vtest.avi"), "loop": True, "pacing": "camera"}
    guard = {"monitor": {"temperature": "none"}}
    with running(Server(tmp_path)) as server:
        token = server.invite("soaked")
        ask("edge-runtime", "enrol", "--server", server.url, "--token", token, "--state", str(state.path))
        config = write_device(tmp_path, yolox_package, source, guard=guard)
        data = yaml.safe_load(config.read_text(encoding="utf-8"))
        data["delivery"]["uplink"] = {"broker": {"host": server.broker[0], "port": server.broker[1]}}
        config.write_text(yaml.safe_dump(data), encoding="utf-8")
        with running_device(config, f"--metrics=127.0.0.1:{port}") as device:
            device.wait_for_work("outbox", "uplink", "perception")

            def processes() -> dict[str, int]:
                return {**of_server(server), **of_device(device.process.pid, device.status())}

            logs = {"guard": tmp_path / "device.log", "fleet serve": server.process.log}
            with run.watching(processes, logs):
                time.sleep(minutes * 60)
            frames = ages(port)
            client = OutboxClient(state.outbox_socket, SystemClock(), 5.0)
            try:
                assert wait_until(lambda: client.status().ledger.queued == 0, 60)
                ledger = client.status().ledger
            finally:
                client.close()
            status = device.status()
    lines = run.finish([frames], minutes=minutes, delivered=ledger.delivered, state=status["state"])
    assert ledger.balances
    assert ledger.delivered == ledger.accepted > 0
    assert not over(lines)


def ages(port: int) -> Figure:
    """Jitter of the frames by the device's own metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    buckets: dict[float, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "edge_frame_age_seconds_bucket":
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
    return jitter("perception", *(1000 * quantile(sorted(buckets.items()), share) for share in (0.5, 0.95)))


def quantile(buckets: list[tuple[float, float]], share: float) -> float:
    """As Prometheus does it: linear within the bucket; the highest bound where it lies beyond that."""
    wanted, below, before = share * buckets[-1][1], 0.0, 0.0
    for bound, count in buckets:
        if count >= wanted:
            return (
                below
                if bound == float("inf")
                else below + (bound - below) * (wanted - before) / (count - before)
            )
        below, before = bound, count
    raise AssertionError("a histogram ends with infinity")
