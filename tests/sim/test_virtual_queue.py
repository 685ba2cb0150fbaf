"""The queue of a virtual device keeps the accounts of an outbox: by tables, and by everything that may come."""

import uuid

import hypothesis.strategies as st
from hypothesis import given

from edge_runtime.outbox import Submission
from edge_runtime.protocol import DecisionKind
from edge_runtime.protocol.delivery import OutcomeRange, Receipt, Rejection, RejectionCode
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.vocabulary import Fate
from sim.virtual.queue import VirtualQueue
from tests.rigs.deliveries import WALL_MS, FakeClock

EPOCH = uuid7(WALL_MS * 1_000_000)


def event(ttl_s: float = 3600.0) -> Submission:
    return Submission(uuid.uuid4().bytes, DecisionKind.SEND, 1, int(ttl_s * 1e9), b"body")


def receipt(high: int, *accepted: tuple[int, int], rejected: tuple[Rejection, ...] = ()) -> Receipt:
    return Receipt(epoch=EPOCH, high=high, accepted=accepted, rejected=rejected, credit=20, server_ms=WALL_MS)


def rejection(queue: VirtualQueue, seq: int, code: RejectionCode, *, permanent: bool) -> Rejection:
    return Rejection(seq=seq, key=uuid.uuid4().bytes, code=code, permanent=permanent)


def test_what_is_lent_is_not_lent_twice_and_comes_back() -> None:
    queue = VirtualQueue(EPOCH, FakeClock(), 10)
    assert all(queue.put(event()) for _ in range(3))
    assert [item.seq for item in queue.lease(2, 1000)] == [1, 2]
    assert [item.seq for item in queue.lease(9, 1000)] == [3]
    assert queue.wait(0) is False
    assert queue.unlease([2]) == 1
    assert [item.seq for item in queue.lease(9, 1000)] == [2]
    assert queue.unlease() == 3
    assert [item.seq for item in queue.lease(9, 5)] == [1], "the first may exceed the bytes"


def test_a_full_queue_gives_up_the_oldest_that_is_not_on_its_way() -> None:
    queue = VirtualQueue(EPOCH, FakeClock(), 2)
    queue.put(event())
    queue.put(event())
    queue.lease(1, 1000)
    assert queue.put(event())
    assert queue.outcomes(10) == [OutcomeRange(first=2, last=2, fate=Fate.EVICTED)]
    queue.lease(9, 1000)
    assert not queue.put(event())
    assert (queue.not_accepted, queue.ledger.evicted, queue.ledger.balances) == (1, 1, True)
    queue.settle(EPOCH, receipt(3))
    assert queue.outcomes(10) == [], "a receipt has passed it"


def test_receipts_settle_and_refusals_have_their_fates() -> None:
    clock = FakeClock()
    queue = VirtualQueue(EPOCH, clock, 10)
    for _ in range(6):
        queue.put(event())
    queue.lease(9, 1000)
    words = (
        rejection(queue, 4, RejectionCode.INVALID, permanent=True),
        rejection(queue, 5, RejectionCode.EXPIRED, permanent=True),
        rejection(queue, 6, RejectionCode.STORE_FAILED, permanent=False),
    )
    done = queue.settle(EPOCH, receipt(1, (3, 3), rejected=words))
    assert (done.delivered, done.rejected, done.expired, done.postponed) == (2, 1, 1, 1)
    assert queue.sync_point().lowest == 2
    assert queue.lease(9, 1000) == [], "2 is on its way, and 6 rests"
    clock.advance(1.1)
    assert [(item.seq, item.tries) for item in queue.lease(9, 1000)] == [(6, 1)]
    assert queue.settle("another", receipt(6)).delivered == 0
    assert queue.settle(EPOCH, receipt(99)).delivered == 2
    assert (queue.queued, queue.ledger.balances, queue.status().ledger.rejected) == (0, True, 1)


def test_what_is_past_its_life_expires() -> None:
    clock = FakeClock()
    queue = VirtualQueue(EPOCH, clock, 10)
    queue.put(event(ttl_s=1.0))
    queue.put(event())
    clock.advance(2.0)
    assert [item.seq for item in queue.lease(9, 1000)] == [2]
    assert queue.outcomes(1) == [OutcomeRange(first=1, last=1, fate=Fate.EXPIRED)]


@given(st.lists(st.sampled_from(["put", "lease", "unlease", "high", "age", "reject"]), max_size=60))
def test_the_ledger_always_balances(steps: list[str]) -> None:
    clock = FakeClock()
    queue = VirtualQueue(EPOCH, clock, 4)
    for step in steps:
        point = queue.sync_point()
        if step == "put":
            queue.put(event(ttl_s=3.0))
        elif step == "lease":
            queue.lease(2, 1000)
        elif step == "unlease":
            queue.unlease()
        elif step == "high":
            queue.settle(EPOCH, receipt(point.lowest if point.next > 1 else 0))
        elif step == "age":
            clock.advance(1.0)
        elif point.lowest < point.next:
            word = rejection(queue, point.lowest, RejectionCode.INVALID, permanent=True)
            queue.settle(EPOCH, receipt(0, rejected=(word,)))
        ledger = queue.ledger
        assert ledger.balances
        assert ledger.queued == len(queue.waiting) <= 4
        assert ledger.accepted == len(queue.waiting) + sum(map(len, queue.ended.values()))
