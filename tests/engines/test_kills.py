"""kill -9 before every step of everything that the store writes: afterwards it gives a whole engine, or none."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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


@pytest.fixture(scope="module")
def outcomes() -> Mapping[str, tuple[int, str | None]]:
    """Steps of each operation, and what was wrong. One process for all: its start takes longer than most."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.engines.killing", folder],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return {name: (steps, wrong) for name, steps, wrong in map(json.loads, done.stdout.splitlines())}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_killed_at_each_step_it_leaves_a_whole_engine_or_none(
    case: str, outcomes: Mapping[str, tuple[int, str | None]]
) -> None:
    steps, wrong = outcomes[case]
    assert wrong is None
    assert steps >= FEWEST[case]
