"""What slots run: a small machine, its file, and what is left when the file is damaged."""

from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from pydantic import ValidationError

from edge_runtime.updates.store import Places, Slots, SlotState, read_slots
from edge_runtime.updates.store.slots import write_slots

A, B, C = "a" * 64, "b" * 64, "c" * 64


def test_what_the_device_was_set_up_with() -> None:
    assert Slots().of("people") == SlotState(active=None, trial=False, last_good=None)


def test_a_trial_that_passes_and_one_that_fails() -> None:
    state = SlotState().begun(A, {}).committed()
    assert (state.active, state.trial, state.last_good) == (A, False, None)
    state = state.begun(B, {"gate": 3})
    assert (state.active, state.trial, state.last_good, state.values) == (B, True, A, {"gate": 3})
    state = state.reverted()
    assert (state.active, state.trial, state.last_good, state.values) == (A, False, None, {})


def test_a_trial_replaced_by_another_was_never_good() -> None:
    state = SlotState().begun(A, {"x": 1}).committed().begun(B, {}).begun(C, {})
    assert (state.active, state.last_good, state.last_good_values) == (C, A, {"x": 1})
    assert state.reverted().active == A


def test_a_trial_that_fails_leaves_the_slot_as_it_was() -> None:
    """What the one before goes back to is kept: it may have been accepted an hour ago, and not stay."""
    good = SlotState().begun(A, {"x": 1}).committed()
    accepted = good.begun(B, {"x": 2}).committed()
    tried = accepted.begun(C, {}).begun(C, {"x": 3})
    assert Slots().with_slot("people", tried).needed() == {A, B, C}
    assert tried.reverted() == accepted
    passed = tried.committed()
    assert (passed.last_good, passed.earlier, passed.earlier_values) == (B, None, {})
    assert (accepted.given_up().active, accepted.given_up().values) == (A, {"x": 1})


def test_what_is_given_up_is_never_opened_once_more() -> None:
    given_up = SlotState().begun(A, {}).committed().begun(B, {}).committed().given_up()
    assert (given_up.active, given_up.last_good) == (A, A)
    assert given_up.given_up() == SlotState(), "what the configuration names is left"


def test_nothing_is_reverted_without_a_trial() -> None:
    state = SlotState().begun(A, {}).committed()
    assert state.reverted() == state
    assert SlotState().reverted() == SlotState()


@hypothesis.given(st.lists(st.sampled_from(["a", "b", "c", "commit", "revert"]), max_size=30))
def test_a_slot_never_goes_back_to_what_did_not_pass(steps: list[str]) -> None:
    state = SlotState()
    good: set[str | None] = {None}
    for step in steps:
        if step == "commit":
            good |= {state.active} if state.trial else set()
            state = state.committed()
        elif step == "revert":
            state = state.reverted()
        else:
            state = state.begun(step * 64, {})
        assert state.trial or state.active in good
        assert state.last_good in good


def test_the_configured_one_is_never_on_trial() -> None:
    with pytest.raises(ValidationError):
        SlotState(active=None, trial=True)


def test_written_and_read(tmp_path: Path) -> None:
    slots = Slots().with_slot("people", SlotState().begun(A, {"name": "north gate", "limit": 0.5}))
    write_slots(Places(tmp_path), slots)
    assert read_slots(tmp_path) == slots
    assert slots.needed() == {A}


@pytest.mark.parametrize(
    "damage",
    [b"", b"\x00" * 200, b"{", b'{"slots": {"people": {"active": 7}}}', b'{"schema_version": 2}', None],
)
def test_one_damaged_file_is_none_lost(tmp_path: Path, damage: bytes | None) -> None:
    places, slots = Places(tmp_path), Slots().with_slot("people", SlotState(active=A))
    for path in (places.slots, places.slots_copy):
        write_slots(places, slots)
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        assert read_slots(tmp_path) == slots


def test_kind_11_both_damaged_is_said_and_no_obstacle(tmp_path: Path) -> None:
    """greengrass-nucleus #1488: a damaged file of the deployment made the device restart for ever."""
    places = Places(tmp_path)
    assert not read_slots(tmp_path).lost
    places.slots.write_bytes(b"\x00")
    places.slots_copy.mkdir()
    assert read_slots(tmp_path) == Slots(lost=True)
    places.slots_copy.rmdir()
    assert read_slots(tmp_path).lost
    write_slots(places, Slots().with_slot("people", SlotState(active=B)))
    assert read_slots(tmp_path).of("people").active == B
    assert not read_slots(tmp_path).lost
