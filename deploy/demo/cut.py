"""When the demo's cable is pulled and put back, and what the link looks like meanwhile. Pure."""

from dataclasses import dataclass
from enum import Enum

_FROM, _UNTIL = 0.155, 0.46
"""Of the whole run: four events of the demo's story happen in between."""

_LEAST_S, _MOST_S = 2.0, 20.0
"""The cable is out for so long, however slowly or quickly the frames come."""

_LEAST_FRAMES = 30


class Link(str, Enum):
    """The link between device and server, as the screen names it."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CUT = "CUT"
    RECONNECTING = "reconnecting"
    CATCHING_UP = "catching up"


class Pull(str, Enum):
    """What to do with the cable now."""

    CUT = "cut"
    HEAL = "heal"


@dataclass(frozen=True, slots=True)
class CutPlan:
    """Between which frames the cable is out.

    Attributes:
        first, last: numbers of evaluated frames.
        total: frames of the whole run.
    """

    first: int
    last: int
    total: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known at one look.

    Attributes:
        now_s: any monotonic time.
        frames: evaluated so far.
        arrived: events that the server has.
        queued: events that wait on the device; None while its outbox does not answer.
        bytes_down: through the cable to the device so far.
        ended: whether the run is over.
    """

    now_s: float
    frames: int
    arrived: int
    queued: int | None
    bytes_down: int
    ended: bool = False


def plan(total: int | None) -> CutPlan | None:
    """The cut of a run of `total` frames, in proportion; None where its length is not known or too short."""
    if total is None or total < _LEAST_FRAMES:
        return None
    return CutPlan(round(total * _FROM), round(total * _UNTIL), total)


class Cut:
    """Follows one run.

    Attributes:
        link: as it stands.
        cut_s, healed_s, caught_up_s: when that happened; None before.
        piled: most events that waited on the device while the cable was out or nothing came through yet.

    Args:
        planned: None for a run without a cut.
    """

    def __init__(self, planned: CutPlan | None) -> None:
        self._plan = planned
        self._down_at_heal = 0
        self.link = Link.CONNECTING
        self.cut_s: float | None = None
        self.healed_s: float | None = None
        self.caught_up_s: float | None = None
        self.piled = 0

    @property
    def missed(self) -> bool:
        """Whether a cut was planned and never came."""
        return self._plan is not None and self.cut_s is None

    def step(self, moment: Moment) -> Pull | None:
        """Take in one look; what to do with the cable, if anything.

        The cable is pulled only after the first event has arrived: without a link there is nothing to cut.
        """
        if self.cut_s is None:
            return self._before(moment)
        if self.healed_s is None:
            self.piled = max(self.piled, moment.queued or 0)
            if not self._is_over(moment, self.cut_s):
                return None
            self.healed_s, self._down_at_heal = moment.now_s, moment.bytes_down
            self.link = Link.RECONNECTING
            return Pull.HEAL
        self._after(moment)
        return None

    def _before(self, moment: Moment) -> Pull | None:
        if moment.arrived or moment.bytes_down:
            self.link = Link.CONNECTED
        planned = self._plan
        if planned is None or moment.ended or not moment.arrived:
            return None
        if not planned.first <= moment.frames < planned.total:
            return None
        self.cut_s, self.link = moment.now_s, Link.CUT
        return Pull.CUT

    def _is_over(self, moment: Moment, cut_s: float) -> bool:
        out_s = moment.now_s - cut_s
        if moment.ended or out_s >= _MOST_S:
            return True
        return out_s >= _LEAST_S and self._plan is not None and moment.frames >= self._plan.last

    def _after(self, moment: Moment) -> None:
        if self.caught_up_s is not None:
            return
        self.piled = max(self.piled, moment.queued or 0)
        if moment.bytes_down == self._down_at_heal:
            self.link = Link.RECONNECTING
        elif moment.queued is None or moment.queued:
            self.link = Link.CATCHING_UP
        else:
            self.caught_up_s, self.link = moment.now_s, Link.CONNECTED
