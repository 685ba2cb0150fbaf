"""When the gate is open, what may pass, and what closes it."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.lease import LENGTH_NS, Lease
from edge_runtime.guard.motion_gate.approvals import action_digest
from edge_runtime.guard.motion_gate.judge import EVALUATED, FUTURE_NS, SHOWN_NS, Judge, Proposal, Stop
from edge_runtime.guard.motion_gate.limits import Profile
from edge_runtime.guard.motion_gate.reasons import CLOSED, PACING, REPEATS_TRIP, TRIPS_AT_ONCE, Reason
from edge_runtime.guard.motion_gate.settings import profile_of
from tests.rigs import motion_gate as rig

MS = 1_000_000
S = 1_000 * MS
FREE, PRESSED = Stop(pressed=False), Stop(pressed=True)
CART = profile_of(rig.profile())


@pytest.fixture
def profile() -> Profile:
    return CART


class Gate:
    """A judge, with a lease that is renewed whenever it looks, unless told otherwise."""

    def __init__(self, profile: Profile, now_ns: int = 100 * S) -> None:
        self.judge = Judge(profile, rig.DEVICE, now_ns)
        self.now, self.sequence = now_ns, 0
        self.lease: Lease | None = Lease(1, "NOMINAL", 0, now_ns + LENGTH_NS, now_ns + 1)
        self.stop = FREE

    def later(self, ms: float = 1) -> "Gate":
        self.now += round(ms * MS)
        if self.lease is not None:
            self.lease = self.lease._replace(expires_ns=self.now + LENGTH_NS)
        return self

    def look(self) -> bool:
        return self.judge.look(self.now, self.lease, self.stop)

    def anew(self) -> None:
        """A new epoch, and the gate looks; one that was open learns first that the old one ended."""
        self.later()
        was_open = self.judge.closed is None
        self.lease = Lease(1, "NOMINAL", 0, self.now + LENGTH_NS, self.now)
        assert self.later().look() is was_open
        assert not self.later(20 if was_open else 0).look()  # what moves again starts from rest
        assert self.judge.closed is None

    def proposal(self, **given: Any) -> Proposal:
        self.sequence += 1
        told: dict[str, Any] = {
            "sequence": self.sequence,
            "proposed_ns": self.now,
            "ttl_ns": 200 * MS,
            "action": "drive",
            "values": {"v_m_s": 0.1, "w_rad_s": 0.0},
        }
        return Proposal(**(told | given))

    def judged(self, **given: Any) -> Reason | None:
        self.look()
        return self.judge.judge(self.now, self.lease, self.proposal(**given))

    def passes(self, **given: Any) -> None:
        self.later(2).look()
        proposal = self.proposal(**given)
        assert self.judge.judge(self.now, self.lease, proposal) is None
        self.judge.spend(proposal)
        self.judge.sent(self.now, proposal)


@pytest.fixture
def gate(profile: Profile) -> Gate:
    gate = Gate(profile)
    gate.later().look()
    assert gate.judge.closed is None
    return gate


def test_it_boots_closed(profile: Profile) -> None:
    gate = Gate(profile)
    assert gate.judge.closed is Reason.NO_LEASE
    assert gate.judge.epoch_ns == 0
    assert gate.judge.judge(gate.now, gate.lease, gate.proposal()) is Reason.NO_LEASE
    gate.lease = None
    assert not gate.later().look()  # nothing was lost that was never there
    assert gate.judge.closed is Reason.NO_LEASE


@pytest.mark.parametrize("began", [-5 * S, -1, 0])
def test_a_lease_from_before_its_start_is_none_for_it(profile: Profile, began: int) -> None:
    gate = Gate(profile)
    assert gate.lease is not None
    gate.lease = gate.lease._replace(epoch_ns=gate.now + began)
    assert gate.later().judged() is Reason.NO_LEASE
    gate.lease = gate.lease._replace(epoch_ns=100 * S + 1)
    assert gate.later().judged() is None


def test_every_reason_has_one_consequence() -> None:
    groups = (CLOSED, PACING, TRIPS_AT_ONCE, REPEATS_TRIP)
    assert frozenset().union(*groups) == frozenset(Reason)
    assert sum(len(group) for group in groups) == len(Reason)
    assert {Reason.NO_LEASE, Reason.STATE, Reason.NO_TABLE, Reason.ESTOP, Reason.TRIPPED} == CLOSED
    assert Reason.UNAPPROVED in TRIPS_AT_ONCE
    assert {Reason.ABSOLUTE, Reason.RATE, Reason.EXPIRED, Reason.SEQUENCE, Reason.MALFORMED} <= REPEATS_TRIP


def test_it_passes_what_is_within_all_limits(gate: Gate) -> None:
    for _ in range(10):
        gate.passes()
    assert gate.judge.passed == 10
    assert not gate.judge.counts
    assert gate.judge.tripped(FREE) == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"state": "SAFE"}, Reason.STATE),
        ({"state": "STOPPED"}, Reason.STATE),
        ({"state": ""}, Reason.STATE),
        ({"state": "DEGRADED"}, None),
        ({"limits": 1}, None),
        ({"limits": 2}, Reason.NO_TABLE),
        ({"expires_ns": 0}, Reason.NO_LEASE),
    ],
)
def test_what_the_lease_has_to_say(gate: Gate, change: dict[str, Any], reason: Reason | None) -> None:
    assert gate.lease is not None
    gate.later()
    gate.lease = gate.lease._replace(**change)
    assert gate.look() is (reason is not None)
    assert gate.judge.closed is reason
    assert not gate.look()  # told once
    assert gate.judged() is reason


def test_permission_ends_with_the_lease(gate: Gate) -> None:
    assert gate.lease is not None
    gate.now = gate.lease.expires_ns - 1
    assert not gate.look()
    gate.now += 1
    assert gate.look()
    assert gate.judge.closed is Reason.NO_LEASE


@pytest.mark.parametrize("lost", [{"expires_ns": 0}, {"state": "STOPPED"}, {"limits": 9}])
def test_what_was_lost_comes_back_with_a_new_epoch_only(gate: Gate, lost: dict[str, Any]) -> None:
    good = gate.lease
    assert good is not None
    gate.lease = good._replace(**lost)
    assert gate.look()
    why = gate.judge.closed
    gate.lease = good
    assert not gate.later().look()
    assert gate.judge.closed is why
    gate.anew()


@pytest.mark.parametrize("table", [0, 1])
def test_the_lease_chooses_the_table(gate: Gate, table: int) -> None:
    assert gate.lease is not None
    gate.lease = gate.lease._replace(limits=table)
    fast = {"v_m_s": 0.3, "w_rad_s": 0.0}
    assert gate.later().judged(values=fast) is (None if table == 0 else Reason.ABSOLUTE)
    assert gate.judged() is None
    risky = gate.judged(action="tip", values={"tip_deg": 30.0})
    assert risky is (Reason.UNAPPROVED if table == 0 else Reason.ACTION)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"action": "dance"}, Reason.ACTION),
        ({"values": {"v_m_s": 0.1}}, Reason.ACTION),
        ({"values": {"v_m_s": 0.1, "w_rad_s": 0.0, "tip_deg": 0.0}}, Reason.ACTION),
        ({"values": {}}, Reason.ACTION),
        ({"sequence": -1}, Reason.SEQUENCE),
        ({"ttl_ns": 200 * MS + 1}, Reason.EXPIRED),
        ({"values": {"v_m_s": math.nan, "w_rad_s": 0.0}}, Reason.NOT_FINITE),
        ({"values": {"v_m_s": 1.01, "w_rad_s": 0.0}}, Reason.ABSOLUTE),
        ({"action": "tip", "values": {"tip_deg": 30.0}}, Reason.UNAPPROVED),
    ],
)
def test_what_is_wrong_with_a_proposal(gate: Gate, given: dict[str, Any], reason: Reason) -> None:
    assert gate.later().judged(**given) is reason


def test_the_sequence_moves(gate: Gate) -> None:
    gate.passes(sequence=5)
    assert gate.later().judged(sequence=5) is Reason.SEQUENCE
    assert gate.judged(sequence=4) is Reason.SEQUENCE
    assert gate.judged(sequence=7, values={"v_m_s": 9.0, "w_rad_s": 0.0}) is Reason.ABSOLUTE
    assert gate.judged(sequence=7) is Reason.SEQUENCE  # judged once
    assert gate.judged(sequence=8) is None
    gate.anew()
    assert gate.judged(sequence=0) is None  # a planner that began anew


def test_a_proposal_lives_so_long(gate: Gate) -> None:
    made = gate.later().now
    assert gate.later(100).judged(proposed_ns=made, ttl_ns=100 * MS) is None
    assert gate.later(0.000001).judged(proposed_ns=made, ttl_ns=100 * MS) is Reason.EXPIRED
    assert gate.judged(proposed_ns=gate.now + FUTURE_NS) is None
    assert gate.judged(proposed_ns=gate.now + FUTURE_NS + 1) is Reason.FUTURE


def test_a_permission_that_was_lost_unseen_takes_approvals_and_motion_with_it(gate: Gate) -> None:
    risky = {"action": "tip", "values": {"tip_deg": 30.0}}
    digest = action_digest(rig.DEVICE, "tip", {"tip_deg": 30.0})
    assert gate.judge.approvals.add(digest, gate.now + 60 * S, gate.now) is None
    gate.later(20)
    # lost and given anew since the last look
    gate.lease = Lease(1, "NOMINAL", 0, gate.now + LENGTH_NS, gate.now - 1)
    assert gate.look()  # the safe value is due
    assert not gate.look()
    assert gate.later(20).judged() is None  # the next look opened it
    assert gate.judged(**risky) is Reason.UNAPPROVED


def test_what_was_proposed_before_the_epoch_is_void(gate: Gate) -> None:
    old = gate.proposal()
    gate.anew()
    assert gate.lease is not None
    assert gate.judge.judge(gate.now, gate.lease, old) is Reason.BEFORE_EPOCH
    assert gate.judged(proposed_ns=gate.lease.epoch_ns) is Reason.BEFORE_EPOCH
    assert gate.judged(proposed_ns=gate.lease.epoch_ns + 1) is None
    assert gate.judge.epoch_ns == gate.lease.epoch_ns


def test_after_a_loss_values_start_from_rest(profile: Profile) -> None:
    table = profile.tables[0]
    slow = table._replace(axes=dict(table.axes) | {"v_m_s": table.axes["v_m_s"]._replace(rise_per_s=1.0)})
    gate = Gate(profile._replace(tables=(slow,)))
    for at in range(1, 6):
        gate.later(99).passes(values={"v_m_s": at * 0.1, "w_rad_s": 0.0})
    assert gate.later(1).judged(values={"v_m_s": 0.5, "w_rad_s": 0.0}) is None
    gate.stop = PRESSED
    assert gate.look()
    gate.stop = FREE
    gate.anew()
    assert gate.judged(values={"v_m_s": 0.5, "w_rad_s": 0.0}) is Reason.RATE
    assert gate.judged(values={"v_m_s": 0.001, "w_rad_s": 0.0}) is None


# -- the emergency stop ----------------------------------------------------------------------------------


def test_a_pressed_stop_closes_and_releasing_it_opens_nothing(gate: Gate) -> None:
    gate.stop = PRESSED
    assert gate.later().look()
    assert not gate.later().look()
    assert gate.judge.closed is Reason.ESTOP
    assert gate.judge.tripped(gate.stop) == Condition.ESTOP.mask
    released = gate.now
    gate.stop = FREE
    gate.later().look()
    assert gate.judge.closed is Reason.ESTOP
    assert gate.judge.tripped(gate.stop) == 0
    assert gate.lease is not None
    gate.lease = gate.lease._replace(epoch_ns=released)  # began while it was still pressed
    assert gate.later().judged() is Reason.ESTOP
    gate.lease = gate.lease._replace(epoch_ns=released + 1)
    assert gate.later().judged() is None


def test_a_stop_counts_before_anything_else(profile: Profile) -> None:
    gate = Gate(profile)
    gate.stop, gate.lease = PRESSED, None
    assert not gate.look()
    assert gate.judged() is Reason.ESTOP
    gate.stop = FREE
    assert gate.judged() is Reason.NO_LEASE


def test_channels_that_disagree_are_told(gate: Gate) -> None:
    gate.stop = Stop(pressed=True, disagree=True)
    gate.later().look()
    assert gate.judge.tripped(gate.stop) == Condition.ESTOP.mask | Condition.ESTOP_DISAGREES.mask
    assert Condition.ESTOP_DISAGREES.mask & EVALUATED


# -- refusals ---------------------------------------------------------------------------------------------


def test_each_refusal_is_counted_by_its_reason(profile: Profile) -> None:
    gate = Gate(profile)
    for reason in Reason:
        assert not gate.judge.refused(gate.now, reason)  # closed: it can close no further
        assert not gate.judge.refused(gate.now, reason)
    assert gate.judge.counts == dict.fromkeys(Reason, 2)
    assert gate.judge.tripped(FREE) == 0


@pytest.mark.parametrize("reason", sorted(Reason))
def test_what_a_refusal_leads_to(gate: Gate, reason: Reason) -> None:
    came = [gate.judge.refused(gate.later(200).now, reason) for _ in range(5)]
    if reason in TRIPS_AT_ONCE:
        assert came == [True, False, False, False, False]
        assert gate.judge.tripped(FREE) == Condition.UNAPPROVED_RISK.mask
    elif reason in REPEATS_TRIP:
        assert came == [False, False, False, False, True]
        assert gate.judge.tripped(FREE) == Condition.MOTION_REFUSALS.mask
    else:
        assert came == [False] * 5
        assert gate.judge.closed is None
        return
    assert gate.judge.closed is Reason.TRIPPED
    assert gate.later().judged() is Reason.TRIPPED
    assert gate.judge.tripped(FREE) & ~EVALUATED == 0


def test_refusals_far_apart_do_not_trip(gate: Gate) -> None:
    for _ in range(20):
        assert not gate.judge.refused(gate.later(250.001).now, Reason.ABSOLUTE)
    assert gate.judge.refused(gate.later(249).now, Reason.RATE)


def test_refusals_within_exactly_the_time_trip(gate: Gate) -> None:
    for _ in range(4):
        assert not gate.judge.refused(gate.later(250).now, Reason.ABSOLUTE)
    assert gate.judge.refused(gate.later(250).now, Reason.ABSOLUTE)


def test_refusals_of_an_epoch_do_not_count_in_the_next(gate: Gate) -> None:
    for _ in range(4):
        gate.judge.refused(gate.now, Reason.ABSOLUTE)
    gate.anew()
    for _ in range(4):
        assert not gate.judge.refused(gate.now, Reason.ABSOLUTE)
    assert gate.judge.refused(gate.now, Reason.ABSOLUTE)


def test_a_trip_is_shown_until_the_guard_has_taken_the_lease_away(gate: Gate) -> None:
    assert gate.judge.refused(gate.now, Reason.UNAPPROVED)
    tripped = gate.now
    gate.later(5000).look()  # the lease is still there: the guard has not seen it
    assert gate.judge.tripped(FREE) == Condition.UNAPPROVED_RISK.mask
    gate.lease = None
    gate.look()
    assert gate.judge.tripped(FREE) == 0  # so that it can be acknowledged
    assert gate.judge.closed is Reason.NO_LEASE
    gate.anew()
    gate.judge.refused(gate.now, Reason.UNAPPROVED)
    tripped = gate.now
    gate.lease = None
    gate.now = tripped + SHOWN_NS - 1
    gate.look()
    assert gate.judge.tripped(FREE) == Condition.UNAPPROVED_RISK.mask  # the guard may have looked late
    gate.now += 1
    gate.look()
    assert gate.judge.tripped(FREE) == 0


def test_everything_that_holds_is_told_together(gate: Gate) -> None:
    for _ in range(5):
        gate.judge.refused(gate.now, Reason.ABSOLUTE)
    gate.anew()
    gate.judge.refused(gate.now, Reason.UNAPPROVED)
    assert gate.judge.tripped(FREE) == Condition.MOTION_REFUSALS.mask | Condition.UNAPPROVED_RISK.mask
    assert gate.judge.tripped(PRESSED) == EVALUATED & ~Condition.ESTOP_DISAGREES.mask
    assert gate.judge.tripped(Stop(pressed=True, disagree=True)) == EVALUATED


def test_after_a_trip_it_takes_an_epoch_that_is_newer(gate: Gate) -> None:
    gate.judge.refused(gate.now, Reason.UNAPPROVED)
    tripped = gate.now
    assert gate.lease is not None
    gate.lease = gate.lease._replace(epoch_ns=tripped)
    assert gate.later().judged() is Reason.TRIPPED
    gate.lease = gate.lease._replace(epoch_ns=tripped + 1)
    assert gate.later().judged() is None


# -- approvals --------------------------------------------------------------------------------------------


def approve(gate: Gate, values: dict[str, float], device: str = rig.DEVICE, action: str = "tip") -> None:
    digest = action_digest(device, action, values)
    assert gate.judge.approvals.add(digest, gate.now + S, gate.now) is None


def tips(gate: Gate, degrees: float) -> Reason | None:
    return gate.later(2).judged(action="tip", values={"tip_deg": degrees})


def test_an_approval_is_good_for_its_action_once(gate: Gate) -> None:
    approve(gate, {"tip_deg": 30.0})
    assert tips(gate, 30.000001) is Reason.UNAPPROVED
    assert tips(gate, 30.0) is None
    assert tips(gate, 30.0) is None  # judged, and not sent
    gate.passes(action="tip", values={"tip_deg": 30.0})
    assert tips(gate, 30.0) is Reason.UNAPPROVED


def test_an_ordinary_action_uses_no_approval_up(gate: Gate) -> None:
    approve(gate, {"v_m_s": 0.1, "w_rad_s": 0.0}, action="drive")
    gate.passes()
    assert len(gate.judge.approvals) == 1


def test_an_approval_of_another_device_or_action_is_none(gate: Gate) -> None:
    approve(gate, {"tip_deg": 30.0}, device="cart-8")
    approve(gate, {"tip_deg": 30.0}, action="drive")
    assert tips(gate, 30.0) is Reason.UNAPPROVED


def test_an_approval_expires(gate: Gate) -> None:
    approve(gate, {"tip_deg": 30.0})
    until = gate.now + S
    gate.later((until - 1 - gate.now) / MS)
    assert gate.judged(action="tip", values={"tip_deg": 30.0}) is None
    gate.later(0.000001)
    assert gate.judged(action="tip", values={"tip_deg": 30.0}) is Reason.UNAPPROVED


def test_approvals_are_void_when_the_permission_is_lost(gate: Gate) -> None:
    approve(gate, {"tip_deg": 30.0})
    gate.stop = PRESSED
    gate.later().look()
    gate.stop = FREE
    gate.anew()
    assert tips(gate, 30.0) is Reason.UNAPPROVED


# -- anything in any order --------------------------------------------------------------------------------


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, a command passes only under a valid lease of an epoch in which nothing was lost."""

    def __init__(self) -> None:
        super().__init__()

        self.now = 50 * S
        self.judge = Judge(CART, rig.DEVICE, self.now)
        self.lease: Lease | None = None
        self.pressed = False
        self.void = self.now  # epochs up to here are void
        self.sequence = 0
        self.last = (0, -1)  # epoch and number of what was passed last
        self.was_open = False

    def permits(self) -> bool:
        return (
            not self.pressed
            and self.lease is not None
            and self.now < self.lease.expires_ns
            and self.lease.state in ("NOMINAL", "DEGRADED")
            and self.lease.limits < 2
            and self.lease.epoch_ns > self.void
        )

    def looked(self) -> None:
        may = self.permits()
        if may and self.was_open:  # one that was lost and given anew between two looks closes for a look
            assert self.lease is not None
            may = self.lease.epoch_ns == self.judge.epoch_ns
        lost = self.judge.look(self.now, self.lease, Stop(self.pressed))
        if self.pressed:
            self.void = self.now
        if not may and self.was_open:
            self.void = max(self.void, self.judge.epoch_ns)
        assert lost is (self.was_open and not may)
        assert (self.judge.closed is None) is may
        self.was_open = may

    @rule(ms=st.integers(1, 80))
    def time_passes(self, ms: int) -> None:
        self.now += ms * MS

    @rule(state=st.sampled_from(["NOMINAL", "NOMINAL", "DEGRADED", "STOPPED"]), limits=st.integers(0, 2))
    def guard_renews(self, state: str, limits: int) -> None:
        began = (
            self.lease.epoch_ns if self.lease is not None and self.now < self.lease.expires_ns else self.now
        )
        self.lease = Lease(1, state, limits, self.now + LENGTH_NS, began)

    @rule()
    def guard_revokes(self) -> None:
        if self.lease is not None:
            self.lease = self.lease._replace(expires_ns=0)

    @rule(pressed=st.booleans())
    def stop_input(self, pressed: bool) -> None:
        self.pressed = pressed

    @rule(age=st.integers(-3, 300), ttl=st.integers(1, 250), v=st.floats(-1, 1.5), again=st.booleans())
    def propose(self, age: int, ttl: int, v: float, again: bool) -> None:
        self.looked()
        self.sequence += 0 if again else 1
        proposal = Proposal(
            self.sequence, self.now - age * MS, ttl * MS, "drive", {"v_m_s": v, "w_rad_s": 0.0}
        )
        reason = self.judge.judge(self.now, self.lease, proposal)
        if reason is None:
            assert self.was_open
            assert self.lease is not None
            assert self.lease.epoch_ns < proposal.proposed_ns <= self.now + FUTURE_NS
            assert self.now <= proposal.proposed_ns + proposal.ttl_ns
            assert proposal.ttl_ns <= 200 * MS
            assert (-0.5, -0.1)[self.lease.limits] <= v <= (1.0, 0.2)[self.lease.limits]
            assert (self.lease.epoch_ns, self.sequence) > self.last
            self.last = (self.lease.epoch_ns, self.sequence)
            self.judge.sent(self.now, proposal)
        elif self.judge.refused(self.now, reason):
            assert self.was_open
            self.was_open, self.void = False, self.now

    @precondition(lambda self: self.was_open)
    @rule()
    def unapproved_risk(self) -> None:
        self.looked()
        if self.was_open:
            assert self.judge.refused(self.now, Reason.UNAPPROVED)
            self.was_open, self.void = False, self.now

    @invariant()
    def shown_is_evaluated(self) -> None:
        assert self.judge.tripped(Stop(self.pressed)) & ~EVALUATED == 0


TestAnyOrder = AnyOrder.TestCase


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True))
def test_no_value_passes_that_is_out_of_range(v: float, w: float) -> None:

    gate = Gate(CART)
    reason = gate.later().judged(values={"v_m_s": v, "w_rad_s": w})
    if reason is None:
        assert -0.5 <= v <= 1.0
        assert -1.0 <= w <= 1.0
    else:
        assert reason is (
            Reason.ABSOLUTE if math.isfinite(v) and math.isfinite(w) else Reason.NOT_FINITE
        ) or (reason is Reason.RATE)
