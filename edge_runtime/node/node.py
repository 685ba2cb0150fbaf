"""The composition root: one configuration wired into sources, lanes, desks and sinks, and run to its end."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.config import LoadedConfig
from edge_runtime.engines.source import EngineSource
from edge_runtime.faults import Injector
from edge_runtime.health import HealthReader
from edge_runtime.health.governor import Level
from edge_runtime.node.assigned import Assigned
from edge_runtime.node.camera import CameraDesk, DeskTap, EventSink, FrameObserver
from edge_runtime.node.camera_watch import SourceLook
from edge_runtime.node.engines import engine_source
from edge_runtime.node.figures import Figures, model_snapshot, stage_observer
from edge_runtime.node.hot_swap.hot_swap import HotSwap
from edge_runtime.node.models import ReadyModel
from edge_runtime.node.snapshot import RunSnapshot
from edge_runtime.node.watch import Beats, Watch, perception_longest_ms, watch_cameras
from edge_runtime.node.wiring import Wiring
from edge_runtime.perception.pipeline import Outcome, Pipeline, StageTimes, UnderWay
from edge_runtime.sources import DropCause, SourceState
from edge_runtime.telemetry.metrics import Metrics

_STOP_TIMEOUT_S = 5.0
_RESULTS_PER_WORKER = 2


class Node:
    """One run of one configuration.

    Args:
        loaded: the configuration, its folder and its digest.
        models: from `load_models`; they stay the caller's, so that several runs may share them.
        sinks: where events go.
        observers: who looks at the frames of a camera, by its name.
        metrics: told everything, if given.
        max_frames: take no more than so many frames of each camera.
        times: where durations go; a bench shares one between passes.
        clock: monotonic time.
        beats: the slot in which the guard looks for what was finished, where there is a guard.
        health: where the thermal governor looks; at this machine without it.
        engines: where engines of models come from that take another's place; the configuration's place without it.
        swap_socket: where the updates' process exchanges models; nowhere without it.
        assigned: where the configuration comes from, and the folder of releases; it is not exchanged without it.
        faults: makes cameras fail on purpose; None where nothing may be injected.
        tap: looks on at what the cameras' desks are given, such as a recording.

    Raises:
        SourceError: a source cannot be set up as configured.
    """

    def __init__(
        self,
        loaded: LoadedConfig,
        models: Mapping[str, ReadyModel],
        *,
        sinks: Sequence[EventSink] = (),
        observers: Mapping[str, FrameObserver] | None = None,
        metrics: Metrics | None = None,
        max_frames: int | None = None,
        times: StageTimes | None = None,
        clock: Clock | None = None,
        beats: Beats | None = None,
        health: HealthReader | None = None,
        engines: EngineSource | None = None,
        swap_socket: Path | None = None,
        assigned: tuple[Assigned, Path] | None = None,
        faults: Injector | None = None,
        tap: DeskTap | None = None,
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._loaded = loaded
        self._swap_socket = swap_socket
        self._metrics = metrics
        self._started_ns = self._clock.monotonic_ns()
        self._ended_ns: int | None = None
        self._interrupted = False
        self.times = times or StageTimes(stage_observer(metrics))
        workers = max(ready.execution.workers for ready in models.values())
        self._pipeline = Pipeline(
            self, times=self.times, clock=self._clock, depth=workers * _RESULTS_PER_WORKER
        )
        self._wiring = Wiring(loaded, models, self.times, self._clock)
        self._runners = self._wiring.runners(faults)
        self._desks = self._wiring.desks(self._runners, sinks, observers or {}, tap)
        self._lanes = self._wiring.lanes(self._runners, self._pipeline.deliver, max_frames)
        self._figures = Figures(self._desks, self._lanes, metrics)
        self._swaps = HotSwap(
            loaded,
            models,
            self._lanes,
            self._desks,
            dropped=self._figures.dropped,
            engines=engines or engine_source(loaded),
            clock=self._clock,
            assigned=assigned,
            apply=self._go_by,
        )
        self._watch = None if beats is None else self._watching(beats)
        self._health = health or self._wiring.health_reader()
        self._heat = self._wiring.heat_keeper(self._health, self._runners, self._apply)

    def run(self) -> RunSnapshot:
        """Run until every source has ended, the frame limit is reached, or `request_stop` is called."""
        self._started_ns = self._clock.monotonic_ns()
        finished = False
        try:
            for runner in self._runners.values():
                runner.start()
            if self._heat is not None:
                self._heat.start()
            self._swaps.start()
            if self._swap_socket is not None:
                self._swaps.serve(self._swap_socket, self._health)
            self._pipeline.run(self._lanes)
            finished = True
        finally:
            states = {name: runner.status().state for name, runner in self._runners.items()}
            self._figures.stopping(states)
            for runner in self._runners.values():
                runner.stop(_STOP_TIMEOUT_S)
            for lane in self._lanes:
                lane.join(_STOP_TIMEOUT_S)
            if self._heat is not None:
                self._heat.stop(_STOP_TIMEOUT_S)
            self._swaps.close(in_order=finished)
            for name, desk in self._desks.items():
                failed = states[name] is SourceState.FAILED
                self._figures.note(desk.finish(interrupted=self._interrupted or failed or not finished))
            if self._wiring.ring is not None:
                self._wiring.ring.close()
            self._ended_ns = self._clock.monotonic_ns()
            self._figures.export(self._heat, self._wiring.ring)
        return self.snapshot()

    def request_stop(self) -> None:
        """End the run: frames in flight are evaluated, open events are interrupted. Safe in a signal handler."""
        self._interrupted = True
        self._pipeline.request_stop()

    # ---- Consumer, called by the pipeline

    def take(self, outcome: Outcome) -> None:
        """One frame's outcome."""
        desk = self._desks[outcome.frame.source]
        events = desk.take(outcome)
        self._figures.note(events)
        self._figures.count(desk, outcome)
        self._swaps.took(outcome, events)
        if self._watch is not None:
            self._watch.took(outcome, desk.age_ns, events)
        self._swaps.turn()

    def tick(self) -> None:
        """Time passes."""
        self._swaps.turn()
        for desk in self._desks.values():
            self._figures.note(desk.tick())
        if self._heat is not None:
            self._heat.turn()
        self._figures.export(self._heat, self._wiring.ring)
        if self._watch is not None:
            self._watch.looked({name: self._look(desk) for name, desk in self._desks.items()})

    def _look(self, desk: CameraDesk) -> SourceLook:
        status = desk.runner.status()
        too_old = self._figures.drops(desk, status.drops).get(DropCause.TOO_OLD.value, 0)
        return SourceLook(status.state, too_old, status.last_capture_ns)

    # ---- seen from outside

    def snapshot(self) -> RunSnapshot:
        """What is going on, or what came of it; may be called from another thread."""
        ended = self._ended_ns or self._clock.monotonic_ns()
        return RunSnapshot(
            seconds=(ended - self._started_ns) / NS_PER_S,
            cameras=self._figures.cameras(),
            stages=self.times.summary(),
            models={name: model_snapshot(ready) for name, ready in self._swaps.models().items()},
            recent=tuple(self._figures.recent),
            interrupted=self._interrupted,
            heat=None if self._heat is None else self._heat.snapshot(),
        )

    def batch_sizes(self) -> dict[str, dict[int, int]]:
        """How many inferences ran with how many frames, by model."""
        return {lane.name: dict(lane.batch_sizes) for lane in self._lanes}

    # ---- what parts are told by others

    def _go_by(self, loaded: LoadedConfig) -> None:
        """Between two frames: another configuration holds, the same but for what an overlay may set.

        Raises:
            ConfigError: its rules cannot be used; everything stays as it was.
        """
        looking = self._swaps.models()
        made = {}
        for name, desk in self._desks.items():
            digest = looking[loaded.config.cameras[name].model].model.package.digest
            made[name] = self._wiring.events(loaded, name, desk.events.labels.names, digest)
        self._loaded = loaded
        self._swaps.reconfigured(loaded)
        for name, desk in self._desks.items():
            self._figures.note(desk.go_by(loaded.config.cameras[name], made[name]))
        if self._metrics is not None:
            self._metrics.configured(loaded.digest)

    def _watching(self, beats: Beats) -> Watch:
        config = self._loaded.config
        return Watch(
            beats,
            watch_cameras(config, self._runners),
            self._under_way,
            longest_ms=perception_longest_ms(config),
            clock=self._clock,
        )

    def _under_way(self) -> list[UnderWay]:
        return [unit for lane in self._lanes for unit in lane.under_way()]

    def _apply(self, level: Level) -> None:
        for lane in self._lanes:
            if lane.live:  # what recordings see does not depend on the weather
                lane.frame_share, lane.variant = level.frame_share, level.variant
