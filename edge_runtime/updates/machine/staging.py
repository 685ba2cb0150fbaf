"""From an accepted assignment to a release that could be put in use: nothing of it touches what runs."""

from edge_runtime.protocol.release import ReleaseKind, ReleaseTerms
from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine.backoff import wait_ms
from edge_runtime.updates.machine.observed import Candidate, Errand
from edge_runtime.updates.machine.orders import Order
from edge_runtime.updates.machine.seen import Decision, Rules, Seen
from edge_runtime.updates.machine.shadow import judge_shadow
from edge_runtime.updates.machine.table import ALONE_MS, MOST_LOSSES
from edge_runtime.updates.machine.work import Before, Work

_S = UpdateState

HELD_MS = 600_000
"""For so long a candidate stays loaded while something is in its way; two models need the memory of two."""


def accepted(work: Work, seen: Seen, _rules: Rules) -> Decision:
    """What runs already needs nothing; `HOLD` is done as soon as it is heard."""
    if work.assignment.action is UpdateAction.HOLD:
        return Decision(work.to(_S.HEALTHY, seen.now, text="stays with what runs"))
    runs = seen.active if seen.view is None else seen.view.in_use.release
    same = work.assignment.values == seen.values and seen.on_trial is None
    if same and work.release == seen.active == runs:
        return Decision(work.to(_S.HEALTHY, seen.now, text="runs already"))
    return Decision(work.to(_S.DOWNLOADING, seen.now))


def downloading(work: Work, seen: Seen, rules: Rules) -> Decision:
    """Bring the release here: an errand, and the next one only after a while where it failed."""
    errand = seen.errand
    if errand is None:
        waited = work.failed is None or work.failed.age_ms(seen.now) >= work.wait_ms
        return Decision(work, (Order.FETCH,) if waited else ())
    if not errand.over:
        return Decision(work)
    if errand.code is None:
        return Decision(work.to(_S.VERIFIED, seen.now))
    if not errand.again:
        return Decision(work.to(_S.REFUSED, seen.now, errand.code, errand.text))
    return Decision(_failed(work, seen, errand, rules))


def _failed(work: Work, seen: Seen, errand: Errand, rules: Rules) -> Work:
    failures = 1 if errand.moved_bytes else work.failures + 1
    return work.model_copy(
        update={
            "failures": failures,
            "failed": seen.now,
            "wait_ms": wait_ms(failures, rules.device, work.seq),
            "code": errand.code,
            "text": errand.text[:300],
        }
    )


def verified(work: Work, seen: Seen, rules: Rules) -> Decision:
    """Load it beside what is in use: fit, engine, golden vectors.

    Where what is in use has crashed beside it, that one has to stay alone first: a release that was accepted and
    dies is then given up by its own starts, and what comes in its place is not refused for it.
    """
    if seen.view is None:
        return Decision(work)
    candidate = _candidate(work, seen)
    if candidate is None:
        alone_ms = min(ALONE_MS, rules.deadlines.prepare // 4)
        waits = work.losses and seen.view.in_use.seconds * 1000 < alone_ms
        return Decision(work, () if waits else (Order.LOAD,))
    if candidate.loading is CandidateState.FAILED:
        code = candidate.code or UpdateCode.LOAD
        return Decision(work.to(_S.REFUSED, seen.now, code, candidate.text))
    if candidate.loading is CandidateState.LOADING:
        return Decision(work)
    beside = Before.of(seen.view.in_use, seen.device.guard, seen.device.celsius)
    return Decision(
        work.to(_S.STAGED, seen.now).model_copy(update={"shadow_celsius": _celsius(seen), "before": beside}),
    )


def staged(work: Work, seen: Seen, rules: Rules) -> Decision:
    """Let it see what the one in use sees, for as long as its terms want.

    Rules do not run beside others: a configuration shows what it is worth on probation. What the fleet takes back
    has run here or was proven elsewhere, and time counts: it goes on at once.
    """
    if seen.view is None:
        return Decision(work)
    candidate = _candidate(work, seen)
    if candidate is None:
        return _lost(work, seen)
    if candidate.loading is CandidateState.FAILED:
        code = candidate.code or UpdateCode.LOAD
        return Decision(work.to(_S.REFUSED, seen.now, code, candidate.text))
    terms = work.terms
    alone = terms is None or terms.kind is ReleaseKind.CONFIGURATION or not terms.shadow.seconds
    if terms is None or alone or work.shadowed or work.goes_back:
        return waiting(work.model_copy(update={"shadowed": True}), seen, rules)
    return _shadowing(work, terms, candidate, seen, rules)


def _shadowing(work: Work, terms: ReleaseTerms, candidate: Candidate, seen: Seen, rules: Rules) -> Decision:
    celsius = _celsius(seen)
    rise = None if celsius is None or work.shadow_celsius is None else celsius - work.shadow_celsius
    verdict = judge_shadow(
        terms.shadow,
        candidate.shadow,
        work.entered.ran_ms(seen.now) / 1000,
        rise,
        terms.probation.max_temperature_rise_c,
    )
    if verdict.code is not None:
        return Decision(work.to(_S.REFUSED, seen.now, verdict.code, verdict.text))
    if verdict.passed:
        going = waiting(work.model_copy(update={"shadowed": True}), seen, rules)
        return Decision(going.work, (Order.REST, *going.orders))
    return Decision(work, () if candidate.shadow.on else (Order.SHADOW,))


def waiting(work: Work, seen: Seen, rules: Rules) -> Decision:
    """Until nothing is in the way: no lock, no motion, and a window that is open.

    That may take two weeks, in which people may have revoked the release: they are asked again before it begins.
    """
    if seen.vouched is False and not work.goes_back:
        text = f"nobody signs for {work.assignment.target} any more: it was revoked before it was in use"
        return Decision(work.to(_S.REFUSED, seen.now, UpdateCode.TARGET_UNKNOWN, text))
    in_the_way = obstacle(work, seen, rules)
    candidate = _candidate(work, seen)
    if in_the_way is not None:
        code, text = in_the_way
        waits = work.to(_S.WAITING, seen.now, code, text)
        tired = work.state is _S.WAITING and work.entered.ran_ms(seen.now) >= HELD_MS
        return Decision(waits, (Order.DISCARD,) if tired and candidate is not None else ())
    if seen.view is None or (seen.vouched is None and not work.goes_back):
        return Decision(work)
    if candidate is None or candidate.loading is not CandidateState.LOADED:
        return Decision(work.to(_S.VERIFIED, seen.now))
    before = Before.of(seen.view.in_use, seen.device.guard, seen.device.celsius)
    begins = work.to(_S.ACTIVATING, seen.now)
    return Decision(begins.model_copy(update={"begun": True, "before": before}))


def obstacle(work: Work, seen: Seen, rules: Rules) -> tuple[UpdateCode, str] | None:
    """What keeps a release from being put in use now.

    A window is about new things. What the fleet takes back does not wait for one, but for a lock and a robot that
    moves it does.
    """
    if seen.device.obstacle is not None:
        return seen.device.obstacle, seen.device.obstacle_text
    if work.goes_back or not rules.windows.windows:
        return None
    if seen.wall_ms is None:
        return UpdateCode.OUTSIDE_WINDOW, "the clock is not believed, so no window is known to be open"
    if rules.windows.is_open(seen.wall_ms):
        return None
    return UpdateCode.OUTSIDE_WINDOW, "no maintenance window is open"


def _candidate(work: Work, seen: Seen) -> Candidate | None:
    candidate = None if seen.view is None else seen.view.candidate
    return candidate if candidate is not None and candidate.release == work.release else None


def _lost(work: Work, seen: Seen) -> Decision:
    """Perception began anew; a candidate that takes it down again and again is refused.

    A stop of the device or of the whole service is no crash.
    """
    again = work.to(_S.VERIFIED, seen.now)
    if not _crashed(work, seen):
        return Decision(again)
    losses = work.losses + 1
    if losses >= MOST_LOSSES:
        text = f"perception began anew {losses} times while this release was beside the one in use"
        return Decision(work.to(_S.REFUSED, seen.now, UpdateCode.CRASH_LOOP, text))
    text = f"perception crashed {losses} times beside this release: what is in use has to stay alone first"
    return Decision(again.model_copy(update={"losses": losses, "text": text}))


def _crashed(work: Work, seen: Seen) -> bool:
    """Whether perception alone has ended since the release was put beside it: neither the guard nor the device."""
    before = work.before
    if before is None or seen.view is None:
        return True  # an earlier build did not write it down
    same_device = work.entered.boot_id == seen.now.boot_id and before.guard == seen.device.guard
    return same_device and before.process != seen.view.in_use.process


def _celsius(seen: Seen) -> float | None:
    found = None if seen.view is None else seen.view.in_use.celsius
    return found if found is not None else seen.device.celsius
