"""The desk: records, classes, deadlines, outages, epochs, schedules, the end."""

from datetime import datetime
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S
from edge_runtime.errors import ConfigError
from edge_runtime.events import CAMERA_RULE, Unobserved
from edge_runtime.protocol import DataClass, EventRecord, EventState, Severity, encode_event
from edge_runtime.sources.frame import Frame
from tests.rigs.events import CONFIG, MODEL, Camera, Seen, brief, rule, tracks

HERE = Seen(20, 50)
UP = ((0.5, 1.0), (0.5, 0.0))


def crossing(camera: Camera, *, track: int = 1) -> list[EventRecord]:
    """One track walks from the left to the right."""
    records = camera.watch(0.5, Seen(30, 50, track=track))
    return records + camera.watch(0.5, Seen(70, 50, track=track))


class TestRecord:
    def test_a_crossing_is_one_ended_record_with_everything_in_it(self) -> None:
        camera = Camera([rule("line", name="gate", line=UP, severity="warning", ttl=60)])
        (record,) = crossing(camera)
        assert record.model_dump(mode="json", exclude={"started", "at"}, exclude_none=True) == {
            "v": 1,
            "id": "e1",
            "revision": 1,
            "state": "ended",
            "kind": "line",
            "rule": "gate",
            "camera": "dock",
            "epoch": 0,
            "sequence": 7,
            "severity": "warning",
            "data_class": "internal",
            "deadline_ms": 1000.0,
            "latency_ms": 10.0,
            "late": False,
            "ttl_s": 60.0,
            "label": "person",
            "track": 1,
            "confidence": 0.9,
            "box": {"x1": 68.0, "y1": 42.0, "x2": 72.0, "y2": 50.0},
            "direction": "left_to_right",
            "model": MODEL,
            "config": CONFIG,
        }
        assert record.at.media_s - record.started.media_s == pytest.approx(0.2)
        assert record.at.monotonic_ns - record.started.monotonic_ns == pytest.approx(2e8)
        assert record.at.synced
        assert record.at.boot_id == camera.clock.wall().boot_id

    def test_wall_labels_are_those_of_the_capture(self) -> None:
        camera = Camera([rule("line", line=UP)], delay=0.05)
        (record,) = crossing(camera)
        at, started = (
            datetime.fromisoformat(t.wall.replace("Z", "+00:00")) for t in (record.at, record.started)
        )
        assert (at - started).total_seconds() == pytest.approx(0.2, abs=1e-3)

    def test_one_id_through_its_life_with_growing_revisions(self) -> None:
        camera = Camera([rule("occupancy", hold=0.2, at_least=1)])
        records = camera.watch(0.5, HERE) + camera.watch(1.5, HERE, Seen(30, 50, track=2)) + camera.watch(0.5)
        assert brief(records) == [
            ("e1", 1, "started", "occupancy"),
            ("e1", 2, "updated", "occupancy"),  # a second later, though the second came after 0.3 s
            ("e1", 3, "ended", "occupancy"),
        ]
        assert len({record.started.monotonic_ns for record in records}) == 1
        assert [record.count for record in records] == [1, 2, 0]

    def test_who_it_was_about_is_said_again_when_it_is_gone(self) -> None:
        camera = Camera([rule("dwell", seconds=0.5)])
        started, ended = camera.watch(1, Seen(20, 50, label=2)) + camera.watch(1)
        assert (started.state, ended.state) == (EventState.STARTED, EventState.ENDED)
        assert started.label == ended.label == "car"
        assert started.box == ended.box
        assert ended.duration_s == pytest.approx(0.9)

    def test_a_label_outside_the_map_is_named_by_its_number(self) -> None:
        camera = Camera([rule("line", line=UP)])
        camera.watch(0.5, Seen(30, 50, label=9))
        (record,) = camera.watch(0.5, Seen(70, 50, label=9))
        assert record.label == "label 9"


class TestDeadline:
    def test_a_late_event_is_recorded_and_marked(self) -> None:
        camera = Camera([rule("line", line=UP, deadline=0.05)], delay=0.06)
        (record,) = crossing(camera)
        assert record.late
        assert record.latency_ms == pytest.approx(60)
        assert camera.desk.counters().late == {"r": 1, CAMERA_RULE: 0}

    def test_just_in_time_is_not_late(self) -> None:
        camera = Camera([rule("line", line=UP, deadline=0.05)], delay=0.05)
        assert [record.late for record in crossing(camera)] == [False]


@pytest.mark.parametrize(
    ("camera", "zone", "expected"),
    [
        ("public", None, "public"),
        ("internal", None, "internal"),
        ("internal", "confidential", "confidential"),
        ("confidential", "internal", "confidential"),  # never lowered
        ("restricted", "public", "restricted"),
        ("public", "unknown", "unknown"),
        ("unknown", "public", "unknown"),
        (None, None, "unknown"),
        (None, "public", "unknown"),  # a zone's label says nothing about the rest of the picture
    ],
)
def test_data_class(camera: str | None, zone: str | None, expected: str) -> None:
    label = None if camera is None else DataClass(camera)
    (record,) = crossing(Camera([rule("line", line=UP, data_class=zone)], data_class=label))
    assert record.data_class.value == expected


def test_camera_events_have_the_cameras_class() -> None:
    for label, expected in ((DataClass.PUBLIC, "public"), (None, "unknown")):
        (record,) = Camera([], data_class=label).blind(Unobserved.STALLED)
        assert (record.data_class.value, record.severity) == (expected, Severity.WARNING)


class TestNotWatching:
    def test_it_is_said_once_and_is_over_when_a_frame_is_evaluated(self) -> None:
        camera = Camera([])
        records = camera.see()
        for _ in range(20):
            records += camera.blind(Unobserved.STALLED, detail="no frame for 5.0 s")
        records += camera.see()
        assert brief(records) == [
            ("e1", 1, "started", "camera_stalled"),
            ("e1", 2, "ended", "camera_stalled"),
        ]
        assert records[0].rule == CAMERA_RULE
        assert records[0].reason == "no frame for 5.0 s"
        assert records[1].duration_s == pytest.approx(1.99, abs=0.02)

    @pytest.mark.parametrize("reason", list(Unobserved))
    def test_every_reason_has_its_kind(self, reason: Unobserved) -> None:
        camera = Camera([])
        (started,) = camera.blind(reason)
        (ended,) = camera.see()
        assert (started.kind, ended.kind) == (reason.value, reason.value)

    def test_reasons_are_told_apart_and_end_together(self) -> None:
        camera = Camera([])
        records = camera.blind(Unobserved.STALLED) + camera.blind(Unobserved.LOST) + camera.see()
        assert brief(records) == [
            ("e1", 1, "started", "camera_stalled"),
            ("e2", 1, "started", "camera_lost"),
            ("e1", 2, "ended", "camera_stalled"),
            ("e2", 2, "ended", "camera_lost"),
        ]

    def test_frames_that_could_not_be_used_are_counted(self) -> None:
        camera = Camera([])
        for _ in range(3):
            camera.blind(Unobserved.INFERENCE_FAILED)
        (ended,) = camera.see()
        assert ended.count == 3

    def test_a_dark_or_frozen_frame_is_no_observation_even_with_tracks(self) -> None:
        camera = Camera([rule("occupancy", hold=0)])
        records = camera.see(HERE, dark=True) + camera.see(HERE, frozen=True)
        assert [record.kind for record in records] == ["camera_dark", "camera_frozen"]
        assert camera.desk.tallies() == {"r": {"occupants": 0}}

    def test_nothing_seen_is_an_absence_and_dark_is_not(self) -> None:
        absence = rule("absence", seconds=2)
        nothing, dark = Camera([absence]), Camera([absence])
        said_nothing = nothing.watch(10)
        said_dark = dark.see()
        for _ in range(100):
            said_dark += dark.see(dark=True)
        assert [record.kind for record in said_nothing] == ["absence"]
        assert [record.kind for record in said_dark] == ["camera_dark"]

    def test_the_absence_timer_goes_on_where_it_stood(self) -> None:
        camera = Camera([rule("absence", seconds=2)])
        assert camera.watch(1.5) == []
        camera.blind(Unobserved.STALLED, after=600)
        assert [record.kind for record in camera.watch(0.5)] == ["camera_stalled"]
        assert [record.kind for record in camera.watch(0.3)] == ["absence"]

    def test_before_the_first_frame(self) -> None:
        camera = Camera([rule("absence", seconds=2)])
        records = camera.blind(Unobserved.LOST) + camera.see()
        assert brief(records) == [("e1", 1, "started", "camera_lost"), ("e1", 2, "ended", "camera_lost")]
        assert records[0].at.media_s == 0

    def test_a_frame_that_was_still_on_its_way_does_not_say_that_the_camera_is_back(self) -> None:
        camera = Camera([])
        camera.see()
        captured = camera.clock.now_ns
        assert len(camera.blind(Unobserved.STALLED, after=1)) == 1
        late = Frame(camera.image, "dock", 0, 1, captured, NS_PER_S)
        assert camera.desk.observe(late, tracks()) == []
        assert camera.blind(Unobserved.STALLED) == []
        camera.sequence = 1
        assert brief(camera.see()) == [("e1", 2, "ended", "camera_stalled")]

    def test_nor_does_the_outage_after_it_count_as_observed(self) -> None:
        camera = Camera([rule("absence", seconds=2)])
        camera.watch(1)
        captured, media = camera.clock.now_ns, camera.clock.now_ns - camera._epoch_ns
        camera.blind(Unobserved.STALLED, after=5)
        on_its_way = Frame(camera.image, "dock", 0, 10, captured, media)
        assert camera.desk.observe(on_its_way, tracks()) == []
        camera.sequence = 10
        assert [record.kind for record in camera.see(after=60)] == ["camera_stalled"]

    def test_a_flapping_camera_is_capped_and_summed_up(self) -> None:
        camera, records = Camera([]), []
        for _ in range(300):
            records += camera.blind(Unobserved.INFERENCE_FAILED, after=0.05) + camera.see(after=0.05)
        started = [record for record in records if record.state is EventState.STARTED]
        assert [record.kind for record in started].count("inference_failed") == 60
        assert [record.kind for record in started].count("rate_capped") == 1
        assert camera.desk.counters().suppressed[CAMERA_RULE, "rate"] == 240


class TestEpochs:
    def test_what_hangs_on_a_track_is_interrupted(self) -> None:
        camera = Camera([rule("dwell", name="d", seconds=0.5), rule("count", name="c", at_least=1, window=9)])
        records = camera.watch(1, HERE)
        camera.reconnect()
        records += camera.see(HERE)
        assert brief(records) == [
            ("e1", 1, "started", "count"),
            ("e2", 1, "started", "dwell"),
            ("e2", 2, "interrupted", "dwell"),
            ("e1", 2, "interrupted", "count"),
            ("e3", 1, "started", "count"),
        ]
        assert records[2].reason == "the source began a new epoch"
        assert (records[2].epoch, records[2].sequence) == (1, 0)

    def test_what_hangs_on_the_zone_goes_on(self) -> None:
        camera = Camera([rule("occupancy", name="o"), rule("absence", name="a", seconds=1, labels=("car",))])
        records = camera.watch(2, HERE)
        camera.reconnect()
        records += camera.watch(3, HERE)
        assert {record.state for record in records} <= {EventState.STARTED, EventState.UPDATED}
        assert len({record.id for record in records}) == 2

    def test_an_id_that_comes_back_as_another_is_neither_quiet_nor_across(self) -> None:
        camera = Camera([rule("line", line=UP, cooldown=60)])
        assert len(crossing(camera)) == 1
        camera.reconnect()
        assert len(crossing(camera)) == 1  # id 1 again, someone else

    def test_ids_of_two_cameras_have_nothing_to_do_with_each_other(self) -> None:
        one, two = Camera([rule("line", line=UP)]), Camera([rule("line", line=UP)])
        one.watch(0.5, Seen(30, 50))
        assert two.watch(0.5, Seen(70, 50)) == []
        assert len(one.watch(0.5, Seen(70, 50))) == 1

    def test_a_frame_older_than_the_last_is_not_evaluated(self) -> None:
        camera = Camera([rule("occupancy", hold=0)])
        camera.see(HERE)
        camera.sequence = -1
        assert camera.see() == []
        assert camera.desk.tallies() == {"r": {"occupants": 1}}
        assert camera.desk.counters().stale_frames == 1


class TestCooldownAndCap:
    def test_a_track_is_quiet_and_another_is_not(self) -> None:
        camera = Camera([rule("line", line=UP, cooldown=60)])
        there_and_back = [
            record
            for x in (30, 70, 30, 70)
            for record in camera.watch(0.5, Seen(x, 50), Seen(100 - x, 60, track=2))
        ]
        assert [record.track for record in there_and_back] == [1, 2]
        assert camera.desk.counters().suppressed["r", "cooldown"] == 4
        assert camera.desk.tallies() == {"r": {"left_to_right": 3, "right_to_left": 3}}

    def test_the_cap_bites_and_one_event_says_so(self) -> None:
        camera = Camera([rule("line", line=UP, max_per_minute=2, debounce=0)])
        records = camera.watch(0.2, Seen(30, 50))
        for index in range(10):
            records += camera.see(Seen(70 if index % 2 == 0 else 30, 50))
        records += camera.watch(70, step=1)
        assert brief(records) == [
            ("e1", 1, "ended", "line"),
            ("e2", 1, "ended", "line"),
            ("e3", 1, "started", "rate_capped"),
            ("e3", 2, "updated", "rate_capped"),
            ("e3", 3, "ended", "rate_capped"),
        ]
        assert records[-1].count == 8
        assert camera.desk.counters().suppressed["r", "rate"] == 8


class TestSchedule:
    WEEK = 1_795_478_400  # 2026-11-24 00:00 UTC

    def at(self, clock: str) -> int:
        local = datetime.fromisoformat(f"2026-11-24 {clock}")
        return round(local.timestamp() * NS_PER_S)

    def test_its_end_ends_what_is_open(self) -> None:
        schedule = {"start": "08:00", "end": "17:00"}
        camera = Camera([rule("occupancy", schedule=schedule, hold=0)])
        camera.clock.unix_ns = self.at("16:59:58")
        records = camera.watch(5, HERE)
        assert brief(records) == [("e1", 1, "started", "occupancy"), ("e1", 2, "ended", "occupancy")]
        assert records[1].reason == "the schedule of this rule ended"
        assert records[1].at.media_s == pytest.approx(2, abs=1.2)

    def test_outside_it_nothing_happens_and_at_its_start_it_begins_afresh(self) -> None:
        camera = Camera([rule("zone", schedule={"start": "08:00", "end": "17:00"}, debounce=0)])
        camera.clock.unix_ns = self.at("07:59:50")
        assert camera.watch(8) == []
        assert camera.watch(8, HERE) == []  # was inside when the rule began to look
        (entered,) = camera.see(HERE, Seen(30, 50, track=2))
        assert entered.track == 2

    def test_it_runs_past_midnight(self) -> None:
        camera = Camera([rule("occupancy", schedule={"start": "22:00", "end": "06:00"}, hold=0)])
        camera.clock.unix_ns = self.at("23:59:55")
        assert [record.state.value for record in camera.watch(10, HERE)] == ["started"]

    def test_an_unsynchronised_clock_leaves_it_active(self) -> None:
        camera = Camera([rule("occupancy", schedule={"start": "22:00", "end": "06:00"}, hold=0)])
        camera.clock.unix_ns = self.at("12:00:00")
        camera.clock.synced = False
        (record,) = camera.watch(2, HERE)
        assert not record.at.synced
        camera.clock.synced = True
        assert [record.state.value for record in camera.watch(2, HERE)] == ["ended"]


@pytest.mark.parametrize("step_s", [50 * 365 * 86_400, -3600, -20 * 365 * 86_400])
def test_a_step_of_the_wall_clock_changes_labels_only(step_s: int) -> None:
    rules = [
        rule("occupancy", name="o"),
        rule("dwell", name="d", seconds=2),
        rule("absence", name="a", seconds=2, cooldown=1),
    ]
    steady, stepped = Camera(rules), Camera(rules)
    seen = []
    for camera in (steady, stepped):
        records = camera.watch(1, HERE)
        if camera is stepped:
            camera.clock.unix_ns += step_s * NS_PER_S
        records += camera.watch(4, HERE) + camera.watch(5) + camera.desk.finish(interrupted=False)
        seen.append([record.model_dump(exclude={"started": {"wall"}, "at": {"wall"}}) for record in records])
    assert seen[0] == seen[1]
    assert len(seen[0]) >= 6


class TestEnd:
    def open_everything(self) -> tuple[Camera, list[EventRecord]]:
        camera = Camera(
            [
                rule("occupancy", name="o", hold=0),
                rule("dwell", name="d", seconds=0.5),
                rule("absence", name="a", seconds=0.5, labels=("car",)),
                rule("count", name="c", at_least=1, window=60),
                rule("line", name="l", line=UP, debounce=0, max_per_minute=1),
            ]
        )
        records = camera.watch(2, HERE)
        for x in (80, 20, 80, 20):
            records += camera.see(Seen(x, 50))
        return camera, records + camera.blind(Unobserved.LOST)

    @pytest.mark.parametrize(("interrupted", "state"), [(True, "interrupted"), (False, "ended")])
    def test_everything_open_gets_its_last_revision(self, interrupted: bool, state: str) -> None:
        camera, records = self.open_everything()
        opened = {record.id for record in records if record.state is EventState.STARTED}
        camera.clock.pass_s(30)
        last = camera.desk.finish(interrupted=interrupted)
        assert {record.id for record in last} == opened
        assert len(opened) == 6
        assert {record.state.value for record in last} == {state}
        assert not any(record.late for record in last)
        assert camera.desk.finish(interrupted=interrupted) == []
        if interrupted:
            assert {r.reason for r in last if r.kind != "rate_capped"} == {"the runtime stopped watching"}

    def test_before_the_first_frame(self) -> None:
        assert Camera([rule("dwell", seconds=1)]).desk.finish(interrupted=True) == []


class TestRefusedAtTheStart:
    def test_a_cap_that_no_event_fits_says_what_is_needed(self) -> None:
        rules = [rule("line", name="a-rather-long-name-for-a-gate", line=UP)]
        with pytest.raises(
            ConfigError, match=r"events.max_bytes: 512 is too small: .* needs up to (\d+) bytes"
        ) as no:
            Camera(rules, max_bytes=512)
        needed = int(str(no.value).split()[-2])
        with pytest.raises(ConfigError):
            Camera(rules, max_bytes=needed - 1)
        camera = Camera(rules, max_bytes=needed)
        (record,) = crossing(camera)
        assert len(encode_event(record, needed)) <= needed

    def test_an_unknown_label(self) -> None:
        with pytest.raises(ConfigError, match="rule r: the model has no label 'cat'"):
            Camera([rule("line", line=UP, labels=("cat",))])


actions = st.lists(
    st.one_of(
        st.tuples(
            st.just("see"),
            st.lists(
                st.tuples(st.integers(0, 100), st.integers(1, 5), st.booleans()),
                max_size=4,
                unique_by=lambda row: row[1],
            ),
        ),
        st.tuples(st.just("blind"), st.sampled_from(list(Unobserved))),
        st.tuples(st.just("reconnect"), st.none()),
        st.tuples(st.just("jump"), st.integers(1, 90)),
    ),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(actions=actions, interrupted=st.booleans(), cap=st.integers(1, 4))
def test_every_id_has_consecutive_revisions_and_exactly_one_last_state(
    actions: list[tuple[str, object]], interrupted: bool, cap: int
) -> None:
    rules = [
        rule(
            "zone",
            name="z",
            on=("enter", "leave"),
            debounce=0.1,
            polygon=((0, 0), (0.5, 0), (0.5, 1), (0, 1)),
        ),
        rule("occupancy", name="o", hold=0.1, max_per_minute=cap),
        rule("line", name="l", line=UP, debounce=0, cooldown=0.5, max_per_minute=cap),
        rule("dwell", name="d", seconds=0.2, grace=0.1, cooldown=0.3),
        rule("absence", name="a", seconds=0.3, grace=0.1, max_per_minute=cap),
        rule("count", name="c", at_least=2, window=1, cooldown=0.2),
    ]
    camera = Camera(rules)
    records: list[EventRecord] = []
    for what, how in actions:
        if what == "see":
            records += camera.see(
                *(Seen(x, 50, track=track, seen=seen) for x, track, seen in how)  # type: ignore[attr-defined]
            )
        elif what == "blind":
            records += camera.blind(how)  # type: ignore[arg-type]
        elif what == "reconnect":
            camera.reconnect()
        else:
            camera.clock.pass_s(how)  # type: ignore[arg-type]
    records += camera.desk.finish(interrupted=interrupted)
    last = (EventState.ENDED, EventState.INTERRUPTED)
    for _, life in groupby(sorted(records, key=lambda r: r.id), key=lambda r: r.id):
        revisions = list(life)
        assert [record.revision for record in revisions] == list(range(1, len(revisions) + 1))
        assert [record.state in last for record in revisions] == [False] * (len(revisions) - 1) + [True]
        assert len({(record.kind, record.rule, record.started.monotonic_ns) for record in revisions}) == 1
    counters = camera.desk.counters()
    assert sum(counters.emitted.values()) == len(records)
    for name in ("o", "l", "a"):
        begun = [
            r.at.monotonic_ns
            for r in records
            if r.rule == name and r.revision == 1 and r.kind != "rate_capped"
        ]
        assert all(after - before >= 59 * NS_PER_S for before, after in zip(begun, begun[cap:], strict=False))


def test_the_same_input_gives_the_same_records() -> None:
    def run() -> list[EventRecord]:
        rng = np.random.default_rng(3)
        camera = Camera(
            [rule("line", name="l", line=UP), rule("occupancy", name="o", at_least=3, clear_at=1)]
        )
        records = []
        for _ in range(200):
            rows = [Seen(float(x), 50, track=t + 1) for t, x in enumerate(rng.uniform(0, 100, 5))]
            records += camera.see(*rows)
        return records

    first = run()
    assert first == run()
    assert len(first) > 3
