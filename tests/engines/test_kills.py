"""kill -9 before every step of everything that the store writes: afterwards it gives a whole engine, or none."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.engines.killing import CASES

FEWEST = {
    "first": 30,
    "replaced": 30,
    "quota": 35,
    "quarantined": 20,
    "pruned": 8,
    "held": 12,
    "timing": 12,
    "loading": 30,
    "failure": 12,
}
"""Steps that each operation has at least: a count of zero would prove nothing."""


@pytest.mark.timeout(600)  # a second or two, on a machine that does nothing else
@pytest.mark.parametrize("case", CASES)
def test_killed_at_each_step_it_leaves_a_whole_engine_or_none(case: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.engines.killing", str(tmp_path), case],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= FEWEST[case], done.stdout
