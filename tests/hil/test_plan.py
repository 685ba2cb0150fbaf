"""The plan itself: on the simulated rig in each run of the tests, on real processes among the trials."""

import subprocess
import sys
from pathlib import Path

import pytest

from hil.report.records import RunReport
from hil.report.signing import read_report, report_files
from tests.conftest import REPOSITORY

EVERYWHERE = {
    *("boot", "first_frame", "work", "marker_to_event", "picture_to_event"),
    *("camera_off_reaction", "camera_off_recovery", "camera_stuck_reaction", "camera_dark_reaction"),
    *("perception_killed_reaction", "guard_killed_moving", "guard_back"),
    *("offline_accepted", "offline_missing", "offline_twice", "ledger_balances", "poor_link_missing"),
}
ON_SIM = {"soak_hottest", "soak_late_frames", "update", "update_torn", "update_strange", "update_unfinished"}
ON_LOCAL = {"memory_growth", "descriptor_growth", "golden_vectors", "bytes_per_event"}


def plan(rig: str, folder: Path) -> RunReport:
    """Run it as a person does."""
    command = [sys.executable, "-m", "pytest", "hil", "--rig", rig, "-q", "-p", "no:cacheprovider"]
    places = ["--hil-out", str(folder / "out"), "--hil-state", str(folder / "state")]
    done = subprocess.run([*command, *places], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return read_report(report_files(folder / "out")[-1])


@pytest.mark.timeout(600)
def test_it_passes_on_the_simulated_rig(tmp_path: Path) -> None:
    found = plan("sim", tmp_path)
    assert found.passed
    measured = {one.name for one in found.measurements}
    assert measured >= EVERYWHERE | ON_SIM
    absent = [one.test for one in found.tests if one.outcome == "absent"]
    assert len(absent) == 6, absent


@pytest.mark.trial
@pytest.mark.timeout(3600)
def test_it_passes_on_real_processes(tmp_path: Path) -> None:
    found = plan("local", tmp_path)
    assert found.passed
    assert {one.name for one in found.measurements} >= EVERYWHERE | ON_LOCAL
