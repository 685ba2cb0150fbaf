"""The machine's steps: what each state does, what ends it, and what it never does. Mender's `Killed_in_X`, pure."""

import itertools
from dataclasses import replace
from datetime import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import LeftAs, UpdateAction, UpdateCode, UpdateState
from edge_runtime.protocol.windows import Window, Windows
from edge_runtime.updates.machine import TABLE, Deadlines, Order, Rules, denies, step
from edge_runtime.updates.machine.observed import Device, Errand, GivenUp, Shadowed
from edge_runtime.updates.machine.table import MOST_MOVES, MOST_STARTS, deadline_ms
from tests.updates.machine.works import (
    NEW,
    OLD,
    RULES,
    assignment,
    at,
    loaded,
    seen,
    terms,
    view,
    work,
)

S = UpdateState
LIVE = [state for state in S if not state.is_terminal]


@pytest.mark.parametrize("state", LIVE)
def test_every_state_says_what_a_restart_comes_to(state: UpdateState) -> None:
    row = TABLE[state]
    assert len(row.after_restart) > 10
    assert row.onward
    assert row.overdue is not None or state is S.ACCEPTED


@pytest.mark.parametrize("state", [state for state in LIVE if state is not S.ACCEPTED])
def test_every_state_ends_in_time(state: UpdateState) -> None:
    """#1: nothing is `proceeding` for ever."""
    bound_ms = deadline_ms(work(state), Deadlines())
    overdue = TABLE[state].overdue
    assert bound_ms is not None
    assert overdue is not None
    late = step(work(state), seen(bound_ms / 1000, view=None), RULES).work
    assert (late.state, late.code) == overdue
    if state is not S.PROBATION:  # which may be over before, by its own terms
        early = step(work(state), seen(bound_ms / 1000 - 1, view=None), RULES).work
        assert early.state is not overdue[0]


@pytest.mark.parametrize("state", LIVE)
@pytest.mark.parametrize("action", list(UpdateAction))
def test_something_newer_ends_all_but_what_is_atomic(state: UpdateState, action: UpdateAction) -> None:
    after = step(work(state), seen(newer=action), RULES).work.state
    if state is S.ACTIVATING:
        assert after not in (S.SUPERSEDED, S.WITHDRAWN)
    elif action is UpdateAction.HOLD:
        assert after is S.WITHDRAWN or state is S.PROBATION
    else:
        assert after is S.SUPERSEDED


@pytest.mark.parametrize("state", LIVE)
def test_what_never_ends_by_itself_is_ended(state: UpdateState) -> None:
    """Mender's bound on writes, and a process that dies of one assignment again and again."""
    for changes in ({"moves": MOST_MOVES + 1}, {"starts": MOST_STARTS + 1}):
        after = step(work(state, **changes), seen(), RULES).work
        assert after.state is (S.REVERTED if work(state).begun else S.REFUSED)


def test_a_process_that_lives_long_enough_is_not_what_dies_of_it() -> None:
    shadowed = work(S.STAGED, starts=9)
    assert step(shadowed, seen(5, view=view(candidate=loaded())), RULES).work.starts == 9
    assert step(shadowed, seen(5, view=view(candidate=loaded()), up_ms=700_000), RULES).work.starts == 0


# -- before it is in use


def test_what_runs_already_is_healthy_only_where_it_really_runs() -> None:
    same = seen(active=NEW, view=view(NEW))
    assert step(work(), same, RULES).work.state is S.HEALTHY
    assert step(work(), replace(same, view=view(OLD)), RULES).work.state is S.DOWNLOADING
    assert step(work(), replace(same, on_trial=NEW), RULES).work.state is S.DOWNLOADING
    with_values = work(assignment=assignment(values={"limit": 3}))
    assert step(with_values, same, RULES).work.state is S.DOWNLOADING
    assert step(with_values, replace(same, values={"limit": 3}), RULES).work.state is S.HEALTHY


def test_hold_is_done_when_it_is_heard() -> None:
    hold = work(assignment=assignment(action=UpdateAction.HOLD), terms=None)
    assert step(hold, seen(), RULES).work.state is S.HEALTHY


@pytest.mark.parametrize(
    ("errand", "state", "code"),
    [
        (None, S.DOWNLOADING, None),
        (Errand(), S.DOWNLOADING, None),
        (Errand(over=True), S.VERIFIED, None),
        (Errand(over=True, code=UpdateCode.DOWNLOAD_NOT_FOUND), S.REFUSED, UpdateCode.DOWNLOAD_NOT_FOUND),
        (
            Errand(over=True, code=UpdateCode.METERED, again=True),
            S.DOWNLOADING,
            UpdateCode.METERED,
        ),
    ],
)
def test_a_download_goes_on_ends_or_is_left_alone(
    errand: Errand | None, state: UpdateState, code: UpdateCode | None
) -> None:
    decision = step(work(S.DOWNLOADING), seen(errand=errand), RULES)
    assert (decision.work.state, decision.work.code) == (state, code)
    assert (Order.FETCH in decision.orders) == (errand is None)


def test_a_link_that_is_cut_now_and_then_is_not_left_alone_for_long() -> None:
    failed = Errand(over=True, code=UpdateCode.DOWNLOAD_FAILED, again=True)
    stuck = moving = work(S.DOWNLOADING)
    for _ in range(5):
        stuck = step(stuck, seen(errand=failed), RULES).work
        moving = step(moving, seen(errand=replace(failed, moved_bytes=True)), RULES).work
    assert (stuck.failures, moving.failures) == (5, 1)
    assert stuck.wait_ms > 4 * moving.wait_ms
    assert step(stuck, seen(10), RULES).orders == ()
    assert step(stuck, seen(1 + stuck.wait_ms / 1000), RULES).orders == (Order.FETCH,)


def test_loading_and_what_perception_says_of_it() -> None:
    verified = work(S.VERIFIED)
    assert step(verified, seen(view=None), RULES).orders == ()
    assert step(verified, seen(), RULES).orders == (Order.LOAD,)
    other = view(candidate=loaded(release=OLD))
    assert step(verified, seen(view=other), RULES).orders == (Order.LOAD,)
    busy = view(candidate=loaded(loading=CandidateState.LOADING))
    assert step(verified, seen(view=busy), RULES).work.state is S.VERIFIED
    failed = view(candidate=loaded(loading=CandidateState.FAILED, code=UpdateCode.NO_MEMORY, text="3 GB"))
    after = step(verified, seen(view=failed), RULES).work
    assert (after.state, after.code, after.text) == (S.REFUSED, UpdateCode.NO_MEMORY, "3 GB")
    assert step(verified, seen(view=view(candidate=loaded())), RULES).work.state is S.STAGED


def test_a_shadow_run_is_asked_for_and_ended() -> None:
    staged = work(S.STAGED)
    assert step(staged, seen(view=view(candidate=loaded())), RULES).orders == (Order.SHADOW,)
    on = loaded(shadow=Shadowed(on=True))
    assert step(staged, seen(view=view(candidate=on)), RULES).orders == ()
    whole = Shadowed(
        seconds=61,
        frames=100,
        running_objects=50,
        found=49,
        candidate_objects=50,
        confirmed=49,
        running_ms=20,
        candidate_ms=20,
        on=True,
    )
    done = step(staged, seen(62, view=view(candidate=loaded(shadow=whole))), RULES)
    assert (done.work.state, done.orders) == (S.ACTIVATING, (Order.REST,))
    assert done.work.begun
    assert done.work.before is not None


@pytest.mark.parametrize("changes", [{"shadowed": True}, {"terms": terms(shadow={"seconds": 0})}])
def test_no_second_shadow_run(changes: dict[str, Any]) -> None:
    after = step(work(S.STAGED, **changes), seen(view=view(candidate=loaded())), RULES)
    assert after.work.state is S.ACTIVATING


NIGHT = Rules("cam-07", windows=Windows((Window((), time(2), time(3)),)))
DAY_MS, NIGHT_MS = 1_790_000_000_000, 1_790_000_000_000 // 86_400_000 * 86_400_000 + 2 * 3_600_000


def test_what_is_in_the_way() -> None:
    ready = work(S.STAGED, shadowed=True)
    here = view(candidate=loaded())
    held = Device(UpdateCode.IN_MOTION, "it moves")
    assert step(ready, seen(view=here, device=held), RULES).work.code is UpdateCode.IN_MOTION
    outside = step(ready, seen(view=here, wall_ms=DAY_MS), NIGHT).work
    assert (outside.state, outside.code) == (S.WAITING, UpdateCode.OUTSIDE_WINDOW)
    unknown = step(ready, seen(view=here, wall_ms=None), NIGHT).work
    assert unknown.code is UpdateCode.OUTSIDE_WINDOW
    assert step(ready, seen(view=here, wall_ms=NIGHT_MS), NIGHT).work.state is S.ACTIVATING
    back = work(S.STAGED, assignment=assignment(action=UpdateAction.ROLLBACK), back=True)
    assert step(back, seen(view=here, wall_ms=DAY_MS), NIGHT).work.state is S.ACTIVATING
    assert step(back, seen(view=here, device=held), NIGHT).work.state is S.WAITING


def test_what_only_the_assignment_calls_a_way_back_is_as_new_as_any_other() -> None:
    """The director's key is online: a thief of it spares a release neither its shadow run nor its window."""
    called = work(S.STAGED, assignment=assignment(action=UpdateAction.ROLLBACK))
    here = view(candidate=loaded())
    assert step(called, seen(view=here), RULES).orders == (Order.SHADOW,)
    shown = called.model_copy(update={"shadowed": True})
    outside = step(shown, seen(view=here, wall_ms=DAY_MS), NIGHT).work
    assert (outside.state, outside.code) == (S.WAITING, UpdateCode.OUTSIDE_WINDOW)


@pytest.mark.parametrize("state", [S.STAGED, S.WAITING])
def test_nothing_begins_that_nobody_vouches_for(state: UpdateState) -> None:
    ready, here = work(state, shadowed=True), view(candidate=loaded())
    assert step(ready, seen(view=here, vouched=None), RULES).work.state is state
    revoked = step(ready, seen(view=here, vouched=False), RULES).work
    assert (revoked.state, revoked.code) == (S.REFUSED, UpdateCode.TARGET_UNKNOWN)
    assert not denies(revoked)
    back = ready.model_copy(update={"back": True})
    assert step(back, seen(view=here, vouched=False), RULES).work.state is S.ACTIVATING


def test_waiting_gives_the_memory_back_and_loads_again() -> None:
    waits = work(S.WAITING, shadowed=True)
    held = Device(UpdateCode.LOCKED, "locked")
    here = view(candidate=loaded())
    assert step(waits, seen(5, view=here, device=held), RULES).orders == ()
    assert step(waits, seen(601, view=here, device=held), RULES).orders == (Order.DISCARD,)
    assert step(waits, seen(700, view=view()), RULES).work.state is S.VERIFIED


# -- in use


def test_activation_is_written_down_before_perception_is_asked() -> None:
    decision = step(work(S.ACTIVATING), seen(view=view(candidate=loaded())), RULES)
    assert decision.orders == (Order.BEGIN_TRIAL, Order.ACTIVATE)
    assert step(work(S.ACTIVATING), seen(view=None), RULES).orders == (Order.BEGIN_TRIAL,)
    in_use = seen(view=view(NEW), active=NEW, on_trial=NEW)
    assert step(work(S.ACTIVATING), in_use, RULES).work.state is S.PROBATION
    lost = seen(view=view(), active=NEW, on_trial=NEW)
    assert step(work(S.ACTIVATING), lost, RULES).orders == (Order.LOAD,)


def test_a_configuration_has_no_shadow_run_and_other_values_are_put_in_use() -> None:
    slot = {"assignment": assignment(slot="configuration", values={"limit": 3})}
    kind = terms(kind="configuration", name="site", package=None)
    again = seen(view=view(NEW, loaded()), active=NEW)
    staged = work(S.STAGED, terms=kind, **slot)
    assert step(staged, again, RULES).work.state is S.ACTIVATING
    activating = work(S.ACTIVATING, terms=kind, **slot)
    assert step(activating, again, RULES).orders == (Order.BEGIN_TRIAL, Order.ACTIVATE)
    taken = replace(again, view=view(NEW), on_trial=NEW)
    assert step(activating, taken, RULES).work.state is S.PROBATION
    bad = work(S.REVERTED, terms=kind, **slot)
    assert step(bad, replace(taken, on_trial=None), RULES).orders == (Order.REVERT,)


def test_other_values_that_are_not_applied_are_no_success_of_what_runs() -> None:
    """The release in use has the same name: only what is beside it tells that its new values failed."""
    slot = {"assignment": assignment(slot="configuration", values={"limit": 3})}
    activating = work(S.ACTIVATING, terms=terms(kind="configuration", name="site", package=None), **slot)
    failed = loaded(loading=CandidateState.FAILED, code=UpdateCode.ACTIVATION, text="no such camera")
    now = seen(view=view(NEW, failed), active=NEW, on_trial=NEW)
    after = step(activating, now, RULES).work
    assert (after.state, after.code, after.text) == (S.REVERTED, UpdateCode.ACTIVATION, "no such camera")
    before_trial = seen(view=view(NEW, seconds=900, frames=9000), active=NEW)
    decision = step(activating, before_trial, RULES)
    assert (decision.work.state, decision.orders) == (S.ACTIVATING, (Order.BEGIN_TRIAL, Order.LOAD))


def test_what_perception_gave_up_is_taken_back() -> None:
    up = GivenUp(NEW, UpdateCode.CRASH_LOOP, "begun 3 times")
    for state in (S.ACTIVATING, S.PROBATION):
        after = step(work(state), seen(view=replace(view(), given_up=up)), RULES).work
        assert (after.state, after.code) == (S.REVERTED, UpdateCode.CRASH_LOOP)


def test_perception_that_runs_something_else_by_itself_fails_it() -> None:
    assert step(work(S.PROBATION), seen(view=view(OLD)), RULES).work.code is UpdateCode.CRASH_LOOP


def test_a_service_that_was_started_anew_is_no_crash_but_the_next_start_is() -> None:
    other = replace(view(NEW), in_use=replace(view(NEW).in_use, process="p2"))
    kept = step(work(S.PROBATION), seen(view=other, device=Device(guard="g2")), RULES).work
    assert kept.state is S.PROBATION
    third = replace(other, in_use=replace(other.in_use, process="p3"))
    assert step(kept, seen(view=third, device=Device(guard="g2")), RULES).work.code is (
        UpdateCode.PROBATION_CRASH
    )
    assert step(work(S.PROBATION), seen(view=other, device=Device(guard="g1")), RULES).work.code is (
        UpdateCode.PROBATION_CRASH
    )


def test_a_night_without_power_is_not_held_against_it() -> None:
    morning = at(30, "b2", wall_s=86_400)
    late = replace(seen(view=view(NEW), active=NEW, on_trial=NEW), now=morning)
    assert step(work(S.PROBATION), late, RULES).work.state is S.PROBATION
    assert step(work(S.DOWNLOADING), replace(late, view=None), RULES).work.code is (
        UpdateCode.DOWNLOAD_DEADLINE
    )


# -- the end


def test_what_is_healthy_is_kept_on_the_disk_first() -> None:
    healthy = work(S.HEALTHY, begun=True)
    on_trial = seen(view=view(NEW), active=NEW, on_trial=NEW)
    first = step(healthy, on_trial, RULES)
    assert (first.orders, first.left) == ((Order.COMMIT,), None)
    then = step(healthy, replace(on_trial, on_trial=None), RULES)
    assert (then.orders, then.left) == ((Order.SETTLE,), LeftAs.UPDATED)


@pytest.mark.parametrize("state", [S.REVERTED, S.SUPERSEDED])
def test_what_is_bad_goes_from_the_disk_first_then_from_perception(state: UpdateState) -> None:
    bad = work(state, begun=True)
    now = seen(view=view(NEW), active=NEW, on_trial=NEW)
    assert step(bad, now, RULES).orders == (Order.RESTORE,)
    restored = replace(now, active=OLD, on_trial=None)
    decision = step(bad, restored, RULES)
    assert (decision.orders, decision.left) == ((Order.REVERT,), None)
    assert step(bad, replace(restored, view=view(OLD)), RULES).left is LeftAs.REVERTED


def test_an_end_that_cannot_be_confirmed_says_so() -> None:
    bad = work(S.REVERTED)
    stays = seen(61, view=view(NEW), active=OLD)
    assert step(bad, stays, RULES).left is LeftAs.INCONSISTENT
    assert step(bad, seen(61, view=None), RULES).left is LeftAs.REVERTED
    assert step(bad, seen(5, view=None), RULES).left is None


def test_an_errand_is_ended_before_the_assignment_is() -> None:
    refused = work(S.REFUSED)
    assert step(refused, seen(errand=Errand()), RULES).orders == (Order.CANCEL,)
    assert step(refused, seen(), RULES).left is LeftAs.UNCHANGED


@pytest.mark.parametrize(
    ("state", "code", "denied"),
    [
        (S.REVERTED, UpdateCode.PROBATION_LATENCY, True),
        (S.REFUSED, UpdateCode.GOLDEN_VECTORS, True),
        (S.REFUSED, UpdateCode.NO_SPACE, False),
        (S.REFUSED, UpdateCode.SHADOW_NO_DATA, False),
        (S.SUPERSEDED, UpdateCode.SUPERSEDED, False),
        (S.HEALTHY, None, False),
    ],
)
def test_only_what_failed_by_itself_is_known_bad(
    state: UpdateState,
    code: UpdateCode | None,
    denied: bool,
) -> None:
    assert denies(work(state, code=code)) is denied
    assert not denies(work(state, code=code, terms=None)) or state is S.REVERTED


SEEN = st.builds(
    seen,
    st.floats(0, 200_000),
    view=st.sampled_from(
        [
            None,
            view(),
            view(NEW),
            view(NEW, seconds=400, frames=4000, events=80),
            view(candidate=loaded()),
            view(candidate=loaded(loading=CandidateState.FAILED)),
            view(candidate=loaded(loading=CandidateState.ACTIVATING)),
        ]
    ),
    newer=st.sampled_from([None, *UpdateAction]),
    on_trial=st.sampled_from([None, NEW]),
    errand=st.sampled_from([None, Errand(), Errand(over=True), Errand(True, UpdateCode.METERED, again=True)]),
    refused=st.sampled_from([None, (UpdateCode.LOAD, "no")]),
)


@given(st.sampled_from(sorted(S)), st.lists(SEEN, max_size=12))
def test_whatever_is_seen_the_table_holds_and_an_end_stays(state: UpdateState, looks: list[Any]) -> None:
    now = work(state)
    for look in looks:
        after = step(now, look, RULES)
        if now.state.is_terminal:
            assert after.work == now
        elif after.work.state is not now.state:
            assert after.work.state in TABLE[now.state].onward
            assert not (after.work.state in (S.REFUSED, S.WITHDRAWN) and now.begun)
        assert after.left is None or after.work.state.is_terminal
        now = after.work


def test_the_table_leads_from_everywhere_to_an_end() -> None:
    for start in LIVE:
        reached, todo = {start}, [start]
        while todo:
            for state in TABLE[todo.pop()].onward - reached:
                reached.add(state)
                todo.append(state)
        assert any(state.is_terminal for state in reached)
    pairs = itertools.product(LIVE, (S.HEALTHY,))
    assert [a for a, b in pairs if b in TABLE[a].onward] == [S.ACCEPTED, S.PROBATION]
