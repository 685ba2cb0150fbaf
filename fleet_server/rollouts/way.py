"""The way of one device to the release of one rollout, as far as it came, and what would bring it further.

A function of what the database has at one moment. The conditions are looked at in the order in which they have to
be met, and the first that is not is the answer: what comes after it has not been asked yet.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from edge_runtime.protocol.release import BUCKETS, Fit, VersionBounds
from edge_runtime.protocol.update import DeviceFacts, UpdateAction, UpdateCode
from fleet_server.in_words import instant
from fleet_server.rollouts.decision import RolloutFacts, opens_at
from fleet_server.rollouts.member_records import MemberView, StepState, WayStep
from fleet_server.rollouts.membership import Candidate, Place
from fleet_server.rollouts.remedies import EXCLUSIONS, REMEDIES, remedy
from fleet_server.rollouts.states import BAD, WORKING, Exclusion, MemberState, RolloutState, StageState


@dataclass(frozen=True, slots=True)
class RolloutNow:
    """A rollout at one moment.

    Attributes:
        facts: its state, plan, terms and stages.
        needs: the approval that it waits for: `start`, `continue`, `rollback`, or None.
        reason: why it stands where it stands.
        verdicts: what was last said of each stage; empty where nothing was.
    """

    rollout: str
    facts: RolloutFacts
    needs: str | None
    reason: str
    verdicts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceNow:
    """A device at the same moment, as this rollout sees it.

    Attributes:
        where: its place, computed as if it were chosen now.
        busy_with: id of another rollout that has it for this slot.
        online: whether it has a session; `since_ms` from when on, None where it never had one.
        member: its place in the rollout; None where it is not part.
        is_published: what the device should see was handed to the broker.
    """

    candidate: Candidate
    where: Place
    busy_with: str | None
    online: bool
    since_ms: int | None
    member: MemberView | None
    is_published: bool


def way(rollout: RolloutNow, device: DeviceNow, now_ms: int) -> tuple[WayStep, ...]:
    """The steps up to the first that is not met."""
    before = _chosen if device.member is not None else _choosing
    found: list[WayStep] = []
    for step in chain(before(rollout, device), _after(rollout, device, now_ms)):
        found.append(step)
        if step.standing is not StepState.MET:
            break
    return tuple(found)


def fit_text(fit: Fit, facts: DeviceFacts, code: str) -> str:
    """What the release was made for and what the device is, where they do not fit."""
    wanted, found = _FITS[UpdateCode(code)](fit, facts)
    return f"the release is for {wanted}, the device has {found}"


# -- whether it is part ------------------------------------------------------------------------------------------


def _choosing(rollout: RolloutNow, device: DeviceNow) -> Iterator[WayStep]:
    """Of a device that is not part: what would be found if it were chosen now."""
    plan, terms, candidate = rollout.facts.plan, rollout.facts.terms, device.candidate
    missing = {name: text for name, text in plan.labels.items() if candidate.labels.get(name) != text}
    if missing:
        told = " ".join(f"{name}={text}" for name, text in sorted(missing.items()))
        yield _stop("selected", f"its labels lack {told}", f"fleet device label {candidate.device} {told}")
    if (
        plan.hardware
        and candidate.facts is not None
        and not set(plan.hardware) & set(candidate.facts.hardware)
    ):
        told = _listed(candidate.facts.hardware)
        text = f"the plan is for {_listed(plan.hardware)}, and it answers to {told}"
        yield _stop("selected", text, "a plan that names its hardware")
    yield _met("selected", "its labels and hardware are those of the plan")
    excluded = device.where.excluded
    if excluded is Exclusion.INCOMPATIBLE and candidate.facts is not None and device.where.detail is not None:
        text = fit_text(terms.fit, candidate.facts, device.where.detail)
        yield _stop(excluded.value, text, REMEDIES[UpdateCode(device.where.detail)])
    elif excluded is Exclusion.BUSY:
        other = device.busy_with or "another rollout"
        change = f"its end: fleet rollout status {other}" if device.busy_with else EXCLUSIONS[excluded]
        yield _stop(excluded.value, f"{other} has it for the slot {plan.slot}", change)
    elif excluded is not None:
        yield _stop(excluded.value, _EXCLUDED[excluded].format(slot=plan.slot), EXCLUSIONS[excluded])
    if rollout.facts.state is RolloutState.COMPLETED and plan.converge:
        yield _wait("joins", "it fits, and joins by itself", "")
    text = "it fits now, and was not there, or did not fit, when devices were chosen"
    change = "a new rollout" if rollout.facts.state.is_over else "it joins once the rollout is completed"
    yield _stop("chosen", text, change if plan.converge else "a new rollout")


def _chosen(rollout: RolloutNow, device: DeviceNow) -> Iterator[WayStep]:
    """Of a device that is part."""
    assert device.member is not None
    stage = rollout.facts.plan.stages[device.member.stage - 1]
    share = f"below {stage.basis_points}" if stage.basis_points < BUCKETS else "in a stage of all"
    text = f"part of it in stage {device.member.stage}: its bucket {device.member.bucket} of {BUCKETS} is {share}"
    yield _met("chosen", text)


# -- whether it is asked -----------------------------------------------------------------------------------------


def _after(rollout: RolloutNow, device: DeviceNow, now_ms: int) -> Iterator[WayStep]:
    member = device.member
    if member is None:
        return
    if member.state is MemberState.PENDING:
        if rollout.facts.revoked:
            yield _stop("release", "its release was revoked", "another release, with a rollout of its own")
        yield _rollout_step(rollout)
        yield _stage_step(rollout, member.stage - 1, now_ms)
        if not device.online:
            yield _wait("there", f"{_away(device)}; only a device that is there is asked", "its connection")
        calendar = rollout.facts.plan.calendar
        if not calendar.is_open(now_ms):
            yield _wait("window", f"the next window begins at {instant(calendar.opens_ms(now_ms))}", "")
        yield _wait("turn", "its turn has not come: so many are asked at a time", _pace(rollout))
    yield _met("asked", f"it was asked to {_ASKED[member.action]}{_of(member)}")
    if member.state is MemberState.ASSIGNED:
        yield _wait(
            "signed", "the director has not signed it yet", "fleet health says whether the server works"
        )
    if member.state is MemberState.OFFERED:
        yield _told(device)
    yield _said(member)


def _rollout_step(rollout: RolloutNow) -> WayStep:
    state, name = rollout.facts.state, rollout.rollout
    if state is RolloutState.RUNNING:
        return _met("rollout", f"{name} is running")
    why = f": {rollout.reason}" if rollout.reason else ""
    text = f"{name} is {state.value.replace('-', ' ')}{why}"
    if state is RolloutState.COMPLETED:  # of one that came later
        return _met("rollout", text)
    if rollout.needs is not None:
        return _stop("rollout", text, f"another person agrees: fleet rollout approve {name}")
    if state is RolloutState.READY and rollout.facts.plan.start_at_ms is not None:
        return _wait("rollout", text, f"it starts at {instant(rollout.facts.plan.start_at_ms)}")
    change = {
        RolloutState.READY: f"fleet rollout start {name}",
        RolloutState.PAUSED: f"fleet rollout resume {name}",
    }
    return _stop("rollout", text, change.get(state, "a new rollout"))


def _stage_step(rollout: RolloutNow, number: int, now_ms: int) -> WayStep:
    facts = rollout.facts
    if facts.stages[number].state is not StageState.PENDING:
        return _met("stage", f"stage {number + 1} is {facts.stages[number].state.value}")
    for earlier, stage in enumerate(facts.stages[:number]):
        if stage.state is not StageState.PASSED:
            verdict = rollout.verdicts[earlier]
            told = f"stage {earlier + 1} is {stage.state.value}" + (f": {verdict}" if verdict else "")
            waits = stage.state in (StageState.PENDING, StageState.OPEN, StageState.SOAKING)
            made = _wait if waits else _stop
            return made("stage", told, f"stage {earlier + 1} passes: fleet rollout status {rollout.rollout}")
    opens = opens_at(facts.terms, facts.plan, number, now_ms)
    if opens is None:
        return _stop(
            "stage", "nobody signed for so large a share", "terms with such an opening, which people sign"
        )
    return _wait(
        "stage", f"stage {number + 1} opens at {instant(opens)}", "its own time, signed openings and windows"
    )


def _pace(rollout: RolloutNow) -> str:
    pacing = rollout.facts.plan.pacing
    hourly = "" if pacing.bytes_per_hour is None else f", and {pacing.bytes_per_hour} bytes an hour"
    return f"devices before it are done: {pacing.max_in_flight} are asked at once{hourly}"


def _told(device: DeviceNow) -> WayStep:
    if not device.is_published:
        return _wait("told", "it is signed, and not yet handed to the broker", "the broker: fleet health")
    if not device.online:
        return _wait("told", f"{_away(device)}; the broker keeps the offer for it", "its connection")
    return _wait("told", "it has the offer, and has not answered", "edge-runtime update status on the device")


def _away(device: DeviceNow) -> str:
    return "it was never there" if device.since_ms is None else f"it is away since {instant(device.since_ms)}"


def _said(member: MemberView) -> WayStep:
    """What the device made of it, or what the server made of its silence."""
    code = f" ({member.code})" if member.code else ""
    said = f": {member.text}" if member.text else ""
    text = f"{_STATES.get(member.state, member.state.value)}{code}{said}"
    change = remedy(member.code)
    if member.state is MemberState.HEALTHY:
        return _met("answer", f"{_WELL[member.action]}, since {instant(member.since_ms)}")
    if member.state in WORKING:
        return _wait("answer", f"{text}, since {instant(member.since_ms)}", change)
    if member.state in BAD:
        return _stop("answer", text, change or "edge-runtime update history on the device")
    return _stop("answer", text, change or _APART.get(member.state, ""))


# -- words -------------------------------------------------------------------------------------------------------

_EXCLUDED = {
    Exclusion.ALREADY_RUNNING: "its slot {slot} runs this release already",
    Exclusion.NEWER_RUNS: "its slot {slot} runs a release with a higher counter",
    Exclusion.REVOKED: "it is revoked, or removed",
    Exclusion.NOT_APPROVED: "it waits to be accepted",
    Exclusion.NEVER_SEEN: "it never reported of its updates",
    Exclusion.NO_SUCH_SLOT: "it has no slot {slot}",
    Exclusion.NO_STAGE: "no stage takes it",
}
_WELL = {
    UpdateAction.INSTALL: "it runs the release and is well",
    UpdateAction.ROLLBACK: "it is back to what it ran before, and well",
    UpdateAction.HOLD: "it took the release before the offer could be taken back",
}
_STATES = {
    MemberState.REFUSED: "refused, and left as it was",
    MemberState.REVERTED: "tried, and went back to what ran before",
    MemberState.STUCK: "stuck: it stayed in one state for longer than the plan allows",
    MemberState.UNREACHABLE: "not there for longer than the plan waits",
    MemberState.DECOMMISSIONED: "revoked or removed since",
    MemberState.WITHDRAWN: "taken back",
}
_APART = {
    MemberState.UNREACHABLE: "its connection; a new rollout asks it again",
    MemberState.DECOMMISSIONED: "a new enrolment: fleet device invite",
    MemberState.WITHDRAWN: "a new rollout",
    MemberState.SUPERSEDED: "nothing: something newer took its place",
}
_ASKED = {
    UpdateAction.INSTALL: "install it",
    UpdateAction.ROLLBACK: "go back to what it ran before",
    UpdateAction.HOLD: "stay with what it runs",
}


def _of(member: MemberView) -> str:
    return f", sequence {member.seq}" if member.seq is not None else ""


def _listed(names: tuple[str, ...]) -> str:
    return " or ".join(names) or "nothing"


def _versions(bounds: VersionBounds) -> str:
    low = "" if bounds.at_least is None else f"at least {bounds.at_least}"
    high = "" if bounds.below is None else f"below {bounds.below}"
    return " and ".join(part for part in (low, high) if part)


_FITS: dict[UpdateCode, Callable[[Fit, DeviceFacts], tuple[str, str]]] = {
    UpdateCode.HARDWARE: lambda fit, has: (_listed(fit.hardware), _listed(has.hardware)),
    UpdateCode.ARCHITECTURE: lambda fit, has: (_listed(fit.architectures), has.architecture),
    UpdateCode.COMPUTE_CAPABILITY: lambda fit, has: (
        f"compute capability {_listed(fit.compute_capabilities)}",
        has.compute_capability or "none",
    ),
    UpdateCode.L4T: lambda fit, has: (f"L4T {_versions(fit.l4t)}", has.l4t or "none"),
    UpdateCode.TENSORRT: lambda fit, has: (f"TensorRT {_versions(fit.tensorrt)}", has.tensorrt or "none"),
    UpdateCode.RUNTIME: lambda fit, has: (f"runtime {_versions(fit.runtime)}", has.runtime),
    UpdateCode.NO_MEMORY: lambda fit, has: (f"{fit.memory_mb} MB of memory", f"{has.memory_mb} MB"),
}


def _met(step: str, text: str) -> WayStep:
    return WayStep(step=step, standing=StepState.MET, text=text)


def _wait(step: str, text: str, change: str) -> WayStep:
    return WayStep(step=step, standing=StepState.WAITS, text=text, change=change)


def _stop(step: str, text: str, change: str) -> WayStep:
    return WayStep(step=step, standing=StepState.STOPS, text=text, change=change)
