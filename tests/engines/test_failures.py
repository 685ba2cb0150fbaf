"""The memory of failures: it survives restarts and ends by itself, whatever the clocks do."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.engines import BuildRefused, EngineDamaged, EngineStore, StoreFull
from edge_runtime.engines.failures import MOST_KEYS
from edge_runtime.engines.strikes import (
    EXPIRY_S,
    MOST_WITHOUT_ROOM,
    Kind,
    Now,
    Strike,
    aged,
    refusal_of,
    with_room,
)
from tests.rigs.engine_files import HOUR_NS, DeviceClock, add, another, recipe_for

RECIPE = recipe_for()
KEY = RECIPE.key
DECADE_NS = 10 * 365 * 24 * HOUR_NS


@pytest.fixture
def clock() -> DeviceClock:
    return DeviceClock()


@pytest.fixture
def store(tmp_path: Path, clock: DeviceClock) -> EngineStore:
    return _opened(tmp_path, clock)


def _opened(tmp_path: Path, clock: DeviceClock) -> EngineStore:
    return EngineStore(tmp_path / "engines", clock=clock, sleep=clock.sleep)


def test_a_build_that_failed_is_not_begun_again_for_a_day(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    store.failures.begin(KEY)
    store.failures.note(KEY, "TensorRT has no layer Einsum")
    clock.passes(HOUR_NS)
    again = _opened(tmp_path, clock)
    assert again.failures.refusal(KEY) == (
        "its build failed: TensorRT has no layer Einsum; it is tried again after 23 h of uptime"
    )
    with pytest.raises(
        BuildRefused, match=f"engine {KEY[:12]} is not built: its build failed: .*engine build"
    ):
        again.failures.begin(KEY)
    assert again.failures.refusal(another("b").key) is None
    assert [strike.kind for strike in again.failures.of(KEY)] == [Kind.FAILED]
    assert again.failures.failing_keys() == (KEY,)
    clock.passes(23 * HOUR_NS)
    assert again.failures.refusal(KEY) is None
    assert again.failures.failing_keys() == ()


def test_a_person_may_try_at_once(store: EngineStore) -> None:
    store.failures.note(KEY, "why")
    store.failures.note(another("b").key, "why")
    store.failures.forget(KEY)
    assert store.failures.refusal(KEY) is None
    assert store.failures.refusal(another("b").key) is not None
    store.failures.forget()
    assert store.failures.failing_keys() == ()


def test_what_had_no_room_is_built_again_once_there_is_some(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    other = another("b")
    store.failures.begin(KEY)
    store.failures.note(KEY, "7 MiB are missing", Kind.NO_ROOM)
    store.failures.note(other.key, "TensorRT has no layer Einsum")
    again = _opened(tmp_path, clock)
    assert again.failures.refusal(KEY) == (
        "there was no room for it: 7 MiB are missing; it is tried again after 24 h of uptime"
    )
    again.prune()  # nothing went
    assert again.failures.refusal(KEY) is not None
    add(again, another("c"))
    assert again.prune().removed
    assert again.failures.refusal(KEY) is None
    assert again.failures.refusal(other.key) is not None, "room was not what it lacked"


def test_a_larger_quota_is_room(store: EngineStore, clock: DeviceClock, tmp_path: Path) -> None:
    small = EngineStore(tmp_path / "engines", quota_bytes=5000, clock=clock, sleep=clock.sleep)
    small.failures.begin(KEY)
    with pytest.raises(StoreFull) as full:
        add(small, RECIPE, 8000)
    small.failures.note(KEY, str(full.value), Kind.NO_ROOM, full.value.nbytes)
    assert str(small.failures.refusal(KEY)).endswith("24 h of uptime, or at a start that finds room")
    with pytest.raises(BuildRefused, match="there was no room for it"):
        small.failures.begin(KEY)
    larger = EngineStore(tmp_path / "engines", quota_bytes=10_000, clock=clock, sleep=clock.sleep)
    larger.failures.begin(KEY)
    add(larger, RECIPE, 8000)
    assert larger.find(RECIPE) is not None
    assert larger.failures.of(KEY) == ()


def test_room_on_the_disk_is_counted_beside_what_the_build_writes_there(
    store: EngineStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.failures.note(KEY, "5 KiB are missing", Kind.NO_ROOM, 5000)
    monkeypatch.setattr("edge_runtime.engines.room.Room.free", lambda _room: 9_999)
    assert store.failures.refusal(KEY) is not None
    monkeypatch.setattr("edge_runtime.engines.room.Room.free", lambda _room: 10_000)
    assert store.failures.refusal(KEY) is None


def test_room_that_proves_to_be_none_is_not_believed_for_ever(store: EngineStore) -> None:
    builds = 0
    for _start in range(10):
        if store.failures.refusal(KEY) is None:
            store.failures.begin(KEY)
            store.failures.note(KEY, "the disk filled up meanwhile", Kind.NO_ROOM, 100)
            builds += 1
    assert builds == MOST_WITHOUT_ROOM
    assert str(store.failures.refusal(KEY)).endswith("24 h of uptime")


def test_a_disk_that_refuses_without_a_size_is_waited_for(store: EngineStore) -> None:
    store.failures.note(KEY, "File too large", Kind.NO_ROOM)
    assert str(store.failures.refusal(KEY)).endswith("24 h of uptime")
    strikes = store.failures.of(KEY)
    assert with_room(strikes, lambda _nbytes: True) == strikes


def test_a_build_that_kills_the_device_is_tried_three_times(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    builds = 0
    for _boot in range(12):
        store = _opened(tmp_path, clock)
        if store.failures.refusal(KEY) is None:
            store.failures.begin(KEY)
            builds += 1
        clock.reboot()
    assert builds == 3
    assert str(store.failures.refusal(KEY)).startswith("3 builds of it did not come to their end")


def test_a_build_that_was_called_off_says_nothing(store: EngineStore) -> None:
    for _ in range(10):
        store.failures.begin(KEY)
        store.failures.called_off(KEY)
    assert store.failures.refusal(KEY) is None
    assert store.failures.of(KEY) == ()


def test_an_engine_clears_what_went_wrong_before_it(store: EngineStore) -> None:
    store.failures.begin(KEY)
    store.failures.begin(KEY)
    add(store)
    assert store.failures.of(KEY) == ()
    store.quarantine(KEY, "damaged")
    store.failures.begin(KEY)
    add(store)
    kinds = [strike.kind for strike in store.failures.of(KEY)]
    assert kinds == [Kind.QUARANTINED]  # it counts until it is old


# An engine that takes the process with it


def _load_and_die(store: EngineStore, dead: list[object]) -> None:
    """Enter the block and never leave it; `dead` keeps it from being left by the garbage collector."""
    block = store.loading(KEY)
    block.__enter__()
    dead.append(block)
    with Path(os.devnull).open() as nothing:  # the lock of a dead process is nobody's
        for handle in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if handle.readlink().name.endswith(".load.lock"):
                    os.dup2(nothing.fileno(), int(handle.name))


def test_an_engine_that_kills_its_process_is_taken_out_and_rebuilt_once(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    dead: list[object] = []
    told: list[str] = []
    builds = 0
    for _start in range(30):
        again = _opened(tmp_path, clock)
        if again.find(RECIPE) is None and again.failures.refusal(KEY) is None:
            again.failures.begin(KEY)
            add(again)
            builds += 1
        if again.find(RECIPE) is not None:
            try:
                _load_and_die(again, dead)
            except EngineDamaged as error:
                told.append(str(error))
        clock.reboot()
    assert (builds, len(dead)) == (2, 4), "the guard takes a sixth end for a crash loop"
    assert told[0] == f"engine {KEY[:12]}: 3 processes ended while loading it: it is built anew"
    assert "it is not built again, because its engines were taken out of use 2 times" in told[1]
    assert len(told) == 2
    why = str(store.failures.refusal(KEY))
    assert "a process ended while loading it" in why, "the second one has a single try"


def test_processes_that_load_an_engine_at_once_are_not_dead(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    add(store)
    others = [_opened(tmp_path, clock) for _ in range(4)]
    with others[0].loading(KEY), others[1].loading(KEY), others[2].loading(KEY), others[3].loading(KEY):
        assert store.find(RECIPE) is not None
        (kept,) = store.prune().kept
        assert "being built or opened by process" in kept.why
    assert store.failures.of(KEY) == ()
    assert store.quarantined() == ()


def test_an_engine_that_loads_or_is_refused_kills_nobody(store: EngineStore) -> None:
    add(store)
    for _ in range(10):
        with store.loading(KEY):
            pass
        with pytest.raises(RuntimeError, match="refused"), store.loading(KEY):
            raise RuntimeError("refused")
    assert store.failures.of(KEY) == ()


def test_loading_alone_is_no_failure(store: EngineStore) -> None:
    add(store)
    dead: list[object] = []
    _load_and_die(store, dead)
    assert store.failures.refusal(KEY) is None
    assert store.failures.failing_keys() == ()
    assert [strike.kind for strike in store.failures.of(KEY)] == [Kind.LOADING]
    with store.loading(KEY):
        pass
    add(store)  # a new engine begins anew
    assert store.failures.of(KEY) == ()


# Time


def test_a_device_without_a_clock_that_reboots_all_day_waits(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    clock.synced = False
    store.failures.note(KEY, "why")
    for _ in range(200):
        clock.reboot(up_ns=60 * NS_PER_S)  # up for two minutes each time
        store = _opened(tmp_path, clock)
        assert store.failures.refusal(KEY) is not None
        clock.passes(60 * NS_PER_S)
        store.failures.refusal(KEY)
    clock.passes(25 * HOUR_NS)
    assert store.failures.refusal(KEY) is None


def test_hours_of_uptime_add_up_over_boots(store: EngineStore, clock: DeviceClock, tmp_path: Path) -> None:
    clock.synced = False
    store.failures.note(KEY, "why")
    for day in range(3):
        clock.passes(9 * HOUR_NS)
        again = _opened(tmp_path, clock)
        assert (again.failures.refusal(KEY) is None) is (day == 2)
        with contextlib.suppress(BuildRefused):  # a start asks, and writes down how old things are
            again.failures.begin(KEY)
        clock.reboot(off_ns=15 * HOUR_NS)


def test_a_day_without_power_counts_where_the_clock_was_right(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    store.failures.note(KEY, "why")
    clock.reboot(off_ns=25 * HOUR_NS)
    assert _opened(tmp_path, clock).failures.refusal(KEY) is None


@pytest.mark.parametrize("step", [-DECADE_NS, DECADE_NS, -HOUR_NS, 25 * HOUR_NS])
@pytest.mark.parametrize("synced_then", [False, True])
def test_a_step_of_the_wall_clock_within_a_boot_changes_nothing(
    store: EngineStore, clock: DeviceClock, step: int, synced_then: bool
) -> None:
    clock.synced = synced_then
    store.failures.note(KEY, "why")
    clock.unix, clock.synced = clock.unix + step, True
    assert store.failures.refusal(KEY) is not None
    clock.passes(23 * HOUR_NS)
    assert store.failures.refusal(KEY) is not None
    clock.passes(2 * HOUR_NS)
    assert store.failures.refusal(KEY) is None


@pytest.mark.parametrize("step", [-DECADE_NS, DECADE_NS])
def test_a_clock_that_was_never_right_counts_for_nothing(
    store: EngineStore, clock: DeviceClock, tmp_path: Path, step: int
) -> None:
    clock.synced = False
    store.failures.note(KEY, "why")
    clock.reboot()
    clock.unix, clock.synced = clock.unix + step, True
    assert _opened(tmp_path, clock).failures.refusal(KEY) is not None


STRIKE = st.builds(
    Strike,
    kind=st.sampled_from(Kind),
    reason=st.just("why"),
    age_ns=st.integers(0, (1 << 63) - 1),
    seen_ns=st.integers(0, (1 << 63) - 1),
    boot_id=st.sampled_from(["boot-1", "boot-2"]),
    unix_ns=st.integers(-(1 << 62), 1 << 62),
    synced=st.booleans(),
)
NOW = st.builds(
    Now,
    st.integers(0, (1 << 62)),
    st.builds(
        WallLabel, st.integers(-(1 << 62), 1 << 62), st.booleans(), st.sampled_from(["boot-1", "boot-2"])
    ),
)


@given(STRIKE, NOW)
def test_nothing_grows_younger_and_the_record_stays_valid(strike: Strike, now: Now) -> None:
    older = aged(strike, now)
    assert older.age_ns >= strike.age_ns
    assert aged(older, now) == older
    assert Strike.model_validate_json(older.model_dump_json()) == older


@given(st.lists(STRIKE, max_size=8))
def test_what_is_old_refuses_nothing(strikes: list[Strike]) -> None:
    old = [strike.model_copy(update={"age_ns": EXPIRY_S * NS_PER_S}) for strike in strikes]
    assert refusal_of(old) is None
    assert (refusal_of(strikes) is None) <= (
        refusal_of(strikes[1:]) is None
    )  # fewer strikes never refuse more


# The record


def test_a_record_that_is_damaged_allows_one_more_build(
    store: EngineStore, clock: DeviceClock, tmp_path: Path
) -> None:
    store.failures.note(KEY, "why")
    (store.folder.failures / f"{KEY}.json").write_bytes(b"{")
    again = _opened(tmp_path, clock)
    assert again.failures.refusal(KEY) is None
    again.failures.begin(KEY)
    again.failures.note(KEY, "why")
    assert _opened(tmp_path, clock).failures.refusal(KEY) is not None


def test_memory_is_bounded_and_forgets_the_oldest(
    store: EngineStore, clock: DeviceClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_KEYS == 256
    monkeypatch.setattr("edge_runtime.engines.failures.MOST_KEYS", 40)
    keys = [another(str(number)).key for number in range(45)]
    store.folder.make()
    for key in keys:
        clock.passes(NS_PER_S)
        store.failures.note(key, "why" * 1000)
    assert set(store.failures.failing_keys()) == set(keys[5:])


def test_many_strikes_of_one_key_are_bounded(store: EngineStore) -> None:
    for number in range(100):
        store.failures.note(KEY, f"try {number}\nand\x00 so on")
    assert len(store.failures.of(KEY)) == 16
    assert store.failures.of(KEY)[-1].reason == "try 99 and  so on"
