"""The byte budget: never too little counted, days that come and go, clocks that lie."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edge_runtime.uplink.budget import UPDATES_FILE, UPLINK_FILE, ByteBudget
from tests.uplink.conftest import DAY_S, StandingClock


def make(
    folder: Path, clock: StandingClock, daily: int | None = 100_000, overdraft: float = 0.2
) -> ByteBudget:
    return ByteBudget(folder / "budget.json", daily, overdraft, clock)


def test_what_is_spent_is_refused_and_critical_may_overdraw(tmp_path: Path, clock: StandingClock) -> None:
    budget = make(tmp_path, clock)
    assert budget.claim(100_000)
    assert not budget.claim(1)
    assert budget.claim(20_000, critical=True)
    assert not budget.claim(1, critical=True)
    assert budget.left() == 0
    budget.note(500)
    assert budget.used == 120_500


def test_a_claim_that_does_not_fit_takes_nothing(tmp_path: Path, clock: StandingClock) -> None:
    budget = make(tmp_path, clock)
    assert not budget.claim(100_001)
    assert budget.used == 0


def test_without_a_limit_bytes_are_counted(tmp_path: Path, clock: StandingClock) -> None:
    budget = make(tmp_path, clock, daily=None)
    assert budget.claim(10**12)
    assert budget.left() is None
    assert budget.used == 10**12


def test_a_restart_gives_nothing_back_and_takes_at_most_one_block(
    tmp_path: Path, clock: StandingClock
) -> None:
    budget = make(tmp_path, clock)
    budget.claim(30_100)
    again = make(tmp_path, clock)
    assert 30_100 <= again.used <= 30_100 + 500


@pytest.mark.parametrize("ahead", [DAY_S // 2, DAY_S, 40 * DAY_S])
def test_a_new_day_begins_anew(tmp_path: Path, clock: StandingClock, ahead: int) -> None:
    budget = make(tmp_path, clock)
    budget.claim(90_000)
    clock.go(ahead)
    assert budget.left() == 100_000
    assert make(tmp_path, clock).left() == 100_000


def test_a_day_that_goes_backwards_is_no_new_day(tmp_path: Path, clock: StandingClock) -> None:
    budget = make(tmp_path, clock)
    budget.claim(90_000)
    clock.wall_s -= 3 * DAY_S
    assert budget.left() == 10_000
    assert make(tmp_path, clock).used >= 90_000


def test_after_a_clock_that_was_far_ahead_a_period_lasts_a_day_of_running(
    tmp_path: Path, clock: StandingClock
) -> None:
    clock.wall_s += 50 * 365 * DAY_S
    budget = make(tmp_path, clock)
    budget.claim(90_000)
    clock.wall_s -= 50 * 365 * DAY_S
    assert budget.left() == 10_000
    clock.go(DAY_S - 1)
    assert budget.left() == 10_000
    clock.go(1)
    assert budget.left() == 100_000


def test_without_a_synchronised_clock_midnight_is_nothing(tmp_path: Path, clock: StandingClock) -> None:
    clock.synced = False
    budget = make(tmp_path, clock)
    budget.claim(90_000)
    clock.go(DAY_S - 60)
    assert budget.left() == 10_000
    clock.go(60)
    assert budget.left() == 100_000


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{", b'{"day": -1, "claimed": 0, "ran_ns": 0}', b'{"day": "x"}', b"\xff" * 4000]
)
def test_a_damaged_file_is_said_and_replaced(tmp_path: Path, clock: StandingClock, content: bytes) -> None:
    (tmp_path / "budget.json").write_bytes(content)
    budget = make(tmp_path, clock)
    assert budget.trouble is not None
    assert "damaged" in budget.trouble
    assert budget.claim(10)
    assert make(tmp_path, clock).trouble is None
    assert json.loads((tmp_path / "budget.json").read_bytes())["claimed"] >= 10


def test_a_folder_that_is_gone_is_said_and_bytes_still_count(tmp_path: Path, clock: StandingClock) -> None:
    budget = make(tmp_path / "gone", clock)
    assert budget.claim(99_000)
    assert budget.trouble is not None
    assert not budget.claim(2_000)


class Restarts(RuleBasedStateMachine):
    """Claims and kills in any order: what the file says is never less than what was used in the day."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self._folder = tempfile.TemporaryDirectory()
        self.clock = StandingClock()
        self.used = 0
        self.restarts = 0
        self.budget = make(Path(self._folder.name), self.clock)

    @rule(count=st.integers(0, 30_000), critical=st.booleans())
    def claim(self, count: int, critical: bool) -> None:
        if self.budget.claim(count, critical=critical):
            self.used += count

    @precondition(lambda self: self.restarts < 20)
    @rule()
    def killed(self) -> None:
        self.restarts += 1
        self.budget = make(Path(self._folder.name), self.clock)

    @rule()
    def next_day(self) -> None:
        self.clock.go(DAY_S)
        assert self.budget.used == 0
        self.used = 0

    @invariant()
    def never_more_than_allowed(self) -> None:
        assert self.used <= 120_000
        assert self.used <= self.budget.used <= self.used + 501 * (self.restarts + 1)

    def teardown(self) -> None:
        self._folder.cleanup()


TestRestarts = Restarts.TestCase
TestRestarts.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)


@given(st.integers(0, 200_000), st.integers(0, 200_000))
def test_never_more_than_the_limit_in_two_claims(first: int, second: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        budget = make(Path(folder), StandingClock(), overdraft=0.0)
        taken = sum(count for count in (first, second) if budget.claim(count))
        assert taken <= 100_000


def two(folder: Path, clock: StandingClock, own: int | None = None) -> tuple[ByteBudget, ByteBudget]:
    """Of the uplink and of updates, one day's bytes for both."""
    events, releases = folder / UPLINK_FILE, folder / UPDATES_FILE
    return (
        ByteBudget(events, 100_000, 0.2, clock, beside=releases),
        ByteBudget(releases, 100_000, 0.0, clock, own_bytes=own, beside=events),
    )


def test_two_processes_share_one_day(tmp_path: Path, clock: StandingClock) -> None:
    events, releases = two(tmp_path, clock)
    assert releases.claim(70_000)
    clock.go(10)
    assert 29_500 <= (events.left() or 0) <= 30_000  # a block is claimed ahead
    assert not events.claim(40_000)
    assert events.claim(40_000, critical=True)
    clock.go(10)
    assert releases.left() == 0
    assert not releases.claim(1)
    clock.go(DAY_S)
    assert (events.left(), releases.left()) == (100_000, 100_000)


def test_releases_may_have_less_than_the_day(tmp_path: Path, clock: StandingClock) -> None:
    events, releases = two(tmp_path, clock, own=20_000)
    assert releases.claim(20_000)
    assert not releases.claim(1)
    clock.go(10)
    assert 79_500 <= (events.left() or 0) <= 80_000
    alone = ByteBudget(tmp_path / "alone", None, 0.0, clock, own_bytes=500)
    assert alone.left() == 500
    assert alone.claim(500)
    assert not alone.claim(1)


def test_a_file_of_the_other_process_that_is_damaged_or_of_another_day_counts_nothing(
    tmp_path: Path, clock: StandingClock
) -> None:
    events, releases = two(tmp_path, clock)
    assert releases.claim(70_000)
    clock.go(DAY_S)
    assert events.left() == 100_000
    (tmp_path / UPDATES_FILE).write_text("{")
    clock.go(10)
    assert events.left() == 100_000
