"""A device's clocks in the hand of a test; where there is no compiler a laptop skips and CI fails."""

from pathlib import Path

import pytest

from sim.local import stepped_clock


class SteppedClock(stepped_clock.SteppedClock):
    """See `sim.local.stepped_clock`."""

    def __init__(self, folder: Path) -> None:
        if stepped_clock.compiler() is None:
            pytest.skip("needs a C compiler: apt-get install gcc")
        super().__init__(folder)
