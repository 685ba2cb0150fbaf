"""The quarantine is bounded, the oldest goes first, and the reason is readable; timing caches are bounded too."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.engines import EngineStore
from edge_runtime.engines.quarantine import MOST_CASES, Quarantine
from edge_runtime.engines.timing import MAX_TIMING_BYTES, MOST_CACHES
from tests.rigs.engine_files import ORIN, THOR, DeviceClock, add, another, recipe_for

RECIPE = recipe_for()
KEY = RECIPE.key


@pytest.fixture
def clock() -> DeviceClock:
    return DeviceClock()


@pytest.fixture
def store(tmp_path: Path, clock: DeviceClock) -> EngineStore:
    return EngineStore(tmp_path / "engines", clock=clock, sleep=clock.sleep)


def test_the_reason_is_beside_the_engine(store: EngineStore, clock: DeviceClock) -> None:
    clock.synced = False
    add(store)
    store.quarantine(KEY, "TensorRT does not load it:\n[E] serialization assertion failed")
    (case,) = store.quarantined()
    assert sorted(path.name for path in case.path.iterdir()) == ["engine", "manifest.json", "reason.json"]
    assert json.loads((case.path / "reason.json").read_bytes()) == {
        "key": KEY,
        "reason": "TensorRT does not load it: [E] serialization assertion failed",
        "at": "2023-11-14T22:13:20.000Z",
        "clock_synced": False,
    }
    assert case.bytes == sum((case.path / name).stat().st_size for name in ("engine", "manifest.json"))


def test_the_oldest_cases_go_first(store: EngineStore, clock: DeviceClock) -> None:
    keys = [another(str(number)) for number in range(MOST_CASES + 3)]
    for recipe in keys:
        clock.unix -= 3600 * 10**9  # a clock that runs backwards says nothing about the order
        add(store, recipe)
        store.quarantine(recipe.key, "why")
    assert [case.reason and case.reason.key for case in store.quarantined()] == [
        recipe.key for recipe in keys[3:]
    ]


def test_bytes_are_bounded_and_what_is_too_large_leaves_its_reason(
    store: EngineStore, clock: DeviceClock
) -> None:
    small = Quarantine(store.folder, clock, most_bytes=12_000)
    for number, size in enumerate((4096, 4096, 4096, 50_000)):
        recipe = another(str(number))
        add(store, recipe, size)
        with store.folder.owned():
            assert small.take(recipe.key, f"case {number}")
        cases = small.cases()
        assert sum(case.bytes for case in cases) <= 12_000
        assert cases[-1].reason is not None
        assert cases[-1].reason.reason == f"case {number}"
    assert len(small.cases()) == 1
    assert [path.name for path in small.cases()[0].path.iterdir()] == ["reason.json"]


def test_nothing_to_move_is_no_error(store: EngineStore) -> None:
    store.quarantine(KEY, "it was refused, and somebody has removed it since")
    assert len(store.failures.of(KEY)) == 1


# Timing caches


def test_a_timing_cache_belongs_to_a_gpu_and_a_tensorrt(store: EngineStore) -> None:
    assert store.timing.save(ORIN, b"measured on Orin")
    assert store.timing.read(ORIN) == b"measured on Orin"
    assert store.timing.read(replace(ORIN, l4t="36.5.0", driver=None)) == b"measured on Orin"
    for other in (
        THOR,
        replace(ORIN, gpu="Orin NX"),
        replace(ORIN, sm="8.6"),
        replace(ORIN, tensorrt="10.3.0.27"),
    ):
        assert store.timing.read(other) is None
    (path,) = store.folder.timing.iterdir()
    store.timing.save(THOR, b"measured on Thor")
    (store.folder.timing / path.name).unlink()
    (thor,) = store.folder.timing.iterdir()
    thor.rename(path)  # copied from another device
    assert store.timing.read(ORIN) is None


@pytest.mark.parametrize("place", [0, 30, -1])
def test_a_changed_timing_cache_counts_as_none(store: EngineStore, place: int) -> None:
    store.timing.save(ORIN, b"measured")
    (path,) = store.folder.timing.iterdir()
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    assert store.timing.read(ORIN) is None
    assert store.timing.save(ORIN, b"measured anew")
    assert store.timing.read(ORIN) == b"measured anew"


def test_timing_caches_are_bounded(store: EngineStore) -> None:
    assert not store.timing.save(ORIN, b"")
    assert not store.timing.save(ORIN, bytes(MAX_TIMING_BYTES + 1))
    for build in range(10):
        assert store.timing.save(replace(ORIN, tensorrt=f"10.3.0.{build}"), b"x" * 100)
        assert store.timing.read(replace(ORIN, tensorrt=f"10.3.0.{build}")) is not None
    assert len(list(store.folder.timing.iterdir())) == MOST_CACHES
