"""Whether the gate is open and whether a proposal may pass; pure, with the time handed in.

Once the permission is lost, for whatever reason, it takes a lease whose epoch is newer than the loss to open again,
and only what was proposed after that epoch began may pass: what was wished for before a stop is void.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.lease import Lease
from edge_runtime.guard.motion_gate.approvals import Approvals, action_digest
from edge_runtime.guard.motion_gate.limits import Bounds, Profile, Table
from edge_runtime.guard.motion_gate.reasons import REPEATS_TRIP, TRIPS_AT_ONCE, Reason

FUTURE_NS = 1_000_000
"""A proposal may lie this far ahead of the clock, which is one for the whole machine."""

SHOWN_NS = 1_000_000_000
"""A trip is reported for at least this long, so that a guard that looks late still sees it."""

EVALUATED = (
    Condition.MOTION_REFUSALS.mask
    | Condition.UNAPPROVED_RISK.mask
    | Condition.ESTOP.mask
    | Condition.ESTOP_DISAGREES.mask
)
"""Conditions that the motion gate looks at, as a mask."""


class Proposal(NamedTuple):
    """A command that somebody would like to give.

    Attributes:
        sequence: greater than that of every proposal before in this epoch of the lease; in [0, 2^63).
        proposed_ns: when it was made, on CLOCK_MONOTONIC.
        ttl_ns: how long it is good for.
        action: what to do.
        values: for every axis of the action.
    """

    sequence: int
    proposed_ns: int
    ttl_ns: int
    action: str
    values: Mapping[str, float]


class Stop(NamedTuple):
    """What the emergency stop's inputs say; unknown is pressed.

    Attributes:
        pressed: at least one says so or cannot be read.
        disagree: there are several, and they do not say the same.
    """

    pressed: bool
    disagree: bool = False


class Judge:
    """Keeps what the decisions depend on.

    Args:
        profile: of the body.
        device: this device's id; approvals name it.
        now_ns: when the gate started: it opens with a lease that begins later.

    Attributes:
        counts: refusals by reason, since the start.
        passed: commands that were sent, since the start.
        approvals: verified ones that wait for their action.
    """

    def __init__(self, profile: Profile, device: str, now_ns: int) -> None:
        self._profile, self._device = profile, device
        self._bounds = Bounds(profile, now_ns)
        self.approvals = Approvals()
        self.counts: Counter[Reason] = Counter()
        self.passed = 0
        self._closed: Reason | None = Reason.NO_LEASE
        self._why_after = Reason.NO_LEASE
        self._after_ns = now_ns
        self._epoch_ns = 0
        self._sequence: int  # set as the gate opens
        self._recent: deque[int] = deque(maxlen=profile.refusals)
        self._shown: dict[Condition, int] = {}

    @property
    def closed(self) -> Reason | None:
        """Why there was no permission when last looked; None: the gate is open."""
        return self._closed

    @property
    def epoch_ns(self) -> int:
        """When the permission began under which the gate opened last; 0 before the first."""
        return self._epoch_ns

    def look(self, now_ns: int, lease: Lease | None, stop: Stop) -> bool:
        """Learn whether there is permission now.

        Returns:
            Whether it was lost just now: the safe value has to be sent.
        """
        reason = self._reason(now_ns, lease, stop)
        if reason is Reason.NO_LEASE:
            self._forget_trips(now_ns)
        if reason is None:
            assert lease is not None
            if self._closed is None and lease.epoch_ns != self._epoch_ns:
                # The permission was lost and came back between two looks: what was approved before is void.
                return self._close(now_ns, Reason.NO_LEASE)
            if lease.epoch_ns != self._epoch_ns:
                self._epoch_ns, self._sequence = lease.epoch_ns, -1
                self._recent.clear()
            self._closed = None
            return False
        return self._close(now_ns, reason)

    def judge(self, now_ns: int, lease: Lease | None, proposal: Proposal) -> Reason | None:
        """Why a proposal may not pass now; None if it may, which `sent` has to be told once it has.

        `look` must have been called with the same time and lease.
        """
        if self._closed is not None:
            return self._closed
        assert lease is not None
        table = self._profile.tables[lease.limits]
        return (
            self._time_refusal(now_ns, lease, proposal)
            or self._action_refusal(now_ns, table, proposal)
            or self._bounds.refusal(now_ns, table, proposal.values)
        )

    def sent(self, now_ns: int, proposal: Proposal) -> None:
        """A proposal that may pass was given to the output."""
        self.passed += 1
        self._bounds.passed(now_ns, proposal.values, proposal.proposed_ns + proposal.ttl_ns)

    def spend(self, proposal: Proposal) -> None:
        """A risky action is about to be sent: its approval is used up, whatever becomes of it."""
        if proposal.action in self._profile.risky:
            self.approvals.spend(action_digest(self._device, proposal.action, proposal.values))

    def refused(self, now_ns: int, reason: Reason) -> bool:
        """Count a refusal.

        Returns:
            Whether the gate closes because of it: the safe value has to be sent.
        """
        self.counts[reason] += 1
        if self._closed is not None:
            return False
        if reason in TRIPS_AT_ONCE:
            return self._trip(now_ns, Condition.UNAPPROVED_RISK)
        if reason not in REPEATS_TRIP:
            return False
        self._recent.append(now_ns)
        if len(self._recent) < self._profile.refusals or now_ns - self._recent[0] > self._profile.refusals_ns:
            return False
        return self._trip(now_ns, Condition.MOTION_REFUSALS)

    def tripped(self, stop: Stop) -> int:
        """Mask of the conditions that hold."""
        mask = 0
        for condition in self._shown:
            mask |= condition.mask
        if stop.pressed:
            mask |= Condition.ESTOP.mask
        if stop.disagree:
            mask |= Condition.ESTOP_DISAGREES.mask
        return mask

    def _reason(self, now_ns: int, lease: Lease | None, stop: Stop) -> Reason | None:
        if stop.pressed:
            self._after_ns, self._why_after = now_ns, Reason.ESTOP
            return Reason.ESTOP
        if lease is None or not lease.valid(now_ns):
            return Reason.NO_LEASE
        if lease.state not in self._profile.states:
            return Reason.STATE
        if lease.limits >= len(self._profile.tables):
            return Reason.NO_TABLE
        if lease.epoch_ns <= self._after_ns:
            return self._why_after
        return None

    def _close(self, now_ns: int, reason: Reason) -> bool:
        was_open = self._closed is None
        self._closed = reason
        if was_open:
            # An epoch in which the permission was lost once gives none any more.
            self._after_ns = max(self._after_ns, self._epoch_ns)
            if reason in (Reason.NO_LEASE, Reason.STATE, Reason.NO_TABLE):
                self._why_after = reason
            self._bounds.rest(now_ns)
            self.approvals.clear()
        return was_open

    def _trip(self, now_ns: int, condition: Condition) -> bool:
        self._shown[condition] = now_ns
        self._after_ns, self._why_after = now_ns, Reason.TRIPPED
        return self._close(now_ns, Reason.TRIPPED)

    def _forget_trips(self, now_ns: int) -> None:
        # Only once the guard has taken the lease away, and not before it had time to see why. Reported for ever,
        # they could never be acknowledged.
        self._shown = {
            condition: since for condition, since in self._shown.items() if now_ns - since < SHOWN_NS
        }

    def _time_refusal(self, now_ns: int, lease: Lease, proposal: Proposal) -> Reason | None:
        if proposal.proposed_ns <= lease.epoch_ns:
            return Reason.BEFORE_EPOCH
        if proposal.sequence <= self._sequence:
            return Reason.SEQUENCE
        self._sequence = proposal.sequence  # used up, also by what is refused below: it is judged once
        if proposal.proposed_ns > now_ns + FUTURE_NS:
            return Reason.FUTURE
        if proposal.ttl_ns > self._profile.longest_ttl_ns or now_ns > proposal.proposed_ns + proposal.ttl_ns:
            return Reason.EXPIRED
        return None

    def _action_refusal(self, now_ns: int, table: Table, proposal: Proposal) -> Reason | None:
        axes = self._profile.actions.get(proposal.action)
        if axes is None or proposal.action not in table.actions or proposal.values.keys() != axes:
            return Reason.ACTION
        if proposal.action not in self._profile.risky:
            return None
        digest = action_digest(self._device, proposal.action, proposal.values)
        return None if self.approvals.holds(digest, now_ns) else Reason.UNAPPROVED
