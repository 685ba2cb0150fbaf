"""What is counted of a run: for its snapshots, and for metrics where there are any."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from edge_runtime.clock import NS_PER_S
from edge_runtime.events import EventCounters, EvidenceRing
from edge_runtime.node.camera import CameraDesk
from edge_runtime.node.heat_keeper import HeatKeeper
from edge_runtime.node.models import ReadyModel
from edge_runtime.node.snapshot import CameraSnapshot, ModelSnapshot
from edge_runtime.perception.pipeline import Evaluated, Lane, Outcome
from edge_runtime.protocol import EventRecord
from edge_runtime.sources import SourceState
from edge_runtime.telemetry.metrics import STAGES, Metrics

_RECENT_EVENTS = 8


class Figures:
    """The figures of one run.

    Args:
        desks: the cameras, by name.
        lanes: of the models.
        metrics: told everything, if given.

    Attributes:
        recent: the newest events.
    """

    def __init__(
        self, desks: Mapping[str, CameraDesk], lanes: Sequence[Lane], metrics: Metrics | None
    ) -> None:
        self.recent: deque[EventRecord] = deque(maxlen=_RECENT_EVENTS)
        self._desks, self._lanes, self._metrics = desks, lanes, metrics
        self._states: Mapping[str, SourceState] = {}

    def stopping(self, states: Mapping[str, SourceState]) -> None:
        """The sources are about to be stopped, which ends each: what matters is the state in which it was found."""
        self._states = states

    def note(self, events: Sequence[EventRecord]) -> None:
        """Events have happened."""
        self.recent.extend(events)
        if self._metrics is not None:
            for event in events:
                self._metrics.event(
                    event.camera, event.rule, event.state.value, event.severity.value, late=event.late
                )

    def count(self, desk: CameraDesk, outcome: Outcome) -> None:
        """A frame of a camera has come to its end."""
        if self._metrics is None:
            return
        self._metrics.age(desk.name, desk.age_ns / NS_PER_S)
        if isinstance(outcome, Evaluated):
            self._metrics.frame(desk.name, "evaluated")
            self._metrics.nonfinite(desk.name, outcome.detections.nonfinite)
        else:
            self._metrics.frame(desk.name, outcome.reason.value)

    def drops(self, desk: CameraDesk, by_source: Mapping[str, int]) -> dict[str, int]:
        """Frames of a camera that were dropped, by its source and by the lanes, by cause."""
        drops = dict(by_source)
        for lane in self._lanes:
            for (camera, cause), count in list(lane.drops.items()):
                if camera == desk.name:
                    drops[cause] = drops.get(cause, 0) + count
        return drops

    def dropped(self, camera: str) -> int:
        """Frames of a camera so far that nobody looked at, whatever the cause."""
        desk = self._desks[camera]
        return sum(self.drops(desk, desk.runner.status().drops).values())

    def cameras(self) -> dict[str, CameraSnapshot]:
        """How each camera stands; may be called from another thread."""
        return {name: self._camera(desk) for name, desk in self._desks.items()}

    def export(self, heat: HeatKeeper | None, ring: EvidenceRing | None) -> None:
        """Tell metrics what is counted elsewhere. Not the stages: their percentiles are sorted anew each time."""
        if self._metrics is None:
            return
        for name, snapshot in self.cameras().items():
            self._metrics.source(
                name,
                snapshot.state,
                reconnects=snapshot.reconnects,
                decoded=snapshot.decoded,
                drops=snapshot.drops,
            )
            for rule, total in snapshot.suppressed.items():
                self._metrics.suppressed(name, rule, total)
        if heat is not None:
            self._metrics.frame_share(heat.snapshot().frame_share)
        if ring is not None:
            self._metrics.evidence(ring.used_bytes)

    def _camera(self, desk: CameraDesk) -> CameraSnapshot:
        status = desk.runner.status()
        counters = desk.counters()
        return CameraSnapshot(
            state=self._states.get(desk.name, status.state).value,
            decoded=status.decoded,
            evaluated=desk.frames["evaluated"],
            not_evaluated={key: n for key, n in dict(desk.frames).items() if key != "evaluated"},
            drops=self.drops(desk, status.drops),
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


def stage_observer(metrics: Metrics | None) -> Callable[[str, str, float], None] | None:
    """What tells metrics how long a stage took: stage, camera, seconds; None without metrics."""
    if metrics is None:
        return None

    def measured(stage: str, camera: str, seconds: float) -> None:
        known = next((name for name in STAGES if name == stage), None)
        if known is not None:
            metrics.stage(known, camera, seconds)

    return measured


def model_snapshot(ready: ReadyModel) -> ModelSnapshot:
    """A model that looks, and what runs it."""
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


def _suppressed(counters: Sequence[EventCounters]) -> dict[str, int]:
    """Happenings that a cooldown or a rate cap held back, by rule."""
    found: dict[str, int] = {}
    for each in counters:
        for (rule, _cause), count in each.suppressed.items():
            found[rule] = found.get(rule, 0) + count
    return found
