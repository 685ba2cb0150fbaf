"""The parts of a node, made out of a configuration: sources, desks, lanes, the ring of evidence, the governor."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.events import EventDesk, EvidenceRing
from edge_runtime.faults import Injector
from edge_runtime.health import HealthReader
from edge_runtime.health.governor import Level
from edge_runtime.node.camera import CameraDesk, DeskTap, EventSink, FrameObserver
from edge_runtime.node.heat_keeper import LEAST_RELIED_ON, Heat, HeatKeeper, work_so_far
from edge_runtime.node.hot_swap.parts import sight_of
from edge_runtime.node.models import ReadyModel, governor_of
from edge_runtime.node.watch import camera_deadline_ns, names_a_body
from edge_runtime.perception.pipeline import Lane, LaneSource, StageTimes
from edge_runtime.perception.pipeline.results import Completed
from edge_runtime.sources import SourceRunner, Through, open_source


class Wiring:
    """Makes parts; holds none of them but the ring, which all cameras share.

    Args:
        loaded: the configuration that the node begins with.
        models: loaded.
        times: where durations go.
        clock: monotonic time.

    Attributes:
        ring: of evidence; None where none is kept.
    """

    def __init__(
        self, loaded: LoadedConfig, models: Mapping[str, ReadyModel], times: StageTimes, clock: Clock
    ) -> None:
        self._loaded, self._models, self._times, self._clock = loaded, models, times, clock
        self.ring = self._evidence_ring()

    def runners(self, faults: Injector | None) -> dict[str, SourceRunner]:
        """The cameras' sources, not started.

        Raises:
            SourceError: a source cannot be set up as configured.
        """
        return {
            name: open_source(
                name,
                camera.source,
                masks=camera.masks,
                base=self._loaded.base,
                clock=self._clock,
                through=None if faults is None else self._failing(faults, name),
            )
            for name, camera in self._loaded.config.cameras.items()
        }

    def events(self, loaded: LoadedConfig, name: str, labels: Sequence[str], digest: str) -> EventDesk:
        """The rules of a camera, as a configuration has them.

        Args:
            loaded: that configuration.
            name: of the camera.
            labels: of the model that looks.
            digest: of its package.

        Raises:
            ConfigError: the rules cannot be used.
        """
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
            evidence=self.ring,
            names=loaded.config.events.labels,
        )

    def desks(
        self,
        runners: Mapping[str, SourceRunner],
        sinks: Sequence[EventSink],
        observers: Mapping[str, FrameObserver],
        tap: DeskTap | None = None,
    ) -> dict[str, CameraDesk]:
        """A desk for each camera."""
        found = {}
        for name, camera in self._loaded.config.cameras.items():
            model = self._models[camera.model].model
            found[name] = CameraDesk(
                name,
                camera,
                runners[name],
                self.events(self._loaded, name, model.manifest.labels, model.package.digest),
                sight=sight_of(self._models[camera.model]),
                sinks=sinks,
                observer=observers.get(name),
                times=self._times,
                clock=self._clock,
                tap=tap,
            )
        return found

    def lanes(
        self,
        runners: Mapping[str, SourceRunner],
        deliver: Callable[[Completed], None],
        max_frames: int | None,
    ) -> list[Lane]:
        """A lane for each model, with the cameras that it looks at."""
        config = self._loaded.config
        return [
            Lane(
                name,
                ready.model,
                [
                    LaneSource(runners[camera], runners[camera].max_age_ns, max_frames)
                    for camera, settings in config.cameras.items()
                    if settings.model == name
                ],
                workers=ready.execution.workers,
                batch=config.models[name].batch,
                timeout_s=config.models[name].timeout,
                deliver=deliver,
                times=self._times,
                clock=self._clock,
                variants=ready.variants,
            )
            for name, ready in self._models.items()
        ]

    def health_reader(self) -> HealthReader:
        """What the configuration's machine says of its heat."""
        guard = self._loaded.config.guard
        root = Path("/") if guard is None else self._loaded.resolve(guard.monitor.root)
        return HealthReader(self._clock, root=root, disks=())

    def heat_keeper(
        self, reader: HealthReader, runners: Mapping[str, SourceRunner], apply: Callable[[Level], None]
    ) -> HeatKeeper | None:
        """The governor, where the configuration is that of a device with a live camera."""
        config = self._loaded.config
        governor, profile = governor_of(config), config.device.profile
        live = [config.cameras[name] for name, runner in runners.items() if runner.live]
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
            apply=apply,
            work=lambda: work_so_far(self._times),
            deadline_s=min(camera_deadline_ns(config, camera) for camera in live) / NS_PER_S,
            clock=self._clock,
        )

    def _evidence_ring(self) -> EvidenceRing | None:
        evidence = self._loaded.config.evidence
        if evidence is None:
            return None
        return EvidenceRing(
            self._loaded.resolve(evidence.directory),
            quota_bytes=evidence.quota_bytes,
            max_bytes=evidence.max_bytes,
            margin=evidence.margin,
            clock=self._clock,
        )

    def _failing(self, faults: Injector, name: str) -> Through:
        from edge_runtime.faults.camera import through_faults  # noqa: PLC0415 - on a bench alone

        return lambda opened: through_faults(opened, faults, name, self._clock)
