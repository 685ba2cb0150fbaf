"""The event desk of one camera: frames and tracks in, event records out.

It owns the camera's timeline and rule machines and turns what they say into records. It is stepped from one
thread; `counters` and `tallies` may be read from another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from edge_runtime.clock import NS_PER_S, Clock, WallLabel
from edge_runtime.config.rules import RuleConfig, Schedule
from edge_runtime.events.composer import Composer
from edge_runtime.events.counters import EventCounters, EventTally
from edge_runtime.events.evidence import EvidenceRing
from edge_runtime.events.happening import Happening, Phase
from edge_runtime.events.labels import LabelBook
from edge_runtime.events.lifecycle import Lifecycle, Revision
from edge_runtime.events.origin import Origin, Unobserved, of_camera, of_rule
from edge_runtime.events.outages import Outages
from edge_runtime.events.rules import RuleMachine, make_rule
from edge_runtime.events.rules.base import to_ns
from edge_runtime.events.scene import Scene
from edge_runtime.events.schedule import is_active_at
from edge_runtime.events.timeline import Moment, Timeline
from edge_runtime.perception.detections import Tracks
from edge_runtime.protocol import MAX_EVENT_BYTES, DataClass, EventRecord, EventState, uuid7
from edge_runtime.sources.frame import Frame

SCHEDULE_EVERY_NS = NS_PER_S
"""Schedules are looked at once in this time: asking whether the wall clock is synchronised takes 30 us."""

CAMERA_EVENTS_PER_MINUTE = 60


@dataclass(slots=True)
class _Entry:
    machine: RuleMachine
    lifecycle: Lifecycle
    origin: Origin
    schedule: Schedule | None
    active: bool = True


class EventDesk:
    """Rules and events of one camera.

    Args:
        camera: its name.
        rules: what counts as an event on it.
        labels: the model's label map.
        names: that events carry in place of labels, by those; rules name labels.
        data_class: the camera's label; None makes every event `unknown`.
        model_digest: `sha256:…` of the model package.
        config_digest: `sha256:…` of the configuration.
        max_bytes: cap on one encoded event.
        clock: the machine's clocks.
        evidence: ring for crops; None keeps none.
        new_id: makes event ids; UUIDv7 by default.

    Attributes:
        labels: the camera's label map; tracks carry its numbers.

    Raises:
        ConfigError: a rule names a label that the model does not have, or the cap is too small for its events.
    """

    def __init__(
        self,
        camera: str,
        rules: Sequence[RuleConfig],
        labels: Sequence[str],
        *,
        data_class: DataClass | None = None,
        model_digest: str | None = None,
        config_digest: str,
        max_bytes: int = MAX_EVENT_BYTES,
        clock: Clock,
        evidence: EvidenceRing | None = None,
        new_id: Callable[[], str] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        make_id = new_id or (lambda: uuid7(clock.wall().unix_ns))
        self._clock = clock
        self.labels = LabelBook(labels)
        self._restarted = False
        self._timeline = Timeline()
        self._outages = Outages()
        self._camera_origin = of_camera(data_class)
        self._camera_lifecycle = Lifecycle(
            cooldown_ns=0, max_per_minute=CAMERA_EVENTS_PER_MINUTE, new_id=make_id
        )
        self._entries = [
            _Entry(
                make_rule(rule, labels),
                Lifecycle(
                    cooldown_ns=to_ns(rule.cooldown), max_per_minute=rule.max_per_minute, new_id=make_id
                ),
                of_rule(rule, data_class),
                rule.schedule,
            )
            for rule in rules
        ]
        self._scheduled = any(rule.schedule is not None for rule in rules)
        self._looked_ns: int | None = None
        self._tally = EventTally.of([origin.rule for origin, _ in self._lifecycles()])
        self._composer = Composer(
            camera,
            self.labels.names,
            model_digest=model_digest,
            config_digest=config_digest,
            max_bytes=max_bytes,
            clock=clock,
            evidence=evidence,
            tally=self._tally,
            names=names,
        )
        for origin, _ in self._lifecycles():
            self._composer.check_cap(origin)

    def seen_by(self, model_digest: str, *, tracks_go_on: bool = True) -> None:
        """From now on another model looks: events name it.

        Args:
            model_digest: of its package.
            tracks_go_on: whether track ids mean what they meant; otherwise what hangs on a track is interrupted.
        """
        self._composer.model_digest = model_digest
        self._restarted = self._restarted or not tracks_go_on

    def observe(self, frame: Frame, tracks: Tracks) -> list[EventRecord]:
        """Evaluate a frame in which the model found `tracks`, possibly none.

        A dark or frozen frame is not an observation, whatever the model made of it, and a frame that is not
        newer than the last one is not evaluated, which is counted.

        Returns:
            Revisions to be written, in a deterministic order.
        """
        if frame.dark:
            return self.unobserved(Unobserved.DARK, frame.capture_ns)
        if frame.frozen:
            return self.unobserved(Unobserved.FROZEN, frame.capture_ns)
        last = self._timeline.last
        moment = self._timeline.advance(
            epoch=frame.epoch,
            sequence=frame.sequence,
            capture_ns=frame.capture_ns,
            media_ns=frame.media_ns,
        )
        if moment is None:
            self._tally.stale_frames += 1
            return []
        scene = Scene(moment, frame.width, frame.height, tracks)
        records = self._camera(self._outages.over(moment), moment)
        if self._outages:
            self._timeline.pause()
        anew = self._anew(last, moment)
        wall = self._wall_when_due()
        for entry in self._entries:
            said = self._step(entry, scene, anew=anew, wall=wall)
            revisions = _revise(entry.lifecycle, said, moment, moment.measured_ns)
            if revisions:
                records += self._compose(entry.origin, revisions, moment, scene, frame)
        return records

    def unobserved(self, reason: Unobserved, capture_ns: int, detail: str | None = None) -> list[EventRecord]:
        """The camera is not being watched: rules stand still, and the camera says so once.

        Args:
            reason: why.
            capture_ns: CLOCK_MONOTONIC of the frame that could not be used, or of the moment it was noticed.
            detail: text for a person, without credentials.

        Returns:
            The start of a camera event, the first time in this outage.
        """
        self._timeline.pause()
        moment = self._instant(capture_ns)
        return self._camera(self._outages.report(reason, moment, detail), moment)

    def finish(self, *, interrupted: bool) -> list[EventRecord]:
        """No more frames will come: every open event gets its last revision.

        Args:
            interrupted: the runtime was stopped or the source failed, so that nobody knows how things went on;
                otherwise the recording is over.
        """
        state = EventState.INTERRUPTED if interrupted else EventState.ENDED
        phase = Phase.INTERRUPTED if interrupted else Phase.CLOSED
        reason = "the runtime stopped watching" if interrupted else None
        moment = self._instant(self._clock.monotonic_ns())
        records: list[EventRecord] = []
        for origin, lifecycle, closings, now_ns in (
            *((e.origin, e.lifecycle, e.machine.stop(), moment.measured_ns) for e in self._entries),
            (self._camera_origin, self._camera_lifecycle, self._outages.over(moment), moment.capture_ns),
        ):
            said = [replace(closing, phase=phase, reason=reason) for closing in closings]
            revisions = [revision for last in said for revision in lifecycle.take(last, moment, now_ns)]
            records += self._compose(origin, revisions + lifecycle.close(state, now_ns), moment)
        return records

    def counters(self) -> EventCounters:
        """What has been emitted, refused and suppressed so far."""
        return self._tally.snapshot(
            {
                (origin.rule, verdict.value): count
                for origin, lifecycle in self._lifecycles()
                for verdict, count in lifecycle.suppressed.items()
            }
        )

    def tallies(self) -> dict[str, Mapping[str, int]]:
        """What each rule counts at this moment, whatever caps and cooldowns held back."""
        return {entry.origin.rule: entry.machine.tally() for entry in self._entries}

    def _lifecycles(self) -> list[tuple[Origin, Lifecycle]]:
        return [(entry.origin, entry.lifecycle) for entry in self._entries] + [
            (self._camera_origin, self._camera_lifecycle)
        ]

    def _anew(self, last: Moment | None, moment: Moment) -> str | None:
        """Why track ids have started again; None where they have not."""
        restarted, self._restarted = self._restarted, False
        if last is None:
            return None
        if last.epoch != moment.epoch:
            return "the source began a new epoch"
        return "another model has taken over" if restarted else None

    def _step(
        self, entry: _Entry, scene: Scene, *, anew: str | None, wall: WallLabel | None
    ) -> list[Happening]:
        said: list[Happening] = []
        if anew is not None:
            entry.lifecycle.new_epoch()
            said += _because(anew, entry.machine.new_epoch())
        if wall is not None:
            active = is_active_at(entry.schedule, wall)
            if entry.active and not active:
                said += _because("the schedule of this rule ended", entry.machine.stop())
            entry.active = active
        return said + entry.machine.step(scene) if entry.active else said

    def _wall_when_due(self) -> WallLabel | None:
        """The wall clock when schedules are to be looked at, else None."""
        if not self._scheduled:
            return None
        now_ns = self._clock.monotonic_ns()
        if self._looked_ns is not None and now_ns - self._looked_ns < SCHEDULE_EVERY_NS:
            return None
        self._looked_ns = now_ns
        return self._clock.wall()

    def _instant(self, capture_ns: int) -> Moment:
        """An instant without a frame, in terms of the last evaluated one."""
        last = self._timeline.last
        return Moment(0, 0, capture_ns, 0, 0, 0) if last is None else replace(last, capture_ns=capture_ns)

    def _camera(self, said: Sequence[Happening], moment: Moment) -> list[EventRecord]:
        # Its clock is the capture clock: the frames' own time stands still while there are no frames.
        revisions = _revise(self._camera_lifecycle, said, moment, moment.capture_ns)
        return self._compose(self._camera_origin, revisions, moment)

    def _compose(
        self,
        origin: Origin,
        revisions: Sequence[Revision],
        moment: Moment,
        scene: Scene | None = None,
        frame: Frame | None = None,
    ) -> list[EventRecord]:
        image = None if frame is None else frame.image
        records = [self._composer.compose(origin, revision, moment, scene, image) for revision in revisions]
        return [record for record in records if record is not None]


def _because(reason: str, said: Sequence[Happening]) -> list[Happening]:
    return [replace(happening, reason=reason) for happening in said]


def _revise(lifecycle: Lifecycle, said: Sequence[Happening], moment: Moment, now_ns: int) -> list[Revision]:
    revisions = [revision for happening in said for revision in lifecycle.take(happening, moment, now_ns)]
    return revisions + lifecycle.due(now_ns)
