"""Two rows of events compared."""

from typing import Any

import pytest

from edge_runtime.protocol import DataClass, EventRecord, EventState, EventTime, Severity
from edge_runtime.replay.diff import FROM_ANOTHER_RUN, Difference, Kind, Tolerance, compare, within
from edge_runtime.replay.words import difference_line, difference_lines

BOOT = "b"


def event(at_s: float, *, boot: str = BOOT, media_s: float | None = None, **fields: Any) -> EventRecord:
    def time(seconds: float) -> EventTime:
        media = seconds if media_s is None else media_s
        return EventTime(
            monotonic_ns=round(seconds * 1e9), media_s=media, wall="w", synced=True, boot_id=boot
        )

    given = {"rule": "gate", "kind": "line", "track": 3, "count": 4, **fields}
    started = given.pop("started_s", at_s)
    return EventRecord(
        id=given.pop("id", f"{at_s}"), revision=1, state=given.pop("state", EventState.ENDED), camera="dock",
        epoch=0, sequence=round(at_s * 10), severity=Severity.INFO, data_class=DataClass.PUBLIC,
        started=time(started), at=time(at_s), deadline_ms=1000, latency_ms=given.pop("latency_ms", 5.0),
        late=False, ttl_s=60, config="sha256:" + "0" * 64, **given,
    )  # fmt: skip


def found(expected: list[EventRecord], got: list[EventRecord], **tolerance: Any) -> list[tuple[str, float]]:
    told = compare(expected, got, Tolerance(**tolerance))
    return [(one.kind.value, round(one.shift_s, 3)) for one in told]


def test_the_same_is_no_difference_whatever_the_run_drew_and_measured() -> None:
    before = [event(1), event(2), event(2, track=4)]
    after = [event(1, id="x", latency_ms=9.0), event(2, track=4, id="y"), event(2, id="z")]
    assert found(before, after) == []


@pytest.mark.parametrize(
    ("expected", "got", "told"),
    [
        ([event(1)], [], [("missing", 0)]),
        ([], [event(1)], [("extra", 0)]),
        ([event(1)], [event(1, count=5)], [("changed", 0)]),
        ([event(1), event(9)], [event(1.4), event(9)], [("shifted", 0.4)]),
        ([event(1), event(9)], [event(0.7), event(9)], [("shifted", -0.3)]),
        ([event(1)], [event(1, started_s=0.5)], [("shifted", -0.5)]),
        ([event(1)], [event(1.4, track=9)], [("changed", 0.4)]),
        ([event(1)], [event(3.5)], [("missing", 0), ("extra", 0)]),
        ([event(1)], [event(1, kind="zone")], [("missing", 0), ("extra", 0)]),
        ([event(1)], [event(1, state=EventState.STARTED)], [("missing", 0), ("extra", 0)]),
        # who came late must not take the place of the one that is there
        ([event(1), event(1.5)], [event(1.5)], [("missing", 0)]),
        ([event(1), event(1.5)], [event(1.6), event(1.5)], [("shifted", 0.6)]),
        ([event(1)], [event(1), event(1)], [("extra", 0)]),
        # at the end of a run many end at once, a little later than before
        (
            [event(9, started_s=1, track=1), event(9, started_s=2, track=2)],
            [event(9.01, started_s=2, track=2), event(9.02, started_s=1, track=1)],
            [("shifted", 0.02), ("shifted", 0.01)],
        ),
    ],
)
def test_each_kind_of_difference(
    expected: list[EventRecord], got: list[EventRecord], told: list[tuple[str, float]]
) -> None:
    assert found(expected, got) == told


def test_tolerance_is_what_it_says() -> None:
    assert found([event(1)], [event(1.4)], shift_s=0.5) == []
    assert found([event(1)], [event(3.5)], apart_s=5.0) == [("shifted", 2.5)]
    assert found([event(1)], [event(1, track=9)], ignored=FROM_ANOTHER_RUN | {"track"}) == []
    assert found([event(1)], [event(1, id="x")], ignored=frozenset()) == [("changed", 0)]


def test_different_runs_are_compared_on_the_sources_timeline() -> None:
    assert found([event(100, media_s=1.0)], [event(900, media_s=1.0)]) == []
    assert found([event(100, media_s=1.0)], [event(900, media_s=1.5)]) == [("shifted", 0.5)]
    assert found([event(100, media_s=1.0)], [event(7, media_s=1.0, boot="c")]) == []
    assert found([event(100, media_s=1.0)], [event(7, media_s=1.2, boot="c")]) == [("shifted", 0.2)]


def test_evidence_is_not_compared() -> None:
    said = event(1, reason="first seen inside the zone; no evidence: no directory")
    assert found([said], [event(1, reason="first seen inside the zone")]) == []
    assert found([event(1, reason="no evidence: no directory")], [event(1)]) == []


def test_differences_come_in_the_order_of_time() -> None:
    told = compare([event(5), event(1), event(3, count=1)], [event(3, count=2)], Tolerance())
    assert [one.event.at.monotonic_ns / 1e9 for one in told] == [1, 3, 5]


def test_hundreds_of_a_kind_are_each_paired_with_their_own() -> None:
    before = [event(number / 10) for number in range(300)]
    assert found(before, [event(number / 10 + 0.01) for number in range(300)], shift_s=0.02) == []
    assert found(before, before[1:]) == [("missing", 0)]


def test_lines_say_what_when_and_where() -> None:
    one = Difference(Kind.CHANGED, event(12.5), (("count", 4, 5), ("label", None, "car")), 0.25)
    told = "count 4 -> 5, label nothing -> car; 0.250 s later"
    assert (
        difference_line(one, 10**10) == f"changed     2.500 s  dock gate line ended track 3 count 4: {told}"
    )
    many = [Difference(Kind.MISSING, event(1))] * 7
    assert list(difference_lines(many, 0, 2))[-1] == "and 5 more"


def test_what_began_before_the_recording_is_left_out() -> None:
    events = [event(9, started_s=1), event(9, started_s=5)]
    assert within(events, 4 * 10**9) == events[1:]
    assert within(events, None) == events
