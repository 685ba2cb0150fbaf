"""The composition root: one configuration wired into sources, lanes, desks and sinks, and run to its end."""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.config import LoadedConfig
from edge_runtime.config.node import CameraConfig
from edge_runtime.engines.source import EngineSource
from edge_runtime.events import EventCounters, EventDesk, EvidenceRing
from edge_runtime.faults import Injector
from edge_runtime.health import HealthReader
from edge_runtime.health.governor import Level
from edge_runtime.node.assigned import Assigned
from edge_runtime.node.camera import CameraDesk, EventSink, FrameObserver
from edge_runtime.node.camera_watch import SourceLook
from edge_runtime.node.engines import engine_source
from edge_runtime.node.heat_keeper import LEAST_RELIED_ON, Heat, HeatKeeper, work_so_far
from edge_runtime.node.hot_swap.hot_swap import HotSwap
from edge_runtime.node.hot_swap.parts import sight_of
from edge_runtime.node.models import ReadyModel, governor_of
from edge_runtime.node.snapshot import CameraSnapshot, ModelSnapshot, RunSnapshot
from edge_runtime.node.watch import (
    Beats,
    Watch,
    camera_deadline_ns,
    names_a_body,
    perception_longest_ms,
    watch_cameras,
)
from edge_runtime.perception.pipeline import (
    Evaluated,
    Lane,
    LaneSource,
    Outcome,
    Pipeline,
    StageTimes,
    UnderWay,
)
from edge_runtime.protocol import EventRecord
from edge_runtime.sources import DropCause, SourceRunner, SourceState, Through, open_source
from edge_runtime.telemetry.metrics import STAGES, Metrics

_STOP_TIMEOUT_S = 5.0
_RECENT_EVENTS = 8
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
    ) -> None:
        self._clock: Clock = clock or SystemClock()
        self._faults = faults
        self._loaded = loaded
        self._models = models
        self._swap_socket = swap_socket
        self._metrics = metrics
        self._sinks = sinks
        self._observers = observers or {}
        self._recent: deque[EventRecord] = deque(maxlen=_RECENT_EVENTS)
        self._started_ns = self._clock.monotonic_ns()
        self._ended_ns: int | None = None
        self._interrupted = False
        self._states: dict[str, SourceState] = {}
        self.times = times or StageTimes(None if metrics is None else self._measured)
        workers = max(ready.execution.workers for ready in models.values())
        self._pipeline = Pipeline(
            self, times=self.times, clock=self._clock, depth=workers * _RESULTS_PER_WORKER
        )
        evidence = loaded.config.evidence
        self._ring = (
            None
            if evidence is None
            else EvidenceRing(
                loaded.resolve(evidence.directory),
                quota_bytes=evidence.quota_bytes,
                max_bytes=evidence.max_bytes,
                margin=evidence.margin,
                clock=self._clock,
            )
        )
        self._runners = {name: self._open(name, camera) for name, camera in loaded.config.cameras.items()}
        self._desks = {name: self._desk(name, camera) for name, camera in loaded.config.cameras.items()}
        self._lanes = [self._lane(name, ready, max_frames) for name, ready in models.items()]
        self._swaps = HotSwap(
            loaded,
            models,
            self._lanes,
            self._desks,
            dropped=self._dropped,
            engines=engines or engine_source(loaded),
            clock=self._clock,
            assigned=assigned,
            apply=self._go_by,
        )
        self._watch = None if beats is None else self._watching(beats)
        self._health = health or self._health_reader()
        self._heat = self._heat_keeper(self._health)

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
            self._states = {name: runner.status().state for name, runner in self._runners.items()}
            for runner in self._runners.values():
                runner.stop(_STOP_TIMEOUT_S)
            for lane in self._lanes:
                lane.join(_STOP_TIMEOUT_S)
            if self._heat is not None:
                self._heat.stop(_STOP_TIMEOUT_S)
            self._swaps.close(in_order=finished)
            for name, desk in self._desks.items():
                failed = self._states[name] is SourceState.FAILED
                self._note(desk.finish(interrupted=self._interrupted or failed or not finished))
            if self._ring is not None:
                self._ring.close()
            self._ended_ns = self._clock.monotonic_ns()
            self._export()
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
        self._note(events)
        self._count(desk, outcome)
        self._swaps.took(outcome, events)
        if self._watch is not None:
            self._watch.took(outcome, desk.age_ns, events)
        self._swaps.turn()

    def _count(self, desk: CameraDesk, outcome: Outcome) -> None:
        if self._metrics is None:
            return
        self._metrics.age(desk.name, desk.age_ns / NS_PER_S)
        if isinstance(outcome, Evaluated):
            self._metrics.frame(desk.name, "evaluated")
            self._metrics.nonfinite(desk.name, outcome.detections.nonfinite)
        else:
            self._metrics.frame(desk.name, outcome.reason.value)

    def tick(self) -> None:
        """Time passes."""
        self._swaps.turn()
        for desk in self._desks.values():
            self._note(desk.tick())
        if self._heat is not None:
            self._heat.turn()
        self._export()
        if self._watch is not None:
            self._watch.looked({name: self._look(desk) for name, desk in self._desks.items()})

    def _look(self, desk: CameraDesk) -> SourceLook:
        status = desk.runner.status()
        too_old = self._drops(desk, status.drops).get(DropCause.TOO_OLD.value, 0)
        return SourceLook(status.state, too_old, status.last_capture_ns)

    # ---- seen from outside

    def snapshot(self) -> RunSnapshot:
        """What is going on, or what came of it; may be called from another thread."""
        ended = self._ended_ns or self._clock.monotonic_ns()
        return RunSnapshot(
            seconds=(ended - self._started_ns) / NS_PER_S,
            cameras={name: self._camera_snapshot(desk) for name, desk in self._desks.items()},
            stages=self.times.summary(),
            models={name: _model_snapshot(ready) for name, ready in self._swaps.models().items()},
            recent=tuple(self._recent),
            interrupted=self._interrupted,
            heat=None if self._heat is None else self._heat.snapshot(),
        )

    def batch_sizes(self) -> dict[str, dict[int, int]]:
        """How many inferences ran with how many frames, by model."""
        return {lane.name: dict(lane.batch_sizes) for lane in self._lanes}

    def _camera_snapshot(self, desk: CameraDesk) -> CameraSnapshot:
        status = desk.runner.status()
        counters = desk.counters()
        return CameraSnapshot(
            # Stopping ends every source: what matters afterwards is the state in which it was found.
            state=self._states.get(desk.name, status.state).value,
            decoded=status.decoded,
            evaluated=desk.frames["evaluated"],
            not_evaluated={key: n for key, n in dict(desk.frames).items() if key != "evaluated"},
            drops=self._drops(desk, status.drops),
            reconnects=status.reconnects,
            tracks=desk.followed,
            age_ms=desk.age_ns / 1e6,
            events=dict(desk.happenings),
            late=sum(sum(each.late.values()) for each in counters),
            suppressed=_suppressed(counters),
            refused_too_large=sum(each.refused_too_large for each in counters),
            evidence_failed=sum(each.evidence_failed for each in counters),
            damaged=status.damaged,
            nonfinite=desk.nonfinite,
            error=status.error,
            last_text=desk.last_text,
            expected=None if desk.runner.live or status.stream is None else status.stream.frames,
        )

    def _drops(self, desk: CameraDesk, by_source: Mapping[str, int]) -> dict[str, int]:
        """Frames of a camera that were dropped, by its source and by the lane, by cause."""
        drops = dict(by_source)
        for lane in self._lanes:
            for (camera, cause), count in list(lane.drops.items()):
                if camera == desk.name:
                    drops[cause] = drops.get(cause, 0) + count
        return drops

    def _dropped(self, camera: str) -> int:
        """Frames of a camera so far that nobody looked at, whatever the cause."""
        return sum(self._drops(self._desks[camera], self._runners[camera].status().drops).values())

    # ---- wiring

    def _open(self, name: str, camera: CameraConfig) -> SourceRunner:
        through = None if self._faults is None else self._failing(self._faults, name)
        return open_source(
            name,
            camera.source,
            masks=camera.masks,
            base=self._loaded.base,
            clock=self._clock,
            through=through,
        )

    def _failing(self, faults: Injector, name: str) -> Through:
        from edge_runtime.faults.camera import through_faults  # noqa: PLC0415 - on a bench alone

        return lambda opened: through_faults(opened, faults, name, self._clock)

    def _events(self, loaded: LoadedConfig, name: str, labels: Sequence[str], digest: str) -> EventDesk:
        """The rules of a camera, as a configuration has them."""
        camera = loaded.config.cameras[name]
        return EventDesk(
            name,
            camera.rules,
            labels,
            data_class=camera.data_class,
            model_digest=digest,
            config_digest=loaded.digest,
            max_bytes=loaded.config.events.max_bytes,
            clock=self._clock,
            evidence=self._ring,
            names=loaded.config.events.labels,
        )

    def _go_by(self, loaded: LoadedConfig) -> None:
        """Between two frames: another configuration holds, the same but for what an overlay may set.

        Raises:
            ConfigError: its rules cannot be used; everything stays as it was.
        """
        looking = self._swaps.models()
        made = {}
        for name, desk in self._desks.items():
            digest = looking[loaded.config.cameras[name].model].model.package.digest
            made[name] = self._events(loaded, name, desk.events.labels.names, digest)
        self._loaded = loaded
        self._swaps.reconfigured(loaded)
        for name, desk in self._desks.items():
            self._note(desk.go_by(loaded.config.cameras[name], made[name]))
        if self._metrics is not None:
            self._metrics.configured(loaded.digest)

    def _desk(self, name: str, camera: CameraConfig) -> CameraDesk:
        model = self._models[camera.model].model
        return CameraDesk(
            name,
            camera,
            self._runners[name],
            self._events(self._loaded, name, model.manifest.labels, model.package.digest),
            sight=sight_of(self._models[camera.model]),
            sinks=self._sinks,
            observer=self._observers.get(name),
            times=self.times,
            clock=self._clock,
        )

    def _lane(self, name: str, ready: ReadyModel, max_frames: int | None) -> Lane:
        settings = self._loaded.config.models[name]
        sources = [
            LaneSource(self._runners[camera], self._runners[camera].max_age_ns, max_frames)
            for camera, config in self._loaded.config.cameras.items()
            if config.model == name
        ]
        return Lane(
            name,
            ready.model,
            sources,
            workers=ready.execution.workers,
            batch=settings.batch,
            timeout_s=settings.timeout,
            deliver=self._pipeline.deliver,
            times=self.times,
            clock=self._clock,
            variants=ready.variants,
        )

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

    def _health_reader(self) -> HealthReader:
        guard = self._loaded.config.guard
        root = Path("/") if guard is None else self._loaded.resolve(guard.monitor.root)
        return HealthReader(self._clock, root=root, disks=())

    def _heat_keeper(self, reader: HealthReader) -> HeatKeeper | None:
        """The governor, where the configuration is that of a device with a live camera."""
        config = self._loaded.config
        governor, profile = governor_of(config), config.device.profile
        live = [config.cameras[name] for name, runner in self._runners.items() if runner.live]
        if governor is None or not live:
            return None
        hottest_c = None if profile is None else profile.max_temperature_c
        variants = max(len(ready.variants) for ready in self._models.values())
        return HeatKeeper(
            Heat(
                governor,
                variants,
                hottest_c,
                self._clock.monotonic_ns(),
                least_share=LEAST_RELIED_ON if names_a_body(config) else 0.0,
            ),
            reader,
            apply=self._apply,
            work=lambda: work_so_far(self.times),
            deadline_s=min(camera_deadline_ns(config, camera) for camera in live) / NS_PER_S,
            clock=self._clock,
        )

    def _apply(self, level: Level) -> None:
        for lane in self._lanes:
            if lane.live:  # what recordings see does not depend on the weather
                lane.frame_share, lane.variant = level.frame_share, level.variant

    def _note(self, events: Sequence[EventRecord]) -> None:
        self._recent.extend(events)
        if self._metrics is not None:
            for event in events:
                self._metrics.event(
                    event.camera, event.rule, event.state.value, event.severity.value, late=event.late
                )

    def _measured(self, stage: str, camera: str, seconds: float) -> None:
        known = next((name for name in STAGES if name == stage), None)
        if self._metrics is not None and known is not None:
            self._metrics.stage(known, camera, seconds)

    def _export(self) -> None:
        if self._metrics is None:
            return
        for name, desk in self._desks.items():
            # not of the stages: their percentiles are sorted anew each time
            snapshot = self._camera_snapshot(desk)
            self._metrics.source(
                name,
                snapshot.state,
                reconnects=snapshot.reconnects,
                decoded=snapshot.decoded,
                drops=snapshot.drops,
            )
            for rule, total in snapshot.suppressed.items():
                self._metrics.suppressed(name, rule, total)
        if self._heat is not None:
            self._metrics.frame_share(self._heat.snapshot().frame_share)
        if self._ring is not None:
            self._metrics.evidence(self._ring.used_bytes)


def _suppressed(counters: Sequence[EventCounters]) -> dict[str, int]:
    """Happenings that a cooldown or a rate cap held back, by rule."""
    found: dict[str, int] = {}
    for each in counters:
        for (rule, _cause), count in each.suppressed.items():
            found[rule] = found.get(rule, 0) + count
    return found


def _model_snapshot(ready: ReadyModel) -> ModelSnapshot:
    facts = ready.model.backend.facts
    return ModelSnapshot(
        name=ready.model.manifest.name,
        digest=ready.model.package.digest,
        backend=f"{facts.backend} {facts.version}",
        effective=facts.effective,
        degraded=facts.degraded,
        mode=ready.execution.mode,
        workers=ready.execution.workers,
        threads=ready.execution.threads,
        release=ready.release,
        given_up=None if ready.given_up is None else ready.given_up.release,
    )
