"""The journal and the deny-list: what they keep, what they refuse to read, and how far back they remember."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.update import LeftAs, UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine import Ended, Journal, JournalLost, KnownBad
from edge_runtime.updates.machine.backoff import FIRST_MS, LONGEST_MS, wait_ms
from edge_runtime.updates.machine.journal import MOST_ENDED, MOST_SLOTS, JournalUnfit
from edge_runtime.updates.machine.known_bad import MOST
from tests.updates.machine.works import NEW, assignment, at, work

S = UpdateState


def ended(seq: int, slot: str = "detector") -> Ended:
    return Ended(
        seq=seq,
        slot=slot,
        action=UpdateAction.INSTALL,
        state=S.HEALTHY,
        left=LeftAs.UPDATED,
        report_no=seq,
        at_ms=0,
    )


def test_what_is_written_is_read() -> None:
    journal = Journal(nonce="0" * 32).with_work(work(S.PROBATION)).without(9, ended(9))
    assert Journal.decode(journal.encode()) == journal


@given(st.data())
def test_a_journal_that_is_damaged_anywhere_is_not_believed(data: st.DataObject) -> None:
    whole = Journal().with_work(work()).encode()
    at_byte = data.draw(st.integers(0, len(whole) - 2))
    flip = data.draw(st.integers(1, 255))
    damaged = bytearray(whole)
    damaged[at_byte] ^= flip
    with pytest.raises(JournalLost):
        Journal.decode(bytes(damaged))
    with pytest.raises(JournalLost):
        Journal.decode(whole[:at_byte])


def test_what_waits_lets_others_work_and_what_ends_goes_first() -> None:
    journal = Journal()
    for seq, slot in ((1, "a"), (2, "b"), (3, "c")):
        journal = journal.with_work(work(assignment=assignment(seq, slot)))
    first = journal.works[0]
    journal = journal.with_work(first.to(S.WAITING, at()))
    assert [one.seq for one in journal.works] == [2, 3, 1]
    journal = journal.with_work(journal.works[1].to(S.REFUSED, at()))
    assert [one.seq for one in journal.works] == [3, 2, 1]


def test_the_newest_of_a_slot_counts_whatever_its_number() -> None:
    journal = Journal().with_work(work(assignment=assignment(900)))
    journal = journal.under("old").under("new").with_work(work(assignment=assignment(2)))
    old, new = sorted(journal.works, key=lambda one: one.order)
    assert journal.newer(old) is UpdateAction.INSTALL
    assert journal.newer(new) is None
    assert journal.heard == {"detector": 2}


def test_what_an_earlier_director_numbered_says_nothing_after_its_end() -> None:
    """A thief spent the last number there is, on something that still waits when the key is taken away."""
    last = (1 << 53) - 1
    journal = Journal().under("stolen").with_work(work(assignment=assignment(last)))
    assert journal.heard == {"detector": last}
    journal = journal.under("new")
    journal = journal.with_work(journal.works[0].to(S.WAITING, at()))
    assert journal.heard == {}, "it goes on, and its number is not heard again"
    assert journal.knows(last), "there is one work of a number at a time"
    journal = journal.without(last, ended(last).model_copy(update={"order": 1}))
    assert (journal.heard, journal.knows(last), journal.forgot("detector", 3)) == ({}, False, False)
    journal = journal.with_work(work(assignment=assignment(3)))
    journal = journal.without(3, ended(3).model_copy(update={"order": 2}))
    assert (journal.heard, journal.knows(3)) == ({"detector": 3}, True)


def test_it_forgets_the_oldest_and_knows_that_it_does() -> None:
    journal = Journal()
    for seq in range(1, MOST_ENDED + 11):
        journal = journal.without(seq, ended(seq))
    assert len(journal.ended) == MOST_ENDED
    assert journal.forgot("detector", 5)
    assert not journal.forgot("detector", 11)
    assert journal.knows(11)
    assert not journal.knows(5)


def test_what_is_written_can_always_be_read_again() -> None:
    """Slots that the device lacks are not written down; if there are too many all the same, its own stay."""
    journal = Journal()
    for seq in range(1, 100):
        one = work(S.REFUSED, assignment=assignment(seq, f"s{seq}"), code=UpdateCode.SLOT_UNKNOWN)
        end = ended(seq, f"s{seq}").model_copy(update={"code": UpdateCode.SLOT_UNKNOWN})
        journal = journal.with_work(one).without(seq, end)
    assert journal.heard == {}
    for seq in range(1, 100):
        taken = journal.with_work(work(assignment=assignment(seq, f"s{seq}")))
        journal = taken.without(seq, ended(seq, f"s{seq}"))
    with pytest.raises(JournalUnfit, match="heard"):
        journal.encode()
    bounded = journal.bounded(["s3"])
    assert len(bounded.heard) == MOST_SLOTS
    assert {"s3", "s99"} <= set(bounded.heard)
    assert Journal.decode(bounded.encode()) == bounded


def test_numbers_of_reports_are_given_once() -> None:
    journal, first = Journal().numbered()
    _, second = journal.numbered()
    assert (first, second) == (1, 2)


def test_the_deny_list_is_lifted_by_a_later_assignment_alone() -> None:
    found = KnownBad().with_end("detector", 5, 9, NEW)
    assert found.for_seq(5) == found.for_seq(4) == {NEW}
    assert found.for_seq(6) == frozenset()
    assert found.lifted(NEW, 5) == found
    assert found.lifted(NEW, 6).denied == {}
    assert KnownBad.decode(found.encode()) == found
    assert found.under_another_director().for_seq(1) == frozenset()


def test_the_deny_list_stays_small() -> None:
    found = KnownBad()
    for seq in range(1, MOST + 20):
        found = found.with_end("detector", seq, seq, f"{seq:064x}")
    assert len(found.denied) == MOST
    assert f"{1:064x}" not in found.denied


@pytest.mark.parametrize("data", [b"", b"{", b"[]", json.dumps({"denied": {"x": 1}}).encode()])
def test_a_deny_list_that_cannot_be_read_is_told_apart_from_none(data: bytes) -> None:
    assert KnownBad.decode(data) is None
    assert KnownBad.decode(None) == KnownBad()


def test_waits_double_and_spread() -> None:
    waits = [wait_ms(failures, "cam-07", 3) for failures in range(1, 12)]
    for failures, found in enumerate(waits, 1):
        step = min(LONGEST_MS, FIRST_MS << (failures - 1))
        assert step // 2 <= found <= step
    assert wait_ms(5, "cam-07", 3) == wait_ms(5, "cam-07", 3)
    assert len({wait_ms(5, f"cam-{number}", 3) for number in range(50)}) > 40
