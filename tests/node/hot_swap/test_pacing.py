"""A process that is paced runs for its share of the time, and is left running, or dead, as it would have been."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.node.hot_swap.pacing import paced, pulse

_BUSY = "while True: pass"
RUNS_S, RESTS_S = 0.125, 0.875


@pytest.fixture
def busy() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen([sys.executable, "-c", _BUSY]) as child:
        yield child
        child.kill()


def state(child: "subprocess.Popen[bytes]") -> str:
    """The kernel's letter for it."""
    return Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


def test_it_is_stopped_and_continued_and_runs_on_after_the_block(busy: "subprocess.Popen[bytes]") -> None:
    seen = set[str]()
    with paced(busy, 0.5, 0.02):
        until = time.monotonic() + 60
        while not {"R", "T"} <= seen and time.monotonic() < until:
            seen.add(state(busy))
    assert {"R", "T"} <= seen
    assert state(busy) == "R"


class Turns(threading.Event):
    """Is over after some waits; at each the child has to come to the state in which it should wait."""

    def __init__(self, child: "subprocess.Popen[bytes]", waits: int) -> None:
        super().__init__()
        self._child, self._left = child, waits
        self.waited: list[float | None] = []
        self.stopped: list[bool] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        until = time.monotonic() + 60
        while (state(self._child) == "T") is not (timeout == RESTS_S) and time.monotonic() < until:
            time.sleep(0.001)
        self.stopped.append(state(self._child) == "T")
        self._left -= 1
        return self._left <= 0


def test_it_runs_for_the_one_time_and_is_stopped_for_the_other(busy: "subprocess.Popen[bytes]") -> None:
    turns = Turns(busy, 7)
    descriptor = os.pidfd_open(busy.pid)
    pulse(descriptor, turns, RUNS_S, RESTS_S)
    os.close(descriptor)
    assert turns.waited == [RUNS_S, RESTS_S] * 3 + [RUNS_S]
    assert turns.stopped == [False, True] * 3 + [False]
    assert state(busy) == "R"


def test_the_times_are_its_share_of_the_period(
    busy: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr("edge_runtime.node.hot_swap.pacing.pulse", lambda *given: asked.append(given[2:]))
    with paced(busy, 0.125, 8.0):
        pass
    assert asked == [(1.0, 7.0)]


def test_it_may_end_at_any_time(busy: "subprocess.Popen[bytes]") -> None:
    with paced(busy, 0.1, 0.02):
        time.sleep(0.1)
        busy.kill()
        assert busy.wait(30) == -signal.SIGKILL
        time.sleep(0.1)
    with paced(busy, 1.0):
        pass  # not even looked at


def test_an_error_in_the_block_leaves_it_running(busy: "subprocess.Popen[bytes]") -> None:
    def fails() -> None:
        with paced(busy, 0.1, 0.02):
            time.sleep(0.1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert state(busy) == "R"
