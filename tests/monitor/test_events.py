"""Events of the guard's states, through a real gate into the real outbox: each once, whoever is killed."""

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.guard.ring import RingEntry
from edge_runtime.monitor.announcer import age_ns
from edge_runtime.monitor.changes import Labels, event_of, reason_text
from edge_runtime.monitor.entries import Stamp, records_of
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.outbox import OutboxUnavailable
from edge_runtime.protocol import DataClass, EventRecord, EventState, Severity
from edge_runtime.protocol.delivery import ApprovedEvent
from tests.rigs import outbox
from tests.rigs.monitors import LATCH, MonitorRig, monitored

POLICY = """\
name: site
recipients:
  fleet: {place: organisation, accepts: [internal], purposes: [safety]}
permits:
  - name: states
    when: {classes: [internal]}
    to: [fleet]
    purpose: safety
    evidence: none
"""
LABELS = Labels(DataClass.INTERNAL, "sha256:" + "0" * 64)
STAMP = Stamp(1_000 * NS_PER_S, WallLabel(1_790_000_000 * NS_PER_S, True, "boot-1"))


def change(state: object = "SAFE", before: str = "INIT", **more: Any) -> FlightRecord:
    told = {"before": before, "state": state, "causes": ["worker_dead"], "latch": "0011", **more}
    entry = RingEntry(7, 1, STAMP.now_ns - NS_PER_S // 2, json.dumps(told).encode())
    return records_of([entry], "ring", STAMP, events=True)[0]


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        ("SAFE", Severity.CRITICAL),
        ("LOCKOUT", Severity.CRITICAL),
        ("STOPPED", Severity.WARNING),
        ("DEGRADED", Severity.NOTICE),
        ("NOMINAL", Severity.INFO),
        ("STANDBY", Severity.INFO),
        ("a state of a newer guard", Severity.INFO),
    ],
)
def test_a_change_becomes_an_event_of_the_device(state: str, severity: Severity) -> None:
    record = change(state)
    event = event_of(record, age_ns(record, STAMP), LABELS)
    assert event is not None
    assert (event.rule, event.camera, event.kind) == ("@guard", "@device", f"guard_{state.lower()}")
    assert (event.severity, event.data_class, event.state) == (severity, DataClass.INTERNAL, EventState.ENDED)
    assert (event.latency_ms, event.late, event.sequence) == (500.0, False, 7)
    assert event.at.monotonic_ns == STAMP.now_ns - NS_PER_S // 2
    assert event.at.wall == WallLabel(STAMP.wall.unix_ns - NS_PER_S // 2, True, "boot-1").isoformat()
    assert event.reason == f"INIT -> {state} (latch 0011): a worker process ended (worker_dead)"


def test_a_reason_is_bounded_and_says_what_it_does_not_know() -> None:
    assert reason_text({"before": "INIT", "state": "INIT", "causes": []}) == "start -> INIT"
    assert reason_text({"before": None, "state": "INIT", "causes": None}) == "start -> INIT"
    assert reason_text({"before": "INIT", "state": "SAFE", "causes": ["+3", "new_thing"]}).endswith(
        ": +3; new_thing"
    )
    event = event_of(change(causes=["worker_dead"] * 20), 0, LABELS)
    assert event is not None
    assert event.reason is not None
    assert len(event.reason) == 256


@pytest.mark.parametrize(
    "record",
    [
        change(state=3),
        FlightRecord("turn", 1, 1, True, "b", {"event": "x", "state": "SAFE"}),
        FlightRecord("change", 1, 1, True, "b", {"state": "SAFE"}),
    ],
)
def test_what_is_no_change_becomes_no_event(record: FlightRecord) -> None:
    assert event_of(record, 0, LABELS) is None


@pytest.mark.parametrize(
    ("boot", "synced", "ago_s", "expected_s"),
    [
        ("boot-1", True, 5, 5),
        ("boot-1", False, 5, 5),
        ("boot-0", True, 5000, 5000),
        ("boot-0", True, -5, 1000),
        ("boot-0", False, 5000, 1000),
    ],
)
def test_an_age_is_by_the_clock_that_can_be_believed(
    boot: str, synced: bool, ago_s: int, expected_s: int
) -> None:
    at_ns = STAMP.now_ns - ago_s * NS_PER_S if boot == "boot-1" else 77
    record = FlightRecord("change", at_ns, (1_790_000_000 - ago_s) * 1000, synced, boot, {})
    assert age_ns(record, STAMP) == expected_s * NS_PER_S


# ---- with real processes


@pytest.fixture
def monitor(tmp_path: Path) -> Iterator[MonitorRig]:
    rig = MonitorRig(tmp_path, tmp_path / "state", {}, delivers=True)
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with monitored(rig):
        yield rig


def delivered(rig: MonitorRig) -> list[EventRecord]:
    """Events that wait in the outbox for the fleet server; none while it does not answer."""
    found: list[tuple[int, bytes]] = []
    with contextlib.closing(outbox.client(rig.state)) as client, contextlib.suppress(OutboxUnavailable):
        while page := client.bodies(1000, found[-1][0] if found else 0):
            found += page
    return [EventRecord.model_validate(ApprovedEvent.decode(body).event) for _, body in found]


def wait_delivered(rig: MonitorRig, number: int, within_s: float = 30.0) -> list[EventRecord]:
    until = time.monotonic() + within_s
    while len(found := delivered(rig)) < number:
        assert time.monotonic() < until, found
        time.sleep(0.05)
    return found


def test_every_change_reaches_the_outbox_once(monitor: MonitorRig) -> None:
    with outbox.process(monitor.state):
        monitor.change("STANDBY", "NOMINAL")
        monitor.change("NOMINAL", "SAFE", "worker_dead")
        found = {event.kind: event for event in wait_delivered(monitor, 2)}
        assert set(found) == {"guard_nominal", "guard_safe"}
        safe = found["guard_safe"]
        assert safe.severity is Severity.CRITICAL
        assert safe.reason == f"NOMINAL -> SAFE (latch {LATCH}): a worker process ended (worker_dead)"
        assert not safe.late
        records = monitor.wait_flight(lambda all_of: any(record.kind == "handed" for record in all_of))
        assert safe.id in [record.fields.get("event") for record in records]
        monitor.wait_flight(
            lambda all_of: any(record.kind == "measured" and record.fields["queue"] for record in all_of)
        )
        monitor.signal(signal.SIGKILL)
        monitor.start()
        time.sleep(1)
        assert len(delivered(monitor)) == 2


def test_what_changes_while_the_outbox_is_away_waits_also_through_kill_9(monitor: MonitorRig) -> None:
    expected = []
    for run in range(3):
        state = ("STOPPED", "SAFE", "LOCKOUT")[run]
        monitor.change("NOMINAL", state, "estop")
        records = monitor.wait_flight(
            lambda found, run=run: len([one for one in found if one.kind == "change"]) == run + 1  # type: ignore[misc]
        )
        expected = [record.fields["event"] for record in records if record.kind == "change"]
        monitor.signal(signal.SIGKILL)
        monitor.start()
    with outbox.process(monitor.state):
        found = wait_delivered(monitor, 3)
        assert sorted(event.id for event in found) == sorted(expected)
        monitor.wait_flight(
            lambda all_of: all_of[-1].kind != "change" and any(r.kind == "handed" for r in all_of)
        )


def test_an_outbox_that_hangs_or_is_away_delays_no_round(monitor: MonitorRig) -> None:
    assert monitor.longest_gap_s(2) < 1.0
    with outbox.process(monitor.state) as process:
        monitor.change("STANDBY", "NOMINAL")
        wait_delivered(monitor, 1)
        process.send_signal(signal.SIGSTOP)
        monitor.change("NOMINAL", "SAFE", "worker_dead")
        assert monitor.longest_gap_s(4) < 1.0
        process.send_signal(signal.SIGCONT)
        wait_delivered(monitor, 2)


def test_asked_to_end_it_hands_over_what_it_has(monitor: MonitorRig) -> None:
    with outbox.process(monitor.state):
        monitor.change("STANDBY", "NOMINAL")
        wait_delivered(monitor, 1)
        for number in range(100):
            monitor.change("NOMINAL", "DEGRADED" if number % 2 else "NOMINAL")
        assert monitor.signal(signal.SIGTERM) == 0
        assert len(delivered(monitor)) == 101
    records, _ = monitor.flight()
    assert [record.kind for record in records[-2:]] in (["end", "handed"], ["handed", "end"])


@pytest.mark.parametrize("state", ["injected", "over"])
def test_an_injected_fault_is_an_event(state: str) -> None:
    fields = {"event": "0192e4a0-0000-7000-8000-000000000001", "fault": "00000001", "state": state}
    record = STAMP.record("fault", {**fields, "what": "camera off: the connection breaks", "by": "ada"})
    event = event_of(record, 0, LABELS)
    assert event is not None
    assert (event.kind, event.rule, event.severity) == (f"fault_{state}", "@faults", Severity.WARNING)
    assert event.reason == "camera off: the connection breaks"
    assert event.id == fields["event"]


def test_a_fault_on_a_device_that_sends_nothing_has_no_event() -> None:
    assert event_of(STAMP.record("fault", {"fault": "00000001", "state": "injected"}), 0, LABELS) is None
