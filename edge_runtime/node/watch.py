"""What perception shows the guard: that it finished something, and which conditions hold of its cameras.

The evaluator's thread beats after each frame that it evaluated, and, while none comes, after each look at all
cameras. It does not beat while another thread is stuck: one that is at a unit of work for longer than that unit may
take (a driver's call that never returns, a picture that is never prepared). A sink that blocks holds the evaluator
itself. So a live thread hides no stuck one, and the guard finds it by its deadline.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.config.node import CameraConfig, NodeConfig
from edge_runtime.node.camera_watch import EVALUATED, CameraWatch, SourceLook
from edge_runtime.perception.pipeline import TICK_S, Outcome, UnderWay
from edge_runtime.protocol import EventRecord
from edge_runtime.sources import SourceRunner
from edge_runtime.sources.runner import CAMERA_MAX_AGE_NS
from edge_runtime.telemetry import get_logger

STILL_LONGEST_MS = 10_000
"""Cards and eMMC stall for seconds while they tidy up; a device that cannot move hurts nobody by waiting."""

_LEAST_MS = 200
"""A healthy evaluator on two busy cores has gaps of up to 30 ms, and a crop to encode now and then."""


class Beats(Protocol):
    """Where a beat goes: `edge_runtime.guard.page.SlotWriter`."""

    def finished(
        self, stage: str, newest_capture_ns: int | None, deadline_ns: int, evaluated: int, tripped: int
    ) -> None:
        """See there."""
        ...


def perception_longest_ms(config: NodeConfig) -> int:
    """The longest time between two beats of a perception that is well, in milliseconds.

    Where a body's profile is named: one look at the cameras (every 100 ms), and one unit of the evaluator's work,
    which must not take longer than a live frame may be old, nor than the device's response deadline: after that,
    perception has been blind, whatever held it. At least 0.3 s in all. A device without a profile, and recordings,
    which wait, get 10 s.

    How long a model may take is not in it: the evaluator looks on meanwhile, and stops beating when a run is over
    its bound; see `infer_limit_ns`.
    """
    ages_ms = [
        age_ns // NS_PER_MS
        for camera in config.cameras.values()
        if (age_ns := live_max_age_ns(camera)) is not None
    ]
    if not names_a_body(config) or not ages_ms:
        return STILL_LONGEST_MS
    if config.device.profile is not None:
        ages_ms.append(int(config.device.profile.response_deadline_ms))
    tick_ms = int(TICK_S * 1000)
    return tick_ms + min(max(_LEAST_MS, min(ages_ms)), STILL_LONGEST_MS - tick_ms)


def names_a_body(config: NodeConfig) -> bool:
    """Whether the configuration is that of a body of which a profile says how it moves."""
    return config.guard is not None and config.guard.profile is not None


def camera_deadline_ns(config: NodeConfig, camera: CameraConfig) -> int:
    """From capture to the end of its rules, how long a camera's frame may take.

    The shortest of the deadlines of its rules and the response deadline of the device; 1 s where there is neither.
    """
    deadlines_s = [rule.deadline for rule in camera.rules]
    if config.device.profile is not None:
        deadlines_s.append(config.device.profile.response_deadline_ms / 1000)
    return int(min(deadlines_s, default=1.0) * NS_PER_S)


def live_max_age_ns(camera: CameraConfig) -> int | None:
    """How old a frame of the camera may be; None for a recording, which waits."""
    source = camera.source
    pacing = getattr(source, "pacing", "camera")
    if pacing != "camera":
        return None
    max_age_s = getattr(source, "max_age", None)
    return CAMERA_MAX_AGE_NS if max_age_s is None else int(max_age_s * NS_PER_S)


def watch_cameras(config: NodeConfig, runners: Mapping[str, SourceRunner]) -> dict[str, CameraWatch]:
    """A watch for each camera of a configuration, by its name."""
    return {
        name: CameraWatch(
            live=runner.live,
            max_age_ns=runner.max_age_ns or 0,
            deadline_ns=camera_deadline_ns(config, config.cameras[name]),
            relied_on=names_a_body(config),
        )
        for name, runner in runners.items()
    }


class Watch:
    """Beats for perception. Used from the evaluator's thread only.

    Args:
        beats: the slot.
        cameras: by name.
        under_way: what the lanes' threads are at.
        longest_ms: between two beats; see `perception_longest_ms`.
        clock: monotonic time.
    """

    def __init__(
        self,
        beats: Beats,
        cameras: Mapping[str, CameraWatch],
        under_way: Callable[[], Iterable[UnderWay]],
        *,
        longest_ms: int,
        clock: Clock,
    ) -> None:
        self._beats, self._cameras, self._under_way = beats, cameras, under_way
        self._longest_ns = longest_ms * NS_PER_MS
        self._clock = clock
        self._log = get_logger()
        self._said: str | None = None

    def took(self, outcome: Outcome, age_ns: int, events: Sequence[EventRecord]) -> None:
        """A frame was evaluated, and everything that follows from it is done."""
        now_ns = self._clock.monotonic_ns()
        self._cameras[outcome.frame.source].took(outcome, age_ns, events, now_ns)
        self._beat("evaluate", now_ns, self._under_way())

    def looked(self, sources: Mapping[str, SourceLook]) -> None:
        """All cameras were looked at; no frame has to have come."""
        now_ns, units = self._clock.monotonic_ns(), list(self._under_way())
        oldest_ns: dict[str, int] = {}
        for unit in units:
            for camera, capture_ns in unit.captured:
                oldest_ns[camera] = min(capture_ns, oldest_ns.get(camera, capture_ns))
        for name, camera_watch in self._cameras.items():
            camera_watch.look(sources[name], oldest_ns.get(name), now_ns)
        self._beat("look", now_ns, units)

    def _beat(self, stage: str, now_ns: int, units: Iterable[UnderWay]) -> None:
        stuck = next((unit for unit in units if now_ns > unit.due_ns), None)
        if stuck is not None:
            if self._said != stuck.thread:
                self._said = stuck.thread
                seconds = round((now_ns - stuck.since_ns) / NS_PER_S, 1)
                self._log.error("a thread is stuck: no more beats", thread=stuck.thread, seconds=seconds)
            return
        self._said = None
        tripped, looked = 0, True
        for camera in self._cameras.values():
            tripped |= camera.tripped
            looked = looked and camera.looked
        evaluated = EVALUATED if looked else 0
        self._beats.finished(
            stage, self._newest_of_the_worst(), now_ns + self._longest_ns, evaluated, tripped
        )

    def _newest_of_the_worst(self) -> int | None:
        """Capture time of the newest frame of the camera that is farthest behind; live ones count before others."""
        worst: tuple[bool, int] | None = None
        for camera in self._cameras.values():
            if camera.newest_capture_ns is not None and not (camera.over and not camera.live):
                found = (not camera.live, camera.newest_capture_ns)
                worst = found if worst is None else min(worst, found)
        return None if worst is None else worst[1]
