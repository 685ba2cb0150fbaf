"""Everything that can be killed is killed while events are submitted; afterwards the sums balance on both sides."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from sim.road import Device, Process, Server
from tests.rigs.roads import a_device, assert_journal, broker_pid, children, wait_for


class Scene:
    """A server, a device and its submitter.

    Attributes:
        kills: by what was killed; each says so by doing it.
    """

    def __init__(self, server: Server, device: Device, journal: Path, folder: Path) -> None:
        self.server, self.device, self.journal = server, device, journal
        words = ("-m", "tests.rigs.submitter", "--state", str(device.state.path), "--journal", str(journal))
        self.submitter = Process((sys.executable, *words), folder / "submitter.log")
        self.kills: dict[str, Callable[[], None]] = {
            "broker": self._kill_broker,
            "server": self._kill_server,
            "ingest": self._kill_ingest,
            "uplink": self._kill_uplink,
            "device": self._kill_device,
        }

    def _kill_broker(self) -> None:
        pid = broker_pid(self.server)
        if self.server.mosquitto is not None:
            self.server.mosquitto.kill()
            self.server.mosquitto.start(self.server.data)
            return
        os.kill(pid, signal.SIGKILL)  # its supervisor starts another
        assert wait_for(
            lambda: [found.pid for found in children(self.server, "nats-server")] not in ([], [pid])
        )

    def _kill_server(self) -> None:
        family = children(self.server)
        if random.random() < 0.5:  # the whole family, or its head alone
            for process in family:
                process.kill()
        self.server.process.kill()
        _, left = psutil.wait_procs(family, timeout=10)
        assert not left, f"outlived their server: {left}"
        self.server.start()

    def _kill_ingest(self) -> None:
        for process in children(self.server, "fleet_server.ingest"):
            process.kill()

    def _kill_uplink(self) -> None:
        self.device.uplink.kill()
        self.device.uplink.start()

    def _kill_device(self) -> None:
        self.submitter.kill()
        self.device.kill()
        self.device.start()
        self.submitter.start()


@pytest.fixture
def scene(server: Server, name: str, journal: Path, tmp_path: Path) -> Iterator[Scene]:
    with a_device(server, tmp_path / name, name) as device:
        found = Scene(server, device, journal, tmp_path)
        found.submitter.start()
        try:
            yield found
        finally:
            found.submitter.kill()


def torment(scene: Scene, whom: str, times: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(times):
        time.sleep(rng.uniform(0.2, 1.2))
        scene.kills[whom]()
    time.sleep(0.5)
    scene.submitter.kill()
    sums = assert_journal(scene.server, scene.device, scene.journal)
    assert sums.device.ledger.delivered == sums.device.ledger.accepted


def test_one_kill_of_each_loses_nothing(scene: Scene) -> None:
    for whom in ("broker", "server", "uplink"):
        time.sleep(0.5)
        scene.kills[whom]()
    torment(scene, "device", 1, seed=1)


@pytest.mark.trial
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("whom", ["broker", "server", "ingest", "uplink", "device"])
def test_twenty_kills_lose_nothing(scene: Scene, whom: str) -> None:
    torment(scene, whom, 20, seed=2)


@pytest.mark.trial
@pytest.mark.timeout(1200)
def test_forty_kills_of_anybody_lose_nothing(scene: Scene) -> None:
    rng = random.Random(3)
    for _ in range(40):
        time.sleep(rng.uniform(0.1, 0.8))
        scene.kills[rng.choice(list(scene.kills))]()
    torment(scene, "device", 1, seed=4)
