"""Deadlines on the boot clock; the wall clock is believed only about the time without power, and only with care."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_S
from edge_runtime.outbox import Outbox
from edge_runtime.outbox.books import Books
from edge_runtime.outbox.queue_time import MAX_OFF_MS, QueueTime, Verdict
from tests.rigs.outbox import BootClock, opened, quiet_settings, receipt, submission

HOUR = 3600
YEAR = 365 * 86_400
SETTINGS = quiet_settings(jump_confirm_s=60)


@pytest.fixture
def clock() -> BootClock:
    return BootClock()


def left_s(outbox: Outbox) -> list[int]:
    return [round(entry.left_ms / 1000) for entry in outbox.queued(100)]


def fill(outbox: Outbox, ttl_s: float = HOUR, number: int = 10) -> None:
    outbox.put([submission(n, ttl_s=ttl_s) for n in range(number)])
    outbox.upkeep_now()


def after_reboot(
    path: Path,
    clock: BootClock,
    *,
    off_s: float,
    ttl_s: float = HOUR,
    wall_error_s: float = 0,
    synced: bool = True,
) -> Iterator[Outbox]:
    """Ten events, a reboot after `off_s` without power, and a wall clock that is wrong by so much."""
    with opened(path, clock, SETTINGS) as outbox:
        fill(outbox, ttl_s)
    clock.reboot(off_s)
    clock.unix_ns += round(wall_error_s * NS_PER_S)
    clock.synced = synced
    with opened(path, clock, SETTINGS) as outbox:
        outbox.upkeep_now()
        yield outbox


@pytest.mark.parametrize("step_s", [-HOUR, 50, 14 * 86_400, 50 * YEAR, -40 * YEAR])
@pytest.mark.parametrize("synced", [True, False])
def test_no_step_inside_a_boot_moves_a_deadline(
    tmp_path: Path, clock: BootClock, step_s: int, synced: bool
) -> None:
    with opened(tmp_path, clock, SETTINGS) as outbox:
        fill(outbox)
        clock.unix_ns += step_s * NS_PER_S
        clock.synced = synced
        for _ in range(5):
            clock.pass_s(61)
            outbox.upkeep_now()
        assert left_s(outbox) == [HOUR - 305] * 10
        clock.pass_s(HOUR - 305)
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 10


def test_the_time_without_power_counts_once_the_clock_is_synchronised(
    tmp_path: Path, clock: BootClock
) -> None:
    for outbox in after_reboot(tmp_path, clock, off_s=600):
        assert left_s(outbox) == [HOUR - 610] * 10


def test_1970_at_boot_then_ntp(tmp_path: Path, clock: BootClock) -> None:
    """Nothing is done until the clock is synchronised; then the time without power is made up for."""
    for outbox in after_reboot(tmp_path, clock, off_s=600, wall_error_s=-50 * YEAR, synced=False):
        assert left_s(outbox) == [HOUR - 10] * 10
        clock.pass_s(60)
        clock.unix_ns += 50 * YEAR * NS_PER_S
        clock.synced = True
        outbox.upkeep_now()
        assert left_s(outbox) == [HOUR - 670] * 10


def test_an_hour_back_over_a_reboot_adds_nothing(tmp_path: Path, clock: BootClock) -> None:
    for outbox in after_reboot(tmp_path, clock, off_s=600, wall_error_s=-HOUR):
        assert left_s(outbox) == [HOUR - 10] * 10
        for _ in range(4):
            clock.pass_s(61)
            outbox.upkeep_now()
        assert left_s(outbox) == [HOUR - 254] * 10


def test_a_jump_that_would_expire_much_waits_for_two_confirmations(tmp_path: Path, clock: BootClock) -> None:
    for outbox in after_reboot(tmp_path, clock, off_s=2 * HOUR):
        assert left_s(outbox) == [HOUR - 10] * 10
        assert "waits for confirmation" in " ".join(outbox.status().sentences)
        clock.pass_s(30)
        outbox.upkeep_now()  # too soon to confirm anything
        clock.pass_s(31)
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 0
        clock.pass_s(61)
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 10
        assert outbox.status().sentences == ()


def test_readings_that_disagree_confirm_nothing(tmp_path: Path, clock: BootClock) -> None:
    for outbox in after_reboot(tmp_path, clock, off_s=2 * HOUR):
        for _ in range(6):
            clock.pass_s(61)
            clock.unix_ns += 20 * NS_PER_S
            outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 0


def test_fifty_years_ahead_are_believed_from_the_server_alone(tmp_path: Path, clock: BootClock) -> None:
    for outbox in after_reboot(tmp_path, clock, off_s=600, wall_error_s=50 * YEAR):
        for _ in range(5):
            clock.pass_s(61)
            outbox.upkeep_now()
        assert left_s(outbox) == [HOUR - 315] * 10
        epoch = outbox.sync_point().epoch
        truth = clock.unix_ns - 50 * YEAR * NS_PER_S
        outbox.settle(epoch, receipt(epoch, wall_ns=truth))
        assert left_s(outbox) == [HOUR - 915] * 10


def test_the_server_confirms_at_once(tmp_path: Path, clock: BootClock) -> None:
    for outbox in after_reboot(tmp_path, clock, off_s=2 * HOUR):
        epoch = outbox.sync_point().epoch
        outbox.settle(epoch, receipt(epoch, wall_ns=clock.unix_ns))
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 10


def test_the_server_alone_tells_the_time_without_power(tmp_path: Path, clock: BootClock) -> None:
    """A device without NTP: its clock was never synchronised, in either boot."""
    clock.synced = False
    with opened(tmp_path, clock, SETTINGS) as outbox:
        fill(outbox)
        epoch = outbox.sync_point().epoch
        outbox.settle(epoch, receipt(epoch, wall_ns=clock.unix_ns))
    clock.reboot(600)
    with opened(tmp_path, clock, SETTINGS) as outbox:
        assert left_s(outbox) == [HOUR - 10] * 10
        outbox.settle(epoch, receipt(epoch, wall_ns=clock.unix_ns))
        assert left_s(outbox) == [HOUR - 610] * 10


def test_a_few_that_expire_need_no_confirmation(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, SETTINGS) as outbox:
        outbox.put([submission(n, ttl_s=60 if n < 2 else HOUR) for n in range(10)])
        outbox.upkeep_now()
    clock.reboot(600)
    with opened(tmp_path, clock, SETTINGS) as outbox:
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 2


def test_a_restart_in_the_same_boot_needs_no_wall_clock(tmp_path: Path, clock: BootClock) -> None:
    clock.synced = False
    with opened(tmp_path, clock, SETTINGS) as outbox:
        fill(outbox)
    clock.pass_s(100)
    with opened(tmp_path, clock, SETTINGS) as outbox:
        assert left_s(outbox) == [HOUR - 100] * 10


def test_suspend_counts(tmp_path: Path) -> None:
    class Suspended(BootClock):
        def monotonic_ns(self) -> int:
            return 5

    clock = Suspended()
    with opened(tmp_path, clock, SETTINGS) as outbox:
        fill(outbox)
        clock.pass_s(500)
        assert left_s(outbox) == [HOUR - 500] * 10


def test_the_queue_time_never_runs_back() -> None:
    books = Books("e", time_ms=5_000, boot_id="a", boot_ms=100_000, anchor_ms=5_000, anchor_wall_ms=10**12)
    time = QueueTime(books, boot_id="a", boot_ms=100_000, jump_share=0.2, confirm_ms=1000)
    assert time.now(99_000) == 5_000
    assert time.read_wall(101_000, 10**12 - 10**9, lambda _: 0.0, server=True) is Verdict.STEPPED
    assert time.now(101_000) == 6_000


def test_more_than_a_year_without_power_waits_for_the_server_even_with_an_empty_queue() -> None:
    books = Books("e", time_ms=0, boot_id="a", boot_ms=10, anchor_ms=0, anchor_wall_ms=10**12)
    time = QueueTime(books, boot_id="b", boot_ms=10, jump_share=0.2, confirm_ms=10)
    wall = 10**12 + MAX_OFF_MS + 10**9
    assert [time.read_wall(n * 100, wall + n * 100, lambda _: 0.0) for n in range(1, 6)] == [Verdict.HELD] * 5
    assert time.read_wall(600, wall + 600, lambda _: 0.0, server=True) is Verdict.ADVANCED
