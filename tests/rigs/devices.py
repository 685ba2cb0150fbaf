"""A whole device: `edge-runtime run` under its guard, with real processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import yaml

from edge_runtime.node.workers import ask_guard
from edge_runtime.state import StateDirectory
from tests.rigs.cameras import wait_until

POLICY = {
    "version": 1,
    "name": "everything",
    "recipients": {
        "fleet": {"place": "organisation", "accepts": ["public", "internal"], "purposes": ["operations"]}
    },
    "permits": [{"name": "all", "when": {}, "to": ["fleet"], "purpose": "operations", "evidence": "none"}],
}

SYNTHETIC = {"kind": "synthetic", "fps": 10, "width": 320, "height": 240, "objects": 2}


def write_device(folder: Path, package: Path, source: Mapping[str, Any] = SYNTHETIC, **sections: Any) -> Path:
    """A configuration with delivery; its file."""
    config = {
        "models": {"m": {"package": str(package), "threads": 1, "accept_licences": ["NOASSERTION"]}},
        "cameras": {
            "yard": {
                "source": dict(source),
                "model": "m",
                "data_class": "public",
                "rules": [{"kind": "absence", "name": "empty", "seconds": 0.5}],
            }
        },
        "delivery": {"state": "state", "policy": "policy.yaml"},
        **sections,
    }
    (folder / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    path = folder / "site.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


class RunningDevice:
    """A device that runs.

    Attributes:
        process: of the guard, which `edge-runtime run` became.
        state: its state directory.
    """

    def __init__(self, process: "subprocess.Popen[str]", state: StateDirectory) -> None:
        self.process, self.state = process, state

    def status(self) -> dict[str, Any]:
        """Of the guard; empty where it does not answer."""
        return ask_guard(self.state) or {}

    def worker(self, name: str) -> dict[str, Any]:
        """A row of the status; empty where there is none."""
        return next((row for row in self.status().get("workers", ()) if row["name"] == name), {})

    def wait(self, condition: Callable[[dict[str, Any]], bool], timeout_s: float = 90.0) -> dict[str, Any]:
        """The first status that fulfils a condition."""
        found: list[dict[str, Any]] = []

        def holds() -> bool:
            found.append(self.status())
            return bool(found[-1]) and condition(found[-1])

        assert wait_until(holds, timeout_s), f"it did not come to that: {json.dumps(found[-1])[:3000]}"
        return found[-1]

    def wait_for_work(self, *names: str) -> dict[str, Any]:
        """Until these workers beat."""
        return self.wait(
            lambda status: (
                {row["name"] for row in status["workers"] if row["phase"] == "working"} >= set(names)
            )
        )

    def end(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 60.0) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout_s)

    def pids(self) -> list[int]:
        """Of the workers that run."""
        return [row["pid"] for row in self.status().get("workers", ()) if row["pid"]]


@contextlib.contextmanager
def running_device(
    config: Path, *options: str, state: Path | None = None, records: Path | None = None
) -> Iterator[RunningDevice]:
    """`edge-runtime run`, or `record` into a folder, in a session of its own; nothing of it is left at the end."""
    command = ["run", *options, str(config)]
    if records is not None:
        command = ["record", *options, str(config), str(records)]
    place = state or config.parent / "state"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EDGE_")}
    with (config.parent / "device.log").open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "edge_runtime.cli.main", *command],
            stdout=log,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,
        )
    device = RunningDevice(process, StateDirectory(place))
    try:
        yield device
    finally:
        left = [*device.pids(), process.pid]
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        for pid in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()
        process.wait()


def log_of(config: Path) -> str:
    """Everything that a device said."""
    return (config.parent / "device.log").read_text(encoding="utf-8")
