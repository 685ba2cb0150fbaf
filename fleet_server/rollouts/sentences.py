"""Why a device is where it is in a rollout, in one sentence for people."""

from collections.abc import Sequence

from fleet_server.rollouts.decision import opens_at
from fleet_server.rollouts.loaded import Loaded, LoadedStage
from fleet_server.rollouts.membership import Place
from fleet_server.rollouts.states import Exclusion, MemberState, RolloutState
from fleet_server.rollouts.windows import is_open, next_opening

_STATES = {
    MemberState.ASSIGNED: "it was decided that it gets this; the signature follows",
    MemberState.OFFERED: "it was offered this and has not answered",
    MemberState.ACCEPTED: "it has accepted",
    MemberState.DOWNLOADING: "it is fetching the files",
    MemberState.VERIFIED: "it has the files and checks them",
    MemberState.STAGED: "the release is ready on the device",
    MemberState.WAITING: "the device waits for its own window, lock or standstill",
    MemberState.ACTIVATING: "it is changing over",
    MemberState.PROBATION: "it runs this on probation",
    MemberState.HEALTHY: "it runs this and is well",
    MemberState.REVERTED: "it ran this and went back",
    MemberState.REFUSED: "it refused this",
    MemberState.STUCK: "it stayed in one state for longer than the plan allows",
    MemberState.SUPERSEDED: "something newer took the place of this",
    MemberState.WITHDRAWN: "it was taken back",
    MemberState.UNREACHABLE: "it has not been there for longer than the plan waits",
    MemberState.DECOMMISSIONED: "it was revoked or removed",
}
_EXCLUSIONS = {
    Exclusion.ALREADY_RUNNING: "it runs this release already",
    Exclusion.NEWER_RUNS: "it runs a release with a higher counter",
    Exclusion.INCOMPATIBLE: "the release was not made for it",
    Exclusion.BUSY: "another rollout has it for this slot",
    Exclusion.REVOKED: "it was revoked",
    Exclusion.NOT_APPROVED: "it waits for an operator to approve its key",
    Exclusion.NEVER_SEEN: "it has never reported of its updates",
    Exclusion.NO_SUCH_SLOT: "it has not named such a slot",
    Exclusion.NO_STAGE: "no stage takes it",
}


def of_stranger(rollout: Loaded, placed: Place) -> str:
    """Why a device that a rollout's selection names is not part of it."""
    if placed.excluded is None:
        if not rollout.plan.converge:
            return "it fits by now; this rollout takes in nobody later"
        return "it fits by now, and joins while its stage is still to open, or once the rollout is completed"
    detail = f" ({placed.detail})" if placed.detail else ""
    return _EXCLUSIONS[placed.excluded] + detail


def of_member(
    rollout: Loaded,
    stages: Sequence[LoadedStage],
    stage: int,
    state: MemberState,
    code: str | None,
    *,
    online: bool,
    now_ms: int,
) -> str:
    """What a device of a rollout waits for, or what became of it."""
    if state is MemberState.PENDING:
        return _pending(rollout, stages, stage, online=online, now_ms=now_ms)
    return _STATES[state] + (f" ({code})" if code else "")


def _pending(rollout: Loaded, stages: Sequence[LoadedStage], stage: int, *, online: bool, now_ms: int) -> str:
    if rollout.state not in (RolloutState.RUNNING, RolloutState.COMPLETED):
        return f"the rollout is {rollout.state.value}: {rollout.reason}"
    if not stages[stage].state.is_open:
        before = next((n for n in range(stage) if not stages[n].closed_ms), stage)
        if before < stage:
            return f"it is in stage {stage + 1}, and stage {before + 1} has not passed"
        opens = opens_at(rollout.terms, rollout.plan, stage, now_ms)
        seconds = 0 if opens is None else max(0, opens - now_ms) // 1000
        return f"stage {stage + 1} opens in {seconds} s at the earliest"
    if not online:
        return "the device is not connected"
    if not is_open(rollout.plan.windows, now_ms):
        return f"the next window begins in {(next_opening(rollout.plan.windows, now_ms) - now_ms) // 1000} s"
    return "its turn has not come: the plan bounds how many are asked at once, or the bytes of an hour"
