"""One source, one thread: opens, reads, masks, stamps, hands over; reconnects; stops in every state."""

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.config.node import PrivacyMask
from edge_runtime.config.source import Pacing
from edge_runtime.errors import EdgeRuntimeError, SourceError
from edge_runtime.sources.backoff import FullJitter
from edge_runtime.sources.content import ContentCheck
from edge_runtime.sources.frame import Frame
from edge_runtime.sources.ledger import Ledger
from edge_runtime.sources.mailbox import InOrder, LatestWins, Mailbox
from edge_runtime.sources.masks import PrivacyMasks
from edge_runtime.sources.pacing import Pacer
from edge_runtime.sources.reader import Grab, Reader, SourceRefused, SourceSilent, SourceUnauthorized
from edge_runtime.sources.redact import without_credentials
from edge_runtime.sources.state import SourceSignal, SourceState
from edge_runtime.sources.status import SourceStatus
from edge_runtime.sources.timeline import Timeline
from edge_runtime.telemetry import get_logger

CAMERA_MAX_AGE_NS = 500 * NS_PER_MS
"""How old a frame of a recording played like a camera may be; the default of live sources."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The times of a live source; see the fields of its configuration."""

    max_age_ns: int
    open_ns: int
    stall_after_ns: int
    frozen_after_ns: int | None
    give_up_after_ns: int | None
    backoff_first_s: float
    backoff_max_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """How a source is to be run.

    Attributes:
        open_reader: opens a connection; called in the source's thread, with an event that asks it to be quick.
        limits: times of a live source; None for a recording.
        pacing: how a recording is played; live sources pace themselves.
        loop: begin a recording again at its end.
        endless: the end of the stream is a loss, not an end: a camera.
    """

    open_reader: Callable[[threading.Event], Reader]
    limits: Limits | None
    pacing: Pacing = "every_frame"
    loop: bool = False
    endless: bool = False


class SourceRunner:
    """A camera or a recording that gives frames; see `open_source`.

    Args:
        name: the camera's name, carried by its frames.
        plan: how to run it.
        masks: blacked out before anybody sees a frame.
        clock: monotonic time.
        rng: jitter of reconnects.

    Attributes:
        name: as given.
        live: it does not wait: the newest frame is given while it is young enough. Otherwise every frame is
            given in order, and reading waits for the consumer.
    """

    def __init__(
        self, name: str, plan: Plan, *, masks: Sequence[PrivacyMask], clock: Clock, rng: random.Random
    ) -> None:
        limits = plan.limits
        self.name = name
        self.live = limits is not None or plan.pacing == "camera"
        self._plan = plan
        self._clock = clock
        longest_ns = limits.max_age_ns if limits else CAMERA_MAX_AGE_NS
        self.max_age_ns = longest_ns if self.live else None
        self._mailbox: Mailbox = LatestWins(longest_ns) if self.live else InOrder()
        self._ledger = Ledger(
            clock.monotonic_ns(),
            limits.open_ns if limits else None,
            limits.stall_after_ns if limits else None,
        )
        self._masks = PrivacyMasks(masks)
        self._content = ContentCheck(limits.frozen_after_ns if limits else None)
        self._timeline = Timeline(live=limits is not None)
        self._pacer = Pacer(moves=plan.pacing == "camera")
        self._backoff = FullJitter(
            limits.backoff_first_s if limits else 0.0, limits.backoff_max_s if limits else 0.0, rng
        )
        self._log = get_logger(camera=name)
        self._cancel = threading.Event()
        self._thread: threading.Thread | None = None
        self._callbacks: tuple[Callable[[], None], ...] = ()
        self._frozen_before = False

    # For the consumer.

    def start(self) -> None:
        """Begin to open the source, in a thread of its own.

        Raises:
            SourceError: it was started or stopped before; open another one.
        """
        if self._thread is not None or self._cancel.is_set():
            raise SourceError(f"source {self.name} was started or stopped before: open it anew")
        self._ledger.started(self._clock.monotonic_ns())
        # Daemon: a camera driver that never returns must not keep the process from ending.
        thread = threading.Thread(target=self._run, name=f"source-{self.name}", daemon=True)
        thread.start()
        self._thread = thread

    def poll(self) -> Frame | None:
        """Take the next frame, if there is one; never waits. Frames that are too old are dropped and counted.

        A recording of which every frame waits for the consumer is captured when it is taken: how long it lay
        in the queue says nothing about how late an event is.
        """
        now_ns = self._clock.monotonic_ns()
        frame = self._mailbox.take(now_ns)
        if frame is None or self.live or self._plan.pacing != "every_frame":
            return frame
        return replace(frame, capture_ns=now_ns)

    def waiting(self) -> int | None:
        """`capture_ns` of the frame that `poll` would give now, or None."""
        return self._mailbox.waiting(self._clock.monotonic_ns())

    @property
    def finished(self) -> bool:
        """Whether it has ended or failed and no frame waits any more."""
        return self._ledger.state.final and self.waiting() is None

    def on_change(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, in the source's thread, when a frame arrives or the state changes."""
        self._callbacks += (callback,)

    def status(self) -> SourceStatus:
        """What the source says about itself now.

        A thread that hangs inside a library cannot report its own silence: asking finds it out.
        """
        self._entered(self._ledger.silence(self._clock.monotonic_ns()))
        return self._ledger.status(self._mailbox.drops())

    def stop(self, timeout_s: float = 5.0) -> bool:
        """End the source, whatever it is doing; frames that wait are dropped.

        Args:
            timeout_s: how long to wait for its thread.

        Returns:
            Whether the thread has ended. If not, it is inside a library call that returns within the source's
            `open_timeout` or `stall_after`; it then ends by itself, and `status().abandoned` is true meanwhile.
        """
        self._cancel.set()
        self._mailbox.close()
        self._signal(SourceSignal.STOP)
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_s)
        self._ledger.abandoned(is_so=thread.is_alive())
        return not thread.is_alive()

    # In the source's thread.

    def _run(self) -> None:
        try:
            while self._session():
                pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the source must end in a stated state
            self._log.error("source thread failed", exc_info=error)
            text = without_credentials(str(error))
            self._signal(SourceSignal.REFUSED, f"internal error: {type(error).__name__}: {text}")
        self._ledger.abandoned(is_so=False)

    def _session(self) -> bool:
        """One connection, from opening to teardown; True when another one is to follow."""
        began_ns: int | None = None
        warning: str | None = None
        self._ledger.attempt()
        try:
            reader = self._plan.open_reader(self._cancel)
            try:
                self._begin(reader)
                asked_ns = self._clock.monotonic_ns()
                while (grab := reader.read()) is not None and not self._cancel.is_set():
                    began_ns = began_ns or self._clock.monotonic_ns()
                    self._deliver(grab, asked_ns)
                    asked_ns = self._clock.monotonic_ns()
                warning = reader.warning
            finally:
                reader.close()
                self._ledger.closed(reader)
        except EdgeRuntimeError as error:
            return self._broke(error, began_ns)
        if self._cancel.is_set():
            return False
        if self._plan.endless:
            return self._broke(SourceError("the stream ended"), began_ns)
        if began_ns is None:
            self._signal(SourceSignal.REFUSED, warning or "not one frame of it can be decoded")
            return False
        if not self._plan.loop:
            self._signal(SourceSignal.EXHAUSTED, warning)
        return self._plan.loop

    def _begin(self, reader: Reader) -> None:
        self._ledger.opened(reader)
        fps = reader.facts.fps
        self._timeline.begin(int(NS_PER_S / fps) if fps else None)

    def _deliver(self, grab: Grab, asked_ns: int) -> None:
        image = grab.image
        stamp = self._timeline.stamp(grab.pts_ns, grab.capture_ns, (image.shape[1], image.shape[0]))
        entered = self._ledger.decoded(self._clock.monotonic_ns(), preroll=grab.preroll)
        if grab.preroll:
            self._entered(entered)
            return
        covered = self._masks.apply(image)
        look = self._content.look(image, covered, grab.capture_ns)
        # A live read mostly waits for the camera: there, work begins with the arrival.
        worked_from_ns = asked_ns if self._plan.limits is None else max(asked_ns, grab.capture_ns)
        decode_ns = self._clock.monotonic_ns() - worked_from_ns
        frame = Frame(
            image=image,
            source=self.name,
            epoch=stamp.epoch,
            sequence=stamp.sequence,
            capture_ns=self._paced(stamp.epoch, stamp.media_ns, grab.capture_ns),
            media_ns=stamp.media_ns,
            dark=look.dark,
            frozen=look.frozen,
            decode_ns=decode_ns,
        )
        self._ledger.delivered(frame)
        if self._mailbox.put(frame):
            self._entered(entered)
            self._tell()
        frozen_before, self._frozen_before = self._frozen_before, look.frozen
        if look.frozen and not frozen_before:
            # Once per freeze: reopening wakes a reader that repeats itself, but not a camera that does.
            raise SourceSilent("the camera repeats the same picture")

    def _paced(self, epoch: int, media_ns: int, capture_ns: int) -> int:
        """Wait until a recording's frame is due; when it counts as captured."""
        if self._plan.pacing == "every_frame" or self._plan.limits is not None:
            return capture_ns
        due_ns = self._pacer.due_ns(epoch, media_ns, self._clock.monotonic_ns())
        while (left_ns := due_ns - self._clock.monotonic_ns()) > 0:
            if self._cancel.wait(left_ns / NS_PER_S):
                break
        return due_ns if self._plan.pacing == "camera" else self._clock.monotonic_ns()

    def _broke(self, error: EdgeRuntimeError, began_ns: int | None) -> bool:
        """A connection failed; True when to try again, after the wait that is due."""
        text = without_credentials(str(error))
        limits = self._plan.limits
        refused = isinstance(error, SourceRefused) or not isinstance(error, SourceError)
        if limits is None or refused:
            self._signal(SourceSignal.REFUSED, text)
            return False
        if isinstance(error, SourceSilent):
            self._signal(SourceSignal.SILENCE, text)
        self._signal(SourceSignal.LOST, text)
        last_ns = self._ledger.progress_ns
        lived_s = (last_ns - began_ns) / NS_PER_S if began_ns else 0.0
        wait_s = self._backoff.failed(lived_s, refused=isinstance(error, SourceUnauthorized))
        if limits.give_up_after_ns is not None:
            left_s = (last_ns + limits.give_up_after_ns - self._clock.monotonic_ns()) / NS_PER_S
            if left_s <= 0:
                self._signal(
                    SourceSignal.GIVE_UP, f"given up after {limits.give_up_after_ns / NS_PER_S:g} s: {text}"
                )
                return False
            wait_s = min(wait_s, left_s)
        return not self._cancel.wait(wait_s)

    def _signal(self, signal: SourceSignal, error: str | None = None) -> None:
        self._entered(self._ledger.signal(signal, error))

    def _entered(self, state: SourceState | None) -> None:
        """Tell about a new state, if it is one."""
        if state is None:
            return
        error = self._ledger.status(self._mailbox.drops()).error
        if state is SourceState.FAILED:
            self._log.error("source failed", error=error)
        elif state in (SourceState.STALLED, SourceState.RECONNECTING):
            self._log.warning(f"source {state.value}", error=error)
        else:
            self._log.info(f"source {state.value}")
        self._tell()

    def _tell(self) -> None:
        for callback in self._callbacks:
            callback()
