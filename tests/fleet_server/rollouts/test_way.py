"""The way of a device to a release: each condition that is not met is the answer, and says what would change it."""

import re
from dataclasses import replace
from typing import Any

import pytest

from edge_runtime.cli.commands import COMMANDS as DEVICE_COMMANDS
from edge_runtime.protocol.fitting import misfit
from edge_runtime.protocol.release import Fit, Opening, ReleaseKind, ReleaseTerms, VersionBounds
from edge_runtime.protocol.update import DeviceFacts, UpdateAction, UpdateCode
from fleet_server.cli.commands import COMMANDS as FLEET_COMMANDS
from fleet_server.rollouts import asking
from fleet_server.rollouts.decision import RolloutFacts, StageFacts
from fleet_server.rollouts.member_records import MemberView, StepState, WayStep
from fleet_server.rollouts.membership import Candidate, Place, Runs
from fleet_server.rollouts.plan_records import Pacing, RolloutPlan, StagePlan, WeeklyWindow
from fleet_server.rollouts.remedies import ENGINE, EXCLUSIONS, REMEDIES, remedy
from fleet_server.rollouts.states import APART, BAD, WORKING, Exclusion, MemberState, RolloutState, StageState
from fleet_server.rollouts.verdict import StageCounts
from fleet_server.rollouts.way import DeviceNow, RolloutNow, fit_text, way

NOW = 1_796_112_000_000  # 2026-12-01 08:00 UTC, a Tuesday
HOUR = 3_600_000
FACTS = DeviceFacts(hardware=("generic", "cart"), architecture="aarch64", runtime="1.2.0", memory_mb=4000)
TERMS = ReleaseTerms(
    kind=ReleaseKind.MODEL,
    name="people",
    counter=7,
    package="sha256:" + "a" * 64,
    total_bytes=1000,
    salt="0" * 16,
    openings=(Opening(basis_points=1000), Opening(basis_points=10_000, not_before_ms=NOW + HOUR)),
)
PLAN = RolloutPlan(
    name="night",
    slot="people",
    release="people",
    counter=7,
    labels={"site": "berlin"},
    stages=(StagePlan(basis_points=1000), StagePlan()),
    pacing=Pacing(max_in_flight=5, bytes_per_hour=9000),
)
OPEN, PASSED, PENDING = (
    StageFacts(state, StageCounts({})) for state in (StageState.OPEN, StageState.PASSED, StageState.PENDING)
)


def rollout(state: RolloutState = RolloutState.RUNNING, **changes: Any) -> RolloutNow:
    facts = RolloutFacts(state, PLAN, TERMS, (OPEN, PENDING))
    own = {name: changes.pop(name) for name in ("needs", "reason", "verdicts") if name in changes}
    values = {"needs": None, "reason": "", "verdicts": ("2 of 9 bad", ""), **own}
    return RolloutNow(rollout="r3", facts=replace(facts, **changes), **values)


def device(member: MemberView | None = None, **changes: Any) -> DeviceNow:
    candidate = Candidate("dock-1", "active", {"site": "berlin"}, FACTS, Runs(None, 0))
    values = {
        "candidate": candidate,
        "where": Place("dock-1", 77, 0),
        "busy_with": None,
        "online": True,
        "since_ms": NOW - HOUR,
        "is_published": True,
    }
    return DeviceNow(**{**values, **changes}, member=member)


def member(state: MemberState = MemberState.PENDING, **changes: Any) -> MemberView:
    values: dict[str, Any] = {
        "device": "dock-1",
        "stage": 1,
        "bucket": 77,
        "action": UpdateAction.INSTALL,
        "state": state,
        "code": None,
        "text": "",
        "seq": None if state is MemberState.PENDING else 4,
        "since_ms": NOW,
        "heard_ms": None,
        "excused": False,
    }
    return MemberView(**values | changes)


def last(rollout: RolloutNow, device: DeviceNow) -> WayStep:
    found = way(rollout, device, NOW)
    assert all(step.standing is StepState.MET for step in found[:-1])
    assert all(step.change == "" for step in found[:-1])
    return found[-1]


def excluded(reason: Exclusion, detail: str | None = None) -> Place:
    return Place("dock-1", 77, None, reason, detail)


@pytest.mark.parametrize(
    ("rollout", "device", "step", "standing", "text", "change"),
    [
        (
            rollout(),
            device(candidate=Candidate("dock-1", "active", {}, FACTS, Runs(None, 0))),
            "selected",
            StepState.STOPS,
            "its labels lack site=berlin",
            "fleet device label dock-1 site=berlin",
        ),
        (
            rollout(plan=PLAN.model_copy(update={"hardware": ("orin",)})),
            device(),
            "selected",
            StepState.STOPS,
            "the plan is for orin, and it answers to generic or cart",
            "hardware",
        ),
        (
            rollout(),
            device(where=excluded(Exclusion.REVOKED)),
            "revoked",
            StepState.STOPS,
            "revoked",
            "invite",
        ),
        (
            rollout(),
            device(where=excluded(Exclusion.NEVER_SEEN)),
            "never-seen",
            StepState.STOPS,
            "never",
            "updates",
        ),
        (
            rollout(),
            device(where=excluded(Exclusion.NO_SUCH_SLOT)),
            "no-such-slot",
            StepState.STOPS,
            "people",
            "",
        ),
        (
            rollout(),
            device(where=excluded(Exclusion.NEWER_RUNS)),
            "newer-runs",
            StepState.STOPS,
            "higher",
            "",
        ),
        (
            rollout(),
            device(where=excluded(Exclusion.BUSY), busy_with="r2"),
            "busy",
            StepState.STOPS,
            "r2 has it for the slot people",
            "fleet rollout status r2",
        ),
        (
            rollout(terms=TERMS.model_copy(update={"fit": Fit(memory_mb=8000)})),
            device(where=excluded(Exclusion.INCOMPATIBLE, "no-memory")),
            "incompatible",
            StepState.STOPS,
            "the release is for 8000 MB of memory, the device has 4000 MB",
            "people signed",
        ),
        (rollout(), device(), "chosen", StepState.STOPS, "it fits now", "once the rollout is completed"),
        (rollout(RolloutState.COMPLETED), device(), "joins", StepState.WAITS, "joins by itself", ""),
        (
            rollout(RolloutState.AWAITING_APPROVAL, needs="start", reason="made by anna"),
            device(member()),
            "rollout",
            StepState.STOPS,
            "r3 is awaiting approval: made by anna",
            "fleet rollout approve r3",
        ),
        (
            rollout(RolloutState.READY),
            device(member()),
            "rollout",
            StepState.STOPS,
            "ready",
            "fleet rollout start r3",
        ),
        (
            rollout(RolloutState.READY, plan=PLAN.model_copy(update={"start_at_ms": NOW + HOUR})),
            device(member()),
            "rollout",
            StepState.WAITS,
            "ready",
            "it starts at 2026-12-01 09:00 UTC",
        ),
        (
            rollout(RolloutState.PAUSED),
            device(member()),
            "rollout",
            StepState.STOPS,
            "paused",
            "rollout resume r3",
        ),
        (rollout(RolloutState.CANCELLED), device(member()), "rollout", StepState.STOPS, "", "a new rollout"),
        (rollout(revoked=True), device(member()), "release", StepState.STOPS, "revoked", "another release"),
        (
            rollout(),
            device(member(stage=2)),
            "stage",
            StepState.WAITS,
            "stage 1 is open: 2 of 9 bad",
            "stage 1 passes",
        ),
        (
            rollout(stages=(replace(OPEN, state=StageState.FAILED), PENDING)),
            device(member(stage=2)),
            "stage",
            StepState.STOPS,
            "stage 1 is failed",
            "",
        ),
        (
            rollout(stages=(PASSED, PENDING)),
            device(member(stage=2)),
            "stage",
            StepState.WAITS,
            "stage 2 opens at 2026-12-01 09:00 UTC",
            "signed openings",
        ),
        (
            rollout(
                stages=(PASSED, PENDING), terms=TERMS.model_copy(update={"openings": TERMS.openings[:1]})
            ),
            device(member(stage=2)),
            "stage",
            StepState.STOPS,
            "nobody signed for so large a share",
            "people sign",
        ),
        (
            rollout(),
            device(member(), online=False),
            "there",
            StepState.WAITS,
            "it is away since 2026-12-01 07:00 UTC",
            "connection",
        ),
        (
            rollout(),
            device(member(), online=False, since_ms=None),
            "there",
            StepState.WAITS,
            "it was never there",
            "",
        ),
        (
            rollout(
                plan=PLAN.model_copy(
                    update={"windows": (WeeklyWindow(days=("wed",), start="22:00", end="23:00"),)}
                )
            ),
            device(member()),
            "window",
            StepState.WAITS,
            "the next window begins at 2026-12-02 22:00 UTC",
            "",
        ),
        (
            rollout(),
            device(member()),
            "turn",
            StepState.WAITS,
            "its turn has not come",
            "5 are asked at once, and 9000 bytes an hour",
        ),
        (
            rollout(),
            device(member(MemberState.ASSIGNED)),
            "signed",
            StepState.WAITS,
            "not signed",
            "fleet health",
        ),
        (
            rollout(),
            device(member(MemberState.OFFERED), is_published=False),
            "told",
            StepState.WAITS,
            "not yet handed to the broker",
            "fleet health",
        ),
        (
            rollout(),
            device(member(MemberState.OFFERED), online=False),
            "told",
            StepState.WAITS,
            "the broker keeps the offer for it",
            "",
        ),
        (
            rollout(),
            device(member(MemberState.OFFERED)),
            "told",
            StepState.WAITS,
            "not answered",
            "update status",
        ),
        (
            rollout(RolloutState.PAUSED),
            device(member(MemberState.WAITING, code="locked", text="the body is locked by anna")),
            "answer",
            StepState.WAITS,
            "waiting (locked): the body is locked by anna, since 2026-12-01 08:00 UTC",
            "update unlock",
        ),
        (
            rollout(RolloutState.HALTED),
            device(member(MemberState.REVERTED, code="probation-nonfinite")),
            "answer",
            StepState.STOPS,
            "tried, and went back to what ran before (probation-nonfinite)",
            "other content",
        ),
        (
            rollout(),
            device(member(MemberState.STUCK, code="deadline")),
            "answer",
            StepState.STOPS,
            "stuck: it stayed in one state",
            "update history",
        ),
        (
            rollout(),
            device(member(MemberState.UNREACHABLE)),
            "answer",
            StepState.STOPS,
            "not there for",
            "connection",
        ),
        (
            rollout(RolloutState.ROLLED_BACK),
            device(member(MemberState.WITHDRAWN, action=UpdateAction.HOLD, code="no-release-before")),
            "answer",
            StepState.STOPS,
            "taken back (no-release-before)",
            "came with no release to go back to",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_first_condition_that_is_not_met(
    rollout: RolloutNow, device: DeviceNow, step: str, standing: StepState, text: str, change: str
) -> None:
    found = last(rollout, device)
    assert (found.step, found.standing) == (step, standing)
    assert text in found.text
    assert change in found.change
    assert found.change or standing is StepState.WAITS, "whoever is stopped is told what would change it"


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (UpdateAction.INSTALL, "it runs the release and is well"),
        (UpdateAction.ROLLBACK, "it is back to what it ran before"),
        (UpdateAction.HOLD, "it took the release before"),
    ],
)
def test_a_device_that_is_well_met_all_of_them(action: UpdateAction, text: str) -> None:
    found = way(rollout(RolloutState.COMPLETED), device(member(MemberState.HEALTHY, action=action)), NOW)
    assert [step.step for step in found] == ["chosen", "asked", "answer"]
    assert found[-1].text.startswith(text)
    assert found[0].text == "part of it in stage 1: its bucket 77 of 10000 is below 1000"


@pytest.mark.parametrize("state", [state for state in MemberState if state is not MemberState.PENDING])
def test_every_state_of_a_device_has_an_answer(state: MemberState) -> None:
    found = last(rollout(), device(member(state)))
    stands = (
        StepState.MET
        if state is MemberState.HEALTHY
        else StepState.WAITS
        if state in WORKING
        else StepState.STOPS
    )
    assert found.standing is stands
    assert state is MemberState.HEALTHY or state in WORKING or found.change
    assert state in WORKING or state in BAD or state in APART or state is MemberState.HEALTHY


@pytest.mark.parametrize("state", RolloutState)
@pytest.mark.parametrize("needs", [None, "start", "continue", "rollback"])
def test_every_state_of_a_rollout_has_an_answer(state: RolloutState, needs: str | None) -> None:
    found = last(rollout(state, needs=needs), device(member()))
    assert found.text
    assert found.standing is not StepState.MET


def test_every_code_has_a_remedy() -> None:
    assert set(REMEDIES) == set(UpdateCode)
    assert set(EXCLUSIONS) == set(Exclusion)
    assert set(ENGINE) == {asking.NO_RELEASE_BEFORE, asking.NOT_PERMITTED, asking.RELEASE_GONE, asking.HELD}
    assert all(text and not text.endswith(".") for text in (*REMEDIES.values(), *EXCLUSIONS.values()))
    assert remedy(None) == ""
    assert remedy("a-word-of-a-newer-runtime") == ""


def test_every_command_in_a_remedy_exists() -> None:
    texts = " ; ".join((*REMEDIES.values(), *EXCLUSIONS.values(), *ENGINE.values()))
    for program, table in (("fleet", FLEET_COMMANDS), ("edge-runtime", DEVICE_COMMANDS)):
        rows = {row.name: set(row.exits) for row in table}
        named = re.findall(rf"\b{program} ([a-z]+)(?: ([a-z]+))?", texts)
        assert len(named) > 3
        for group, command in named:
            assert group in rows, (program, group)
            assert rows[group] == {""} or command in rows[group], (program, group, command)


@pytest.mark.parametrize(
    ("fit", "text"),
    [
        (Fit(hardware=("orin", "nano")), "the release is for orin or nano, the device has generic or cart"),
        (Fit(architectures=("x86_64",)), "the release is for x86_64, the device has aarch64"),
        (
            Fit(compute_capabilities=("8.7",)),
            "the release is for compute capability 8.7, the device has none",
        ),
        (
            Fit(l4t=VersionBounds(at_least="36.4")),
            "the release is for L4T at least 36.4, the device has none",
        ),
        (
            Fit(tensorrt=VersionBounds(at_least="10.3", below="11")),
            "the release is for TensorRT at least 10.3 and below 11, the device has none",
        ),
        (
            Fit(runtime=VersionBounds(at_least="2")),
            "the release is for runtime at least 2, the device has 1.2.0",
        ),
        (Fit(memory_mb=8000), "the release is for 8000 MB of memory, the device has 4000 MB"),
    ],
)
def test_what_does_not_fit_is_said_with_both_sides(fit: Fit, text: str) -> None:
    code = misfit(fit, FACTS)
    assert code is not None
    assert fit_text(fit, FACTS, code.value) == text
