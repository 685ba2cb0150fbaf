"""What is on its way: bundles, retries, lonely poison, budget, and nothing that a session leaves behind."""

import random
import uuid
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edge_runtime.clock import NS_PER_S
from edge_runtime.outbox import QueuedItem
from edge_runtime.protocol.delivery import EventBundle, Receipt, Rejection, RejectionCode
from edge_runtime.protocol.ids import uuid7
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.bundles import Answered, Leased, choose, pack
from edge_runtime.uplink.delivery import Delivery
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.pacing import Pacer
from edge_runtime.uplink.watchdog import RetrySettings
from tests.uplink.conftest import StandingClock

S = NS_PER_S
EPOCH = uuid7(0, 1)


def item(
    seq: int, severity: int = 1, size: int = 200, left_ms: int = 3_600_000, tries: int = 0
) -> QueuedItem:
    key = uuid.UUID(uuid7(seq, seq)).bytes
    return QueuedItem(key, seq, severity, left_ms, None, tries, bytes([seq % 251]) * size, EPOCH)


class Low(random.Random):
    """Draws the least wait, so that times are round."""

    def uniform(self, a: float, b: float) -> float:
        return a


class Desk:
    """A delivery with its parts, open for business."""

    def __init__(
        self,
        folder: Path,
        *,
        daily: int | None = None,
        linger_ms: int = 20,
        window: int = 20,
        ramp: bool = False,
    ) -> None:
        self.clock = StandingClock()
        self.budget = ByteBudget(folder / "budget.json", daily, 0.2, self.clock)
        self.link = LinkMeter(10.0)
        self.mid = 0
        self.delivery = Delivery(
            "dev-1",
            linger_ms=linger_ms,
            retry=RetrySettings(),
            pacer=Pacer(window, ramp=ramp),
            budget=self.budget,
            link=self.link,
            rng=Low(),
        )
        self.open()

    @property
    def now(self) -> int:
        return self.clock.now

    def open(self, credit: int = 20) -> None:
        self.delivery.connected(100, None, self.now)
        self.delivery.synced(EPOCH, self.now)
        self.receipt(0, credit=credit)

    def receipt(
        self, high: int, *ranges: tuple[int, int], credit: int = 20, rejected: Iterable[Rejection] = ()
    ) -> bool:
        return self.delivery.receipt(
            Receipt(
                epoch=EPOCH, high=high, accepted=ranges, rejected=tuple(rejected), credit=credit, server_ms=0
            ),
            self.now,
        )

    def send(self) -> list[int] | None:
        parcel = self.delivery.next_parcel(self.now)
        if parcel is None:
            return None
        self.mid += 1
        self.delivery.sent(parcel, self.mid, self.now)
        bundle = EventBundle.decode(parcel.payload)
        assert [found.seq for found in bundle.items] == [entry.item.seq for entry in parcel.entries]
        return [found.seq for found in bundle.items]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def lease(desk: Desk, *items: QueuedItem) -> None:
    desk.delivery.offer(items, desk.now)


def test_events_wait_for_company_but_not_longer_than_the_linger(desk: Desk) -> None:
    lease(desk, item(1))
    assert desk.send() is None
    assert desk.delivery.wake_ns(desk.now, may_send=True) is not None
    desk.clock.go(0.010)
    lease(desk, item(2))
    desk.clock.go(0.010)
    assert desk.send() == [1, 2]


def test_the_top_severity_never_waits_and_takes_the_others_along(desk: Desk) -> None:
    lease(desk, item(1), item(2, severity=3), item(3, severity=2))
    assert desk.send() == [2, 3, 1]


def test_a_full_bundle_does_not_wait(desk: Desk) -> None:
    lease(desk, *(item(seq) for seq in range(1, 65)))
    assert desk.send() == list(range(1, 65))


def test_room_is_for_what_can_be_sent_at_once_and_closed_without_credit(desk: Desk) -> None:
    assert desk.delivery.room() == (192, 192 * 1024)
    desk.receipt(0, credit=1)
    assert desk.delivery.room() == (64, 64 * 1024)
    lease(desk, *(item(seq) for seq in range(1, 61)))
    assert desk.delivery.room() == (4, 64 * 1024 - 60 * 200)
    desk.receipt(0, credit=0)
    assert desk.delivery.room() == (0, 0)


def test_what_waits_for_the_window_stays_in_the_outbox(desk: Desk) -> None:
    """All but a bundle's worth: there something more severe may still overtake it."""
    desk.receipt(0, credit=2)
    lease(desk, *(item(seq) for seq in range(1, 129)))
    assert desk.delivery.room() == (0, 0)
    assert desk.send() == list(range(1, 65))
    assert desk.delivery.room() == (0, 0)
    assert desk.send() == list(range(65, 129))
    assert desk.delivery.room() == (64, 64 * 1024)


def test_while_bundles_are_spread_over_time_one_is_leased_at_a_time(tmp_path: Path) -> None:
    desk = Desk(tmp_path, ramp=True)
    assert desk.delivery.room() == (64, 64 * 1024)


def test_nothing_is_leased_or_sent_before_the_sync_is_answered(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.delivery.forget()
    desk.delivery.connected(100, None, desk.now)
    desk.delivery.synced(EPOCH, desk.now)
    assert desk.delivery.room() == (0, 0)
    lease(desk, item(1, severity=3))
    assert desk.send() is None
    desk.receipt(0)
    assert desk.send() == [1]


def test_a_receipt_that_the_broker_kept_opens_nothing_and_tells_no_time(desk: Desk) -> None:
    """It was written before an hour's cut: by its time the server would find all that is sent now expired."""
    server_ms = 1_790_000_000_000
    kept = Receipt(epoch=EPOCH, high=0, credit=20, server_ms=server_ms)
    desk.delivery.receipt(kept, desk.now)
    desk.clock.go(3600)
    desk.delivery.forget()
    assert desk.delivery.receipt(kept, desk.now)
    desk.delivery.connected(100, None, desk.now)
    assert desk.delivery.room() == (0, 0)
    desk.delivery.synced(EPOCH, desk.now)
    assert desk.delivery.room() == (0, 0)
    desk.delivery.receipt(kept.model_copy(update={"server_ms": server_ms + 3_600_000}), desk.now)
    lent = item(1, 3, left_ms=60_000)._replace(deadline_ms=server_ms + 3_660_000)
    desk.delivery.offer([lent], desk.now)
    parcel = desk.delivery.next_parcel(desk.now)
    assert parcel is not None
    assert EventBundle.decode(parcel.payload).items[0].deadline_ms == server_ms + 3_660_000


def test_no_more_bundles_than_the_window(desk: Desk) -> None:
    desk.receipt(0, credit=2)
    for seq in range(1, 4):
        lease(desk, item(seq, severity=3))
        desk.send()
    assert desk.delivery.in_flight == 2
    desk.receipt(1, credit=2)
    assert desk.send() == [3]


def test_a_receipt_settles_by_high_by_range_and_by_refusal(desk: Desk) -> None:
    lease(desk, *(item(seq, severity=3) for seq in (1, 2, 5, 6, 9)))
    assert desk.send() == [1, 2, 5, 6, 9]
    refused = Rejection(seq=9, key=item(9).key, code=RejectionCode.INVALID, permanent=True)
    desk.receipt(2, (5, 5))
    assert desk.delivery.in_flight == 1
    desk.receipt(2, (5, 6), rejected=[refused])
    assert desk.delivery.in_flight == 0
    assert desk.link.signals(desk.now).round_trip_ms == 0.0


def test_a_receipt_of_another_epoch_is_nothing(desk: Desk) -> None:
    lease(desk, item(1, severity=3))
    desk.send()
    other = Receipt(epoch=uuid7(10**9, 1), high=99, credit=5, server_ms=0)
    assert not desk.delivery.receipt(other, desk.now)
    assert desk.delivery.in_flight == 1


def test_unreceipted_events_are_sent_again_with_growing_waits_and_then_alone(desk: Desk) -> None:
    lease(desk, item(1, severity=3), item(2, severity=3))
    gaps: list[int] = []
    batches: list[list[int]] = []
    last = desk.now
    while desk.clock.now < 4000 * S and len(batches) < 9:
        desk.delivery.tick(desk.now)
        sent = desk.send()
        if sent is not None:
            gaps.append((desk.now - last) // S)
            last = desk.now
            batches.append(sent)
            continue
        desk.clock.go(1)
    assert batches[:5] == [[1, 2]] * 5
    assert sorted(batches[5:7]) == [[1], [2]]
    assert gaps[:6] == [0, 10, 20, 40, 80, 160]


def test_poison_goes_alone_and_holds_up_nobody(desk: Desk) -> None:
    poison = [item(seq, tries=5) for seq in range(1, 31)]
    lease(desk, *poison)
    desk.clock.go(400)
    lease(desk, item(100, severity=3))
    seen = []
    for _ in range(20):
        sent = desk.send()
        assert sent is not None
        assert len(sent) == 1
        seen += sent
    assert seen[0] == 100


def test_a_place_in_the_window_is_free_after_the_first_wait(desk: Desk) -> None:
    desk.receipt(0, credit=1)
    lease(desk, item(1, severity=3, tries=4))
    desk.clock.go(200)
    assert desk.send() == [1]
    lease(desk, item(2, severity=3))
    assert desk.send() is None
    desk.clock.go(10)
    desk.delivery.tick(desk.now)
    assert desk.send() == [2]


def test_silence_asks_for_a_new_connection(desk: Desk) -> None:
    lease(desk, item(1, severity=3))
    desk.send()
    barked = []
    for second in range(1, 40):
        desk.clock.go(1)
        desk.send()
        if desk.delivery.tick(desk.now)[0]:
            barked.append(second)
    assert barked == [30]


def test_a_lonely_poisonous_event_does_not_renew_the_connection(desk: Desk) -> None:
    lease(desk, item(1, tries=9))
    desk.clock.go(400)
    assert desk.send() == [1]
    for _ in range(300):
        desk.clock.go(1)
        assert not desk.delivery.tick(desk.now)[0]


def test_a_refused_publication_is_tried_again(desk: Desk) -> None:
    lease(desk, item(1, severity=3))
    desk.send()
    desk.delivery.acknowledged(desk.mid, failed=False)
    assert desk.delivery.in_flight == 1
    desk.delivery.acknowledged(desk.mid, failed=True)
    assert desk.delivery.in_flight == 0
    assert desk.delivery.refused == 1
    assert desk.send() is None
    desk.clock.go(10)
    assert desk.send() == [1]


def test_the_end_of_a_session_forgets_what_was_lent_but_not_the_tries(desk: Desk) -> None:
    lease(desk, item(1, severity=3))
    for _ in range(5):
        while desk.send() is None:
            desk.clock.go(5)
            desk.delivery.tick(desk.now)
    desk.clock.go(400)
    desk.delivery.tick(desk.now)
    desk.delivery.forget()
    assert desk.delivery.in_flight == 0
    desk.open()
    lease(desk, item(1, severity=3), item(2, severity=3))
    assert desk.send() == [2]
    desk.clock.go(400)
    assert desk.send() == [1]


def test_what_is_left_of_its_life_is_counted_down_and_ended_events_go_back(desk: Desk) -> None:
    lease(desk, item(1, left_ms=5_000), item(2, left_ms=1_000))
    desk.clock.go(2)
    bark, ended = desk.delivery.tick(desk.now)
    assert (bark, ended) == (False, [2])
    parcel = desk.delivery.next_parcel(desk.now)
    assert parcel is not None
    assert parcel.left_ms == 3_000
    assert EventBundle.decode(parcel.payload).items[0].left_ms == 3_000


def test_a_spent_budget_lets_only_critical_events_out_and_another_day_lets_all(tmp_path: Path) -> None:
    desk = Desk(tmp_path, daily=10_000)
    desk.budget.claim(9_000)
    lease(desk, *(item(seq, size=4_000) for seq in (1, 2)))
    desk.clock.go(1)
    desk.budget.claim(950)
    assert desk.send() is None
    assert desk.delivery.min_severity == 3
    assert sorted(desk.delivery.unaffordable()) == [1, 2]
    lease(desk, item(3, severity=3))
    assert desk.send() == [3]
    desk.clock.go(86_400)
    assert desk.delivery.min_severity == 0
    assert desk.delivery.unaffordable() == []


def test_too_little_left_for_a_bundle_makes_no_busy_loop(tmp_path: Path) -> None:
    desk = Desk(tmp_path, daily=10_000)
    desk.budget.claim(9_500)
    # random bytes do not compress: the bundle is larger than what is left, and what is left is more than nothing
    body = random.Random(1).randbytes(3_000)
    lease(desk, QueuedItem(item(1).key, 1, 1, 60_000, None, 0, body, EPOCH))
    desk.clock.go(1)
    assert desk.send() is None
    assert desk.delivery.min_severity == 3
    assert desk.delivery.unaffordable() == [1]
    lease(desk, QueuedItem(item(2).key, 2, 3, 600_000, None, 0, body, EPOCH))
    assert desk.send() is None  # the overdraft of 2,000 does not pay either
    wake = desk.delivery.wake_ns(desk.now, may_send=True)
    assert wake is not None
    assert wake - desk.now == 60 * S


def test_a_broker_that_takes_small_packets_gets_small_bundles(desk: Desk) -> None:
    desk.delivery.connected(100, 4_000, desk.now)
    desk.receipt(0)
    rng = random.Random(2)
    lease(
        desk,
        *(QueuedItem(item(n).key, n, 3, 60_000, None, 0, rng.randbytes(500), EPOCH) for n in range(1, 20)),
    )
    sizes = []
    while (parcel := desk.delivery.next_parcel(desk.now)) is not None:
        sizes.append(len(parcel.payload))
        desk.delivery.sent(parcel, len(sizes), desk.now)
    assert max(sizes) <= 4_000 - 128
    assert len(sizes) >= 3


def test_what_no_packet_can_hold_waits_and_blocks_nobody(desk: Desk) -> None:
    desk.delivery.connected(100, 1_000, desk.now)
    desk.receipt(0)
    body = random.Random(3).randbytes(5_000)
    lease(desk, QueuedItem(item(1).key, 1, 3, 600_000, None, 0, body, EPOCH))
    assert desk.send() is None
    lease(desk, item(2, severity=3))
    assert desk.send() == [2]
    assert desk.send() is None


@pytest.mark.parametrize(
    ("sizes", "chosen"),
    [([100] * 70, 64), ([16_000] * 5, 4), ([70_000], 1), ([60_000, 6_000, 100], 1)],
)
def test_a_bundle_has_at_most_64_events_and_64_kib(sizes: list[int], chosen: int) -> None:
    entries = [Leased(item(n, size=size), 0, 0) for n, size in enumerate(sizes, 1)]
    assert len(choose(entries, 5)) == chosen


def test_within_a_severity_the_nearest_deadline_goes_first() -> None:
    entries = [
        Leased(item(1, left_ms=60_000), 0, 0),
        Leased(item(2, left_ms=50_000), 5 * S, 0),
        Leased(item(3, severity=2, left_ms=90_000), 0, 0),
    ]
    assert [entry.item.seq for entry in choose(entries, 5)] == [3, 2, 1]


@pytest.mark.parametrize(
    ("ours_ms", "label"),
    [
        (0, 3_600_000),  # agrees
        (-1500, 3_598_500),  # as well as a receipt can tell
        (-3_600_000, 3_600_000),  # stepped back by an hour: the server would refuse all of it
        (50 * 365 * 86_400_000, 3_600_000),
        (None, None),  # not synchronised
    ],
)
def test_a_clock_of_ours_that_is_wrong_expires_nothing_at_the_server(
    ours_ms: int | None, label: int | None
) -> None:
    """Wall labels are counted here from the server's present."""
    server_ms = 1_790_000_000_000
    deadline = None if ours_ms is None else server_ms + ours_ms + 3_600_000
    lent = Leased(item(1)._replace(deadline_ms=deadline), 5 * S, 0)
    for known in (None, server_ms):
        parcel = pack([lent], "dev-1", EPOCH, 5 * S, server_ms=known)
        assert parcel is not None
        (sent,) = EventBundle.decode(parcel.payload).items
        wanted = deadline if known is None else None if label is None else server_ms + label
        assert sent.deadline_ms == wanted


def test_the_servers_clock_is_that_of_its_newest_receipt(desk: Desk) -> None:
    server_ms = 1_790_000_000_000
    desk.delivery.receipt(Receipt(epoch=EPOCH, high=0, credit=20, server_ms=server_ms), desk.now)
    desk.clock.now += 10 * S
    lent = item(1, 3)._replace(deadline_ms=server_ms - 3_000_000)
    desk.delivery.offer([lent], desk.now)
    parcel = desk.delivery.next_parcel(desk.now)
    assert parcel is not None
    (sent,) = EventBundle.decode(parcel.payload).items
    assert sent.deadline_ms == server_ms + 10_000 + 3_600_000


def test_a_bundle_is_never_larger_than_a_payload_may_be() -> None:
    rng = random.Random(4)
    entries = [
        Leased(QueuedItem(item(n).key, n, 1, 60_000, None, 0, rng.randbytes(1_000), EPOCH), 0, 0)
        for n in range(1, 65)
    ]
    parcel = pack(choose(entries, 5), "dev-1", EPOCH, 0)
    assert parcel is not None
    assert len(parcel.payload) <= 128 * 1024
    assert pack(entries[:1], "dev-1", EPOCH, 0, max_payload=100) is None


class Journeys(RuleBasedStateMachine):
    """Leases, receipts, cuts and time in any order: never beyond the credit, never an event twice at once."""

    @initialize()
    def begin(self) -> None:
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.desk = Desk(Path(self.folder.name))
        self.seq = 0
        self.lent: set[int] = set()
        self.high = 0
        self.credit = 20

    @rule(count=st.integers(1, 20), severity=st.integers(0, 3))
    def more(self, count: int, severity: int) -> None:
        room, _ = self.desk.delivery.room()
        for _ in range(min(count, room)):
            self.seq += 1
            self.lent.add(self.seq)
            lease(self.desk, item(self.seq, severity))

    @rule()
    def send(self) -> None:
        before = self.desk.delivery.in_flight
        sent = self.desk.send()
        if sent is not None:
            assert before < self.credit
            assert set(sent) <= self.lent
            assert len(set(sent)) == len(sent)

    @rule(share=st.floats(0, 1), credit=st.integers(0, 25))
    def receipt(self, share: float, credit: int) -> None:
        self.high += int((self.seq - self.high) * share)
        self.credit = min(20, credit)
        self.desk.receipt(self.high, credit=credit)
        self.lent = {seq for seq in self.lent if seq > self.high}

    @rule(seconds=st.floats(0.001, 100))
    def time_goes_on(self, seconds: float) -> None:
        self.desk.clock.go(seconds)
        self.desk.delivery.tick(self.desk.now)

    @rule()
    def cut(self) -> None:
        self.desk.delivery.forget()
        self.lent.clear()
        self.desk.open(credit=self.credit)

    @invariant()
    def all_that_was_lent_is_known(self) -> None:
        if not hasattr(self, "desk"):
            return
        delivery = self.desk.delivery
        assert set(delivery._pool) | set(delivery._flying) == self.lent
        assert not set(delivery._pool) & set(delivery._flying)
        assert {seq for flight in delivery._flights.values() for seq in flight.seqs} == set(delivery._flying)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestJourneys = Journeys.TestCase
TestJourneys.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


_SEQ = st.integers(1, 40)


@given(
    seqs=st.sets(_SEQ, min_size=1),
    high=st.integers(0, 20),
    ranges=st.lists(st.tuples(_SEQ, st.integers(0, 9)), max_size=5),
    refused=st.sets(_SEQ, max_size=3),
)
def test_a_receipt_answers_what_lies_in_it_and_nothing_else(
    seqs: set[int], high: int, ranges: list[tuple[int, int]], refused: set[int]
) -> None:
    accepted = tuple((first, first + more) for first, more in ranges)
    rejected = tuple(
        Rejection(seq=seq, key=item(seq).key, code=RejectionCode.INVALID, permanent=True) for seq in refused
    )
    answered = Answered(
        Receipt(epoch=EPOCH, high=high, accepted=accepted, rejected=rejected, credit=1, server_ms=0)
    )
    expected = {
        seq
        for seq in seqs
        if seq <= high or seq in refused or any(first <= seq <= last for first, last in accepted)
    }
    assert answered.among(set(seqs)) == expected
    assert {seq for seq in seqs if seq in answered} == expected
