"""The order of the queue in memory: against a sorted list, across transactions that are kept and taken back."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.outbox import Health, NotAccepted, Outbox, Put
from edge_runtime.outbox.database import DatabaseFault, Row, StandardDatabase, StoreFault
from edge_runtime.outbox.order import (
    SEVERITIES,
    Order,
    bound_of,
    entry_of,
    has_crop,
    length_of,
    seq_of,
)
from edge_runtime.protocol.delivery import Rejection, RejectionCode
from tests.rigs.outbox import BootClock, hand_out, key_of, opened, quiet_settings, receipt, submission

DEADLINES = st.integers(-1000, 1 << 50)
NUMBERS = st.integers(1, (1 << 63) - 1)
LENGTHS = st.integers(0, (1 << 32) - 1)


@pytest.fixture
def clock() -> BootClock:
    return BootClock()


@given(DEADLINES, NUMBERS, LENGTHS, st.booleans())
def test_an_entry_holds_what_it_was_made_of(deadline: int, seq: int, length: int, crop: bool) -> None:
    entry = entry_of(deadline, seq, length, crop=crop)
    assert (seq_of(entry), length_of(entry), has_crop(entry)) == (seq, length, crop)
    assert bound_of(deadline - 1) <= entry < bound_of(deadline)


@given(st.tuples(DEADLINES, NUMBERS), st.tuples(DEADLINES, NUMBERS), LENGTHS, LENGTHS)
def test_entries_sort_by_deadline_and_number(
    one: tuple[int, int], other: tuple[int, int], first: int, second: int
) -> None:
    entries = entry_of(*one, first, crop=True), entry_of(*other, second, crop=False)
    assert one == other or (entries[0] < entries[1]) == (one < other)


def content(order: Order) -> list[list[int]]:
    """All that it would give, in order; it is as before afterwards."""
    found: list[list[int]] = [[] for _ in range(SEVERITIES)]
    for severity in range(SEVERITIES):
        while order.first(severity) is not None:
            found[severity].append(order.take(severity))
    for severity, entries in enumerate(found):
        for entry in entries:
            order.add(severity, entry)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_transactions_that_are_kept_and_taken_back(seed: int) -> None:
    rng, order = random.Random(seed), Order()
    model: list[list[int]] = [[] for _ in range(SEVERITIES)]
    number = 0
    for _ in range(60):
        order.begin()
        before = [list(entries) for entries in model]
        first_number = number
        for _ in range(rng.randrange(1, 12)):
            severity, choice = rng.randrange(SEVERITIES), rng.random()
            entries = model[severity]
            if choice < 0.5 or not entries:
                number += 1
                entry = entry_of(rng.randrange(100), number, rng.randrange(500), crop=rng.random() < 0.1)
                order.add(severity, entry)
                entries.append(entry)
                entries.sort()
            elif choice < 0.75:
                assert order.first(severity) == entries[0]
                taken = order.take(severity)
                assert taken == entries.pop(0)
                if rng.random() < 0.5:  # it stays after all
                    order.add(severity, taken)
                    entries.insert(0, taken)
            else:
                order.forget(seq_of(entries.pop(rng.randrange(len(entries)))))
            assert order.counts() == [len(found) for found in model]
            now = rng.randrange(100)
            assert order.past(now) == sum(entry < bound_of(now) for found in model for entry in found)
            assert order.runs_out(now) == any(found and found[0] < bound_of(now) for found in model)
        if rng.random() < 0.4:
            order.undo()
            model, number = before, first_number
            order.begin()
        assert content(order) == model


class Failing(StandardDatabase):
    """Refuses commits while it is told to."""

    refuses = False

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        if sql == "COMMIT" and Failing.refuses:
            raise DatabaseFault("a defect of the test", StoreFault.OTHER)
        return super().execute(sql, parameters)


def test_who_gave_way_in_a_transaction_that_failed_is_still_queued(tmp_path: Path, clock: BootClock) -> None:
    limits = quiet_settings(quota_bytes=64 * 1024, reserve_share=0)
    with opened(tmp_path, clock, limits, connect=Failing) as outbox:
        outbox.put([submission(n, n % 3, body=bytes(2000)) for n in range(30)])
        before = [entry.key for entry in outbox.queued(100)]
        Failing.refuses = True
        for call in (
            lambda: outbox.put([submission(n, 2, body=bytes(2000)) for n in range(100, 120)]),
            lambda: outbox.release(key_of(1), submission(1)),
            lambda: outbox.lease(5, 100_000),
        ):
            with pytest.raises(DatabaseFault):
                call()
        Failing.refuses = False
        assert [entry.key for entry in outbox.queued(100)] == before
        assert len(outbox.lease(100, 1 << 20)) == 30
        Failing.refuses = True
        with pytest.raises(DatabaseFault):
            outbox.unlease(tried=True)
        Failing.refuses = False
        assert outbox.lease(100, 1 << 20) == []
        assert outbox.unlease() == 30
        again = outbox.lease(100, 1 << 20)
        assert sorted(item.key for item in again) == before
        assert {item.tries for item in again} == {0}


def test_what_rests_gives_way_and_what_is_on_its_way_does_not(tmp_path: Path, clock: BootClock) -> None:
    limits = quiet_settings(quota_bytes=64 * 1024, reserve_share=0)
    with opened(tmp_path, clock, limits) as outbox:
        outbox.put([submission(n, 1, body=bytes(2000)) for n in range(30)])
        items = outbox.lease(30, 1 << 20)
        assert outbox.put([submission(50, 1, body=bytes(2000))])[0].reason is NotAccepted.FULL
        point = outbox.sync_point()
        put_off = [
            Rejection(seq=item.seq, key=item.key, code=RejectionCode.STORE_FAILED, permanent=False)
            for item in items[10:20]
        ]
        assert outbox.settle(point.epoch, receipt(point.epoch, rejected=put_off)).postponed == 10
        results = outbox.put([submission(n, 1, body=bytes(2000)) for n in range(60, 75)])
        assert [result.outcome for result in results[:10]] == [Put.ACCEPTED] * 10
        assert outbox.status().ledger.balances
        gone = {found.seq for found in items} - {entry.seq for entry in outbox.queued(100)}
        assert gone == {item.seq for item in items[10:20]}


def test_one_receipt_that_takes_and_puts_off_the_same_event(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1)])
        (item,) = outbox.lease(1, 1000)
        word = Rejection(seq=item.seq, key=item.key, code=RejectionCode.STORE_FAILED, permanent=False)
        outbox.settle(item.epoch, receipt(item.epoch, accepted=[(1, 1)], rejected=[word]))
        clock.pass_s(3600)
        outbox.upkeep_now()
        assert outbox.lease(10, 1 << 20) == []
        assert (outbox.status().ledger.delivered, outbox.status().ledger.balances) == (1, True)


def test_what_was_settled_while_nobody_had_it_is_not_handed_out(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n, n % 4) for n in range(40)])
        hand_out(outbox)
        epoch = outbox.sync_point().epoch
        word = Rejection(seq=40, key=key_of(39), code=RejectionCode.INVALID, permanent=True)
        outbox.settle(epoch, receipt(epoch, high=20, accepted=[(30, 35)], rejected=[word]))
        left = set(range(21, 30)) | set(range(36, 40))
        assert {item.seq for item in outbox.lease(100, 1 << 20)} == left
        assert outbox.status().queued_by_severity == tuple(
            sum((seq - 1) % 4 == severity for seq in left) for severity in range(4)
        )


def test_an_order_that_is_not_that_of_the_file_is_read_again(tmp_path: Path, clock: BootClock) -> None:
    """A row that is gone, by a defect or by the disk: what is there goes on, and the books say what is missing."""
    connections: list[StandardDatabase] = []

    def connect(path: Path | None) -> StandardDatabase:
        connections.append(StandardDatabase(path))
        return connections[-1]

    with opened(tmp_path, clock, connect=connect) as outbox:
        outbox.put([submission(n, ttl_s=60) for n in range(5)])
        connections[-1].execute("DELETE FROM queue WHERE seq = 3")
        assert [item.seq for item in lease_all(outbox)] == [1, 2, 4, 5]
        connections[-1].execute("DELETE FROM queue WHERE seq = 4")
        outbox.unlease()
        clock.pass_s(61)
        outbox.upkeep_now()
        outbox.upkeep_now()
        status = outbox.status()
        assert (status.ledger.expired, status.ledger.lost, status.ledger.balances) == (3, 2, True)
        assert status.state is Health.DEGRADED


def lease_all(outbox: Outbox) -> list[Any]:
    return outbox.lease(100, 1 << 20)
