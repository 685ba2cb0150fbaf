"""Holds, quota and clean-up: what runs, ran well last, or is assigned is never removed, and the store says why."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.engines import EngineStore, Role, StoreFull
from edge_runtime.engines.quota import Stored, to_fit, to_tidy
from tests.rigs.engine_files import DeviceClock, add, another, engine_of, recipe_for

A, B, C, D = (another(name) for name in "abcd")


@pytest.fixture
def store(tmp_path: Path) -> EngineStore:
    return _opened(tmp_path)


def _opened(tmp_path: Path, quota_bytes: int = 1 << 20) -> EngineStore:
    clock = DeviceClock()
    return EngineStore(tmp_path / "engines", quota_bytes=quota_bytes, clock=clock, sleep=clock.sleep)


def test_holds_survive_a_restart(store: EngineStore, tmp_path: Path) -> None:
    store.hold("gate", A.key, Role.RUNNING)
    store.hold("gate", B.key, Role.LAST_GOOD)
    store.hold("Tür 3/é", A.key, Role.ASSIGNED)
    again = _opened(tmp_path)
    assert again.held("gate", Role.RUNNING) == A.key
    assert again.held("gate", Role.LAST_GOOD) == B.key
    assert again.held("Tür 3/é", Role.ASSIGNED) == A.key
    assert again.held("gate", Role.ASSIGNED) is None
    assert len(again.holds()) == 3


def test_a_model_holds_one_engine_in_each_role(store: EngineStore) -> None:
    store.hold("gate", A.key, Role.RUNNING)
    store.hold("gate", B.key, Role.RUNNING)
    assert store.held("gate", Role.RUNNING) == B.key
    store.hold("gate", A.key, Role.LAST_GOOD)
    store.release("gate", Role.RUNNING)
    assert [(hold.key, hold.role) for hold in store.holds()] == [(A.key, Role.LAST_GOOD)]
    store.release("gate")
    assert store.holds() == ()
    store.release("gate")  # once more is no error


def test_models_that_have_left_the_configuration_let_go(store: EngineStore) -> None:
    for name, recipe in (("gate", A), ("door", B)):
        add(store, recipe)
        store.hold(name, recipe.key, Role.RUNNING)
    add(store, C)
    store.hold("door", C.key, Role.ASSIGNED)
    gone = store.keep_only(["gate"], (Role.RUNNING, Role.LAST_GOOD))
    assert [(hold.model, hold.key) for hold in gone] == [("door", B.key)]
    assert [entry.key for entry in store.prune().removed] == [B.key]
    store.keep_only(["gate"])
    assert [entry.key for entry in store.prune().removed] == [C.key]
    assert store.keep_only(["gate"]) == ()


def test_clean_up_removes_what_nobody_needs_and_says_why_the_rest_stays(store: EngineStore) -> None:
    for recipe in (A, B, C, D, recipe_for()):
        add(store, recipe)
    store.hold("gate", A.key, Role.RUNNING)
    store.hold("door", A.key, Role.ASSIGNED)
    store.hold("gate", B.key, Role.LAST_GOOD)
    foreseen = store.prune([C.key], dry_run=True)
    assert store.find(D) is not None  # nothing was done
    pruned = store.prune([C.key])
    assert {entry.key for entry in pruned.removed} == {D.key, recipe_for().key}
    assert {entry.key for entry in pruned.removed} == {entry.key for entry in foreseen.removed}
    assert pruned.freed_bytes > 8192
    assert {kept.entry.key: kept.why for kept in pruned.kept} == {
        A.key: "it is assigned to door and runs as gate",
        B.key: "it was the last good one of gate",
        C.key: "it is assigned",
    }
    assert store.find(D) is None
    for recipe in (A, B, C):
        assert store.find(recipe) is not None
    store.release("gate")
    assert {entry.key for entry in store.prune().removed} == {B.key, C.key}


@pytest.mark.parametrize(
    "damage", [b"", b"{", b'{"model":"gate","role":"driver","key":"x"}', b"\xff" * 70_000]
)
def test_a_damaged_hold_keeps_everything_until_it_is_written_anew(store: EngineStore, damage: bytes) -> None:
    add(store, A)
    add(store, B)
    store.hold("gate", A.key, Role.RUNNING)
    (path,) = store.folder.holds.iterdir()
    path.write_bytes(damage)
    pruned = store.prune()
    assert not pruned.removed
    assert {kept.why.split(":")[0] for kept in pruned.kept} == {"who uses what is not known"}
    assert str(path) in pruned.kept[0].why
    store.hold("gate", A.key, Role.RUNNING)
    assert [entry.key for entry in store.prune().removed] == [B.key]
    path.write_bytes(damage)
    store.release("gate")
    assert [entry.key for entry in store.prune().removed] == [A.key]


def test_a_hold_under_anothers_name_is_doubtful(store: EngineStore) -> None:
    add(store, A)
    store.hold("gate", B.key, Role.RUNNING)
    (path,) = store.folder.holds.iterdir()
    path.rename(path.with_name("0" * 32 + ".running.json"))
    assert store.holds() == ()
    assert not store.prune().removed


# Quota


def _size(store: EngineStore) -> int:
    return store.entries()[0].bytes


def test_what_was_unused_for_longest_gives_way(tmp_path: Path) -> None:
    store = _opened(tmp_path)
    for recipe in (A, B, C):
        add(store, recipe)
    assert store.find(A) is not None  # now B is the oldest
    tight = _opened(tmp_path, quota_bytes=3 * _size(store) + 100)
    add(tight, D)
    assert [entry.key for entry in tight.entries()] == [C.key, A.key, D.key]
    assert tight.usage().engines <= tight.usage().quota


def test_held_engines_never_give_way(tmp_path: Path) -> None:
    store = _opened(tmp_path)
    for recipe, role in ((A, Role.RUNNING), (B, Role.LAST_GOOD), (C, Role.ASSIGNED)):
        add(store, recipe)
        store.hold("gate", recipe.key, role)
    tight = _opened(tmp_path, quota_bytes=3 * _size(store) + 100)
    with pytest.raises(StoreFull) as caught:
        add(tight, D)
    told = str(caught.value)
    assert "runs as gate" in told
    assert "was the last good one of gate" in told
    assert "raise the quota" in told
    assert "\n" not in told
    assert {entry.key for entry in tight.entries()} == {A.key, B.key, C.key}
    add(tight, A, 4000)  # its own place is its own
    found = tight.find(A)
    assert found is not None
    assert found.engine == engine_of(A, 4000)


def test_an_engine_above_the_whole_quota_removes_nothing(tmp_path: Path) -> None:
    store = _opened(tmp_path, quota_bytes=20_000)
    add(store, A)
    with pytest.raises(StoreFull, match="missing in the store's quota"):
        add(store, B, 30_000)
    assert store.find(A) is not None


STORED = st.lists(
    st.builds(Stored, st.text("abcdef", min_size=1, max_size=2), st.integers(1, 100), st.integers(0, 5)),
    max_size=8,
    unique_by=lambda one: one.key,
)


@given(STORED, st.sets(st.text("abcdef", min_size=1, max_size=2)), st.integers(0, 500), st.integers(1, 200))
def test_a_plan_keeps_what_is_needed_and_removes_no_more_than_it_must(
    stored: list[Stored], needed: set[str], quota: int, new: int
) -> None:
    reasons = dict.fromkeys(needed, "why")
    plan = to_fit(stored, reasons, quota, new)
    assert not needed & set(plan.remove)
    assert set(plan.remove) | set(plan.kept) == {one.key for one in stored}
    left = sum(one.bytes for one in stored if one.key in plan.kept) + new
    assert left - plan.short_bytes <= quota
    assert plan.short_bytes == 0 or set(plan.kept) <= needed
    used = {one.key: one.used for one in stored}
    spared = [used[key] for key in plan.kept if key not in needed]
    assert all(used[gone] <= kept for gone in plan.remove for kept in spared)
    sizes = {one.key: one.bytes for one in stored}
    assert not plan.remove or plan.short_bytes or left + sizes[plan.remove[-1]] > quota
    assert set(to_tidy(stored, reasons).remove) == {one.key for one in stored} - needed
