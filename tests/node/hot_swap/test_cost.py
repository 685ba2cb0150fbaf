"""What a swap costs the cameras: frames, latency, frame rate, memory. Each figure compares within one run.

To be run where nothing else does: cameras that are starved already show nothing of what a swap takes from them.
"""

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from edge_runtime.cli.run import SWITCH_INTERVAL_S
from edge_runtime.config.updates import UpdatesConfig
from edge_runtime.protocol.swap import Activate, Discard, Load, Revert, Settle, Shadow
from tests.rigs.swapping import Exchanging, derived, release_of, swap_config

pytestmark = [pytest.mark.trial, pytest.mark.timeout(3600)]


@pytest.fixture(autouse=True)
def _as_in_a_run() -> Iterator[None]:
    """Threads change as they do in the command's process."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    yield
    sys.setswitchinterval(before)


SWAPS = 200
SWAPS_OF_A_CAMERA = 8
SHARE = UpdatesConfig().trial_share
PERIOD_S = 0.1
"""The clip has ten frames a second."""


def test_a_swap_drops_no_frame_of_a_live_camera_and_delays_none_by_a_frame_period(
    tmp_path: Path, yolox_package: Path, media: Path
) -> None:
    """Swaps of yolox_nano in turn with times of the same length in which nothing happens."""
    source = {"kind": "file", "path": str(media / "vtest.avi"), "loop": True, "pacing": "camera"}
    better = derived(yolox_package, tmp_path / "better", name="better")
    config = swap_config(tmp_path, yolox_package, source, SHARE, model={"threads": 0})
    with_swap, without = [], []
    with Exchanging(config, tmp_path) as device:
        for number in range(SWAPS_OF_A_CAMERA):
            device.opened(number, better)
            without.append(watched(device, lambda: None))

            def swap(number: int = number) -> None:
                device.tell(Activate(slot="m", release=release_of(number)))
                while device.look().running.release != release_of(number):
                    time.sleep(0.25)  # as seldom as the updates' process looks: it is a guest in this process

            with_swap.append(watched(device, swap))
            device.tell(Settle(slot="m"))
    added = statistics.median(a.worst_s - b.worst_s for a, b in zip(with_swap, without, strict=True))
    for name, found in (("with a swap", with_swap), ("without", without)):
        print(f"\n{name}: dropped {[one.dropped for one in found]} of frames {[one.frames for one in found]}")
        print(f"{name}: oldest frame, ms {[round(one.worst_s * 1e3) for one in found]}")
    print(f"added to the oldest frame, median: {added * 1e3:.1f} ms; frame period {PERIOD_S * 1e3:.0f} ms")
    lost = [
        sum(one.dropped for one in found) / sum(one.due for one in found) for found in (with_swap, without)
    ]
    print(f"share of frames dropped: with swaps {lost[0]:.3f}, without {lost[1]:.3f}")
    assert lost[0] <= lost[1] + 0.002, "none because of a swap"
    assert added <= PERIOD_S


@dataclass(frozen=True)
class Watched:
    """What came of the frames of three seconds."""

    dropped: int
    frames: int
    worst_s: float

    @property
    def due(self) -> int:
        """Frames that the camera had."""
        return self.dropped + self.frames


def watched(device: Exchanging, do: Callable[[], None], seconds: float = 3.0) -> Watched:
    watching, dropped, since = device.watching, drops(device), time.monotonic()
    begun = len(watching.done_ns)
    do()
    time.sleep(max(0.0, seconds - (time.monotonic() - since)))
    ended = len(watching.done_ns)
    ages = [(watching.done_ns[at] - watching.captured_ns[at]) / 1e9 for at in range(begun, ended)]
    return Watched(drops(device) - dropped, ended - begun, max(ages))


def drops(device: Exchanging) -> int:
    return sum(device.node.snapshot().cameras["street"].drops.values())


@pytest.mark.parametrize("threads", [1, 0])
def test_to_load_and_to_shadow_a_model_costs_a_tenth_of_the_frame_rate_at_most(
    tmp_path: Path, yolox_package: Path, media: Path, threads: int
) -> None:
    """The clip as fast as the model goes, on all cores; times with and without a candidate take turns."""
    source = {"kind": "file", "path": str(media / "vtest.avi"), "loop": True, "pacing": "every_frame"}
    better = derived(yolox_package, tmp_path / "better", name="better")
    config = swap_config(tmp_path, yolox_package, source, SHARE, model={"threads": threads})
    loading, shadowing = [], []
    with Exchanging(config, tmp_path) as device:
        time.sleep(3)
        for number in range(6):
            alone = rate(device, 4)
            device.tell(Load(slot="m", release=release_of(number), package_dir=str(better)))
            loading.append(rate(device, 4))
            device.opened(number, better)
            device.tell(Shadow(slot="m", on=True))
            shadowing.append(rate(device, 4))
            device.tell(Discard(slot="m"))
            time.sleep(0.5)
            after = rate(device, 4)
            shadowing[-1] /= statistics.mean([alone, after])
            loading[-1] /= statistics.mean([alone, after])
    print(f"\nframe rate while a model is loaded: {[round(r, 3) for r in loading]}")
    print(f"frame rate while it is shadowed: {[round(r, 3) for r in shadowing]}")
    assert statistics.median(loading) >= 0.9
    assert statistics.median(shadowing) >= 0.9


def rate(device: Exchanging, seconds: float) -> float:
    begun, since = len(device.watching.frames), time.monotonic()
    time.sleep(seconds)
    return (len(device.watching.frames) - begun) / (time.monotonic() - since)


def test_two_hundred_swaps_leave_no_memory_behind(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    packages = [other(), other()]
    process = psutil.Process()
    taken: list[int] = []
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path) as device:
        device.watching.forgetful = True
        for number in range(SWAPS):
            device.opened(number, packages[number % 2])
            device.tell(Activate(slot="m", release=release_of(number)))
            device.in_use(release_of(number))
            if number % 3 == 2:
                device.tell(Revert(slot="m"))
            device.tell(Settle(slot="m"))
            device.wait(lambda: not any(t.name == "retire-model" for t in threading.enumerate()))
            taken.append(process.memory_info().rss >> 10)
    early, late = statistics.median(taken[20:50]), statistics.median(taken[-30:])
    print(f"\nKiB resident after 20 to 50 swaps {early:.0f}, after {SWAPS} {late:.0f}")
    assert late - early < 8 * 1024
    assert device.watching.gaps() == []
