"""One configuration measured: both modes of execution against bare loops, and where the time of a frame goes."""

import itertools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edge_runtime.benchmark.bare import BackendLoop, BareLoop, BareOptions, Loop
from edge_runtime.benchmark.pairs import PairedRatio, measure_pairs, timed
from edge_runtime.benchmark.recordings import only_model
from edge_runtime.clock import Clock, SystemClock
from edge_runtime.config import LoadedConfig
from edge_runtime.engines.opening import TENSORRT
from edge_runtime.errors import SourceError
from edge_runtime.node.models import ReadyModel, load_models
from edge_runtime.node.node import Node
from edge_runtime.perception.backends import Tensor
from edge_runtime.perception.model import LoadedModel
from edge_runtime.perception.pipeline import StageSummary, StageTimes, choose_execution, usable_cores
from edge_runtime.perception.preprocess import Preprocessor
from edge_runtime.sources import open_source

_FEEDS = 8
_FEED_STRIDE = 8
_FIRST_FRAME_TIMEOUT_S = 20.0
_BARE_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class ModeReport:
    """One mode of execution.

    Attributes:
        execution: in words, with threads and runs in flight.
        reference: the bare loop that it was paired with, in words.
        stages: durations by stage, over all passes.
        utilisation: share of the time in which the model was running, over all runs in flight.
    """

    execution: str
    reference: str
    pairs: PairedRatio
    stages: Mapping[str, StageSummary]
    utilisation: float


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """Everything that `edge-runtime bench` prints.

    Attributes:
        bare_fps: medians of the single-stream bare loops by their options.
    """

    model: str
    cores: int
    frames_per_pass: int
    bare_fps: Mapping[str, float]
    latency: ModeReport
    throughput: ModeReport


@dataclass(frozen=True, slots=True)
class _Plan:
    """How both modes are measured."""

    frames: int
    pairs: int
    clock: Clock
    progress: Callable[[str], None]


def run_benchmark(
    loaded: LoadedConfig,
    *,
    pairs: int,
    seconds: float,
    progress: Callable[[str], None],
) -> BenchmarkReport:
    """Measure a configuration whose cameras are recordings and share one model.

    Args:
        loaded: the configuration.
        pairs: pairs for each of the two ratios.
        seconds: about how long one pass takes.
        progress: told what is being done.

    Raises:
        ConfigError: several models, or a source that does not play every frame.
    """
    name = only_model(loaded)
    clock: Clock = SystemClock()
    latency = _in_mode(loaded, name, "latency")
    throughput = _in_mode(loaded, name, "throughput")
    progress("loading the model")
    models = {"latency": load_models(latency)}
    try:
        models["throughput"] = load_models(throughput)
        model = models["latency"][name].model
        feeds = _feeds(loaded, model, clock)
        loops, equal = _bare_loops(loaded, name, models["latency"][name], feeds)
        frames = _frames_per_pass(clock, loops[0], seconds)
        progress("bare loops")
        bare_fps = _bare_fps(clock, loops, frames)
        best = max(loops, key=lambda loop: bare_fps[loop.name])
        plan = _Plan(frames, pairs, clock, progress)
        reports = {
            "latency": _mode(latency, models["latency"], name, equal, plan),
            "throughput": _mode(throughput, models["throughput"], name, best, plan),
        }
        return BenchmarkReport(
            model=model.manifest.name,
            cores=usable_cores(),
            frames_per_pass=frames,
            bare_fps=bare_fps,
            latency=reports["latency"],
            throughput=reports["throughput"],
        )
    finally:
        for ready in models.values():
            for loaded_model in ready.values():
                loaded_model.close()


def _in_mode(loaded: LoadedConfig, name: str, mode: str) -> LoadedConfig:
    settings = loaded.config.models[name]
    changed = settings.model_copy(
        update={"mode": mode, "threads": settings.threads if mode == "latency" else 0}
    )
    config = loaded.config.model_copy(update={"models": {**loaded.config.models, name: changed}})
    return replace(loaded, config=config)


def _options(ready: ReadyModel, loaded: LoadedConfig, name: str) -> BareOptions:
    return BareOptions(ready.execution.threads, spinning=loaded.config.models[name].spinning)


def _bare_loops(
    loaded: LoadedConfig, name: str, ready: ReadyModel, feeds: Sequence[Mapping[str, Tensor]]
) -> tuple[Sequence[Loop], Loop]:
    """The reference loops, and the one of them whose options are those of the runtime in latency mode."""
    if ready.model.backend.facts.effective == TENSORRT:
        alone = BackendLoop(ready.model.backend, feeds)
        return (alone,), alone
    settings = loaded.config.models[name]
    cores = usable_cores()
    equal = choose_execution("latency", settings.threads, every_frame=True, cores=cores)
    options = {
        BareOptions(1, spinning=False),
        BareOptions(cores, spinning=False),
        BareOptions(cores, spinning=True),
        BareOptions(equal.threads, spinning=settings.spinning),
    }
    ordered = sorted(options, key=lambda option: (option.threads, option.spinning))
    providers = tuple(provider for provider in settings.providers if provider != TENSORRT) or ("cpu",)
    loops = [BareLoop(ready.model.package.weights, option, feeds, providers) for option in ordered]
    return loops, next(loop for loop in loops if loop.options == _options(ready, loaded, name))


def _feeds(loaded: LoadedConfig, model: LoadedModel, clock: Clock) -> list[Mapping[str, Tensor]]:
    """Real frames of the first camera, preprocessed one by one into tensors of their own."""
    name, camera = next(iter(loaded.config.cameras.items()))
    runner = open_source(name, camera.source, masks=camera.masks, base=loaded.base, clock=clock)
    runner.start()
    feeds: list[Mapping[str, Tensor]] = []
    preprocessor = Preprocessor(model.manifest.input)  # by the CPU: a bare loop is given what is ready
    deadline = time.monotonic() + _FIRST_FRAME_TIMEOUT_S
    try:
        for index in itertools.count():
            while (frame := runner.poll()) is None and not runner.finished:
                if time.monotonic() > deadline:
                    raise SourceError(f"{name}: no frame within {_FIRST_FRAME_TIMEOUT_S:g} s")
                time.sleep(0.001)
            if frame is None or len(feeds) == _FEEDS:
                break
            if index % _FEED_STRIDE == 0:
                tensor = preprocessor.allocate(1)
                preprocessor.fill(frame.image, tensor, 0, None)
                feeds.append(model.feeds(tensor, 1))
    finally:
        runner.stop(5.0)
    if not feeds:
        raise SourceError(f"{name}: the source gave no frame: {runner.status().error or 'it is empty'}")
    return feeds


def _frames_per_pass(clock: Clock, loop: Loop, seconds: float) -> int:
    loop.run(2)
    rate = timed(clock, lambda: loop.run(6)).fps
    return int(np.clip(rate * seconds, 16, 5000))


def _bare_fps(clock: Clock, loops: Sequence[Loop], frames: int) -> dict[str, float]:
    rates: dict[str, list[float]] = {loop.name: [] for loop in loops}
    for _ in range(_BARE_ROUNDS):
        for loop in loops:
            rates[loop.name].append(timed(clock, lambda loop=loop: loop.run(frames)).fps)  # type: ignore[misc]
    return {name: statistics.median(values) for name, values in rates.items()}


def _mode(
    loaded: LoadedConfig,
    models: Mapping[str, ReadyModel],
    name: str,
    reference: Loop,
    plan: _Plan,
) -> ModeReport:
    execution = models[name].execution
    share = max(1, plan.frames // len(loaded.config.cameras))
    times = StageTimes()
    seconds = 0.0

    def ours() -> int:
        nonlocal seconds
        snapshot = Node(loaded, models, max_frames=share, times=times).run()
        seconds += snapshot.seconds
        return snapshot.frames

    count = itertools.count(1)
    Node(loaded, models, max_frames=share).run()  # warm caches, thrown away
    ratio = measure_pairs(
        plan.clock,
        ours,
        lambda: reference.run(plan.frames),
        plan.pairs,
        progress=lambda: plan.progress(f"{execution.mode}: pair {next(count)} of {plan.pairs}"),
    )
    runs = "1 run" if execution.workers == 1 else f"{execution.workers} runs"
    threads = "1 thread" if execution.threads == 1 else f"{execution.threads} threads"
    words = f"{runs} at a time, {threads} each"
    stages = times.summary()
    busy = stages["infer"].total_ms / 1e3 / seconds / execution.workers if "infer" in stages else 0.0
    return ModeReport(words, reference.name, ratio, stages, busy)
