"""The guard as a process over real workers: what breaks ends the permission, latches, and stays so.

The short form: one of each kind of fault. The trials by the dozen, with times, idle and loaded, are
`test_selftest.py`.
"""

import base64
import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from edge_runtime.errors import ConfigError
from edge_runtime.guard.acknowledgement import SIGNED_PREFIX, text_of
from edge_runtime.guard.block import boot_id
from edge_runtime.guard.client import NoGuard, ask, launch
from edge_runtime.guard.conditions import TRAITS, Condition
from edge_runtime.guard.control import ControlSocket
from edge_runtime.guard.still import STILL
from tests.rigs.guard_bodies import PATIENT, altered
from tests.rigs.guarded import GuardProcess, guarded, worker_row

# A busy machine without real time: the guard must not stop for its own lateness while a fault is what is looked at.
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
            answer = guard.acknowledge(record)
            assert not answer["verified"]
            assert why in answer["text"]
        other = guard.acknowledge(signed("0123456789ab"))
        assert other["verified"], "the signature is good, but it is about another latch"
        guard.wait(lambda status: any("names the latch" in text for text in status["sentences"]))
        guard.ask(ask="arm")
        assert guard.status()["state"] == "SAFE"
        assert guard.acknowledge(signed(latch)) == {
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
        guard.acknowledge(signed(latch))
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
    guard.configuration = [{"path": str(file), "sha256": hashlib.sha256(b"a: 1\n").hexdigest()}]
    with guarded(guard):
        guard.arm()
        file.write_text("a: 2\n")
        assert guard.reach("SAFE")["latch"]["causes"] == ["config_changed"]


def test_a_worker_that_always_ends_locks_out_and_is_tried_again_all_the_same(
    make: Callable[..., GuardProcess],
) -> None:
    guard = make()
    guard.rows[0] |= {"command": ["/bin/false"], "restarts": 3, "backoff_ms": 200}
    with guarded(guard):
        status = guard.reach("LOCKOUT")
        assert "crash_loop" in status["latch"]["causes"]
        worker = guard.wait(lambda status: status["workers"][0]["starts"] > 6)["workers"][0]
        assert (worker["crash_loop"], worker["last_exit"]) == (True, 1)
        assert "crash_loop" in guard.status()["tripped"]


@pytest.mark.parametrize(
    ("ends", "code", "left"),
    [("done", "0", 0), ("done", "2", 2), ("always", "9", 9), ("always", "-11", 139)],
)
def test_an_end_that_is_the_runs_ends_all_others_and_gives_its_code(
    ends: str, code: str, left: int, tmp_path: Path, make: Callable[..., GuardProcess]
) -> None:
    guard, watchdog = make(), tmp_path / "watchdog"
    watchdog.touch()
    guard.changes = {"hardware_watchdog": {"path": str(watchdog), "timeout_s": 30}}
    done = "import os, sys; c = int(sys.argv[1]); os.kill(os.getpid(), -c) if c < 0 else sys.exit(c)"
    guard.rows.append(
        worker_row("cameras")
        | {"command": [sys.executable, "-c", done, code], "ends": ends, "after": ["perception"]}
    )
    guard.process = launch(guard.settings(), stderr=subprocess.PIPE)
    assert guard.process.wait(60) == left
    guard.close()
    assert watchdog.read_bytes().endswith(b"V") is (left in (0, 2)), "one that crashed leaves it counting"
    # What was done latched nothing; what died did.
    again = make()
    with guarded(again):
        again.reach("STANDBY" if left in (0, 2) else "SAFE")
        assert again.end() == 0


def test_a_guard_that_was_launched_ends_with_whoever_launched_it(
    tmp_path: Path, make: Callable[..., GuardProcess]
) -> None:
    guard, file = make(), tmp_path / "settings.json"
    file.write_text(json.dumps(guard.settings()))
    code = (
        "import json, sys, time; from edge_runtime.guard.client import launch; "
        "print(launch(json.load(open(sys.argv[1]))).pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(file)], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        launched = psutil.Process(int(launcher.stdout.readline()))
        guard.reach("STANDBY")
        launcher.kill()
    launched.wait(30)
    assert not (tmp_path / "control").exists(), "it ended in order"


def test_what_ends_because_it_was_asked_to_latches_nothing_however_long_it_takes(tmp_path: Path) -> None:
    """The first to end evaluates the emergency stop, which counts at once where nobody evaluates it."""
    profile = altered(PATIENT, {"conditions.estop": {}, "conditions.worker_dead": {}})
    slow = worker_row("outbox")
    slow["command"] = [sys.executable, "-c", SLOW_TO_END]
    rows = [slow, worker_row("perception", deadline_ms=1000) | {"longest_ms": 5000}]
    guard = GuardProcess(tmp_path, profile, rows)
    with guarded(guard):
        guard.arm()
        assert guard.process is not None
        guard.process.terminate()
        status = guard.wait(lambda status: status["ending"] and status["workers"][1]["phase"] == "ended")
        assert (status["state"], status["permit"], status["workers"][0]["phase"]) == (
            "STANDBY", False, "stopping",
        )  # fmt: skip
        assert guard.process.wait(30) == 0
    with guarded(GuardProcess(tmp_path, profile, rows)) as again:
        again.reach("STANDBY")


SLOW_TO_END = """
import signal, sys, time
from edge_runtime.guard.page import SlotWriter
from edge_runtime.lifeline import die_with_parent
die_with_parent(signal.SIGKILL)
slot, asked = SlotWriter.from_environment(), []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.monotonic()))
while not asked or time.monotonic() - asked[0] < 2:
    slot.finished("unit", None, time.monotonic_ns() + 1_000_000_000, 0, 0)
    time.sleep(0.01)
"""


def test_a_still_body_arms_itself_and_says_no_to_being_disarmed(tmp_path: Path) -> None:
    latch = tmp_path / "latch.json"
    latch.write_text("what a robot left here")
    guard = GuardProcess(
        tmp_path,
        STILL,
        [worker_row("perception", deadline_ms=1000) | {"longest_ms": 5000}],
        changes={"arms_itself": True},
    )
    with guarded(guard):
        guard.reach("NOMINAL")
        assert guard.ask(ask="disarm") == {"refused": "it arms itself, since nothing here can move"}
        os.kill(guard.pid("perception"), signal.SIGKILL)
        status = guard.reach("DEGRADED")
        assert (status["mode"], status["limits"], status["latch"]) == ("impaired", "none", None)
        guard.reach("NOMINAL")
        assert guard.process is not None
        guard.process.kill()
        guard.process.wait()
    assert latch.read_text() == "what a robot left here"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["control", "latch.json", "lock"]
    with guarded(guard):
        guard.reach("NOMINAL")


def test_a_robots_latch_waits_while_its_machine_is_a_camera(
    tmp_path: Path, make: Callable[..., GuardProcess]
) -> None:
    guard = make()
    with guarded(guard):
        guard.arm()
        os.kill(guard.pid("perception"), signal.SIGKILL)
        latch = guard.reach("SAFE")["latch"]["id"]
    with guarded(GuardProcess(tmp_path, STILL, guard.rows, changes={"arms_itself": True})) as camera:
        camera.reach("NOMINAL")
        assert camera.end() == 0
    with guarded(make()) as again:
        assert again.reach("SAFE")["latch"]["id"] == latch


READS_THE_RING = """
import json, sys, time
from edge_runtime.guard.page import SlotWriter
from edge_runtime.guard.ring import RingReader
slot, ring = SlotWriter.from_environment(), RingReader.from_environment()
while True:
    with open(sys.argv[1], "a") as file:
        for entry in ring.take(1000):
            file.write(json.dumps([entry.sequence, entry.kind, json.loads(entry.payload)]) + "\\n")
    slot.finished("unit", None, time.monotonic_ns() + 1_000_000_000, 0, 0)
    time.sleep(0.01)
"""


def test_the_flight_ring_tells_of_states_workers_and_seconds(
    tmp_path: Path, make: Callable[..., GuardProcess]
) -> None:
    guard, log = make(), tmp_path / "log"
    row = worker_row("monitor", deadline_ms=1000) | {"ring": True, "longest_ms": 5000}
    guard.rows.append(row | {"command": [sys.executable, "-c", READS_THE_RING, str(log)]})
    with guarded(guard):
        guard.arm()
        guard.wait(lambda _: '"permit": true' in log.read_text())
        pid = guard.pid("perception")
        os.kill(pid, signal.SIGKILL)
        latch = guard.reach("SAFE")["latch"]["id"]
        guard.wait(lambda _: latch in log.read_text())
        guard.wait(lambda status: not status["tripped"])
        guard.ask(ask="acknowledge", record=signed(latch))
        guard.ask(ask="arm")
        guard.wait(lambda _: '"refused"' in log.read_text())
        entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [entry[0] for entry in entries] == list(range(1, len(entries) + 1))
    changes = [entry[2] for entry in entries if entry[1] == 1]
    acts = [entry[2] for entry in entries if entry[1] == 4]
    assert {"ask": "acknowledge", "by": "Ann", "note": "looked at it", "latch": latch} in acts
    assert {"ask": "arm"} in acts
    assert any("the request to arm is refused: " in act.get("refused", "") for act in acts)
    assert [change["state"] for change in changes][:4] == ["INIT", "STANDBY", "NOMINAL", "SAFE"]
    assert changes[3] == {"before": "NOMINAL", "state": "SAFE", "causes": ["worker_dead"], "latch": latch}
    workers = [entry[2] for entry in entries if entry[1] == 3 and entry[2]["name"] == "perception"]
    assert [worker["phase"] for worker in workers][:3] == ["starting", "working", "ended"]
    assert (workers[1]["pid"], workers[2]["pid"], workers[2]["exit"]) == (pid, None, -9)
    turn = next(entry[2] for entry in entries if entry[1] == 2 and entry[2]["permit"])
    assert turn["state"] == "NOMINAL"
    assert (turn["mode"], turn["permit"], turn["tripped"], turn["not_evaluated"]) == ("watch", True, "0", "0")
    assert turn["turns"] > 0
    assert turn["late_worst_us"] >= 0


def test_the_status_of_the_largest_table_fits_an_answer(make: Callable[..., GuardProcess]) -> None:
    guard = make()
    guard.rows = [
        worker_row(f"worker {number:08}")
        | {"command": ["/bin/false"], "backoff_ms": 3_600_000, "restarts": 0}
        for number in range(64)
    ]
    guard.profile = PATIENT | {"name": "n" * 200}
    with guarded(guard):
        status = guard.wait(lambda status: all(worker["starts"] == 1 for worker in status["workers"]), 60)
        assert len(status["changes"]) >= 2
        assert (status["limits"], status["boot_id"]) == ("closed", boot_id().hex())
        assert status["lease"] == {"length_ms": 900, "renewal_ms": 10, "late_ms": 800}
        size = len(json.dumps(status))
        # what is not in it yet: causes of each of 16 changes, and sentences about all conditions
        room = 16 * len(json.dumps([c.value for c in Condition])) + sum(
            len(traits.text) + len(condition.value) + 5 for condition, traits in TRAITS.items()
        )
        assert size + room < 60 * 1024


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


def test_a_guard_is_asked_at_a_path_that_no_socket_address_holds(tmp_path: Path) -> None:
    folder = tmp_path / ("a" * 100) / ("b" * 100)
    folder.mkdir(parents=True)
    guard = GuardProcess(folder, PATIENT, [worker_row("perception")])
    with guarded(guard):
        guard.reach("STANDBY")
        with pytest.raises(ConfigError, match="another guard listens"):
            ControlSocket(str(folder / "control"))
        assert guard.end() == 0
    assert not (folder / "control").exists()
    with pytest.raises(NoGuard, match="No such file or directory; is the runtime running"):
        ask(folder / "control", {"ask": "status"})
    with pytest.raises(ConfigError, match=r"cannot listen at .*: AF_UNIX path too long"):
        ControlSocket(str(folder / ("c" * 200)))
    with pytest.raises(ConfigError, match=r"cannot listen at .*: No such file or directory"):
        ControlSocket(str(folder / "none" / "control"))


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


def test_an_arm_whose_latch_file_is_gone_needs_somebody_and_a_camera_does_not(
    make: Callable[..., GuardProcess],
) -> None:
    camera = make()
    with guarded(camera):
        camera.reach("STANDBY")
        assert camera.end() == 0
    (camera.folder / "latch.json").unlink()
    arm = make()
    arm.rows[0] |= {"lives_on": True}  # what a motion gate is to the guard
    with guarded(arm):
        assert arm.reach("SAFE")["latch"]["causes"] == ["latch_unknown"]
        assert arm.end() == 0


def test_a_pause_is_seen_although_somebody_speaks_to_the_guard_meanwhile(
    make: Callable[..., GuardProcess], tmp_path: Path
) -> None:
    made = make()
    made.profile = altered(made.profile, {"late_ms": 500, "paused_ms": 1000, "lease_ms": 900})
    with guarded(made) as guard:
        guard.arm()
        assert guard.process is not None
        pid = guard.process.pid
        os.kill(pid, signal.SIGSTOP)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as adapter:
            until = time.monotonic() + 2.0
            while time.monotonic() < until:
                with contextlib.suppress(OSError):
                    adapter.settimeout(0)
                    adapter.sendto(b'{"ask": "standstill", "moves": false}', str(tmp_path / "control"))
                time.sleep(0.1)
        os.kill(pid, signal.SIGCONT)
        status = guard.wait(lambda status: status["late_worst_us"] >= 1_000_000)
        assert any("guard_paused" in change["causes"] for change in status["changes"])


def test_a_configuration_that_became_a_pipe_is_a_change_and_holds_nobody_up(
    make: Callable[..., GuardProcess], tmp_path: Path
) -> None:
    file = tmp_path / "device.yaml"
    file.write_text("a: 1\n")
    guard = make()
    guard.configuration = [{"path": str(file), "sha256": hashlib.sha256(b"a: 1\n").hexdigest()}]
    with guarded(guard):
        guard.arm()
        file.unlink()
        os.mkfifo(file)
        assert "config_changed" in guard.reach("SAFE")["latch"]["causes"]


def test_a_second_guard_is_refused_although_the_first_ones_socket_is_gone(
    make: Callable[..., GuardProcess], tmp_path: Path
) -> None:
    with guarded(make()) as guard:
        (tmp_path / "control").unlink()
        second = launch(guard.settings(), stderr=subprocess.PIPE)
        _, said = second.communicate(timeout=60)
        assert second.returncode == 2
        assert b"another guard holds" in said
