"""Why a request is refused: an acknowledgement, or one to arm."""

from edge_runtime.guard.conditions import TRAITS, conditions_in
from edge_runtime.guard.look import Seen
from edge_runtime.guard.memory import Acknowledgement, Inputs, Latch, Memory, State
from edge_runtime.guard.profile import Profile
from edge_runtime.guard.severity import Clears, Severity

MEANWHILE = "the state changed in the same moment"


def refuse_acknowledgement(
    memory: Memory, inputs: Inputs, ack: Acknowledgement, seen: Seen, profile: Profile
) -> str | None:
    """Why an acknowledgement is refused; None if it is accepted."""
    if memory.latch is None:
        return "nothing is latched"
    if ack.latch_id != memory.latch.id:
        return f"it names the latch {ack.latch_id[:40]}, and what holds is {memory.latch.id}"
    if not memory.latch.since_ns < ack.received_ns <= seen.now_ns:
        return "it is not newer than the latch, or dated after now"
    if holding := holds(memory.latch, seen, profile):
        return f"these are not clear: {names(holding)}"
    return _unprepared(memory.latch, inputs, seen, profile)


def holds(latch: Latch, seen: Seen, profile: Profile) -> int:
    """Mask of what keeps a latch from being left.

    The latch itself is not among it: one that had to be clear first could never be left (lcnc-suite #15).
    """
    holding = (seen.active | seen.raw) & (latch.causes | profile.latching_conditions)
    return holding | seen.verdict.causes if seen.verdict.severity >= Severity.SAFE else holding


def strictest(latch: Latch) -> Clears:
    """What leaving a latch takes: the strictest rule of all that led to it."""
    if latch.state is State.LOCKOUT:
        return Clears.RESET_AND_ACK
    return max([Clears.ACK, *(TRAITS[condition].clears for condition in conditions_in(latch.causes))])


def _unprepared(latch: Latch, inputs: Inputs, seen: Seen, profile: Profile) -> str | None:
    """What has to happen at the machine before an acknowledgement."""
    takes = strictest(latch)
    if takes is Clears.RESET_AND_ACK and not (
        inputs.reset_ns is not None and latch.since_ns < inputs.reset_ns <= seen.now_ns
    ):
        return "somebody at the machine has to reset it first"
    still = profile.stopping.travels or takes >= Clears.ACK_AT_STANDSTILL
    return "standstill is not confirmed" if still and inputs.standstill is not True else None


def refuse_arming(memory: Memory, inputs: Inputs, arm_ns: int, seen: Seen) -> str | None:
    """Why a request to arm is refused; None if it is accepted."""
    if memory.state is not State.STANDBY:
        return f"the state is {memory.state.value}, and it has to be STANDBY"
    if inputs.disarm:
        return "the permission is being withdrawn"
    if not memory.entered_ns < arm_ns <= seen.now_ns:
        return "it is not newer than the entry into STANDBY, or dated after now"
    if seen.trouble:
        return f"these are not well: {names(seen.trouble)}"
    return "the guard itself woke late" if seen.late else None


def names(mask: int) -> str:
    """The conditions of a mask, for an operator."""
    return ", ".join(condition.value for condition in conditions_in(mask))
