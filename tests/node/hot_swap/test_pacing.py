"""A process that is paced runs for its share of the time, and is left running, or dead, as it would have been."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from edge_runtime.node.hot_swap.pacing import paced

_BUSY = "while True: pass"


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


def test_what_is_stopped_takes_no_more_than_its_share(busy: "subprocess.Popen[bytes]") -> None:
    """Each of its turns is measured by the same clock as the whole, so a slow machine changes both."""
    process, began = psutil.Process(busy.pid), time.monotonic()
    with paced(busy, 0.1, 0.2):
        before = process.cpu_times()
        time.sleep(2)
        after = process.cpu_times()
    taken = (after.user - before.user) + (after.system - before.system)
    assert 0 < taken < 0.5 * (time.monotonic() - began)


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
