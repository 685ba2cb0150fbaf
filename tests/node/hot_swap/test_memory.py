"""Many exchanges in one process: what was opened for one is gone after the next."""

import gc
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_runtime.node.hot_swap.slot import Slot
from edge_runtime.node.models import open_release
from edge_runtime.perception.backends.onnxruntime import OnnxRuntimeBackend
from edge_runtime.protocol.release import TrackerRule
from tests.rigs.swapping import Exchanging, release_of, swap_config

MOST_MIB = 8
SETTLED = 100
"""Swaps after which the allocator has what it needs; before that, memory that stays proves nothing."""


def exchange(slot: Slot, package: Path, number: int) -> float:
    """All of an activation but the trial before it; how long the exchange itself took, in seconds."""
    parts, seat, old = slot._parts, slot._seat, slot.ready
    opened = open_release(parts.loaded, "m", package, old.execution, parts.engines)
    ready = seat.ready_of(opened, release_of(number))
    begun = time.perf_counter()
    seat.exchange(ready, TrackerRule.RESTART)
    took = time.perf_counter() - begun
    seat.retire(old)
    return took


def open_sessions() -> int:
    gc.collect()
    backends = [each for each in gc.get_objects() if isinstance(each, OnnxRuntimeBackend)]
    return sum(each._session is not None for each in backends)


@pytest.mark.parametrize(
    "swaps", [10, pytest.param(200, marks=[pytest.mark.trial, pytest.mark.timeout(3600)])]
)
def test_what_was_opened_for_one_model_is_gone_after_the_next(
    tmp_path: Path,
    fast_package: Path,
    other: Callable[..., Path],
    street: dict[str, Any],
    swaps: int,
) -> None:
    packages, process = [other(), other()], psutil.Process()
    before = open_sessions()
    taken, resident, threads = [], [], []
    config = swap_config(tmp_path, fast_package, street)
    with Exchanging(config, tmp_path) as device:
        device.watching.forgetful = True
        slot = device.node._swaps._slots["m"]
        assert isinstance(slot, Slot)
        for number in range(swaps):
            frames = len(device.watching.frames)
            taken.append(exchange(slot, packages[number % 2], number))
            device.wait(lambda seen=frames: len(device.watching.frames) > seen + 2)  # type: ignore[misc]
            device.wait(lambda: not any(t.name == "retire-model" for t in threading.enumerate()))
            resident.append(process.memory_info().rss / (1 << 20))
            threads.append(threading.active_count())
        assert open_sessions() == before + 1
        assert max(threads[1:]) <= min(threads[1:]) + 1
    quarter = max(1, swaps // 4)
    early, late = statistics.median(resident[quarter : 2 * quarter]), statistics.median(resident[-quarter:])
    print(f"\n{swaps} swaps: {early:.1f} MiB resident in the second quarter, {late:.1f} MiB in the last")
    print(f"an exchange: median {statistics.median(taken) * 1e3:.2f} ms, longest {max(taken) * 1e3:.2f} ms")
    assert swaps < SETTLED or late - early < MOST_MIB
    assert device.watching.gaps() == []
    assert all(device.watching.seen)
