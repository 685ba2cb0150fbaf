"""What the guard's process has loaded when it evaluates first, and that nothing is loaded once a worker runs."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.guard.loop import LATE
from tests.guard.test_guard_process import KEYS, signed
from tests.rigs.guard_bodies import PATIENT, altered
from tests.rigs.guarded import GuardProcess, guarded, worker_row

UNNEEDED = {
    *("dataclasses", "inspect", "ast", "dis", "tokenize", "copy"),
    *("pathlib", "fnmatch", "ntpath", "urllib.parse", "ipaddress"),
    *("tempfile", "shutil", "bz2", "lzma", "random"),
    *("hashlib", "_hashlib", "base64", "ctypes", "subprocess", "locale"),
    *("cryptography", "numpy", "yaml", "pydantic"),
}
"""Half of the processor time from the start to the first evaluation went to loading these (decision 0278)."""

SOON_CLEAR = altered(
    PATIENT, {f"conditions.{name}.clear_ms": 1 for name in ("soc_critical", "battery_critical")}
)
"""What nobody evaluates while a worker is away counts on a slow machine, and must not keep the latch long."""

_NOTES = """
    import json, sys
    from edge_runtime.guard import machine
    from edge_runtime.guard.__main__ import main
    from edge_runtime.guard.loop import Guard

    told = {"first": None, "late": []}
    step, load = machine.step, Guard._load

    def stepped(*arguments):
        if told["first"] is None:
            told["first"] = sorted(sys.modules)
        return step(*arguments)

    def loaded(guard):
        load(guard)
        sys.addaudithook(lambda event, asked: event == "import" and told["late"].append(asked[0]))

    machine.step, Guard._load = stepped, loaded
    try:
        code = main(sys.argv[2:])
    finally:
        with open(sys.argv[1], "w") as file:
            json.dump(told, file)
    sys.exit(code)
"""


def noting(guard: GuardProcess, notes: Path) -> None:
    """Start a guard that writes down what it had loaded when it evaluated first, and what it loaded late."""
    fd = os.memfd_create("settings")
    os.write(fd, json.dumps(guard.settings()).encode())
    os.lseek(fd, 0, os.SEEK_SET)
    command = [sys.executable, "-c", textwrap.dedent(_NOTES), str(notes), "--settings-fd", str(fd)]
    guard.process = subprocess.Popen(command, pass_fds=(fd,), stderr=subprocess.PIPE)
    os.close(fd)


def left(guard: GuardProcess, latch: str, status: dict[str, Any]) -> bool:
    """Whether it left the latch; asked for again, because on a busy machine a verifier is not always in time."""
    if status["state"] != "SAFE":
        return True
    guard.ask(ask="acknowledge", record=signed(latch))
    return False


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Of a guard that was armed, lost its worker, was acknowledged by the wrong and the right, and armed again."""
    folder = tmp_path_factory.mktemp("guard")
    (folder / "device.yaml").write_bytes(b"a: 1\n")
    guard = GuardProcess(folder, SOON_CLEAR, [worker_row("perception", deadline_ms=1000)], keys=KEYS)
    guard.configuration = [
        {"path": str(folder / "device.yaml"), "sha256": hashlib.sha256(b"a: 1\n").hexdigest()}
    ]
    guard.real_time = True
    noting(guard, folder / "notes")
    with guarded(guard, started=True):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGKILL)
        latch = guard.reach("SAFE")["latch"]["id"]
        guard.wait(lambda status: status["tripped"] == status["not_evaluated"] == [])
        guard.ask(ask="acknowledge", record=signed(latch, device="robot-2"))
        guard.wait(partial(left, guard, latch))
        guard.arm()
        guard.ask(ask="disarm")
        guard.reach("STANDBY")
        assert guard.end() == 0
    found: dict[str, Any] = json.loads((folder / "notes").read_text())
    return found


def test_the_first_evaluation_waits_for_no_module_that_it_does_not_need(notes: Mapping[str, Any]) -> None:
    assert "edge_runtime.guard.machine" in notes["first"]
    assert sorted(UNNEEDED.intersection(notes["first"])) == []
    assert set(LATE) <= UNNEEDED


def test_nothing_is_loaded_once_the_first_worker_may_be_started(notes: Mapping[str, Any]) -> None:
    assert notes["late"] == []
