"""The updates of a simulated device: the runtime's own machine takes, keeps and takes back what the rig assigns."""

from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_S
from sim.scenario.records import Protection
from sim.simulated.clock import SimClock
from sim.simulated.director import PROBATION
from sim.simulated.updates import SimUpdates


class Bench:
    """One device's updates, and its time."""

    def __init__(self, folder: Path, *without: Protection) -> None:
        self.clock = SimClock()
        self.updates = SimUpdates(folder / "updates", self.clock, frozenset(without))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds * 2)):
            self.clock.advance(NS_PER_S // 2)
            self.updates.step()

    def runs(self) -> str | None:
        """The release in use."""
        return self.updates.runs

    def ends(self) -> tuple[int, int]:
        """How many were kept, and taken back."""
        return self.updates.kept, self.updates.taken_back


def test_a_good_release_is_kept_and_a_bad_one_is_taken_back_to_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.updates.assign(0.0)
    bench.run(20)
    good = bench.updates.runs
    assert good is not None
    assert bench.ends() == (0, 0), "it has yet to prove itself"
    bench.run(PROBATION.seconds)
    assert bench.ends() == (1, 0)
    bench.updates.assign(0.3)
    bench.run(60)
    assert bench.ends() == (1, 1)
    assert bench.updates.runs == good
    assert 0 < bench.updates.bad_ns < 10 * NS_PER_S


@pytest.mark.parametrize("at_s", [1, 3, 5, 7, 10, 20, 35])
def test_a_reboot_at_any_time_changes_no_end(tmp_path: Path, at_s: int) -> None:
    bench = Bench(tmp_path)
    bench.updates.assign(0.0)
    bench.run(at_s)
    bench.updates.power_off()
    bench.run(10)
    assert bench.ends() == (0, 0) or at_s > PROBATION.seconds
    bench.updates.boot()
    bench.run(120)
    assert bench.ends() == (1, 0)
    assert bench.updates.runs is not None


def test_what_nobody_judges_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "probation")
    bench.updates.assign(1.0)
    bench.run(90)
    assert bench.ends() == (1, 0)
    assert bench.updates.bad_ns > 60 * NS_PER_S


def test_a_trial_that_the_disk_forgot_is_no_trial(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "journal")
    bench.updates.assign(0.0)
    bench.run(20)
    assert bench.runs() is not None
    bench.updates.power_off()
    bench.updates.boot()
    assert bench.runs() is None
    bench.run(60)
    assert bench.ends() == (0, 1)
