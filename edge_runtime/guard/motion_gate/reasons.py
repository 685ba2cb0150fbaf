"""Why the motion gate refuses: a closed list, each reason counted."""

from enum import Enum


class Reason(str, Enum):
    """Why one proposal, or all of them, is not passed."""

    NO_LEASE = "no_lease"
    """The guard's lease ended, or there never was one."""
    STATE = "state"
    """The guard's state does not permit motion."""
    NO_TABLE = "no_table"
    """The lease names a limits table that this profile lacks."""
    ESTOP = "estop"
    """An emergency stop is pressed, or was and the lease has not begun anew."""
    TRIPPED = "tripped"
    """The motion gate closed itself and the lease has not begun anew."""
    BUSY = "busy"
    """The output still works on the command before."""
    OUTPUT = "output"
    """The output could not be written."""

    MALFORMED = "malformed"
    """Not a proposal: too long, not JSON, a missing, unknown or doubled key, a value of the wrong kind."""
    ACTION = "action"
    """The table that applies does not allow this action, or the values are not those of the action."""
    SEQUENCE = "sequence"
    """Not newer than a proposal before it."""
    BEFORE_EPOCH = "before_epoch"
    """Proposed before the present permission began."""
    FUTURE = "future"
    """Proposed later than now."""
    EXPIRED = "expired"
    """Older than its time to live, or its time to live is longer than the profile allows."""
    NOT_FINITE = "not_finite"
    """A value is no number."""
    ABSOLUTE = "absolute"
    """A value outside its range."""
    RATE = "rate"
    """A value grows faster than allowed since the last command."""
    WINDOW = "window"
    """A value grows more than allowed within the window."""
    TOO_SOON = "too_soon"
    """More commands in a second than the profile allows."""

    UNAPPROVED = "unapproved"
    """A risky action without a verified approval of exactly this action."""
    APPROVAL_MALFORMED = "approval_malformed"
    """Not an approval: wrong keys, kinds or sizes."""
    APPROVAL_SIGNATURE = "approval_signature"
    """The signature is not by a known approver over this text."""
    APPROVAL_DEVICE = "approval_device"
    """It is about another device."""
    APPROVAL_ACTION = "approval_action"
    """It is about an action that is not on the list of risky ones."""
    APPROVAL_EXPIRED = "approval_expired"
    """It is over, not yet valid, or valid for longer than the profile allows."""
    APPROVAL_USED = "approval_used"
    """It was presented before."""
    APPROVAL_BUSY = "approval_busy"
    """Too many approvals wait."""
    APPROVAL_UNANSWERED = "approval_unanswered"
    """The verifier did not answer in time, or not in a way that can be understood."""


CLOSED = frozenset({Reason.NO_LEASE, Reason.STATE, Reason.NO_TABLE, Reason.ESTOP, Reason.TRIPPED})
"""Reasons that lie with the gate, not with the proposal: there is no permission."""

PACING = frozenset({Reason.BEFORE_EPOCH, Reason.TOO_SOON, Reason.BUSY, Reason.OUTPUT, Reason.APPROVAL_BUSY})
"""Left over from before, too many, or refused for the output's sake: no sign that the proposer is wrong."""

TRIPS_AT_ONCE = frozenset(
    {Reason.UNAPPROVED, Reason.APPROVAL_SIGNATURE, Reason.APPROVAL_DEVICE, Reason.APPROVAL_USED}
)
"""One refusal of these closes the gate: somebody wants a risky action that nobody approved here."""

REPEATS_TRIP = frozenset(Reason) - CLOSED - PACING - TRIPS_AT_ONCE
"""So many refusals of these within the profile's time close the gate."""
