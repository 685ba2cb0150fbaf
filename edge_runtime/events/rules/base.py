"""What every rule machine offers, and the two timing machines that they are built from."""

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from edge_runtime.clock import NS_PER_S
from edge_runtime.events.happening import Happening
from edge_runtime.events.scene import Scene
from edge_runtime.events.timeline import Moment

ROUNDING_NS = 1_000_000
"""Containers round timestamps to a millisecond, so 6 frames at 30 per second may measure 199 ms."""

FORGET_AFTER_NS = 60 * NS_PER_S
"""A track that was not seen for this long is forgotten; the tracker gives it up after 3 s by default."""

MAX_TRACKS = 4096
"""Most tracks that one rule remembers; beyond it those that were not seen for longest are forgotten."""

Side = TypeVar("Side")


def to_ns(seconds: float) -> int:
    """Configured seconds as integer nanoseconds."""
    return round(seconds * NS_PER_S)


def lasted(since: Moment, now: Moment, required_ns: int) -> bool:
    """Whether something that began at `since` has lasted for `required_ns` of observed time."""
    return now.observed_ns - since.observed_ns + ROUNDING_NS >= required_ns


class RuleMachine(Protocol):
    """A rule: a pure state machine. Time and tracks are passed in; it reads no clock and touches no file."""

    def step(self, scene: Scene) -> list[Happening]:
        """What the next evaluated frame makes true, in a deterministic order."""
        ...

    def new_epoch(self) -> list[Happening]:
        """Track ids start again: what hangs on a track is interrupted, what hangs on the zone goes on."""
        ...

    def stop(self) -> list[Happening]:
        """Close what is open and forget everything, as if the rule had just been made."""
        ...

    def tally(self) -> Mapping[str, int]:
        """What the rule has counted, for a live view and metrics, whatever caps and cooldowns held back."""
        ...


class Settler(Generic[Side]):
    """Debounce on both sides: a side is settled once it has been held without a break for long enough.

    The first side must settle like any other, and its settling is no change. A, A, A, B, A, A, A with a
    debounce longer than one frame never settles on B, so it reports nothing (supervision #2598).

    Attributes:
        side: the present one.
        since: the frame in which it became so.
        settled: the side that was last held long enough; None before any was.
        last: the frame in which the track was last seen.
    """

    __slots__ = ("last", "settled", "side", "since")

    def __init__(self, side: Side, moment: Moment) -> None:
        self.side = side
        self.since = moment
        self.last = moment
        self.settled: Side | None = None

    def take(self, side: Side, moment: Moment) -> None:
        """The side on which the track was seen in this frame."""
        self.last = moment
        if side != self.side:
            self.side = side
            self.since = moment

    def accept(self) -> None:
        """The present side has lasted: make it the settled one."""
        self.settled = self.side


class Latch:
    """Hysteresis in time: on after the first condition held for `on_ns`, off after the other for `off_ns`.

    Attributes:
        opened: the frame in which the condition that switched it on began to hold, while it is on.
        pending: the frame in which the condition now being timed began to hold.
    """

    __slots__ = ("_off_ns", "_on_ns", "opened", "pending")

    def __init__(self, on_s: float, off_s: float) -> None:
        self._on_ns, self._off_ns = to_ns(on_s), to_ns(off_s)
        self.opened: Moment | None = None
        self.pending: Moment | None = None

    def step(self, moment: Moment, *, on: bool, off: bool) -> Moment | None:
        """Advance by one frame.

        Args:
            moment: now.
            on: whether the condition that switches it on holds; looked at while it is off.
            off: whether the condition that switches it off holds; looked at while it is on.

        Returns:
            The frame in which the condition began to hold, when it has now held long enough to switch.
        """
        holds, required = (off, self._off_ns) if self.opened is not None else (on, self._on_ns)
        if not holds:
            self.pending = None
            return None
        if self.pending is None:
            self.pending = moment
        if not lasted(self.pending, moment, required):
            return None
        since, self.pending = self.pending, None
        self.opened = since if self.opened is None else None
        return since


class Remembered(Protocol):
    """State of one track that says when it was last seen."""

    last: Moment


StateT = TypeVar("StateT", bound=Remembered)


class TrackMemory(dict[int, StateT]):
    """State by track id that cannot grow for ever: ids that die without a word are dropped after a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._swept_ns = 0

    def sweep(self, now: Moment) -> None:
        """Forget tracks that were not seen for long, and those not seen for longest beyond the limit."""
        if now.observed_ns - self._swept_ns < NS_PER_S and len(self) <= MAX_TRACKS:
            return
        self._swept_ns = now.observed_ns
        limit = now.observed_ns - FORGET_AFTER_NS
        for track in [track for track, state in self.items() if state.last.observed_ns < limit]:
            del self[track]
        if len(self) > MAX_TRACKS:
            by_age = sorted(self, key=lambda track: self[track].last.observed_ns)
            for track in by_age[: len(self) - MAX_TRACKS]:
                del self[track]
