"""The end of an assignment: files and perception are as they should be, and then there is its one report."""

from edge_runtime.protocol.update import LeftAs, UpdateCode, UpdateState
from edge_runtime.updates.machine.orders import Order
from edge_runtime.updates.machine.seen import Decision, Seen
from edge_runtime.updates.machine.table import CONFIRMED_MS
from edge_runtime.updates.machine.work import Work

_S = UpdateState

_NOT_ITS_DOING = frozenset(
    {
        UpdateCode.DEADLINE,
        UpdateCode.DOWNLOAD_DEADLINE,
        UpdateCode.DOWNLOAD_FAILED,
        UpdateCode.DOWNLOAD_NOT_FOUND,
        UpdateCode.DOWNLOAD_TOO_SLOW,
        UpdateCode.NO_SPACE,
        UpdateCode.NO_MEMORY,
        UpdateCode.BYTE_BUDGET,
        UpdateCode.METERED,
        UpdateCode.SHADOW_NO_DATA,
        UpdateCode.TARGET_UNKNOWN,
        UpdateCode.SUPERSEDED,
        UpdateCode.WITHDRAWN,
        UpdateCode.DEFECT,
    }
)


def ending(work: Work, seen: Seen) -> Decision:
    """What is still to be done for a work whose end is decided; `left` is set when nothing is."""
    errand = () if seen.errand is None else (Order.CANCEL,)
    if errand:
        return Decision(work, errand)
    if work.state is _S.HEALTHY:
        return _stays(work, seen)
    if work.begun:
        return _taken_back(work, seen)
    free = seen.view is not None and seen.view.candidate is not None
    return Decision(work, (Order.DISCARD,) if free else (), LeftAs.UNCHANGED)


def _stays(work: Work, seen: Seen) -> Decision:
    if not work.begun:
        return Decision(work, (), LeftAs.UNCHANGED)
    if seen.on_trial is not None:
        return Decision(work, (Order.COMMIT,))
    return Decision(work, (Order.SETTLE,), LeftAs.UPDATED)


def _taken_back(work: Work, seen: Seen) -> Decision:
    """First on the disk, so that perception that is started anew has it right; then in perception."""
    restore = (Order.RESTORE,) if seen.on_trial is not None else ()
    if restore:
        return Decision(work, restore)
    late = work.entered.ran_ms(seen.now) >= CONFIRMED_MS
    if seen.view is None:
        return Decision(work, (), LeftAs.REVERTED if late else None)
    if work.release == seen.active:  # the same release with other values: nothing tells them apart from here
        return Decision(work, (Order.REVERT,), LeftAs.REVERTED)
    if seen.view.in_use.release == work.release:
        return Decision(work, (Order.REVERT,), LeftAs.INCONSISTENT if late else None)
    free = () if seen.view.candidate is None else (Order.DISCARD,)
    return Decision(work, free, LeftAs.REVERTED)


def denies(work: Work) -> bool:
    """Whether its release is known bad from now on: it was tried here and failed by itself."""
    failed = work.state is _S.REVERTED or (work.state is _S.REFUSED and work.terms is not None)
    return failed and work.release is not None and work.code not in _NOT_ITS_DOING
