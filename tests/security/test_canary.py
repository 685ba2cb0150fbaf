"""What only an event may carry is in no log, metric, receipt, report or crash of the real run.

The canary is drawn into every frame of a real clip, names its file, and is the label of what the model finds.
"""

import contextlib
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import httpx
import psutil
import pytest
import yaml
from sqlalchemy import select

from edge_runtime.cli.main import run as edge_runtime
from edge_runtime.identity import Identity
from edge_runtime.state import StateDirectory
from fleet_server.storage import open_store
from fleet_server.storage.device_tables import HealthRow, HeldRow, PresenceRow
from fleet_server.storage.event_tables import DeadLetterRow, EventRow
from sim.ports import free_port
from sim.road import Server, command
from tests.rigs.detectors import REAL_MODELS
from tests.rigs.parties import Operator
from tests.rigs.roads import wait_for

CANARY = "canary-5d1e9b7a"
FRAMES = 20
WHOLE = [[0, 0], [1, 0], [1, 1], [0, 1]]

POLICY = """\
version: 1
name: canary
recipients: {fleet: {place: organisation, accepts: [public], purposes: [safety]}}
permits:
  - {name: all, when: {classes: [public]}, to: [fleet], purpose: safety, evidence: %s}
"""


@pytest.fixture(scope="module")
def clip(media: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pedestrians with the canary written over them, in a file that is named by it."""
    path = tmp_path_factory.mktemp("clips") / f"{CANARY}.avi"
    source = cv2.VideoCapture(str(media / "vtest.avi"))
    size = int(source.get(cv2.CAP_PROP_FRAME_WIDTH)), int(source.get(cv2.CAP_PROP_FRAME_HEIGHT))
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), 10, size)
    assert writer.isOpened()
    for _ in range(3 * FRAMES):
        found, frame = source.read()
        assert found
        cv2.putText(frame, CANARY, (20, size[1] // 2), cv2.FONT_HERSHEY_SIMPLEX, 2, (255, 255, 255), 4)
        writer.write(frame)
    writer.release()
    source.release()
    return path


@pytest.fixture(scope="module")
def package(onnx_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real detector that calls a person by the canary."""
    model = REAL_MODELS["yolox_nano"]
    coco = (onnx_models / "coco80.txt").read_text(encoding="utf-8").split("\n")[1:80]
    return replace(model, labels=(CANARY, *coco)).write(
        onnx_models, tmp_path_factory.mktemp("packages") / "canary-package"
    )


Configure = Callable[..., Path]


@pytest.fixture
def configure(tmp_path: Path, clip: Path, package: Path) -> Configure:
    """Writes a configuration; `delivery` is its section, if any."""

    def write(delivery: dict[str, Any] | None, **source: Any) -> Path:
        document: dict[str, Any] = {
            "version": 1,
            "models": {"m": {"package": str(package), "threads": 1}},
            "cameras": {
                "street": {
                    "source": {"kind": "file", "path": str(clip), **source},
                    "model": "m",
                    "data_class": "public",
                    "rules": [
                        {
                            "kind": "dwell",
                            "name": "stays",
                            "labels": [CANARY],
                            "polygon": WHOLE,
                            "seconds": 0.5,
                        },
                    ],
                }
            },
            "evidence": {"directory": str(tmp_path / "ring")},
            "logging": {"level": "debug"},
        }
        if delivery is not None:
            document["delivery"] = delivery
        path = tmp_path / "site.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    return write


@contextlib.contextmanager
def cores_wanted() -> Iterator[None]:
    """Whoever is started meanwhile is allowed core files of any size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


class Run:
    """A real `edge-runtime run` whose every word is kept."""

    def __init__(self, folder: Path, config: Path, *options: str) -> None:
        self.folder, self.log = folder, folder / "run.log"
        self.metrics = f"127.0.0.1:{free_port()}"
        with self.log.open("ab") as log, cores_wanted():
            self.process = subprocess.Popen(
                command("edge-runtime", "run", str(config), "--metrics", self.metrics, *options),
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
            )
        self.scraped = ""

    def scrape(self) -> bool:
        """Keep what the metrics say, if they are served."""
        try:
            found = httpx.get(f"http://{self.metrics}/metrics", timeout=5, trust_env=False).text
        except httpx.HTTPError:
            return False
        self.scraped += found
        return True

    def child(self, word: str) -> psutil.Process | None:
        """Its process of a module, once there is one."""
        for process in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word in part for part in process.cmdline()):
                    return process
        return None

    def awaited(self, word: str) -> psutil.Process:
        """The same, once it has come."""
        deadline = time.monotonic() + 60
        while (found := self.child(word)) is None:
            assert time.monotonic() < deadline, self.words
            time.sleep(0.05)
        return found

    def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    @property
    def words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Starts runs, and ends those that still run."""
    made: list[Run] = []

    def start(config: Path, *options: str) -> Run:
        made.append(Run(tmp_path, config, *options))
        return made[-1]

    yield start
    for run in made:
        if run.process.poll() is None:
            run.process.kill()
            run.process.wait()


def holders(folder: Path) -> set[str]:
    """Files below it that hold the canary, by their place."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and (CANARY in path.name or CANARY.encode() in path.read_bytes())
    }


def test_a_run_without_a_way_out_keeps_it_in_the_events(
    configure: Configure, running: Callable[..., Run], tmp_path: Path
) -> None:
    config = configure(None)
    run = running(config, "--max-frames", str(FRAMES), "--events", str(tmp_path / "events.ndjson"))
    assert wait_for(lambda: run.scrape() or run.process.poll() is not None, 60)
    assert run.process.wait(120) == 0, run.words
    assert CANARY in (tmp_path / "events.ndjson").read_text(), "it was seen"
    assert holders(tmp_path) == {"site.yaml", "events.ndjson"}
    assert CANARY not in run.words + run.scraped


def test_what_may_leave_carries_it_and_nothing_else_does(
    server: Server,
    name: str,
    configure: Configure,
    running: Callable[..., Run],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = StateDirectory(tmp_path / "state")
    place = ("--state", str(state.path))
    assert edge_runtime(["enrol", "--server", server.url, "--token", server.invite(name), *place]) == 0
    identity = Identity.load(state)
    assert identity is not None
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY % "redacted")
    delivery = {"state": str(state.path), "policy": str(policy), "uplink": {"health_period": 0.5}}
    run = running(configure(delivery, loop=True), "--events", str(tmp_path / "events.ndjson"))
    operator = Operator(server)
    assert wait_for(
        lambda: run.process.poll() is not None or bool(operator.get("/v1/events", device=name)["events"]), 90
    ), run.words
    assert wait_for(lambda: _has(server, HealthRow, name), 30), run.words
    assert wait_for(run.scrape, 20)

    # every process dies in turn as a defect would end it, with a handler that says where
    for word, number in (
        ("edge_runtime.outbox", signal.SIGSEGV),
        ("uplink_process", signal.SIGABRT),
        ("monitor_process", signal.SIGSEGV),
        ("edge_runtime.cli.main", signal.SIGABRT),
    ):
        found = run.awaited(word)
        assert found.rlimit(psutil.RLIMIT_CORE)[0] <= 1
        found.send_signal(number)
        assert wait_for(partial(has_ended, found), 30)
    policy.write_text(
        f"version: 1\npermits: [{CANARY}\n"
    )  # and the policy breaks while it runs: everything is held
    assert wait_for(lambda: "policy cannot be" in run.words or "held" in run.words, 30)
    time.sleep(1.0)
    run.scrape()
    assert psutil.Process(run.process.pid).rlimit(psutil.RLIMIT_CORE)[0] <= 1
    assert run.end(signal.SIGABRT) == -signal.SIGABRT
    assert run.words.count("Fatal Python error") >= 5, run.words[-3000:]
    assert [path.name for path in tmp_path.rglob("core*") if path.is_file()] == []

    assert CANARY not in run.words + run.scraped
    allowed = {
        "site.yaml",
        "policy.yaml",
        "events.ndjson",
        "state/outbox/outbox.db",
        "state/outbox/outbox.db-wal",
    }
    assert holders(tmp_path) <= allowed
    for words in (("outbox", "status", "--json"), ("gate", "receipts", "--json"), ("gate", "list", "--json")):
        # the guard was killed: its outbox ends by itself, and lets the queue go when it has
        assert wait_for(partial(_done, *words, *place), 30)
        assert CANARY not in capsys.readouterr().out
    _assert_server_keeps_it_in_the_event(server, name)


def _done(*words: str) -> bool:
    return edge_runtime(list(words)) == 0


def _has(server: Server, kind: Any, device: str) -> bool:
    store = open_store(server.database)
    try:
        with store.read() as session:
            return session.scalar(select(kind).where(kind.device == device).limit(1)) is not None
    finally:
        store.close()


def _assert_server_keeps_it_in_the_event(server: Server, device: str) -> None:
    store = open_store(server.database)
    try:
        with store.read() as session:
            (body,) = session.execute(select(EventRow).where(EventRow.device == device).limit(1)).one()
            assert body is not None
            for kind in (HealthRow, HeldRow, PresenceRow, DeadLetterRow):
                for row in session.scalars(select(kind).where(kind.device == device)):
                    said = [getattr(row, column.name) for column in kind.__table__.columns]
                    assert CANARY not in repr(said), kind
    finally:
        store.close()
    operator = Operator(server)
    assert CANARY in json.dumps(operator.get("/v1/events", device=device)), "the event carries it"
    for path in ("/v1/health", f"/v1/devices/{device}", "/v1/audit", "/v1/held", "/v1/dead-letters"):
        assert CANARY not in json.dumps(operator.get(path)), path
    assert CANARY not in server.process.log.read_text()
    folder = server.data.parent
    assert {Path(found).name for found in holders(folder)} <= {"fleet.db", "fleet.db-wal"}


def test_a_reader_of_events_that_leaves_is_told_nothing_of_them(configure: Configure, tmp_path: Path) -> None:
    config = configure(None, loop=True)
    with subprocess.Popen(
        command("edge-runtime", "run", str(config), "--events", "-"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert CANARY in process.stdout.readline().decode()
        process.stdout.close()
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read().decode()
        process.wait(60)
    assert CANARY not in said
    assert "Traceback" not in said
