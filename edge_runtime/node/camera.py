"""One camera from outcomes to events: a tracker per epoch, the rules, the sinks and whoever watches."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from edge_runtime.clock import Clock
from edge_runtime.config.node import CameraConfig
from edge_runtime.events import EventCounters, EventDesk, Unobserved, translated
from edge_runtime.perception.detections import Tracks
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, Outcome, StageTimes, Unseen
from edge_runtime.perception.tracking import Tracker, settings_for
from edge_runtime.protocol import EventRecord
from edge_runtime.sources import Frame, SourceState, SourceStatus
from edge_runtime.telemetry import get_logger

_REASONS = {
    Unseen.DARK: Unobserved.DARK,
    Unseen.FROZEN: Unobserved.FROZEN,
    Unseen.TIMEOUT: Unobserved.INFERENCE_FAILED,
    Unseen.ERROR: Unobserved.INFERENCE_FAILED,
    Unseen.LAYOUT: Unobserved.INFERENCE_FAILED,
    Unseen.NONFINITE: Unobserved.INFERENCE_FAILED,
    Unseen.MODEL_FAULT: Unobserved.MODEL_FAULT,
}

_SILENT_STATES = {
    SourceState.STALLED: Unobserved.STALLED,
    SourceState.RECONNECTING: Unobserved.LOST,
    SourceState.FAILED: Unobserved.LOST,
}


_SIGHTS = 8
"""Outcomes of the two newest lineups may be under way."""


class EventSink(Protocol):
    """Takes every event revision, in order."""

    def write(self, event: EventRecord) -> bool:
        """Keep or forward one revision; False, and counted by the sink, when that failed."""
        ...


class FrameObserver(Protocol):
    """Sees every frame of one camera after its rules ran; `edge_runtime.annotation.Recorder` is one."""

    def add(
        self, frame: Frame, tracks: Tracks | None, events: Sequence[EventRecord], notice: str | None
    ) -> None:
        """Called from the evaluator's thread: be quick or queue.

        Args:
            frame: as evaluated, masks applied.
            tracks: None where the frame was not evaluated.
            events: revisions that it caused.
            notice: why it was not evaluated.
        """
        ...


class Runner(Protocol):
    """What a desk asks of its camera; `edge_runtime.sources.SourceRunner` is one."""

    @property
    def live(self) -> bool:
        """Whether it does not wait."""
        ...

    def status(self) -> SourceStatus:
        """What it says about itself now."""
        ...


@dataclass(frozen=True, slots=True)
class Sight:
    """What a camera's desk has to know of the models of a lineup.

    Attributes:
        score: at which their detections count.
        digests: of their packages, by variant.
        labels: their label maps, by variant.
        tracks_go_on: whether tracks of the lineup before go on under this one.
    """

    score: float
    digests: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    tracks_go_on: bool = False


class DeskTap(Protocol):
    """Told all that desks are given, each time before anything comes of it; a recording is one.

    Called from the evaluator's thread, `lineup` from any: be quick, and never raise.
    """

    def outcome(self, camera: str, outcome: Outcome) -> None:
        """A frame's outcome."""
        ...

    def looked(self, camera: str, status: SourceStatus, now_ns: int) -> None:
        """How a camera stands, as it is asked now and then."""
        ...

    def finished(self, camera: str, *, interrupted: bool) -> None:
        """No more will come."""
        ...

    def lineup(self, camera: str, number: int, sight: Sight) -> None:
        """Outcomes of other models will come."""
        ...

    def reconfigured(self) -> None:
        """Other rules hold."""
        ...


class CameraDesk:
    """Follows one camera. Used from the evaluator's thread only.

    Args:
        name: of the camera.
        config: its section.
        runner: its source, for its state.
        events: its rules.
        sight: of the models that look first.
        sinks: where events go.
        observer: who looks at its frames.
        times: where durations go.
        clock: monotonic time.
        tap: looks on.
    """

    def __init__(
        self,
        name: str,
        config: CameraConfig,
        runner: Runner,
        events: EventDesk,
        *,
        sight: Sight,
        sinks: Sequence[EventSink],
        observer: FrameObserver | None,
        times: StageTimes,
        clock: Clock,
        tap: DeskTap | None = None,
    ) -> None:
        self.name = name
        self.runner = runner
        self.events = events
        self.frames: Counter[str] = Counter()
        self.happenings: Counter[str] = Counter()
        self.nonfinite = 0
        self.followed = 0
        self.last_text = ""
        self.age_ns = 0
        self._config = config
        self._sights: dict[int, Sight] = {0: sight}
        self._sight = sight
        self._seat = 0, 0
        self._past: list[EventCounters] = []
        self._sinks = sinks
        self._observer = observer
        self._times = times
        self._clock = clock
        self._tap = tap
        self._tracking = settings_for(config.tracking, sight.score)
        self._tracker = Tracker(self._tracking)
        self._translation = events.labels.translation(sight.labels[0])
        self._epoch: int | None = None
        self._log = get_logger(camera=name)
        self._said_lost = False

    def expect(self, lineup: int, sight: Sight) -> None:
        """Outcomes of a new lineup will come: called before the first one, from any thread."""
        self._sights[lineup] = sight
        if self._tap is not None:
            self._tap.lineup(self.name, lineup, sight)
        for before in sorted(self._sights)[:-_SIGHTS]:  # of a camera that shows nothing all this time
            self._sights.pop(before, None)

    def go_by(self, config: CameraConfig, events: EventDesk) -> list[EventRecord]:
        """From the next frame on other rules hold: what is open under the old ones is closed as interrupted.

        Tracks go on; `expect` was told the score under which they do.

        Args:
            config: the camera's section, the same but for its rules.
            events: the new rules, over the label map of the old ones.
        """
        if self._tap is not None:
            self._tap.reconfigured()
        closing = self.events.finish(interrupted=True)
        self._emit(closing)
        self._past.append(self.events.counters())
        self.events, self._config = events, config
        lineup, variant = self._seat
        self._sight = self._sights.get(lineup, self._sight)
        self.events.seen_by(self._sight.digests[variant])
        self._tracking = settings_for(config.tracking, self._sight.score)
        self._tracker.retune(self._tracking)
        return closing

    def counters(self) -> list[EventCounters]:
        """What the rules counted: those that held before, and those that hold now."""
        return [*self._past, self.events.counters()]

    def take(self, outcome: Outcome) -> list[EventRecord]:
        """One frame's outcome; returns the event revisions that it caused."""
        if self._tap is not None:
            self._tap.outcome(self.name, outcome)
        tracks: Tracks | None
        if isinstance(outcome, Evaluated):
            events, tracks = self._evaluated(outcome)
        else:
            events, tracks = self._not_evaluated(outcome), None
        self.followed = 0 if tracks is None else len(tracks)
        self.age_ns = self._clock.monotonic_ns() - outcome.frame.capture_ns
        self._emit(events)
        if self._observer is not None:
            notice = outcome.text if isinstance(outcome, NotEvaluated) else None
            self._observer.add(outcome.frame, tracks, events, notice)
        return events

    def tick(self) -> list[EventRecord]:
        """Look whether the source has fallen silent; that is not the same as seeing nothing."""
        status, now_ns = self.runner.status(), self._clock.monotonic_ns()
        if self._tap is not None:
            self._tap.looked(self.name, status, now_ns)
        reason = _SILENT_STATES.get(status.state)
        if reason is None:
            return []
        events = self.events.unobserved(reason, now_ns, status.error)
        self._emit(events)
        return events

    def finish(self, *, interrupted: bool) -> list[EventRecord]:
        """End what is open: `interrupted` where the run was stopped, not the recording over."""
        if self._tap is not None:
            self._tap.finished(self.name, interrupted=interrupted)
        events = self.events.finish(interrupted=interrupted)
        self._emit(events)
        return events

    def _evaluated(self, outcome: Evaluated) -> tuple[list[EventRecord], Tracks]:
        frame, detections = outcome.frame, outcome.detections
        self.frames["evaluated"] += 1
        self.nonfinite += detections.nonfinite
        if frame.epoch != self._epoch:
            # ids, velocities and ages of another epoch mean nothing in this one
            self._epoch = frame.epoch
            self._tracker = Tracker(self._tracking)
        if self._seat != (outcome.lineup, outcome.variant):
            self._take_over(outcome.lineup, outcome.variant)
        begun = self._clock.monotonic_ns()
        tracks = self._tracker.update(translated(detections, self._translation), frame.media_ns)
        tracked = self._clock.monotonic_ns()
        events = self.events.observe(frame, tracks)
        self._times.record("track", tracked - begun, (self.name,))
        self._times.record("rules", self._clock.monotonic_ns() - tracked, (self.name,))
        return events, tracks

    def _take_over(self, lineup: int, variant: int) -> None:
        """Another model answered than the last time."""
        sight, tracks_go_on = self._sight, True
        if lineup != self._seat[0]:
            sight = self._sight = self._sights[lineup]
            tracks_go_on = sight.tracks_go_on
            self._tracking = settings_for(self._config.tracking, sight.score)
            if tracks_go_on:
                self._tracker.retune(self._tracking)
            else:
                self._tracker = Tracker(self._tracking)
            for before in tuple(self._sights):  # a copy: another thread may add to it
                if before < lineup:
                    self._sights.pop(before, None)  # outcomes come in order: none of them follows
        self._seat = lineup, variant
        self._translation = self.events.labels.translation(sight.labels[variant])
        self.events.seen_by(sight.digests[variant], tracks_go_on=tracks_go_on)

    def _not_evaluated(self, outcome: NotEvaluated) -> list[EventRecord]:
        if outcome.lineup != self._seat[0]:
            self._take_over(outcome.lineup, 0)  # what it says of the camera is its own word, too
        self.frames[outcome.reason.value] += 1
        self.last_text = outcome.text
        return self.events.unobserved(_REASONS[outcome.reason], outcome.frame.capture_ns, outcome.text)

    def _emit(self, events: Sequence[EventRecord]) -> None:
        for event in events:
            if event.revision == 1:
                self.happenings[event.rule] += 1
            for sink in self._sinks:
                if not sink.write(event) and not self._said_lost:
                    self._said_lost = True
                    self._log.error(
                        "event not written; the summary counts them", rule=event.rule, id=event.id
                    )
