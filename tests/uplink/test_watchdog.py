"""Receipts: when to try again, and when to connect anew."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.uplink.watchdog import ReceiptWatchdog, RetrySettings, retry_ns

S = NS_PER_S
SETTINGS = RetrySettings()


@pytest.mark.parametrize(
    ("tries", "seconds"), [(0, 10), (1, 10), (2, 20), (3, 40), (5, 160), (6, 300), (400, 300)]
)
def test_the_wait_doubles_up_to_five_minutes(tries: int, seconds: int) -> None:
    for seed in range(20):
        assert seconds * S <= retry_ns(SETTINGS, tries, random.Random(seed)) <= seconds * 1.25 * S


def test_devices_do_not_resend_in_step() -> None:
    assert len({retry_ns(SETTINGS, 1, random.Random(seed)) for seed in range(50)}) == 50


def test_barks_once_after_silence_with_something_waiting() -> None:
    dog = ReceiptWatchdog(SETTINGS)
    assert not dog.barks(10_000 * S)
    dog.waiting(0)
    dog.waiting(25 * S)
    assert not dog.barks(30 * S - 1)
    assert dog.barks(30 * S)
    assert not dog.barks(31 * S)


def test_a_receipt_starts_the_wait_anew_while_more_is_in_flight() -> None:
    dog = ReceiptWatchdog(SETTINGS)
    dog.waiting(0)
    dog.receipt(20 * S, more=True)
    assert not dog.barks(49 * S)
    assert dog.barks(50 * S)
    dog.waiting(60 * S)
    dog.receipt(61 * S, more=False)
    assert dog.due_ns() is None


def test_patience_doubles_until_a_receipt_comes() -> None:
    dog, now, waits = ReceiptWatchdog(SETTINGS), 0, []
    for _ in range(6):
        dog.waiting(now)
        due = dog.due_ns()
        assert due is not None
        waits.append((due - now) // S)
        now = due
        assert dog.barks(now)
    assert waits == [30, 60, 120, 240, 300, 300]
    dog.receipt(now, more=False)
    dog.waiting(now)
    assert dog.due_ns() == now + 30 * S


def test_a_new_connection_forgets_what_waited() -> None:
    dog = ReceiptWatchdog(SETTINGS)
    dog.waiting(0)
    dog.reset()
    assert not dog.barks(1000 * S)


@given(st.lists(st.tuples(st.sampled_from("wrx"), st.integers(0, 40)), max_size=60))
def test_it_never_barks_within_its_patience_of_a_receipt(steps: list[tuple[str, int]]) -> None:
    dog, now, heard = ReceiptWatchdog(SETTINGS), 0, 0
    for what, seconds in steps:
        now += seconds * S
        if what == "w":
            dog.waiting(now)
        elif what == "r":
            dog.receipt(now, more=True)
            heard = now
        elif dog.barks(now):
            assert now - heard >= 30 * S
