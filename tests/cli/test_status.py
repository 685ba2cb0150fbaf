"""`edge-runtime status`: one screen within 80 columns, of a real guard, an outbox, or of nothing that answers."""

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from edge_runtime.cli.guard_orders import steps_out, waited
from edge_runtime.cli.state_option import repeated
from edge_runtime.cli.status_screen import exit_word, fitted, status_lines
from edge_runtime.cli.status_sources import DeviceStatus, gather
from edge_runtime.clock import SystemClock
from edge_runtime.guard.conditions import BY_BIT
from edge_runtime.guard.latch import LatchFile
from edge_runtime.guard.memory import Latch, Record, State
from edge_runtime.guard.permission import LATCH_FILE
from edge_runtime.health import Reading
from edge_runtime.health.reading import unknown
from edge_runtime.node.camera_board import ModelStanding
from edge_runtime.node.way_out import WayOut, WayState
from edge_runtime.outbox import Outbox, OutboxSettings
from edge_runtime.protocol.operation import CameraHealth
from edge_runtime.state import StateDirectory
from tests.rigs.guarded import GuardProcess
from tests.rigs.guarded_state import guarded_state
from tests.rigs.terminal import Terminal

Cli = Callable[..., Any]
Device = tuple[StateDirectory, GuardProcess]


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    with guarded_state(tmp_path) as found:
        found[1].reach("STANDBY")
        yield found


def test_the_screen_says_whether_it_may_move_and_what_to_type(cli: Cli, device: Device) -> None:
    state, guard = device
    option = f"--state {state.path}"
    stands_by = cli("status", "--state", state.path)
    assert stands_by.code == 0
    lines = stands_by.out.splitlines()
    assert lines[0].startswith(" STANDBY   for ")
    assert "nothing may move" in lines[0]
    assert "edge-runtime guard arm" in lines[2]
    assert max(len(line) for line in lines if "--state" not in line) <= 80
    guard.arm()
    moves = cli("status", "--once", "--state", state.path)
    assert moves.code == 0
    assert "may move: mode watch" in moves.out.splitlines()[0]
    (row,) = [line for line in moves.out.splitlines() if line.startswith("perception")]
    assert row.split()[1] == "working"
    assert row.split()[-2:] == ["1", "-"]
    os.kill(guard.pid("perception"), signal.SIGKILL)
    latch = guard.reach("SAFE")["latch"]["id"]
    stopped = cli("status", "--state", state.path)
    assert stopped.code == 3
    lines = stopped.out.splitlines()
    assert lines[1] == "             a worker process ended (worker_dead)"
    assert lines[3:5] == [
        f"  edge-runtime guard ack --latch {latch} --key FILE \\",
        f"      {option}",
    ]
    assert stopped.out.startswith(" SAFE   for ")
    assert "SIGKILL" in stopped.out


def test_what_does_not_answer_is_null_with_a_reason(cli: Cli, device: Device) -> None:
    state, _ = device
    found = cli("status", "--json", "--state", state.path)
    assert found.code == 0
    record = json.loads(found.out)
    assert record["guard"]["state"] == "STANDBY"
    assert record["health"]["memory"]["total_bytes"] > 0
    assert record["outbox"] is record["cameras"] is record["models"] is record["way_out"] is None
    assert record["unknown"] == {
        "outbox": "the configuration delivers nothing, so there is no queue",
        "cameras": "no camera has been heard of for 20 s",
        "models": "no model has been heard of for 20 s",
        "way_out": "the configuration delivers nothing, so no server is spoken to",
    }


def test_without_a_guard_the_rest_is_told_all_the_same(cli: Cli, tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    found = cli("status", "--state", state.path)
    assert found.code == 1
    assert found.err == ""
    assert found.out.startswith(" NO GUARD ANSWERS \n")
    text = " ".join(found.out.split())
    assert "No such file or directory; is the runtime running?" in text
    assert "the outbox does not answer" in text
    assert "not enrolled, nothing is sent" in text
    assert "memory" in text
    record = json.loads(cli("status", "--json", "--state", state.path).out)
    assert record["guard"] is None
    assert record["way_out"]["state"] == "not_enrolled"
    assert set(record["unknown"]) == {"guard", "outbox", "cameras", "models"}


@pytest.mark.parametrize(
    ("permitting", "said"), [(False, "latch 0123456789ab"), (True, "while motion was permitted")]
)
def test_without_a_guard_the_latch_on_the_disk_is_told(
    permitting: bool, said: str, cli: Cli, tmp_path: Path
) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    latch = Latch("0123456789ab", State.SAFE, 1, 0)
    LatchFile(state.guard / LATCH_FILE).save(Record(latch, (0,), "boot"), permitting=permitting)
    before = (state.guard / LATCH_FILE).read_bytes()
    assert said in " ".join(cli("status", "--state", state.path).out.split())
    assert (state.guard / LATCH_FILE).read_bytes() == before


def test_a_frozen_guard_is_said_to_be_one(cli: Cli, device: Device) -> None:
    state, guard = device
    assert guard.process is not None
    guard.process.send_signal(signal.SIGSTOP)
    found = cli("status", "--state", state.path)
    guard.process.send_signal(signal.SIGCONT)
    assert found.code == 1
    assert "it may be stopped or too busy" in " ".join(found.out.split())


def test_a_guard_of_another_version_is_no_traceback(cli: Cli, tmp_path: Path) -> None:
    state = StateDirectory(tmp_path / "state").ensure()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(state.guard_socket))

        def answer() -> None:
            for _ in range(2):
                _, sender = other.recvfrom(4096)
                other.sendto(b'{"state": "NOMINAL", "workers": []}', sender)

        answering = threading.Thread(target=answer, daemon=True)
        answering.start()
        found = cli("status", "--state", state.path)
        assert found.code == 1
        assert "is of another version than this command; restart the runtime" in " ".join(found.out.split())
        armed = cli("guard", "arm", "--state", state.path)
        assert (armed.code, "another version" in armed.err) == (1, True)
        answering.join(10)


def full(tmp_path: Path, **changes: Any) -> DeviceStatus:
    """A device of which everything answers."""
    state = StateDirectory(tmp_path / "state").ensure()
    found = gather(state, SystemClock())
    with_outbox = Outbox(state.outbox, OutboxSettings(), SystemClock())
    try:
        outbox = with_outbox.status()
    finally:
        with_outbox.close()
    guard = {
        "device": "robot-1",
        "state": "DEGRADED",
        "since_ms": 90_000,
        "mode": "slow",
        "limits": "half",
        "permit": True,
        "lease_ms": 31,
        "latch": None,
        "arms_itself": False,
        "changes": [
            {"ago_ms": 300_000, "before": "SAFE", "state": "RECOVERY", "causes": [], "latch": None},
            {"ago_ms": 200_000, "before": "RECOVERY", "state": "STANDBY", "causes": [], "latch": None},
            {"ago_ms": 150_000, "before": "STANDBY", "state": "NOMINAL", "causes": [], "latch": None},
            {"ago_ms": 90_000, "before": "NOMINAL", "state": "DEGRADED", "causes": ["soc_hot"], "latch": None},
        ],
        "tripped": ["soc_hot", "pose_stale"],
        "not_evaluated": ["pose_stale"],
        "workers": [
            {
                "name": "perception", "phase": "unkillable", "pid": 12345, "starts": 3, "last_exit": -11,
                "stage": "evaluate", "age_ms": 12_000, "fault": "stale_echo",
                "crash_loop": True,
            }
        ],
        "late_worst_us": 80,
        "turns": 12345,
        "waits": "the conditions to clear",
        "facts": {"sched_fifo": True, "memory_locked": True},
        "sentences": ["DEGRADED, from NOMINAL: the processor is hot (soc_hot)", "the request is refused"],
    }  # fmt: skip
    cameras = tuple(
        CameraHealth(name=f"camera-{number}", state="running", evaluated=10, dropped=1, age_ms=33.4)
        for number in range(10)
    )
    models = (
        ModelStanding(name="detector", backend="tensorrt 10.3.0", effective="tensorrt"),
        ModelStanding(name="faces", backend="onnxruntime 1.32.0", effective="cpu", degraded="no engine"),
    )
    fields: dict[str, Any] = {
        "guard": Reading({**guard, **changes}),
        "health": found.health,
        "outbox": Reading(outbox),
        "cameras": Reading(cameras),
        "models": Reading(models),
        "way_out": Reading(WayOut(WayState.CUT_OFF, "the certificate has expired; it never answered")),
    }
    return DeviceStatus(**fields)


def test_a_model_says_which_release_it_runs_and_what_was_given_up_for_it(tmp_path: Path) -> None:
    model = ModelStanding(
        name="detector", backend="onnxruntime 1.32.0", effective="cpu", release="a" * 64, given_up="b" * 64
    )
    lines = [line.plain for line in status_lines(replace(full(tmp_path), models=Reading((model,))))]
    (row,) = [line for line in lines if line.startswith("models")]
    assert "release aaaaaaaaaaaa" in row
    assert any("release bbbbbbbbbbbb was given up for it at the start" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_full_screen_fits_80_columns_and_names_everything(tmp_path: Path) -> None:
    lines = [line.plain for line in status_lines(full(tmp_path))]
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert lines[0] == " DEGRADED   for 90 s  may move: mode slow, limits half, lease 31 ms  robot-1"
    for part in (
        "             the processor is hot (soc_hot)",
        "waits for    the conditions to clear",
        "holds now    soc_hot",
        "             not evaluated: pose_stale",
        "unkillable    12345  evaluate            12 s       3  SIGSEGV",
        "last said    the request is refused",
        "changes      90 s ago NOMINAL → DEGRADED (soc_hot)",
        "             2 min ago STANDBY → NOMINAL",
        "             3 min ago RECOVERY → STANDBY",
        "perception: ends again and again; tried again after pauses",
        "perception: its slot is stale echo",
        "guard        late by 0.08 ms at worst · 12345 turns · in real time",
        "queue        healthy · 0 queued · 0% of its room",
        "cameras      camera-0 · running · age 33 ms · 10 evaluated · 1 dropped",
        "and 2 more",
        "models       detector · on tensorrt · tensorrt 10.3.0",
        "             faces · on cpu · onnxruntime 1.32.0",
        "             no engine",
        "server       cut off: the certificate has expired; it never answered",
    ):
        assert part in text, text
    assert "from NOMINAL" not in text
    assert "SAFE" not in text


def test_many_causes_are_counted(tmp_path: Path) -> None:
    causes = [condition.value for condition in BY_BIT[:9]]
    change = {"ago_ms": 1, "before": "NOMINAL", "state": "STOPPED", "causes": causes, "latch": None}
    waits = "everything evaluated and well for 3000 ms"
    stopped = full(tmp_path, state="STOPPED", permit=False, changes=[change], waits=waits)
    lines = [line.plain.strip() for line in status_lines(stopped)]
    assert " ".join(lines[1:6]) == (
        "a worker process ended (worker_dead) a worker finished no work within its deadline (worker_hung) "
        "a worker did not finish its first work in time (worker_start_timeout) and 6 more"
    )
    assert "worker_dead, worker_hung," in "\n".join(lines)
    assert "waits for    everything evaluated and well for 3000 ms" in lines


def test_a_command_that_is_too_long_can_be_copied_all_the_same(tmp_path: Path) -> None:
    standing_by = full(tmp_path, state="STANDBY", permit=False)
    short = [line.plain for line in status_lines(standing_by, " --state /s")]
    assert "  edge-runtime guard arm --state /s" in short
    place = "/var/lib/" + "x" * 60
    long = [line.plain for line in status_lines(standing_by, f" --state {place}")]
    at = long.index("  edge-runtime guard arm \\")
    assert long[at + 1] == f"      --state {place}"
    assert "  edge-runtime guard arm" in [line.plain for line in status_lines(standing_by)]


def test_the_state_directory_of_the_environment_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_STATE", "/var/lib/one")
    assert repeated(None) == repeated(Path("/var/lib/one")) == ""
    assert repeated(Path("/var/lib/two of them")) == " --state '/var/lib/two of them'"


def test_a_low_terminal_says_how_much_it_does_not_show() -> None:
    lines = [Text(str(number)) for number in range(30)]
    assert fitted(lines, 30) == lines
    shown = [line.plain for line in fitted(lines, 24)]
    assert len(shown) == 24
    assert shown[-2:] == ["22", "and 7 more lines: --once prints all"]
    assert len(fitted(lines, 1)) == len(fitted(lines, 0)) == 1


def test_what_real_time_lacks_is_named(tmp_path: Path) -> None:
    facts = {"sched_fifo": False, "memory_locked": True}
    text = "\n".join(line.plain for line in status_lines(full(tmp_path, facts=facts)))
    assert "without sched_fifo" in text
    text = "\n".join(line.plain for line in status_lines(full(tmp_path, facts={})))
    assert "real time not asked for" in text


def test_the_code_follows_the_state(tmp_path: Path) -> None:
    codes = {state: full(tmp_path, state=state).exit_code for state in (found.value for found in State)}
    assert codes == {
        "NOMINAL": 0, "DEGRADED": 0, "STANDBY": 0,
        "INIT": 3, "STOPPED": 3, "SAFE": 3, "RECOVERY": 3, "LOCKOUT": 3,
    }  # fmt: skip
    none = DeviceStatus(*(unknown("none"),) * 6)
    assert none.exit_code == 1


def test_the_way_out_of_a_latch_is_what_its_strictest_cause_takes() -> None:
    def steps(state: str, *causes: str) -> list[str]:
        latch = {"id": "ab", "causes": list(causes), "since_ms": 1}
        status = {"state": state, "latch": latch, "arms_itself": False}
        return [step.split()[2] for step in steps_out(status)]

    assert steps("SAFE", "worker_dead") == ["ack", "arm"]
    assert steps("SAFE", "worker_dead", "config_changed") == ["reset", "ack", "arm"]
    assert steps("LOCKOUT", "worker_dead") == ["reset", "ack", "arm"]
    assert steps("SAFE", "of a newer version") == ["ack", "arm"]
    for state, arms_itself, commands in (("NOMINAL", False, 0), ("STANDBY", False, 1), ("STANDBY", True, 0)):
        assert len(steps_out({"state": state, "latch": None, "arms_itself": arms_itself})) == commands


def test_of_a_body_that_cannot_move_nobody_is_told_to_arm_it(tmp_path: Path) -> None:
    still = full(tmp_path, arms_itself=True, state="STANDBY", permit=False, mode="watching")
    text = "\n".join(line.plain for line in status_lines(still))
    assert "a body that cannot move, mode watching" in text
    assert "edge-runtime guard" not in text


@pytest.mark.parametrize(
    ("code", "word"), [(None, "-"), (0, "0"), (2, "2"), (-9, "SIGKILL"), (-99, "signal 99")]
)
def test_exits_are_told_by_name(code: int | None, word: str) -> None:
    assert exit_word(code) == word


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0.0 s"),
        (9_940, "9.9 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_200_000, "2 h"),
        (10**9, "11 d"),
    ],
)
def test_times_are_told_in_a_unit_that_fits(milliseconds: int, text: str) -> None:
    assert waited(milliseconds) == text


def test_the_screen_on_a_real_terminal_is_renewed_until_ctrl_c(device: Device) -> None:
    state, guard = device
    with Terminal("status", "--state", str(state.path), lines=40) as terminal:
        terminal.until("STANDBY")
        guard.arm()
        terminal.until("NOMINAL")
        terminal.interrupt()
        terminal.until("\x1b[?1049l")
        terminal.until("NOMINAL")  # what it last showed stays
        assert terminal.code() == 0
