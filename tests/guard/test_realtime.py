"""What is asked of the kernel, and what is said when it refuses."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.guard import realtime
from edge_runtime.guard.realtime import Fact

ASK = """
import gc, json, os, sys
from edge_runtime.guard import realtime
facts = (*realtime.stay_on_time(), *realtime.come_first(10, 500))
status = open("/proc/self/status").read()
print(json.dumps({
    "facts": {fact.name: [fact.done, fact.text] for fact in facts},
    "order": [fact.name for fact in facts],
    "policy": os.sched_getscheduler(0),
    "gc": gc.isenabled(), "frozen": gc.get_freeze_count() > 1000,
    "oom": int(open("/proc/self/oom_score_adj").read()),
    "locked_kib": int(status.split("VmLck:")[1].split()[0]),
    "child": os.popen("grep ^policy /proc/self/sched").read(),
}))
"""


def test_it_holds_what_it_says() -> None:
    came = json.loads(subprocess.run([sys.executable, "-c", ASK], check=True, capture_output=True).stdout)
    facts = came["facts"]
    assert came["order"] == ["gc_off", "timer_slack", "memory_locked", "oom_score_adj", "sched_fifo"]
    assert facts["gc_off"] == [True, "the garbage collector is off"]
    assert not came["gc"]
    assert came["frozen"]
    assert facts["timer_slack"] == [True, "timers end within 1 ns of what was asked"]
    assert facts["oom_score_adj"][0]
    assert came["oom"] == 500
    assert (came["locked_kib"] > 1000) is facts["memory_locked"][0]
    real_time = came["policy"] & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
    assert real_time is facts["sched_fifo"][0]


def test_a_priority_that_does_not_exist_is_a_fact() -> None:
    fact = realtime.run_in_real_time(1000)
    assert not fact.done
    assert fact.text == (
        "runs as an ordinary process: Invalid argument; allow real time (CAP_SYS_NICE or LimitRTPRIO)"
    )


def test_without_the_right_it_runs_as_an_ordinary_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("edge_runtime.guard.realtime.os.sched_setscheduler", no)
    assert realtime.run_in_real_time(10) == Fact(
        "sched_fifo",
        done=False,
        text="runs as an ordinary process: Operation not permitted; allow real time (CAP_SYS_NICE or LimitRTPRIO)",
    )


def test_memory_is_not_locked_where_a_limit_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65536, 65536))
    monkeypatch.setattr(realtime, "_may_lock", lambda: False)
    assert realtime.lock_memory() == Fact(
        "memory_locked",
        done=False,
        text="memory can be swapped out: only 64 KiB may be locked; allow it (LimitMEMLOCK=infinity)",
    )


@pytest.mark.parametrize(("limit", "may"), [(resource.RLIM_INFINITY, False), (65536, True)])
def test_a_refusal_of_the_kernel_is_its_reason(
    monkeypatch: pytest.MonkeyPatch, limit: int, may: bool
) -> None:
    asked: list[tuple[object, ...]] = []

    def call(*arguments: object) -> str:
        asked.append(arguments)
        return "Cannot allocate memory"

    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    monkeypatch.setattr(realtime, "_may_lock", lambda: may)
    monkeypatch.setattr(realtime, "_call", call)
    assert realtime.lock_memory().text == "memory can be swapped out: Cannot allocate memory"
    assert realtime.set_timer_slack(7).text == "timers keep their slack: Cannot allocate memory"
    assert not realtime.lock_memory().done
    assert asked[:2] == [("mlockall", 3), ("prctl", 29, 7, 0, 0, 0)]


def test_the_score_for_memory_shortage(tmp_path: Path) -> None:
    path = tmp_path / "oom_score_adj"
    assert realtime.adjust_oom_score(-1000, str(path)) == Fact(
        "oom_score_adj", done=True, text="oom_score_adj is -1000"
    )
    assert path.read_text() == "-1000\n"
    fact = realtime.adjust_oom_score(-1000, str(tmp_path / "missing" / "file"))
    assert fact == Fact("oom_score_adj", done=False, text="oom_score_adj stays: No such file or directory")


def test_the_right_to_lock_is_read_from_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realtime, "_STATUS", str(tmp_path / "status"))
    for text, may in (
        ("CapEff:\t0000000000004000\n", True),
        ("Name:\tx\nCapEff:\t0000000000003fff\n", False),
        ("", False),
    ):
        (tmp_path / "status").write_text(text)
        assert realtime._may_lock() is may

    (tmp_path / "status").unlink()
    assert realtime._may_lock() is False


def test_calls_of_the_c_library_say_why_not() -> None:
    assert (
        realtime._call("no_such_call_of_the_c_library")
        == "the C library has no no_such_call_of_the_c_library"
    )
    assert realtime._call("prctl", 99999, 0, 0, 0, 0) == "Invalid argument"
    assert realtime._call("sched_yield") == ""
