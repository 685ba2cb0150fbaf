"""One step of an assignment: pure, the same on a device, in a simulated fleet and in tests."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from edge_runtime.protocol.update import UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine.ending import ending
from edge_runtime.updates.machine.seen import Decision, Rules, Seen
from edge_runtime.updates.machine.staging import accepted, downloading, staged, verified, waiting
from edge_runtime.updates.machine.table import (
    BY_THE_CALENDAR,
    MOST_MOVES,
    MOST_STARTS,
    SETTLED_MS,
    TABLE,
    deadline_ms,
)
from edge_runtime.updates.machine.using import activating, probation
from edge_runtime.updates.machine.work import Work

_S = UpdateState

_STATES: Mapping[UpdateState, Callable[[Work, Seen, Rules], Decision]] = {
    _S.ACCEPTED: accepted,
    _S.DOWNLOADING: downloading,
    _S.VERIFIED: verified,
    _S.STAGED: staged,
    _S.WAITING: waiting,
    _S.ACTIVATING: activating,
    _S.PROBATION: probation,
}


def step(work: Work, seen: Seen, rules: Rules) -> Decision:
    """What comes next for one assignment.

    Args:
        work: as it is written down.
        seen: how things stand.
        rules: of this device.

    Returns:
        The work as it goes on, and what to do once that is written down. Time over, something newer and endless
        turning are looked at before what the state itself would do.
    """
    if work.state.is_terminal:
        return ending(work, seen)
    ended = _cut_short(work, seen, rules)
    decision = Decision(ended) if ended is not None else _STATES[work.state](work, seen, rules)
    after = decision.work.state
    if decision.work.starts and seen.up_ms >= SETTLED_MS:
        decision = replace(decision, work=decision.work.model_copy(update={"starts": 0}))
    if after is not work.state and after not in TABLE[work.state].onward:
        raise AssertionError(f"{work.state.value} leads to {after.value}, which the table does not know")
    return decision


def _cut_short(work: Work, seen: Seen, rules: Rules) -> Work | None:
    """An end that does not come from the state's own work."""
    rule = TABLE[work.state]
    if seen.newer is not None and not rule.atomic:
        if seen.newer is not UpdateAction.HOLD:
            return work.to(_S.SUPERSEDED, seen.now, UpdateCode.SUPERSEDED, "a later assignment came")
        if not work.begun:
            return work.to(_S.WITHDRAWN, seen.now, UpdateCode.WITHDRAWN, "taken back before it was in use")
    why = _endless(work) or seen.refused
    if why is not None:
        return work.to(_S.REVERTED if work.begun else _S.REFUSED, seen.now, *why)
    bound_ms = deadline_ms(work, rules.deadlines)
    age_ms = work.entered.age_ms if work.state in BY_THE_CALENDAR else work.entered.ran_ms
    if rule.overdue is not None and bound_ms is not None and age_ms(seen.now) >= bound_ms:
        state, code = rule.overdue
        said = f": {work.text}" if work.text else ""
        return work.to(state, seen.now, code, f"{work.state.value} for {bound_ms // 1000} s{said}")
    return None


def _endless(work: Work) -> tuple[UpdateCode, str] | None:
    """Why it will never come to an end by itself."""
    if work.starts > MOST_STARTS:
        return UpdateCode.CRASH_LOOP, f"found unfinished by {work.starts} starts in a row"
    if work.moves > MOST_MOVES:
        return UpdateCode.DEFECT, f"changed its state {work.moves} times"
    return None
