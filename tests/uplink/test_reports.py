"""Outcomes, health and held items: when they go up, and that they fit."""

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol.decision import DecisionReceipt
from edge_runtime.protocol.delivery import OutcomeRange, Presence, PresenceState
from edge_runtime.protocol.event import EventTime
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.operation import HeldItem, HeldList
from edge_runtime.protocol.vocabulary import DataClass, DecisionKind, Fate, Reason, Severity
from edge_runtime.uplink.link import LinkMeter
from edge_runtime.uplink.ports import Hands
from edge_runtime.uplink.reports import HealthReport, HeldReport, OutcomeReport, presence
from tests.uplink.conftest import StandingClock

S = NS_PER_S


def gone(first: int, last: int) -> OutcomeRange:
    return OutcomeRange(first=first, last=last, fate=Fate.EXPIRED)


def test_outcomes_go_up_at_once_and_then_with_growing_waits() -> None:
    report, ranges = OutcomeReport(), [gone(1, 3)]
    times = [second for second in range(0, 400, 2) if report.due(ranges, second * S)]
    assert times == [0, 10, 30, 70, 150, 310]


def test_a_change_or_a_new_session_reports_at_once() -> None:
    report = OutcomeReport()
    assert report.due([gone(1, 3)], 0)
    assert not report.due([gone(1, 3)], S)
    assert report.due([gone(1, 4)], 2 * S)
    report.connected()
    assert report.due([gone(1, 4)], 3 * S)
    assert not report.due([], 4 * S)
    assert report.due([gone(1, 4)], 5 * S)


def test_health_goes_up_every_period_and_on_a_change_but_not_in_a_flutter(clock: StandingClock) -> None:
    report = HealthReport("dev-1", 60.0, Hands(), LinkMeter(10.0), clock)
    times = []
    for second in range(130):
        sentences = ("hot",) if 20 <= second < 22 else ()
        if report.due(sentences, second * S):
            times.append(second)
    assert times == [0, 20, 25, 85]


def test_health_without_an_outbox_is_still_health(clock: StandingClock) -> None:
    report = HealthReport("dev-1", 60.0, Hands(), LinkMeter(10.0), clock)
    health = report.record(3, None, tuple(f"{n}" * 300 for n in range(30)), clock.now)
    assert health.session == 3
    assert len(health.degraded) == 16
    assert health.ledger.balances


def test_presence_carries_the_session() -> None:
    record = presence("dev-1", "b" * 99)(7, PresenceState.ONLINE, "connected")
    assert Presence.decode(record.encode()) == record
    assert record.session == 7


def held(count: int, left_ms: int = 1000, note: str = "") -> HeldList:
    at = EventTime(monotonic_ns=0, media_s=0, wall="", synced=False, boot_id="")
    items = tuple(
        HeldItem(
            key=f"{number:032x}",
            receipt=DecisionReceipt(
                id=uuid7(number, number),
                event="e" * 100,
                revision=1,
                decision=DecisionKind.HOLD,
                reasons=tuple(Reason)[:16],
                rule="r" * 128,
                camera="c" * 128,
                severity=Severity.INFO,
                data_class=DataClass.UNKNOWN,
                at=at,
                recipients=("x" * 64,) * 16,
                note=note or None,
            ),
            left_ms=left_ms,
            bytes=10,
        )
        for number in range(count)
    )
    return HeldList(device="dev-1", total=count, items=items)


def test_held_items_go_up_on_a_change_and_on_request() -> None:
    report = HeldReport()
    assert report.due(None, 0) is None
    assert report.due(held(1), 0) is not None
    assert report.due(held(1, left_ms=5), 60 * S) is None
    assert report.due(held(2), 61 * S) is not None
    assert report.due(held(3), 62 * S) is None
    assert report.due(held(3), 62 * S, asked=True) is not None


def test_a_list_of_held_items_always_fits() -> None:
    message = HeldReport().due(held(100, note="n" * 200), 0)
    assert message is not None
    found = HeldList.decode(message)
    assert found.total == 100
    assert 10 < len(found.items) < 100
