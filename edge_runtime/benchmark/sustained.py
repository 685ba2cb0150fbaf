"""The rate that a device holds: the configuration run for minutes, in windows, with the heat beside each."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from edge_runtime.benchmark.pairs import timed
from edge_runtime.benchmark.recordings import only_model
from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.config import LoadedConfig
from edge_runtime.health import HealthReader, Reading, read_health
from edge_runtime.health.sustained import SustainedRate, shortest_deadline_s, sustained_rate
from edge_runtime.node.models import load_models
from edge_runtime.node.node import Node
from edge_runtime.perception.pipeline import usable_cores

_FIRST_FRAMES = 32
_DISTURBED = 0.12


@dataclass(frozen=True, slots=True)
class Window:
    """One pass of the run.

    Attributes:
        seconds: since the start, at its end.
        fps: frames a second of it. cpu_ms: processor time a frame.
        disturbed: whether other processes took more than an eighth of a core meanwhile.
        hottest_c: of the device, right after it; throttled: whether something slowed it down then.
    """

    seconds: float
    fps: float
    cpu_ms: float
    disturbed: bool
    hottest_c: Reading[float]
    throttled: Reading[bool]


@dataclass(frozen=True, slots=True)
class SustainedReport:
    """What `edge-runtime bench --sustained` prints.

    Attributes:
        execution: of the model, in words. workers: runs of it at a time.
        frames: of each window.
        shortest_deadline_s: that can be promised from capture to event, at the sustained rate.
    """

    model: str
    execution: str
    cores: int
    frames: int
    rate: SustainedRate
    shortest_deadline_s: float
    windows: tuple[Window, ...]


def run_sustained(
    loaded: LoadedConfig,
    *,
    seconds: float,
    window_s: float,
    progress: Callable[[str], None],
    clock: Clock | None = None,
) -> SustainedReport:
    """Run a configuration whose cameras are recordings, as it is, for `seconds` or one window more.

    Args:
        loaded: the configuration; its own mode of execution is used.
        seconds: how long. A device in its case settles within 10 to 60 minutes.
        window_s: about how long a window takes; opening the recordings belongs to it.
        progress: told what is being done.
        clock: of this machine.

    Raises:
        ConfigError: several models, or a source that does not play every frame.
    """
    clock = clock or SystemClock()
    name = only_model(loaded)
    progress("loading the model")
    models = load_models(loaded)
    try:
        execution = models[name].execution
        cameras = len(loaded.config.cameras)

        def work(share: int) -> int:
            return max(1, Node(loaded, models, max_frames=share).run().frames)

        work(2)
        share = max(1, _FIRST_FRAMES // cameras)
        rate = timed(clock, lambda: work(share)).fps
        share = max(1, math.ceil(rate * window_s / cameras))
        windows: list[Window] = []
        began = clock.monotonic_ns()
        passed = 0.0
        while passed < seconds or not windows:
            sample = timed(clock, lambda: work(share))
            passed = (clock.monotonic_ns() - began) / NS_PER_S
            health = read_health(HealthReader(clock, disks=()))
            windows.append(
                Window(
                    passed,
                    sample.fps,
                    sample.cpu_ms,
                    sample.others > _DISTURBED,
                    health.hottest.celsius,
                    health.throttling.active,
                )
            )
            progress(f"{passed:.0f} of {seconds:.0f} s: {sample.fps:.1f} frames/s")
        held = sustained_rate([window.fps for window in windows])
        return SustainedReport(
            model=models[name].model.manifest.name,
            execution=execution.mode,
            cores=usable_cores(),
            frames=share * cameras,
            rate=held,
            shortest_deadline_s=shortest_deadline_s(held.sustained_hz / execution.workers),
            windows=tuple(windows),
        )
    finally:
        for ready in models.values():
            ready.close()
