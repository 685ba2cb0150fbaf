"""The gate's thread: what is submitted as what, what happens while the outbox is away, and what is said of it."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.gate import CropFolder, Gate, GateSettings, PolicyFile, RedactionFailed, WholeBlur
from edge_runtime.outbox import NotAccepted, OutboxError, Put, PutResult
from edge_runtime.protocol import DecisionKind, EventRecord, EvidenceMode, Reason
from edge_runtime.state import StateDirectory
from tests.rigs.events import FakeClock
from tests.rigs.gate import POLICY, PortOutbox, event, jpeg, put_crop


def _until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@dataclass
class Bench:
    """One gate on a clock that the test moves."""

    state: StateDirectory
    clock: FakeClock = field(default_factory=FakeClock)
    outbox: PortOutbox = field(default_factory=PortOutbox)
    redactor: Any = field(default_factory=WholeBlur)
    settings: GateSettings = field(default_factory=GateSettings)

    def open(self, policy: str | None = POLICY) -> "Bench":
        if policy is not None:
            self.state.policy.write_text(policy)
        self.gate = Gate(
            self.outbox,
            PolicyFile(self.state.policy, self.clock),
            self.state,
            crops=CropFolder(self.state.path / "ring"),
            redactor=self.redactor,
            settings=self.settings,
            clock=self.clock,
        )
        self.gate.start()
        return self

    def see(self, *events: EventRecord) -> None:
        """Write, and wait until all of it was answered."""
        before = sum(self.gate.status().decided.values())
        for item in events:
            assert self.gate.write(item)
        _until(lambda: sum(self.gate.status().decided.values()) >= before + len(events))

    def reasons(self) -> list[tuple[DecisionKind, tuple[Reason, ...]]]:
        assert self.gate.close(10.0)
        return [(receipt.decision, receipt.reasons) for receipt in self.outbox.receipts()]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(StateDirectory(tmp_path / "state").ensure())
    yield bench
    if hasattr(bench, "gate"):
        bench.gate.close(5.0)


def test_what_policy_permits_is_submitted_to_be_sent(bench: Bench) -> None:
    bench.open().see(event(bench.clock, ttl_s=100.0))
    assert bench.reasons() == [(DecisionKind.SEND, (Reason.PERMITTED,))]
    (sent,) = bench.outbox.sent()
    assert sent.decision.recipients == ("fleet",)
    assert sent.decision.policy == bench.gate.status().policy
    assert sent.event.label == "person"  # content travels in the event, never in the receipt
    (submission,) = bench.outbox.submissions
    assert submission.key.hex() == sent.decision.id.replace("-", "")
    assert submission.ttl_ns == 100 * 10**9
    assert submission.severity == 2


def test_time_to_live_runs_while_an_event_waits(bench: Bench) -> None:
    late = event(bench.clock, ttl_s=100.0)
    bench.clock.pass_s(30)
    bench.open().see(late, event(bench.clock, id="other", ttl_s=10.0))
    bench.reasons()
    assert [item.ttl_ns // 10**9 for item in bench.outbox.submissions] == [70, 10]


@pytest.mark.parametrize(
    ("policy", "changes", "decision", "reason"),
    [
        (None, {}, DecisionKind.HOLD, Reason.NO_POLICY),
        ("name: [", {}, DecisionKind.HOLD, Reason.POLICY_UNREADABLE),
        (POLICY.replace("safety]", "safety, oops: 1]"), {}, DecisionKind.HOLD, Reason.POLICY_UNREADABLE),
        (POLICY, {"data_class": "unknown"}, DecisionKind.HOLD, Reason.CLASS_UNKNOWN),
        (POLICY, {"data_class": "restricted"}, DecisionKind.HOLD, Reason.NO_PERMIT),
        (POLICY, {"rule": "heartbeat-1"}, DecisionKind.KEEP, Reason.NEVER_ESCALATE),
    ],
)
def test_everything_else_stays(
    bench: Bench, policy: str | None, changes: dict[str, Any], decision: DecisionKind, reason: Reason
) -> None:
    bench.open(policy).see(event(bench.clock, **changes))
    (found,) = bench.reasons()
    assert found[0] is decision
    assert reason in found[1]
    assert bench.outbox.sent() == []
    (submission,) = bench.outbox.submissions
    assert (submission.body == b"") == (decision is DecisionKind.KEEP)


def test_a_recipient_that_does_not_exist_makes_the_policy_unreadable_and_everything_held(
    bench: Bench,
) -> None:
    bench.open(POLICY.replace("to: [fleet]", "to: [fleeet]")).see(event(bench.clock))
    assert bench.reasons() == [(DecisionKind.HOLD, (Reason.POLICY_UNREADABLE,))]


def test_evidence_leaves_redacted_and_under_the_name_of_its_bytes(bench: Bench) -> None:
    crop = jpeg(1)
    ref = put_crop(bench.state.path / "ring", crop)
    bench.open().see(event(bench.clock, evidence=ref.model_dump()))
    bench.reasons()
    (sent,) = bench.outbox.sent()
    grant = sent.decision.evidence
    assert grant is not None
    assert grant.mode is EvidenceMode.REDACTED
    assert grant.sha256 != ref.sha256
    assert bench.state.evidence_file(grant.sha256).read_bytes() == WholeBlur().redact(crop)
    assert sent.event.evidence is not None
    assert sent.event.evidence.sha256 == grant.sha256  # the original is not even named
    assert sent.event.data_class.value == "internal"  # a redaction lowers no class
    (submission,) = bench.outbox.submissions
    assert submission.evidence is not None
    assert submission.evidence.sha256 == grant.sha256
    names = [path.name for path in bench.state.evidence.iterdir()]
    assert names == [f"{grant.sha256}.jpg"]


class Failing:
    """A redactor that fails in one of many ways."""

    def __init__(self, answer: bytes | Exception | None) -> None:
        self._answer = answer

    def redact(self, data: bytes) -> bytes:
        if isinstance(self._answer, Exception):
            raise self._answer
        return data if self._answer is None else self._answer


@pytest.mark.parametrize(
    "answer", [RedactionFailed("in doubt"), RuntimeError("broken"), MemoryError(), b"", None]
)
def test_a_redaction_that_fails_holds_the_event(bench: Bench, answer: bytes | Exception | None) -> None:
    bench.redactor = Failing(answer)
    ref = put_crop(bench.state.path / "ring", jpeg())
    bench.open().see(event(bench.clock, evidence=ref.model_dump()))
    assert bench.reasons() == [(DecisionKind.HOLD, (Reason.REDACTION_FAILED,))]
    assert bench.outbox.sent() == []
    (receipt,) = bench.outbox.receipts()
    assert (receipt.recipients, receipt.evidence, receipt.permit) == ((), None, None)


@pytest.mark.parametrize("harm", ["gone", "changed", "longer", "link", "folder"])
def test_a_crop_that_is_not_the_one_that_is_named_holds_the_event(bench: Bench, harm: str) -> None:
    ring = bench.state.path / "ring"
    ref = put_crop(ring, jpeg())
    file = ring / ref.name
    data = file.read_bytes()
    file.unlink()
    if harm == "changed":
        file.write_bytes(data[:-1] + b"\0")
    elif harm == "longer":
        file.write_bytes(data + b"\0")
    elif harm == "link":
        (ring / "other").write_bytes(data)
        file.symlink_to("other")
    elif harm == "folder":
        file.mkdir()
    bench.open().see(event(bench.clock, evidence=ref.model_dump()))
    assert bench.reasons() == [(DecisionKind.HOLD, (Reason.EVIDENCE_MISSING,))]


@pytest.mark.parametrize("name", ["../policy.yaml", "/etc/passwd", "..", "a\0b"])
def test_a_crop_has_no_path(bench: Bench, name: str) -> None:
    ref = put_crop(bench.state.path / "ring", jpeg())
    bench.open().see(event(bench.clock, evidence={**ref.model_dump(), "name": name}))
    assert bench.reasons() == [(DecisionKind.HOLD, (Reason.EVIDENCE_MISSING,))]


def test_a_held_event_keeps_its_crop_for_the_reviewer(bench: Bench) -> None:
    ref = put_crop(bench.state.path / "ring", jpeg())
    bench.open().see(event(bench.clock, data_class="restricted", evidence=ref.model_dump()))
    bench.reasons()
    (submission,) = bench.outbox.submissions
    assert submission.evidence is not None
    assert submission.evidence.sha256 == ref.sha256
    assert bench.state.evidence_file(ref.sha256).exists()


def test_a_full_disk_for_crops_holds(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    ref = put_crop(bench.state.path / "ring", jpeg())
    bench.state.evidence.rmdir()  # as a disk that cannot be written: the folder is gone
    bench.open().see(event(bench.clock, evidence=ref.model_dump()))
    assert bench.reasons() == [(DecisionKind.HOLD, (Reason.EVIDENCE_MISSING,))]


def test_budgets_and_repeats_are_counted_over_a_run(bench: Bench) -> None:
    limited = POLICY.replace("evidence: redacted", "budget: {events_per_hour: 3}\n    coalesce: 60")
    bench.open(limited)

    def see(number: int, revision: int = 1) -> None:
        bench.see(event(bench.clock, id=f"event-{number}", revision=revision))
        bench.clock.pass_s(10)

    see(1)
    see(2)  # 10 s later: a repeat
    see(1, revision=2)  # the end of what was sent
    see(2, revision=2)  # the end of what was kept
    bench.clock.pass_s(60)
    see(3)
    bench.clock.pass_s(60)
    see(4)  # over the budget of three an hour
    bench.clock.pass_s(3660)
    see(5)
    assert bench.reasons() == [
        (DecisionKind.SEND, (Reason.PERMITTED,)),
        (DecisionKind.KEEP, (Reason.COALESCED,)),
        (DecisionKind.SEND, (Reason.PERMITTED,)),
        (DecisionKind.KEEP, (Reason.COALESCED,)),
        (DecisionKind.SEND, (Reason.PERMITTED,)),
        (DecisionKind.HOLD, (Reason.EVENT_BUDGET_SPENT,)),
        (DecisionKind.SEND, (Reason.PERMITTED,)),
    ]


def test_a_policy_that_breaks_while_running_holds_and_comes_back(bench: Bench) -> None:
    bench.open().see(event(bench.clock))
    first = bench.gate.status().policy
    bench.state.policy.write_text(POLICY + "permits: again\n")
    _settle(bench)
    bench.see(event(bench.clock, id="second"))
    assert bench.gate.status().policy is None
    assert any("gate check" in line for line in bench.gate.notices())
    bench.state.policy.unlink()
    bench.clock.pass_s(1)
    bench.see(event(bench.clock, id="third"))
    bench.state.policy.write_text(POLICY.replace("name: site", "name: site2"))
    bench.clock.pass_s(1)
    bench.see(event(bench.clock, id="fourth"))
    second = bench.gate.status().policy
    assert second not in (None, first)
    assert [reasons for _, reasons in bench.reasons()] == [
        (Reason.PERMITTED,),
        (Reason.POLICY_UNREADABLE,),
        (Reason.NO_POLICY,),
        (Reason.PERMITTED,),
    ]


def _settle(bench: Bench) -> None:
    """Let the gate look at the changed file until it has been left alone long enough."""
    until = time.monotonic() + 20
    while bench.gate.status().policy is not None:
        assert time.monotonic() < until
        bench.clock.pass_s(0.5)
        time.sleep(0.05)


def test_while_the_outbox_is_away_events_wait_and_the_overflow_is_counted(bench: Bench) -> None:
    bench.settings = GateSettings(ring_events=10)
    bench.open().see(event(bench.clock, id="before"))
    bench.outbox.away = True
    bench.see(event(bench.clock, id="under way"))
    written = [bench.gate.write(event(bench.clock, id=f"e{number}")) for number in range(25)]
    assert written == [True] * 10 + [False] * 15
    _until(lambda: bench.gate.status().outbox_away)
    assert bench.gate.write(
        event(bench.clock, id="alarm", severity="critical")
    )  # in the place of a lesser one
    bench.outbox.away = False
    assert bench.gate.close(20.0)
    assert len(bench.outbox.submissions) == 12
    assert bench.outbox.lost == {NotAccepted.HAND_OVER.value: 16}
    assert bench.gate.status().overflowed == 16
    assert bench.outbox.receipts()[2].severity.value == "critical"  # first after what was under way


def test_an_outbox_that_never_comes_back_ends_the_wait_at_close(bench: Bench) -> None:
    bench.outbox.away = True
    bench.open()
    for number in range(5):
        bench.gate.write(event(bench.clock, id=f"e{number}"))
    assert bench.outbox.called.wait(10)
    began = time.monotonic()
    assert not bench.gate.close(0.3)
    assert time.monotonic() - began < 5
    assert bench.gate.status().overflowed == 5
    assert not bench.gate.write(event(bench.clock))


def test_a_draining_outbox_is_asked_again_and_a_full_one_is_not(bench: Bench) -> None:
    bench.outbox.answer = PutResult(Put.NOT_ACCEPTED, NotAccepted.DRAINING)
    bench.open()
    bench.gate.write(event(bench.clock))
    assert bench.outbox.called.wait(10)
    bench.outbox.answer = PutResult(Put.NOT_ACCEPTED, NotAccepted.FULL)
    assert bench.gate.close(20.0)
    assert bench.gate.status().not_accepted == {"full": 1}
    assert any("not accepted by the outbox: full 1" in line for line in bench.gate.notices())


@pytest.mark.parametrize("error", [ValueError("poison"), OutboxError("the database failed")])
def test_one_event_that_cannot_be_put_does_not_stop_the_others(
    bench: Bench, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_runtime.gate.gate._RETRY_MOST_S", 0.05)
    bench.outbox.poison_error = error
    bench.outbox.poison = b"poisoned"
    bench.outbox.away = True
    bench.open()
    for name in ("first", "second", "poisoned", "third"):
        bench.gate.write(event(bench.clock, id=name))
    assert bench.outbox.called.wait(10)
    bench.outbox.away = False
    assert bench.gate.close(20.0)
    assert [receipt.event for receipt in bench.outbox.receipts()] == ["first", "second", "third"]
    assert bench.outbox.lost == {"hand_over": 1}


def test_write_never_raises_and_never_waits(bench: Bench) -> None:
    blocked = threading.Event()

    class Stuck(PortOutbox):
        def put(self, submissions: Any) -> Any:
            blocked.wait(20)
            return super().put(submissions)

    bench.outbox = Stuck()
    bench.settings = GateSettings(ring_events=50)
    bench.open()
    slowest = 0.0
    for number in range(200):
        item = event(bench.clock, id=f"e{number}")
        began = time.perf_counter()
        bench.gate.write(item)
        slowest = max(slowest, time.perf_counter() - began)
    assert not bench.gate.write(object())  # type: ignore[arg-type]
    blocked.set()
    assert bench.gate.close(20.0)
    assert slowest < 1.0  # it never waited for the outbox, which was stuck all the time
    status = bench.gate.status()
    assert sum(status.accepted.values()) + status.overflowed == 201


def test_the_first_run_says_loudly_that_everything_is_held(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    from edge_runtime.telemetry import configure_logging

    configure_logging("info")
    bench.open(None).see(*(event(bench.clock, id=f"e{n}", data_class="unknown") for n in range(3)))
    bench.reasons()
    log = capsys.readouterr().err
    assert "no policy: every event is held" in log
    assert str(bench.state.policy) in log
    assert log.count("class unknown: every event is held") == 1
    notices = "\n".join(bench.gate.notices())
    assert "no policy: everything is held; write" in notices
    assert "data_class: internal" in notices
    assert "under cameras.dock-1" in notices
    site = Path("site.yaml")
    assert any(line.endswith("under cameras.dock-1 in site.yaml") for line in bench.gate.notices(site))
    assert "3 events held" in notices
    assert "edge-runtime gate list" in notices


def test_a_canary_in_content_is_in_no_log_receipt_notice_or_status(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    from edge_runtime.telemetry import configure_logging

    configure_logging("debug")
    canary = "CANARY-7f3a"
    bench.redactor = Failing(RuntimeError(f"cannot read {canary}"))
    ref = put_crop(bench.state.path / "ring", jpeg(), name=f"{canary}.jpg")
    content = {"label": canary, "reason": f"saw {canary}", "direction": canary}
    bench.open().see(
        event(bench.clock, id="a", evidence=ref.model_dump(), **content),
        event(bench.clock, id="b", data_class="unknown", **content),
        event(bench.clock, id="c", evidence={**ref.model_dump(), "sha256": "0" * 64}, **content),
        event(bench.clock, id="d", **content),
        event(bench.clock, id="e", rule="heartbeat", **content),
    )
    bench.reasons()
    assert [item.kind for item in bench.outbox.submissions].count(DecisionKind.SEND) == 1
    receipts = b"".join(item.receipt for item in bench.outbox.submissions)
    said = [capsys.readouterr().err, repr(receipts), repr(bench.gate.status()), *bench.gate.notices()]
    names = [path.name for path in bench.state.evidence.iterdir()]
    assert canary not in "\n".join([*said, *names])
    assert canary.encode() not in receipts


def _restarted(bench: Bench) -> list[tuple[DecisionKind, tuple[Reason, ...]]]:
    """Another gate, as after a crash, on the same outbox sees one more event."""
    limited = POLICY.replace("evidence: redacted", "budget: {events_per_hour: 2}\n    coalesce: 30")
    bench.open(limited).see(event(bench.clock, id=f"event-{len(bench.outbox.submissions)}"))
    return bench.reasons()


def test_a_restart_gives_no_budget_back(bench: Bench) -> None:
    answers = []
    for seconds in (0, 10, 40, 40, 3700):
        bench.clock.pass_s(seconds)
        answers.append(_restarted(bench)[-1])
    assert answers == [
        (DecisionKind.SEND, (Reason.PERMITTED,)),
        (DecisionKind.KEEP, (Reason.COALESCED,)),
        (DecisionKind.SEND, (Reason.PERMITTED,)),
        (DecisionKind.HOLD, (Reason.EVENT_BUDGET_SPENT,)),
        (DecisionKind.SEND, (Reason.PERMITTED,)),
    ]


def test_a_thousand_kept_events_hide_nothing_that_was_sent_before_them(bench: Bench) -> None:
    for _ in range(2):
        assert _restarted(bench)[-1][0] is DecisionKind.SEND
        bench.clock.pass_s(60)
    bench.open().see(event(bench.clock, id="beat", rule="heartbeat"))
    bench.reasons()
    beat = bench.outbox.submissions[-1]
    assert beat.kind is DecisionKind.KEEP
    bench.outbox.submissions += [beat] * 2500
    assert _restarted(bench)[-1] == (DecisionKind.HOLD, (Reason.EVENT_BUDGET_SPENT,))


def test_after_a_reboot_decisions_are_dated_by_a_clock_that_was_right(bench: Bench) -> None:
    class Rebooted(FakeClock):
        def wall(self) -> WallLabel:
            return WallLabel(self.unix_ns, self.synced, "another-boot")

    for _ in range(2):
        assert _restarted(bench)[-1][0] is DecisionKind.SEND
        bench.clock.pass_s(60)
    right = Rebooted(now_ns=5 * NS_PER_S, unix_ns=bench.clock.unix_ns)
    bench.clock = right
    assert _restarted(bench)[-1] == (DecisionKind.HOLD, (Reason.EVENT_BUDGET_SPENT,))


def test_after_a_reboot_without_a_clock_that_is_right_nothing_is_given_back_before_its_hour(
    bench: Bench,
) -> None:
    class Rebooted(FakeClock):
        def wall(self) -> WallLabel:
            return WallLabel(self.unix_ns, synced=False, boot_id="another-boot")

    for _ in range(2):
        assert _restarted(bench)[-1][0] is DecisionKind.SEND
        bench.clock.pass_s(60)
    bench.clock = Rebooted(now_ns=5 * NS_PER_S, unix_ns=0)
    assert _restarted(bench)[-1] == (DecisionKind.KEEP, (Reason.COALESCED,)), "it may have been just now"
    bench.clock = Rebooted(now_ns=45 * NS_PER_S, unix_ns=0)
    assert _restarted(bench)[-1] == (DecisionKind.HOLD, (Reason.EVENT_BUDGET_SPENT,))
    bench.clock = Rebooted(now_ns=3700 * NS_PER_S, unix_ns=0)
    assert _restarted(bench)[-1][0] is DecisionKind.SEND


def test_until_the_past_is_read_back_nothing_is_decided(bench: Bench) -> None:
    bench.outbox.away = True
    bench.open()
    bench.gate.write(event(bench.clock))
    assert bench.outbox.called.wait(10)
    assert bench.gate.status().decided == {}
    _until(lambda: bench.gate.status().outbox_away)
    bench.outbox.away = False
    assert bench.reasons() == [(DecisionKind.SEND, (Reason.PERMITTED,))]
    assert not bench.gate.status().outbox_away


def test_an_event_that_no_decision_can_be_written_about_is_counted_and_stops_nothing(bench: Bench) -> None:
    bench.open()
    odd = event(bench.clock, id="odd").model_copy(update={"rule": "r" * 500})  # never validated
    assert bench.gate.write(odd)
    assert not bench.gate.write(event(bench.clock).model_copy(update={"reason": "x" * 70_000}))
    bench.see(event(bench.clock, id="next", ttl_s=1e300))
    assert bench.reasons() == [(DecisionKind.SEND, (Reason.PERMITTED,))]
    assert bench.outbox.submissions[0].ttl_ns <= 400 * 86_400 * NS_PER_S
    assert bench.outbox.lost == {"hand_over": 2}
