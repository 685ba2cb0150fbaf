"""A virtual device's perception: nothing is inferred; what models would have done is counted by the clock.

How a release behaves is given by whoever makes the fleet: measured on frames, or told. What a device's own fault
adds is in its character.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine.observed import Candidate, InUse, Shadowed, SlotView
from edge_runtime.updates.problems import UpdateRefused
from sim.virtual.character import Character, Fault

_CRASH_S = 1.0
_OBJECTS_A_FRAME = 1.0


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a model does beside the one that devices were set up with.

    Attributes:
        agreement: share of its objects that the first model has too, and the reverse.
        slowness: of its time to the first model's.
        nonfinite: boxes in a frame that are no numbers.
        unanswered: share of frames without an answer.
        opens: whether it loads, and its golden vectors hold.
    """

    agreement: float = 1.0
    slowness: float = 1.0
    nonfinite: float = 0.0
    unanswered: float = 0.0
    opens: bool = True


Behave = Callable[[str], Behaviour]
"""By the SHA-256 of a release's bundle."""

FIRST = Behaviour()


@dataclass(slots=True)
class _Model:
    release: str | None
    since_ns: int
    behaviour: Behaviour


@dataclass(slots=True)
class _Beside:
    release: str
    since_ns: int
    behaviour: Behaviour
    shown_since_ns: int | None = None
    shown_ns: int = 0


class VirtualPerception:
    """One slot of one device; `Taking` as the driver knows it.

    Args:
        character: of the device.
        package: digest of the model that it was set up with.
        packages: digest of a release's model.
        behave: how a release behaves.
        clock: monotonic time.
    """

    def __init__(
        self,
        character: Character,
        package: str,
        packages: Callable[[str], str | None],
        behave: Behave,
        clock: Clock,
    ) -> None:
        self._character, self._package, self._packages = character, package, packages
        self._behave, self._clock = behave, clock
        self._in_use = _Model(None, clock.monotonic_ns(), FIRST)
        self._before: _Model | None = None
        self._beside: _Beside | None = None

    @property
    def runs(self) -> str | None:
        """The release in use; None for the first model."""
        return self._in_use.release

    def look(self, _slot: str) -> SlotView:
        """What runs."""
        return SlotView(self._look_in_use(), self._look_beside())

    def load(self, _slot: str, release: str, _folder: Path, _values: Values) -> None:
        """Begin to load."""
        if self._beside is None or self._beside.release != release:
            self._beside = _Beside(release, self._clock.monotonic_ns(), self._behaviour(release))

    def shadow(self, _slot: str, *, on: bool) -> None:
        """Show it frames, or rest."""
        beside = self._beside
        if beside is None:
            raise UpdateRefused(UpdateCode.ACTIVATION, "nothing is loaded beside the one in use", again=True)
        now = self._clock.monotonic_ns()
        if on and beside.shown_since_ns is None:
            beside.shown_since_ns = now
        elif not on and beside.shown_since_ns is not None:
            beside.shown_ns += now - beside.shown_since_ns
            beside.shown_since_ns = None

    def activate(self, _slot: str, release: str, _trackers: TrackerRule) -> None:
        """At the next frame, which is now."""
        if self._in_use.release == release:
            return
        if self._beside is None or self._beside.release != release:
            raise UpdateRefused(UpdateCode.ACTIVATION, "it is not loaded", again=True)
        self._before = self._in_use
        self._in_use = _Model(release, self._clock.monotonic_ns(), self._beside.behaviour)
        self._beside = None

    def settle(self, _slot: str) -> None:
        """Free the one before."""
        self._before = None

    def revert(self, _slot: str, release: str | None, _folder: Path | None) -> None:
        """The one before again; it opens at once, whether it was still loaded or not."""
        if self._in_use.release != release:
            behaviour = FIRST if release is None else self._behaviour(release)
            self._in_use = _Model(release, self._clock.monotonic_ns(), behaviour)
        self._before = None

    def discard(self, _slot: str) -> None:
        """Free the candidate."""
        self._beside = None

    def _behaviour(self, release: str) -> Behaviour:
        found, fault = self._behave(release), self._character.fault
        if fault is Fault.SLOW:
            return Behaviour(
                found.agreement, found.slowness * 3, found.nonfinite, found.unanswered, found.opens
            )
        if fault is Fault.CANNOT_LOAD:
            return Behaviour(opens=False)
        return found

    def _look_in_use(self) -> InUse:
        model, character = self._in_use, self._character
        seconds = (self._clock.monotonic_ns() - model.since_ns) / NS_PER_S
        crashes = 0
        if character.fault is Fault.CRASHES and model.release is not None:
            crashes = int(seconds / _CRASH_S)
            seconds -= crashes * _CRASH_S
        frames = int(seconds * character.fps)
        latency_ms = character.model_ms * model.behaviour.slowness
        return InUse(
            release=model.release,
            package=self._package if model.release is None else self._packages(model.release),
            process=f"start-{crashes}",
            seconds=seconds,
            frames=frames,
            unanswered=int(frames * model.behaviour.unanswered),
            nonfinite=int(frames * model.behaviour.nonfinite),
            events=int(seconds / 10),
            latency_p50_ms=latency_ms,
            latency_p95_ms=latency_ms * 1.3,
            celsius=character.celsius,
        )

    def _look_beside(self) -> Candidate | None:
        beside = self._beside
        if beside is None:
            return None
        now = self._clock.monotonic_ns()
        if now - beside.since_ns < self._character.load_s * NS_PER_S:
            return Candidate(beside.release, CandidateState.LOADING)
        if not beside.behaviour.opens:
            return Candidate(
                beside.release,
                CandidateState.FAILED,
                UpdateCode.GOLDEN_VECTORS,
                "its golden vectors do not hold",
            )
        return Candidate(beside.release, CandidateState.LOADED, shadow=self._shadowed(beside, now))

    def _shadowed(self, beside: _Beside, now: int) -> Shadowed:
        shown_ns = beside.shown_ns + (0 if beside.shown_since_ns is None else now - beside.shown_since_ns)
        seconds = shown_ns / NS_PER_S
        asked = int(seconds * self._character.fps)
        unanswered = int(asked * beside.behaviour.unanswered)
        objects = int((asked - unanswered) * _OBJECTS_A_FRAME)
        same = int(objects * beside.behaviour.agreement)
        running_ms = self._character.model_ms * self._in_use.behaviour.slowness
        return Shadowed(
            seconds=seconds,
            frames=asked - unanswered,
            unanswered=unanswered,
            nonfinite=int(asked * beside.behaviour.nonfinite),
            running_objects=objects,
            found=same,
            candidate_objects=objects,
            confirmed=same,
            running_ms=running_ms,
            candidate_ms=self._character.model_ms * beside.behaviour.slowness,
            on=beside.shown_since_ns is not None,
        )
