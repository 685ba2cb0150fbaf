"""A child ends with its parent, also when that dies before the child has come to its first line."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from edge_runtime.lifeline import told_parent

_CHILD = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as one that hangs
time.sleep(float(sys.argv[1]))
from edge_runtime.lifeline import die_with_parent
die_with_parent()
time.sleep(600)
"""
_PARENT = """
import os, subprocess, sys, time
from edge_runtime.lifeline import told_parent
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], env=told_parent(os.environ))
print(child.pid, flush=True)
time.sleep(600)
"""
_ROOT = Path(__file__).resolve().parent.parent


def test_a_child_whose_parent_died_ends_even_if_it_hangs_or_was_still_starting() -> None:
    for late_s in ("1.0", "0"):
        parent = subprocess.Popen(
            [sys.executable, "-c", _PARENT, _CHILD, late_s], stdout=subprocess.PIPE, cwd=_ROOT
        )
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        parent.stdout.close()
        _, alive = psutil.wait_procs([child], timeout=20)
        assert not alive, f"outlived its parent by starting {late_s} s late"


def test_the_parent_is_told_by_its_number() -> None:
    assert told_parent({"A": "b"}) == {"A": "b", "EDGE_RUNTIME_PARENT": str(os.getpid())}
