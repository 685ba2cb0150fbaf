"""What goes in, what comes out in which order, and what a receipt changes."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.outbox import (
    NotAccepted,
    Outbox,
    OutboxError,
    OutboxUnavailable,
    Put,
    PutResult,
    Settled,
    Submission,
)
from edge_runtime.outbox.database import DatabaseFault, Row, StandardDatabase, StoreFault
from edge_runtime.protocol.delivery import MAX_BODY_BYTES, OutcomeRange, Rejection, RejectionCode
from edge_runtime.protocol.vocabulary import DecisionKind, Fate
from tests.rigs.outbox import BootClock, hand_out, key_of, opened, quiet_settings, receipt, submission

SMALL = quiet_settings(quota_bytes=64 * 1024, reserve_share=0.0)
BIG_BODY = bytes(4096 - 128)
"""Sixteen of them, with their rows, are the small quota."""


@pytest.fixture
def clock() -> BootClock:
    return BootClock()


def numbers(outbox: Outbox) -> list[int]:
    return [int.from_bytes(entry.key[:6], "big") for entry in outbox.queued(1000)]


def rejection(seq: int, number: int, code: RejectionCode, *, permanent: bool) -> Rejection:
    return Rejection(seq=seq, key=key_of(number), code=code, permanent=permanent, text="no")


def test_the_severest_leave_first_then_the_oldest(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n, severity) for n, severity in enumerate((0, 3, 1, 3, 2))])
        items = outbox.lease(10, 100_000)
        assert [(item.severity, item.seq) for item in items] == [(3, 2), (3, 4), (2, 5), (1, 3), (0, 1)]
        assert items[0].key == key_of(1)
        assert items[0].left_ms == 3_600_000
        assert items[0].deadline_ms == clock.unix_ns // 10**6 + 3_600_000


def test_of_equal_severity_the_nearest_deadline_leaves_first(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n, 2, ttl_s=ttl_s) for n, ttl_s in enumerate((100, 50, 100, 10))])
        assert [item.seq for item in outbox.lease(2, 100_000)] == [4, 2]
        outbox.put([submission(4, 2, ttl_s=20), submission(5, 2, ttl_s=200)])  # one before all that is left
        assert [item.seq for item in outbox.lease(10, 100_000)] == [5, 1, 3, 6]
        assert outbox.unlease([4, 1]) == 2
        assert [item.seq for item in outbox.lease(10, 100_000)] == [4, 1]
        clock.pass_s(15)
        assert outbox.unlease([4, 2, 5, 6]) == 4  # the first has run out meanwhile
        assert [item.seq for item in outbox.lease(10, 100_000)] == [5, 2, 6]


def test_more_leases_than_a_page_do_not_hide_what_is_free(tmp_path: Path, clock: BootClock) -> None:
    """Long-lived events behind many that are on their way, and short-lived ones that come after them."""
    with opened(tmp_path, clock) as outbox:
        for first in range(0, 400, 100):
            outbox.put([submission(n, ttl_s=1000 + n) for n in range(first, first + 100)])
        leased = [item.seq for item in outbox.lease(300, 10**6)]
        assert leased == list(range(1, 301))
        outbox.put([submission(900, ttl_s=900), submission(901, ttl_s=1150)])
        assert [item.seq for item in outbox.lease(4, 10**6)] == [401, 402, 301, 302]
        assert outbox.unlease(leased[:2]) == 2
        assert [item.seq for item in outbox.lease(3, 10**6)] == [1, 2, 303]


def test_what_is_leased_is_not_handed_out_again_until_it_is_returned(
    tmp_path: Path, clock: BootClock
) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n) for n in range(5)])
        first = outbox.lease(3, 100_000, owner="a")
        assert [item.seq for item in outbox.lease(10, 100_000, owner="b")] == [4, 5]
        assert outbox.lease(10, 100_000) == []
        assert not outbox.wait(0)
        assert outbox.unlease([first[1].seq], tried=True) == 1
        assert outbox.wait(0)
        again = outbox.lease(10, 100_000)
        assert [(item.seq, item.tries) for item in again] == [(2, 1)]
        assert outbox.unlease(owner="b") == 2
        assert [item.seq for item in outbox.lease(10, 100_000)] == [4, 5]


def test_a_lease_is_bounded_by_bytes_but_never_empty(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n, body=bytes(1000)) for n in range(4)])
        assert len(outbox.lease(10, 10)) == 1
        assert len(outbox.lease(10, 2500)) == 2
        assert len(outbox.lease(10, 100_000, min_severity=2)) == 0


def test_a_clock_that_is_not_synchronised_gives_no_wall_deadline(tmp_path: Path, clock: BootClock) -> None:
    clock.synced = False
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1)])
        assert outbox.lease(1, 1)[0].deadline_ms is None


def test_a_receipt_settles_what_it_names_and_nothing_else(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n) for n in range(1, 11)])
        epoch = outbox.sync_point().epoch
        word = receipt(epoch, high=2, accepted=[(4, 5), (9, 9)])
        hand_out(outbox)
        assert outbox.settle(epoch, word) == Settled(delivered=5)
        assert numbers(outbox) == [3, 6, 7, 8, 10]
        assert outbox.settle(epoch, word) == Settled()
        point = outbox.sync_point()
        assert (point.lowest, point.next, point.ledger.delivered) == (3, 11, 5)


def test_a_receipt_of_another_epoch_changes_nothing(tmp_path: Path, clock: BootClock) -> None:
    other = "01890000-0000-7000-8000-000000000000"
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1)])
        epoch = outbox.sync_point().epoch
        assert outbox.settle(other, receipt(other, high=1)).delivered == 0
        assert outbox.settle(epoch, receipt(other, high=1)).delivered == 0
        assert numbers(outbox) == [1]


@pytest.mark.parametrize(
    ("claim", "before"),
    [
        ({"high": 20}, 0),  # more than this file ever had
        ({"high": 10, "accepted": [(14, 20)]}, 0),
        ({"high": 20}, 15),  # its own new numbers have overtaken what the server means
        ({"accepted": [(12, 13)]}, 15),
    ],
)
def test_events_of_a_state_that_is_older_than_the_server_go_out_again(
    tmp_path: Path, clock: BootClock, claim: dict[str, Any], before: int
) -> None:
    """An image that was put back, or a card that lost what it said was written: the numbers begin again."""
    with opened(tmp_path / "outbox", clock) as outbox:
        outbox.put([submission(n) for n in range(1, 11)])
    with opened(tmp_path / "outbox", clock) as outbox:
        epoch = outbox.sync_point().epoch
        new = [submission(n, 3) for n in range(100, 103 + before)]
        outbox.put(new)
        assert outbox.settle(epoch, receipt(epoch, **claim)).delivered == 0
        point, status = outbox.sync_point(), outbox.status()
        assert point.epoch != epoch
        assert (point.lowest, point.next) == (1, 14 + before)
        assert (status.ledger.queued, status.ledger.balances) == (13 + before, True)
        assert "older than what the server knows" in status.sentences[0]
        assert outbox.outcomes(10) == []
        items = outbox.lease(100, 100_000)
        assert {item.key for item in items} == {key_of(n) for n in range(1, 11)} | {item.key for item in new}
        word = receipt(point.epoch, high=13 + before)
        assert outbox.settle(point.epoch, word).delivered == 13 + before
    with opened(tmp_path / "outbox", clock) as outbox:
        assert outbox.sync_point().epoch == point.epoch


def test_a_server_that_goes_on_claiming_gets_one_new_epoch_an_hour(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1, ttl_s=100_000)])
        first = outbox.sync_point().epoch
        outbox.settle(first, receipt(first, high=10**9))
        second = outbox.sync_point().epoch
        assert second != first
        assert outbox.settle(second, receipt(second, high=10**9)).delivered == 0
        assert (outbox.sync_point().epoch, numbers(outbox)) == (second, [1])
        clock.pass_s(3601)
        outbox.settle(second, receipt(second, high=10**9))
        assert outbox.sync_point().epoch != second
        assert numbers(outbox) == [1]


def test_the_server_refuses_for_good_for_now_and_as_expired(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n) for n in (1, 2, 3)])
        outbox.lease(3, 100_000)
        epoch = outbox.sync_point().epoch
        words = (
            rejection(1, 1, RejectionCode.INVALID, permanent=True),
            rejection(2, 2, RejectionCode.STORE_FAILED, permanent=False),
            rejection(3, 3, RejectionCode.EXPIRED, permanent=True),
            rejection(7, 7, RejectionCode.INVALID, permanent=True),
        )
        settled = outbox.settle(epoch, receipt(epoch, rejected=words))
        assert settled == Settled(rejected=1, expired=1, postponed=1, not_found=1)
        (letter,) = outbox.dead_letters(10)
        assert (letter.key, letter.code, letter.text) == (key_of(1), "invalid", "no")
        assert outbox.outcomes(10) == [  # until then a lost refusal would pass for a delivery at the server
            OutcomeRange(first=1, last=1, fate=Fate.REJECTED),
            OutcomeRange(first=3, last=3, fate=Fate.EXPIRED),
        ]
        status = outbox.status()
        assert status.ledger.balances
        assert (status.dead_letters, status.leased) == (1, 0)


def test_a_refusal_for_another_key_under_that_number_is_ignored(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1)])
        epoch = outbox.sync_point().epoch
        word = rejection(1, 2, RejectionCode.INVALID, permanent=True)
        assert outbox.settle(epoch, receipt(epoch, rejected=[word])).not_found == 1
        assert numbers(outbox) == [1]


def test_an_event_that_is_put_off_again_and_again_starves_nobody(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1, 3), submission(2, 1)])
        epoch = outbox.sync_point().epoch
        word = rejection(1, 1, RejectionCode.STORE_FAILED, permanent=False)
        for attempt in range(3):
            assert outbox.lease(1, 1)[0].tries == attempt
            outbox.settle(epoch, receipt(epoch, rejected=[word]))
            assert [item.seq for item in outbox.lease(1, 1)] == [2]  # it rests, the tail goes on
            outbox.unlease()
            clock.pass_s(2.0**attempt - 0.1)
            assert [item.seq for item in outbox.lease(1, 1)] == [2]
            outbox.unlease()
            clock.pass_s(0.2)


def test_dead_letters_are_a_ring(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, quiet_settings(dead_letters_kept=2)) as outbox:
        epoch = outbox.sync_point().epoch
        for n in range(1, 6):
            outbox.put([submission(n)])
            word = rejection(n, n, RejectionCode.INVALID, permanent=True)
            outbox.settle(epoch, receipt(epoch, rejected=[word]))
        assert [letter.seq for letter in outbox.dead_letters(10)] == [5, 4]
        assert outbox.status().ledger.rejected == 5


def test_the_same_key_is_accepted_once_also_after_it_left(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        assert outbox.put([submission(1), submission(1)]) == [
            PutResult(Put.ACCEPTED),
            PutResult(Put.DUPLICATE),
        ]
        epoch = outbox.sync_point().epoch
        outbox.settle(epoch, receipt(epoch, high=1))
        assert outbox.put([submission(1)])[0].outcome is Put.DUPLICATE
        for number, kind in ((50, DecisionKind.KEEP), (51, DecisionKind.HOLD)):
            first = submission(number, kind=kind)
            assert [outbox.put([first])[0].outcome for _ in range(2)] == [Put.ACCEPTED, Put.DUPLICATE]
        assert outbox.status().ledger.accepted == 1


def test_at_the_quota_the_least_severe_and_oldest_give_way(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, SMALL) as outbox:
        outbox.put([submission(n, n % 2, body=BIG_BODY) for n in range(16)])
        assert outbox.put([submission(100, 1, body=BIG_BODY)])[0].outcome is Put.ACCEPTED
        assert numbers(outbox) == [*range(1, 16), 100]
        assert outbox.put([submission(101, 0, body=BIG_BODY)])[0].outcome is Put.ACCEPTED
        assert 2 not in numbers(outbox)
        assert outbox.outcomes(10) == [
            OutcomeRange(first=1, last=1, fate=Fate.EVICTED),
            OutcomeRange(first=3, last=3, fate=Fate.EVICTED),
        ]


def test_of_equal_severity_the_nearest_deadline_gives_way_first(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, SMALL) as outbox:
        outbox.put([submission(n, 1, body=BIG_BODY, ttl_s=1000 - n) for n in range(16)])
        outbox.put([submission(100, 1, body=BIG_BODY), submission(101, 1, body=BIG_BODY)])
        assert numbers(outbox) == [*range(14), 100, 101]


def test_a_batch_evicts_from_the_queue_and_from_itself(tmp_path: Path, clock: BootClock) -> None:
    """Each event of a put finds the queue as the ones before it left it."""
    severities = [0] * 40 + [1] * 8 + [0, 2] + [1] * 10
    items = [submission(n, s, body=BIG_BODY, ttl_s=500 - n % 7) for n, s in enumerate(severities)]
    found = []
    for step, looks in ((1, True), (1, False), (7, False), (len(items), False)):
        with opened(tmp_path / f"{step}-{looks}", clock, SMALL) as outbox:
            results = []
            for first in range(0, len(items), step):
                results += outbox.put(items[first : first + step])
                if looks:  # what was read of the queue is forgotten in between
                    outbox.status()
            found.append((results, outbox.sync_point().ledger, numbers(outbox), outbox.outcomes(100)))
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0][1].evicted == len(items) - 16 - found[0][0].count(
        PutResult(Put.NOT_ACCEPTED, NotAccepted.FULL)
    )


def test_nobody_more_severe_than_the_newcomer_gives_way(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, SMALL) as outbox:
        outbox.put([submission(n, 2, body=BIG_BODY) for n in range(16)])
        refused = PutResult(Put.NOT_ACCEPTED, NotAccepted.FULL)
        assert outbox.put([submission(100, 1, body=BIG_BODY), submission(101, 1)]) == [refused, refused]
        assert numbers(outbox) == list(range(16))
        status = outbox.status()
        assert status.not_accepted == {"full": 2}
        assert (status.ledger.accepted, status.ledger.evicted) == (16, 0)


def test_a_newcomer_that_still_would_not_fit_pushes_nobody_out(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, SMALL) as outbox:
        outbox.put([submission(0, 0, body=BIG_BODY)])
        outbox.put([submission(n, 3, body=BIG_BODY) for n in range(1, 16)])
        assert outbox.put([submission(100, 1, body=bytes(8000))])[0].reason is NotAccepted.FULL
        assert 0 in numbers(outbox)


def test_what_is_on_its_way_is_not_evicted(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock, SMALL) as outbox:
        outbox.put([submission(n, 1, body=BIG_BODY) for n in range(16)])
        outbox.lease(3, 100_000)
        outbox.put([submission(100, 1, body=BIG_BODY)])
        assert numbers(outbox) == [0, 1, 2, *range(4, 16), 100]


def test_the_reserve_is_for_critical_events_alone(tmp_path: Path, clock: BootClock) -> None:
    settings = quiet_settings(quota_bytes=64 * 1024, reserve_share=0.25)
    with opened(tmp_path, clock, settings) as outbox:
        outbox.put([submission(n, 2, body=BIG_BODY) for n in range(12)])
        outbox.put([submission(20, 2, body=BIG_BODY)])
        assert numbers(outbox) == [*range(1, 12), 20]
        outbox.put([submission(n, 3, body=BIG_BODY) for n in range(30, 34)])
        assert numbers(outbox) == [*range(1, 12), 20, 30, 31, 32, 33]
        outbox.put([submission(40, 3, body=BIG_BODY)])
        assert numbers(outbox) == [*range(2, 12), 20, 30, 31, 32, 33, 40]
        outbox.put([submission(50, 2, body=BIG_BODY)])  # the criticals hold what they have
        assert numbers(outbox) == [*range(3, 12), 20, 30, 31, 32, 33, 40, 50]


@pytest.mark.parametrize(
    "item", [submission(1, body=bytes(MAX_BODY_BYTES + 1)), submission(1, receipt=bytes(5000))]
)
def test_what_is_too_large_is_counted_and_not_accepted(
    tmp_path: Path, clock: BootClock, item: object
) -> None:
    with opened(tmp_path, clock) as outbox:
        assert outbox.put([item])[0].reason is NotAccepted.TOO_LARGE  # type: ignore[list-item]
        assert outbox.status().not_accepted == {"too_large": 1}


def test_expired_events_are_counted_and_reported_as_one_range(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n, n % 4, ttl_s=10) for n in range(100)])
        outbox.put([submission(200, ttl_s=100)])
        clock.pass_s(10)
        assert outbox.lease(1000, 10**6)[0].key == key_of(200)  # never one that is past its end
        outbox.upkeep_now()
        assert outbox.outcomes(10) == [OutcomeRange(first=1, last=100, fate=Fate.EXPIRED)]
        assert outbox.sync_point().ledger.expired == 100


def test_what_is_on_its_way_expires_after_some_grace(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1, ttl_s=10)])
        outbox.lease(1, 1)
        clock.pass_s(60)
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.queued == 1
        clock.pass_s(71)
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 1


def test_an_outcome_is_repeated_until_a_receipt_has_passed_it(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(1, ttl_s=1), submission(2), submission(3, ttl_s=1), submission(4)])
        clock.pass_s(2)
        outbox.upkeep_now()
        epoch = outbox.sync_point().epoch
        hand_out(outbox)
        outbox.settle(epoch, receipt(epoch, high=2))
        assert outbox.outcomes(10) == [OutcomeRange(first=3, last=3, fate=Fate.EXPIRED)]
        outbox.settle(epoch, receipt(epoch, high=4))
        assert outbox.outcomes(10) == []


def test_nothing_left_to_live_is_accepted_and_expires_at_once(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        assert outbox.put([submission(1, ttl_s=-5)])[0].outcome is Put.ACCEPTED
        assert outbox.lease(1, 1) == []
        outbox.upkeep_now()
        assert outbox.sync_point().ledger.expired == 1


def test_everything_survives_a_restart(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.put([submission(n) for n in range(5)])
        outbox.lease(5, 10**6)
        before, session = outbox.sync_point(), outbox.next_session()
    with opened(tmp_path, clock) as outbox:
        assert outbox.sync_point() == before
        assert outbox.next_session() == session + 1
        assert len(outbox.lease(5, 10**6)) == 5
        outbox.put([submission(5)])
        assert outbox.queued(1, after=5)[0].seq == 6


def test_a_second_owner_is_refused(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock), pytest.raises(OutboxError, match="in use by another process"):
        Outbox(tmp_path, quiet_settings(), clock)


def test_waiting_ends_when_something_arrives(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(outbox.wait(30)))
        thread.start()
        outbox.put([submission(1)])
        thread.join(10)
        assert found == [True]


def test_a_closed_outbox_says_so(tmp_path: Path, clock: BootClock) -> None:
    outbox = Outbox(tmp_path, quiet_settings(), clock)
    outbox.drain()
    assert outbox.put([submission(1)])[0].reason is NotAccepted.DRAINING
    outbox.close()
    with pytest.raises(OutboxUnavailable):
        outbox.status()


def test_what_the_hand_over_lost_is_counted_here(tmp_path: Path, clock: BootClock) -> None:
    with opened(tmp_path, clock) as outbox:
        outbox.count_not_accepted(NotAccepted.HAND_OVER, 3)
        outbox.count_not_accepted(NotAccepted.HAND_OVER, 4)
        assert outbox.status().not_accepted == {"hand_over": 7}
        with pytest.raises(ValueError, match="count"):
            outbox.count_not_accepted(NotAccepted.HAND_OVER, -1)


def test_decisions_are_a_ring_newest_first(tmp_path: Path, clock: BootClock) -> None:
    settings = quiet_settings(decisions_kept=1024)
    with opened(tmp_path, clock, settings) as outbox:
        for first in range(0, 1200, 200):
            outbox.put([kept(n) for n in range(first, first + 200)])
        assert outbox.decisions(3) == [b"1199", b"1198", b"1197"]
        assert outbox.decisions(10, skip=1022) == [b"177", b"176"]
        assert outbox.status().gate["kept"] == 1200
        assert outbox.put([kept(176)])[0].outcome is Put.DUPLICATE
        assert outbox.put([kept(175)])[0].outcome is Put.ACCEPTED  # its place in the ring is taken
    with opened(tmp_path, clock, settings) as outbox:
        assert outbox.decisions(2) == [b"175", b"1199"]
        assert [outbox.put([kept(n)])[0].outcome for n in (175, 177)] == [Put.DUPLICATE] * 2
        for n in range(2000, 2080):
            outbox.put([kept(n)])
        assert outbox.decisions(10, skip=1023) == [str(177 + 80).encode()]


def kept(number: int) -> Submission:
    return submission(number, kind=DecisionKind.KEEP, body=b"", receipt=str(number).encode())


def test_a_put_that_failed_leaves_its_keys_unknown(tmp_path: Path, clock: BootClock) -> None:
    """A transaction that is not kept takes its keys, its numbers and its place in the ring with it."""

    class Refusing(StandardDatabase):
        refuses = False

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
            if sql == "COMMIT" and Refusing.refuses:
                raise DatabaseFault("a defect of the test", StoreFault.OTHER)
            return super().execute(sql, parameters)

    with opened(tmp_path, clock, connect=Refusing) as outbox:
        outbox.put([submission(1)])
        Refusing.refuses = True
        with pytest.raises(DatabaseFault):
            outbox.put([submission(2, receipt=b"2"), kept(3)])
        Refusing.refuses = False
        assert outbox.put([submission(1)])[0].outcome is Put.DUPLICATE
        results = outbox.put([submission(2, receipt=b"2"), kept(3)])
        assert [result.outcome for result in results] == [Put.ACCEPTED] * 2
        assert outbox.decisions(10) == [b"3", b"2"]
        assert (outbox.sync_point().next, numbers(outbox)) == (3, [1, 2])


def test_a_day_offline_keeps_what_policy_ranks_higher(tmp_path: Path, clock: BootClock) -> None:
    """A compressed day at the byte limit: mixed severities, half of them short-lived."""
    with opened(tmp_path, clock, quiet_settings(quota_bytes=128 * 1024, reserve_share=0.1)) as outbox:
        accepted = 0
        for hour in range(24):
            items = [
                submission(hour * 100 + n, (n * 7) % 4, ttl_s=7200 if n % 8 < 4 else 10**6, body=bytes(400))
                for n in range(100)
            ]
            accepted += sum(result.accepted for result in outbox.put(items))
            clock.pass_s(3600)
            outbox.upkeep_now()
        status = outbox.status()
        kept = status.queued_by_severity
        assert status.ledger.balances
        assert status.ledger.accepted == accepted
        assert min(status.ledger.evicted, status.ledger.expired) > 0
        assert status.bytes <= status.quota_bytes
        assert kept[0] < kept[1] + 1 <= kept[2] + 1 <= kept[3] + 1
        assert sum(found.last - found.first + 1 for found in outbox.outcomes(1000)) == (
            status.ledger.evicted + status.ledger.expired
        )
