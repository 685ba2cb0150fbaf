"""How long a process waited for a processor: by the numbers, and of real processes on a processor of their own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.guard import starving
from edge_runtime.guard.realtime import run_in_real_time
from edge_runtime.guard.starving import Task, tasks_of, waited_ns

SPINS, SLEEPS = "while True: pass", "import time\nwhile True: time.sleep(0.005)"
_TAKES = """
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
until = time.monotonic() + 0.4
while time.monotonic() < until: pass
"""


@pytest.mark.parametrize(
    ("before", "after", "waited"),
    [
        (Task(10, 5, 1, ready=True), Task(10, 5, 1, ready=True), 100),  # no processor at all
        (Task(10, 5, 1, ready=True), Task(40, 9, 1, ready=True), 70),
        (Task(10, 5, 1, ready=True), Task(110, 5, 1, ready=True), 0),  # a busy loop
        (Task(10, 5, 1, ready=True), Task(111, 5, 1, ready=True), 0),  # read a moment later
        (Task(10, 5, 1, ready=False), Task(10, 5, 1, ready=True), 100),  # woken, and not let run
        (Task(10, 5, 1, ready=False), Task(11, 8, 1, ready=True), 3),
        (Task(10, 5, 1, ready=True), Task(40, 9, 2, ready=True), 4),  # it slept: what the kernel counted
        (Task(10, 5, 1, ready=True), Task(10, 5, 1, ready=False), 0),  # blocked, or stopped
        (Task(10, 5, 1, ready=False), Task(10, 5, 1, ready=False), 0),
    ],
)
def test_the_wait_of_one_thread(before: Task, after: Task, waited: int) -> None:
    assert waited_ns({7: before}, {7: after}, 100) == waited


def test_threads_that_were_not_there_at_both_looks_do_not_count() -> None:
    one = Task(10, 5, 1, ready=True)
    assert waited_ns({1: one, 2: one}, {2: Task(90, 7, 1, ready=True), 3: one}, 100) == 20


def test_a_process_that_is_gone_has_none_that_could_be_told() -> None:
    done = subprocess.Popen(["true"])
    done.wait()
    assert tasks_of(done.pid) is None


@pytest.fixture
def processor() -> Iterator[int]:
    """The last of this machine's; this test runs before all that takes it."""
    fact = run_in_real_time(10)
    if not fact.done:
        pytest.skip(f"needs a real-time schedule: {fact.text}")
    yield max(os.sched_getaffinity(0))
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def share_waited(script: str, processor: int, *, taken: bool, number: signal.Signals | None = None) -> float:
    """Of the time in which the processor is taken or not, how much a process with this script waited."""
    worker = subprocess.Popen([sys.executable, "-c", script])
    taking = None
    try:
        os.sched_setaffinity(worker.pid, {processor})
        time.sleep(0.3)
        if taken:
            taking = subprocess.Popen([sys.executable, "-c", _TAKES])
            while os.sched_getscheduler(taking.pid) != os.SCHED_FIFO:  # it takes the processor from then on
                time.sleep(0.01)
            os.sched_setaffinity(taking.pid, {processor})
            time.sleep(0.05)
        if number is not None:
            worker.send_signal(number)
            time.sleep(0.02)
        before, since_ns = tasks_of(worker.pid), time.monotonic_ns()
        time.sleep(0.1)
        after, gap_ns = tasks_of(worker.pid), time.monotonic_ns() - since_ns
        assert before is not None
        assert after is not None
        return waited_ns(before, after, gap_ns) / gap_ns
    finally:
        for process in (worker, taking):
            if process is not None:
                process.kill()
                process.wait()


@pytest.mark.parametrize("script", [SPINS, SLEEPS])
def test_a_process_whose_processor_is_taken_waits_all_the_time(script: str, processor: int) -> None:
    assert share_waited(script, processor, taken=True) > 0.9


def test_one_that_was_stopped_does_not_wait(processor: int) -> None:
    assert share_waited(SPINS, processor, taken=False, number=signal.SIGSTOP) < 0.1


def test_what_the_kernel_says_of_a_thread() -> None:
    """A thread may have a name that is no text."""
    names = "open('/proc/self/comm', 'wb', 0).write(b'\\xff\\xfe')"
    code = f"import threading; {names}; print('on', flush=True); threading.Event().wait(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            assert (Path("/proc") / str(child.pid) / "comm").read_bytes() == b"\xff\xfe\n"
            found: dict[int, Task] | None = {}
            while found is not None and (child.pid not in found or found[child.pid].sleeps < 1):
                found = tasks_of(child.pid)  # it goes to sleep, once it comes to that
            assert found is not None
            assert found.keys() == {child.pid}
            status = (Path("/proc") / str(child.pid) / "status").read_bytes().splitlines()
            slept = next(line for line in status if line.startswith(b"voluntary_ctxt_switches"))
            assert 0 < found[child.pid].sleeps <= int(slept.split()[1])
            assert found[child.pid].ran_ns > 0
        finally:
            child.kill()


def test_a_kernel_that_does_not_count_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    read = starving._read

    def old(path: str) -> str:
        return "\n".join(line for line in read(path).splitlines() if not line.startswith("voluntary"))

    monkeypatch.setattr(starving, "_read", old)
    found = tasks_of(os.getpid())
    assert found is not None
    assert found[os.getpid()].sleeps == -1
