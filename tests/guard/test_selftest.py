"""The self-test of the guard, short: one trial of each fault, with the schedule that every machine gives."""

import json
import subprocess
import sys

import pytest

from edge_runtime.guard.selftest.trials import GUARD_FAULTS, WORKER_FAULTS, Spread


def test_the_spread_of_measurements() -> None:
    found = Spread((4.0, 1.0, 2.0, 3.0)).to_json()
    assert found == {"n": 4, "min": 1.0, "median": 2.5, "p99": 4.0, "max": 4.0}


@pytest.mark.trial
@pytest.mark.timeout(600)
def test_every_fault_is_seen_once_on_this_machine() -> None:
    command = [sys.executable, "-m", "edge_runtime.cli.main", "guard", "selftest", "--trials", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["beyond_deadline_us"]) == set(WORKER_FAULTS)
    assert set(found["motion_gate_close_ms"]) == {f"guard {fault}" for fault in GUARD_FAULTS}
    assert found["sched"] in ("fifo", "other")
