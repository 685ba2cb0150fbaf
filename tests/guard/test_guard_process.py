"""The guard as a process over real workers: what breaks ends the permission, latches, and stays so.

The short form: one of each kind of fault. The trials by the dozen, with times, idle and loaded, are
`test_fault_trials.py`.
"""

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edge_runtime.guard.acknowledgement import SIGNED_PREFIX, text_of
from edge_runtime.guard.conditions import Condition
from tests.rigs.guard_bodies import CAMERA, altered
from tests.rigs.guarded import GuardProcess, guarded, worker_row

# A busy machine without real time: the guard must not stop for its own lateness while a fault is what is looked at.
PATIENT = altered(CAMERA, {"settle_ms": 200, "late_ms": 800, "paused_ms": 5_000, "lease_ms": 900})
KEY = Ed25519PrivateKey.generate()
KEYS = {"ann": KEY.public_key().public_bytes_raw().hex()}


def signed(
    latch: str, device: str = "robot-1", key: Ed25519PrivateKey = KEY, name: str = "ann"
) -> dict[str, str]:
    """An acknowledgement as the command line makes it."""
    text = text_of(latch, device, "Ann", "looked at it")
    return {
        "text": base64.b64encode(text).decode(),
        "key": name,
        "signature": base64.b64encode(key.sign(SIGNED_PREFIX + text)).decode(),
    }


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., GuardProcess]]:
    """A guard over one worker that breaks in the way that is named."""
    made: list[GuardProcess] = []

    def one(fault: str = "none", deadline_ms: int = 1000) -> GuardProcess:
        row = worker_row("perception", fault, deadline_ms=deadline_ms) | {"longest_ms": 5000}
        made.append(GuardProcess(tmp_path, PATIENT, [row], keys=KEYS))
        return made[-1]

    yield one
    for guard in made:
        guard.close()


BREAKS: dict[str, Callable[[int], None]] = {
    "kill": lambda pid: os.kill(pid, signal.SIGKILL),
    "stop": lambda pid: os.kill(pid, signal.SIGSTOP),
    "spin": lambda pid: os.kill(pid, signal.SIGUSR1),
    "gil": lambda pid: os.kill(pid, signal.SIGUSR1),
    "blocked": lambda pid: os.kill(pid, signal.SIGUSR1),
    "hog": lambda pid: os.kill(pid, signal.SIGUSR1),
}


@pytest.mark.parametrize("fault", BREAKS)
def test_a_worker_that_breaks_ends_the_permission_and_latches(
    fault: str, make: Callable[..., GuardProcess]
) -> None:
    guard = make(fault)
    with guarded(guard):
        guard.arm()
        lease = guard.lease()
        guard.wait(lambda _: lease.valid())
        BREAKS[fault](guard.pid("perception"))
        status = guard.reach("SAFE")
        assert not lease.valid()
        assert set(status["latch"]["causes"]) & {"worker_hung", "worker_dead"}
        # Started anew it beats again, and nothing of that brings the permission back.
        guard.wait(
            lambda status: status["workers"][0]["starts"] > 1 and status["workers"][0]["phase"] == "working"
        )
        assert guard.status()["state"] == "SAFE"
        assert not lease.valid()
        lease.close()
        assert guard.end() == 0


def test_the_way_back_needs_the_signature_of_a_known_person_about_this_latch(
    make: Callable[..., GuardProcess],
) -> None:
    guard = make()
    with guarded(guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGKILL)
        latch = guard.reach("SAFE")["latch"]["id"]
        guard.wait(lambda status: status["tripped"] == [])
        stranger = Ed25519PrivateKey.generate()
        for record, why in (
            (signed(latch, key=stranger), "signature is wrong"),
            (signed(latch, name="bob"), "does not know its key"),
            (signed(latch, device="robot-2"), "another device"),
            ({"text": "%", "key": "ann", "signature": ""}, "not an acknowledgement"),
            ([1], "not an acknowledgement"),
        ):
            answer = guard.ask(ask="acknowledge", record=record)
            assert answer is not None
            assert not answer["verified"]
            assert why in answer["text"]
        other = guard.ask(ask="acknowledge", record=signed("0123456789ab"))
        assert other is not None
        assert other["verified"], "the signature is good, but it is about another latch"
        guard.wait(lambda status: any("names the latch" in text for text in status["sentences"]))
        guard.ask(ask="arm")
        assert guard.status()["state"] == "SAFE"
        assert guard.ask(ask="acknowledge", record=signed(latch)) == {
            "verified": True,
            "text": "the signature is good",
        }
        assert guard.reach("STANDBY")["latch"] is None
        guard.ask(ask="arm")
        guard.reach("NOMINAL")
        # The same words again are about a latch that is gone.
        os.kill(guard.pid("perception"), signal.SIGKILL)
        second = guard.reach("SAFE")["latch"]["id"]
        assert second != latch
        guard.wait(lambda status: status["tripped"] == [])
        guard.ask(ask="acknowledge", record=signed(latch))
        guard.wait(lambda status: any("names the latch" in text for text in status["sentences"]))
        assert guard.status()["latch"]["id"] == second


def test_a_latch_survives_the_guard_and_so_does_the_question_whether_there_was_one(
    make: Callable[..., GuardProcess],
) -> None:
    guard = make()
    with guarded(guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGKILL)
        latch = guard.reach("SAFE")["latch"]
    again = make()
    with guarded(again):
        assert again.reach("SAFE")["latch"]["id"] == latch["id"]
        again.wait(lambda status: status["tripped"] == [] and status["not_evaluated"] == [])
        again.ask(ask="acknowledge", record=signed(latch["id"]))
        again.arm()
    third = make()  # the second was killed while motion was permitted
    with guarded(third):
        status = third.reach("SAFE")
        assert status["latch"]["causes"] == ["latch_unknown"]


def test_a_guard_that_is_asked_to_end_leaves_nothing_latched(make: Callable[..., GuardProcess]) -> None:
    guard = make()
    with guarded(guard):
        guard.arm()
        pid = guard.pid("perception")
        assert guard.end() == 0
        assert not Path(f"/proc/{pid}").exists()
    again = make()
    with guarded(again):
        again.reach("STANDBY")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_lease_ends_with_the_guard_and_the_workers_end_with_it(
    number: signal.Signals, make: Callable[..., GuardProcess]
) -> None:
    guard = make()
    with guarded(guard):
        guard.arm()
        lease, pid = guard.lease(), guard.pid("perception")
        guard.wait(lambda _: lease.valid())
        assert guard.process is not None
        guard.process.send_signal(number)
        until = time.monotonic() + 20
        while lease.valid() and time.monotonic() < until:
            time.sleep(0.005)
        assert not lease.valid()
        if number is signal.SIGKILL:
            while psutil.pid_exists(pid) and time.monotonic() < until:
                time.sleep(0.01)
            assert not psutil.pid_exists(pid)
        else:
            guard.process.send_signal(signal.SIGCONT)
            guard.wait(lambda status: status["state"] in ("STOPPED", "SAFE", "NOMINAL"))
        lease.close()


def test_a_worker_that_says_that_something_holds_is_believed(make: Callable[..., GuardProcess]) -> None:
    guard = make(f"trip:{Condition.SOC_CRITICAL.mask}")
    with guarded(guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGUSR1)
        assert guard.reach("SAFE")["latch"]["causes"] == ["soc_critical"]


def test_a_changed_configuration_latches(tmp_path: Path, make: Callable[..., GuardProcess]) -> None:
    file = tmp_path / "device.yaml"
    file.write_text("a: 1\n")
    guard = make()
    guard.configuration = {"path": str(file), "sha256": hashlib.sha256(b"a: 1\n").hexdigest()}
    with guarded(guard):
        guard.arm()
        file.write_text("a: 2\n")
        assert guard.reach("SAFE")["latch"]["causes"] == ["config_changed"]


def test_a_worker_that_always_ends_is_given_up_and_locks_out(make: Callable[..., GuardProcess]) -> None:
    guard = make()
    guard.rows[0] |= {"command": ["/bin/false"], "restarts": 3, "backoff_ms": 20}
    with guarded(guard):
        status = guard.reach("LOCKOUT")
        assert "crash_loop" in status["latch"]["causes"]
        worker = guard.status()["workers"][0]
        assert (worker["phase"], worker["starts"], worker["last_exit"]) == ("given_up", 4, 1)


def test_a_process_becomes_the_guard_and_keeps_its_id(
    tmp_path: Path, make: Callable[..., GuardProcess]
) -> None:
    guard = make()
    code = (
        "import json, sys; from edge_runtime.guard.client import become; print('before', end=''); "
        "become(json.load(open(sys.argv[1])))"
    )
    file = tmp_path / "settings.json"
    # more than a pipe holds
    keys = {f"person {number}": "0f" * 32 for number in range(2000)}
    file.write_text(json.dumps(guard.settings() | {"keys": keys}))
    assert file.stat().st_size > 1 << 17
    guard.process = subprocess.Popen(
        [sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with guarded(guard, started=True):
        guard.reach("STANDBY")
        assert psutil.Process(guard.process.pid).cmdline()[2] == "edge_runtime.guard"
        worker = psutil.Process(guard.pid("perception"))
        assert worker.ppid() == guard.process.pid
        assert guard.process.stdout is not None
        assert guard.process.stdout.read(6) == b"before"
        guard.process.stdout.close()
        assert guard.end() == 0


def test_what_is_no_request_is_answered_in_a_sentence(make: Callable[..., GuardProcess]) -> None:
    guard = make()
    with guarded(guard):
        assert guard.ask(ask="dance") == {"refused": "`ask` must be one of status, arm, disarm, reset, "
                                                     "acknowledge, standstill"}  # fmt: skip
        assert guard.ask(ask="arm", now=True) == {"refused": "arm takes nothing else"}
        assert guard.ask(ask="standstill", moves=1) == {"refused": "`moves` must be true or false"}
        assert guard.status()["unreadable"] == 3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"processes": []}, "processes: empty"),
        ({"keys": {"ann": "00"}}, "keys.ann: not 64 hexadecimal digits"),
        ({"device": 1}, "settings.device: not a text"),
        ({"more": 1}, "settings.more: no such setting"),
        ({"hardware_watchdog": {"path": "/nonexistent", "timeout_s": 30}}, "cannot start"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_one_sentence(
    change: dict[str, object], sentence: str, make: Callable[..., GuardProcess]
) -> None:
    guard = make()
    guard.changes = change
    with pytest.raises(AssertionError, match="the guard ended") as raised:
        guard.start()
    said = str(raised.value)
    assert sentence in said
    assert "Traceback" not in said
    assert json.dumps(said).count("\\n") <= 1


def test_a_guard_that_is_asked_to_end_disarms_the_hardware_and_one_that_fails_does_not(
    tmp_path: Path, make: Callable[..., GuardProcess]
) -> None:
    device = tmp_path / "watchdog"
    device.touch()
    change: dict[str, object] = {"hardware_watchdog": {"path": str(device), "timeout_s": 30}}
    for number, disarmed in ((signal.SIGTERM, True), (signal.SIGKILL, False)):
        guard = make()
        guard.changes = change
        with guarded(guard):
            guard.reach("STANDBY")
            assert guard.process is not None
            guard.process.send_signal(number)
            guard.process.wait(30)
        fed = device.read_bytes()
        assert fed.startswith(b"\0"), "fed while all was well"
        assert fed.endswith(b"V") is disarmed
        device.write_bytes(b"")
