"""A simulated device's camera and what becomes of its pictures, up to events and the conditions of its watch.

The detector is a double: detections are the truth of the drawn world, without misses and without false ones.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pydantic import TypeAdapter

from edge_runtime.clock import NS_PER_MS, NS_PER_S
from edge_runtime.config.camera import TrackingConfig
from edge_runtime.config.rules import RuleConfig
from edge_runtime.errors import SourceError
from edge_runtime.events import EventDesk, Unobserved
from edge_runtime.faults import Injector
from edge_runtime.faults.camera import FaultyReader, through_faults
from edge_runtime.node.camera_watch import CameraWatch, SourceLook
from edge_runtime.perception.detections import Detections
from edge_runtime.perception.pipeline import Evaluated, NotEvaluated, Unseen
from edge_runtime.perception.tracking import Tracker, settings_for
from edge_runtime.protocol import DataClass, EventRecord
from edge_runtime.sources import Frame, Image, SourceState
from edge_runtime.sources.content import ContentCheck, Look
from edge_runtime.sources.reader import Grab, ReadCounts, Reader, SourceSilent, StreamFacts
from edge_runtime.sources.state import SourceSignal, step
from sim.scene.world import HEIGHT, LABELS, WIDTH, Sight
from sim.simulated.clock import SimClock

CAMERA = "front"
MODEL_NS = 30 * NS_PER_MS
"""What one inference takes at the full clock."""

MAX_AGE_NS, DEADLINE_NS = 500 * NS_PER_MS, 500 * NS_PER_MS
STALL_NS, FROZEN_NS, AGAIN_NS = NS_PER_S, NS_PER_S, NS_PER_S // 2
ABSENCE_S = 3.0
_NEVER = threading.Event()

_DIGEST = "sha256:" + "0" * 64
_RULES: TypeAdapter[RuleConfig] = TypeAdapter(RuleConfig)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one step brought.

    Attributes:
        events: of the rules.
        taken: a picture was taken by the consumer.
    """

    events: tuple[EventRecord, ...] = ()
    taken: bool = False


class _Lens:
    """Pictures that are due now; nothing waits here, because time stands while anybody looks."""

    def __init__(self) -> None:
        self.due: deque[Grab] = deque()
        self.facts = StreamFacts(WIDTH, HEIGHT, "drawn")
        self.counts = ReadCounts()
        self.warning: str | None = None

    def read(self) -> Grab | None:
        if not self.due:
            raise SourceSilent("no picture is due")
        return self.due.popleft()

    def close(self) -> None:
        self.due.clear()


class CameraPipeline:
    """One camera and its desk.

    Args:
        clock: of the device.
        injector: of faults.
        draw: gives the picture of a time.
        truth: gives who is in it.
        fps: pictures a second, more than 0.
        relied_on: a body moves by what it shows.
        content_check: whether pictures are looked at for being dark or frozen.

    Attributes:
        watch: of the camera.
        model_ns: what one inference takes.
    """

    def __init__(
        self,
        clock: SimClock,
        injector: Injector,
        draw: Callable[[float], Image],
        truth: Callable[[float], list[Sight]],
        *,
        fps: float,
        relied_on: bool,
        content_check: bool,
    ) -> None:
        self._clock, self._draw, self._truth = clock, draw, truth
        self._begun_ns = self._due_ns = clock.now_ns
        self._period_ns = round(NS_PER_S / fps)
        self._lens = _Lens()
        self._open = through_faults(lambda _: self._lens, injector, CAMERA, clock)
        self._reader: Reader | None = FaultyReader(self._lens, injector, CAMERA, clock)
        self._again_ns = 0
        self._state, self._newest_ns, self._too_old = SourceState.STARTING, clock.now_ns, 0
        self._content = ContentCheck(FROZEN_NS) if content_check else None
        self._tracking = settings_for(TrackingConfig(), 0.5)
        self._tracker = Tracker(self._tracking)
        rule = {"name": "empty", "kind": "absence", "seconds": ABSENCE_S}
        self._desk = EventDesk(
            CAMERA,
            [_RULES.validate_python(rule)],
            LABELS,
            data_class=DataClass.INTERNAL,
            model_digest=_DIGEST,
            config_digest=_DIGEST,
            clock=clock,
        )
        self.watch = CameraWatch(
            live=True, max_age_ns=MAX_AGE_NS, deadline_ns=DEADLINE_NS, relied_on=relied_on
        )
        self._sequence, self.model_ns = 0, MODEL_NS

    def seconds(self) -> float:
        """Since the camera began."""
        return (self._clock.now_ns - self._begun_ns) / NS_PER_S

    def step(self) -> Seen:
        """What is due now."""
        now_ns = self._clock.now_ns
        if now_ns >= self._due_ns:
            self._due_ns += max(1, (now_ns - self._due_ns) // self._period_ns + 1) * self._period_ns
            if self._reader is not None:
                self._lens.due.append(Grab(self._draw(self.seconds()), None, now_ns))
        seen = self._read(now_ns)
        look = SourceLook(self._state, self._too_old, self._newest_ns)
        self.watch.look(look, None, now_ns)
        if self._state in (SourceState.STALLED, SourceState.RECONNECTING):
            reason = Unobserved.STALLED if self._state is SourceState.STALLED else Unobserved.LOST
            events = tuple(self._desk.unobserved(reason, now_ns))
            return Seen(events)
        return seen

    def _read(self, now_ns: int) -> Seen:
        try:
            if self._reader is None:
                if now_ns < self._again_ns:
                    return Seen()
                self._again_ns = now_ns + AGAIN_NS
                self._reader = self._open(_NEVER)
            grab = self._reader.read()
        except SourceSilent:
            if now_ns - self._newest_ns > STALL_NS:
                self._state = step(self._state, SourceSignal.SILENCE)
            return Seen()
        except SourceError:
            self._reader = None
            self._lens.due.clear()
            self._state = step(self._state, SourceSignal.LOST)
            return Seen()
        assert grab is not None
        self._state = step(self._state, SourceSignal.FRAME)
        if now_ns - grab.capture_ns > MAX_AGE_NS:
            self._too_old += 1
            return Seen()
        self._newest_ns = grab.capture_ns
        return self._evaluate(grab, now_ns)

    def _evaluate(self, grab: Grab, now_ns: int) -> Seen:
        content = self._content
        look = Look(dark=False, frozen=False) if content is None else content.look(grab.image, None, now_ns)
        self._sequence += 1
        media_ns = grab.capture_ns - self._begun_ns
        frame = Frame(
            grab.image, CAMERA, 0, self._sequence, grab.capture_ns, media_ns, look.dark, look.frozen
        )
        age_ns = now_ns - grab.capture_ns + self.model_ns
        if look.dark or look.frozen:
            reason = Unseen.DARK if look.dark else Unseen.FROZEN
            self.watch.took(NotEvaluated(frame, reason, reason.value, "double"), age_ns, (), now_ns)
            unseen = Unobserved.DARK if look.dark else Unobserved.FROZEN
            events = tuple(self._desk.unobserved(unseen, grab.capture_ns))
            return Seen(events, taken=True)
        detections = self._detect(grab)
        events = tuple(self._desk.observe(frame, self._tracker.update(detections, media_ns)))
        self.watch.took(Evaluated(frame, detections, "double"), age_ns, events, now_ns)
        return Seen(events, taken=True)

    def _detect(self, grab: Grab) -> Detections:
        """The truth of the picture's own time; nothing where the picture shows nothing."""
        if grab.image.max() < 32:  # what no detector could see: the double must not know better
            return Detections.empty()
        sights = [one for one in self._truth((grab.capture_ns - self._begun_ns) / NS_PER_S) if one.visible]
        if not sights:
            return Detections.empty()
        boxes = np.array([one.box for one in sights], np.float32)
        limits = np.array([WIDTH, HEIGHT, WIDTH, HEIGHT], np.float32)
        return Detections(
            np.clip(boxes, 0, limits),
            np.full(len(sights), 0.9, np.float32),
            np.array([one.actor.label for one in sights], np.int64),
        )
