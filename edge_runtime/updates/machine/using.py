"""A release is put in use and proves itself: from here on an end that is not good takes it back."""

from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import UpdateCode, UpdateState
from edge_runtime.updates.machine.observed import SlotView
from edge_runtime.updates.machine.orders import Order
from edge_runtime.updates.machine.probation import judge_probation
from edge_runtime.updates.machine.seen import Decision, Rules, Seen
from edge_runtime.updates.machine.work import Before, Work

_S = UpdateState


def activating(work: Work, seen: Seen, _rules: Rules) -> Decision:
    """First it is written down, then perception takes it: so perception that is started anew takes it as well."""
    written = () if seen.on_trial == work.release else (Order.BEGIN_TRIAL,)
    view = seen.view
    if view is None:
        return Decision(work, written)
    # a release that runs already may be put in use once more, with other values of this device: until what is
    # beside it is gone, and the slot is on trial with it, what runs is the one before, and so are its tallies
    again = view.candidate is not None and view.candidate.release == work.release
    if view.in_use.release == work.release and not again and not written:
        return Decision(work.to(_S.PROBATION, seen.now))
    return _not_yet_in_use(work, seen, view, written)


def _not_yet_in_use(work: Work, seen: Seen, view: SlotView, written: tuple[Order, ...]) -> Decision:
    given_up = view.given_up
    if given_up is not None and given_up.release == work.release:
        return Decision(work.to(_S.REVERTED, seen.now, given_up.code, given_up.text))
    candidate = view.candidate if view.candidate and view.candidate.release == work.release else None
    if candidate is not None and candidate.loading is CandidateState.FAILED:
        code = candidate.code or UpdateCode.ACTIVATION
        return Decision(work.to(_S.REVERTED, seen.now, code, candidate.text))
    if candidate is None:
        return Decision(work, (*written, Order.LOAD))
    takes = (Order.ACTIVATE,) if candidate.loading is CandidateState.LOADED else ()
    return Decision(work, (*written, *takes))


def probation(work: Work, seen: Seen, _rules: Rules) -> Decision:
    """Well for long enough, or not: by what perception counts."""
    view = seen.view
    assert work.terms is not None
    if view is None:
        return Decision(work)
    if view.in_use.release != work.release:
        given_up = view.given_up
        if given_up is not None and given_up.release == work.release:
            return Decision(work.to(_S.REVERTED, seen.now, given_up.code, given_up.text))
        text = "perception runs something else by itself"
        return Decision(work.to(_S.REVERTED, seen.now, UpdateCode.CRASH_LOOP, text))
    before = work.before or Before()
    verdict = judge_probation(
        work.terms.probation,
        before,
        view.in_use,
        seen.device,
        work.entered.ran_ms(seen.now) / 1000,
        same_boot=work.entered.boot_id == seen.now.boot_id,
    )
    if verdict.code is not None:
        return Decision(work.to(_S.REVERTED, seen.now, verdict.code, verdict.text))
    if verdict.passed:
        return Decision(work.to(_S.HEALTHY, seen.now))
    return Decision(_seen_anew(work, before, seen))


def _seen_anew(work: Work, before: Before, seen: Seen) -> Work:
    """All of the runtime was started anew, or the device: a later start of perception alone is then a crash."""
    assert seen.view is not None
    process, guard = seen.view.in_use.process, seen.device.guard
    if (before.process, before.guard) == (process, guard) or work.before is None:
        return work
    return work.model_copy(update={"before": before.model_copy(update={"process": process, "guard": guard})})
