"""Measured time for rules: one clock per camera that survives new epochs and stands still while nobody watches.

Rules must not divide frames by a configured frame rate, and must not be fooled by a source whose timestamps
begin again after a reconnect. The timeline turns (epoch, media time, capture time) of each evaluated frame
into two readings that never run backwards: `measured_ns`, which goes on through outages, and `observed_ns`,
which only counts the intervals whose both ends were evaluated.
"""

from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S

NEW_RUN_AFTER_NS = NS_PER_S
"""An outage longer than this begins observation anew: what is there afterwards did not arrive, it was there."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One evaluated frame on all clocks that rules and records need.

    Attributes:
        observed_ns: time during which the camera was watched; the clock of every rule.
        measured_ns: time since the first frame, outages included; the clock of cooldowns and rate caps.
        capture_ns: CLOCK_MONOTONIC of the capture.
        media_ns: on the source's own timeline since its epoch began.
        epoch, sequence: of the frame.
        run: counts uninterrupted stretches of observation from 0.
    """

    observed_ns: int
    measured_ns: int
    capture_ns: int
    media_ns: int
    epoch: int
    sequence: int
    run: int = 0


class Timeline:
    """Advances with every evaluated frame of one camera."""

    def __init__(self) -> None:
        self._last: Moment | None = None
        self._paused = False

    @property
    def last(self) -> Moment | None:
        """The newest evaluated frame, or None before the first."""
        return self._last

    def pause(self) -> None:
        """The interval up to the next evaluated frame was not observed."""
        self._paused = True

    def advance(self, *, epoch: int, sequence: int, capture_ns: int, media_ns: int) -> Moment | None:
        """The moment of the next evaluated frame.

        Returns:
            None when the frame is not newer than the last one by (epoch, sequence): it must not be evaluated,
            for a stale frame would undo what a newer one established.
        """
        last = self._last
        if last is None:
            moment = Moment(0, 0, capture_ns, media_ns, epoch, sequence)
        elif (epoch, sequence) <= (last.epoch, last.sequence):
            return None
        elif epoch == last.epoch:
            step = max(0, media_ns - last.media_ns)
            moment = Moment(
                last.observed_ns + (0 if self._paused else step),
                last.measured_ns + step,
                capture_ns,
                media_ns,
                epoch,
                sequence,
                last.run + (self._paused and step > NEW_RUN_AFTER_NS),
            )
        else:
            # The new epoch's media time has nothing to do with the old one's: capture time bridges the gap.
            step = max(0, capture_ns - last.capture_ns)
            moment = Moment(
                last.observed_ns, last.measured_ns + step, capture_ns, media_ns, epoch, sequence, last.run + 1
            )
        self._last = moment
        self._paused = False
        return moment
