"""2,000 devices through partitions and restarts: both sides count the same, and the server does not grow.

`make soak`; EDGE_SOAK_DEVICES and EDGE_SOAK_MINUTES change how many. `python -m sim.fleet` does the same.
"""

import os
from pathlib import Path

import pytest

from sim.fleet import soak

pytestmark = pytest.mark.soak

DEVICES = int(os.environ.get("EDGE_SOAK_DEVICES", "2000"))


def test_both_sides_of_a_fleet_agree(tmp_path: Path, out: Path, minutes: float) -> None:
    found = soak(tmp_path, out, DEVICES, minutes, every_s=20.0)
    assert not found.problems
