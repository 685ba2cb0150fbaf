"""A cart with two driven wheels, and the way that it takes to stop.

The drive does what the last frame from the motion gate said until that frame's time to live is over; then, or when
it is given the safe value, it brakes after `act_s`. It is a point with a heading, and its wheels do not slip.
"""

import math
from dataclasses import dataclass, field

from edge_runtime.clock import NS_PER_S


@dataclass(slots=True)
class Robot:
    """The body and its drive.

    Attributes:
        brake_m_s2: deceleration of its brake.
        act_s: from a frame, or from the end of one, to its first effect.
        accelerate_m_s2: how fast it gains speed.
        x_m, y_m, heading: where it is.
        v_m_s, w_rad_s: how it moves.
        way_m: driven so far, forwards or backwards.
    """

    brake_m_s2: float
    act_s: float
    accelerate_m_s2: float = 0.5
    x_m: float = 0.0
    y_m: float = 0.0
    heading: float = 0.0
    v_m_s: float = 0.0
    w_rad_s: float = 0.0
    way_m: float = 0.0
    _orders: list[tuple[int, float, float, int]] = field(default_factory=list)
    _now: tuple[float, float, int] = (0.0, 0.0, 0)

    def command(self, now_ns: int, v_m_s: float, w_rad_s: float, until_ns: int) -> None:
        """A frame came: these speeds, until a time."""
        self._orders.append((now_ns + round(self.act_s * NS_PER_S), v_m_s, w_rad_s, until_ns))

    def safe(self, now_ns: int) -> None:
        """The safe value came; what was ordered before means nothing any more."""
        self._orders.append((now_ns + round(self.act_s * NS_PER_S), 0.0, 0.0, now_ns))

    @property
    def stands(self) -> bool:
        """Whether no wheel turns."""
        return self.v_m_s == 0.0 and self.w_rad_s == 0.0

    def advance(self, now_ns: int, seconds: float) -> None:
        """Let time pass until `now_ns`."""
        while self._orders and self._orders[0][0] <= now_ns:
            _, v_m_s, w_rad_s, until_ns = self._orders.pop(0)
            self._now = (v_m_s, w_rad_s, until_ns + round(self.act_s * NS_PER_S))
        wanted_v, wanted_w, until_ns = self._now
        if now_ns > until_ns:
            wanted_v = wanted_w = 0.0
        before = self.v_m_s
        slower = abs(wanted_v) < abs(self.v_m_s)
        limit = (self.brake_m_s2 if slower else self.accelerate_m_s2) * seconds
        self.v_m_s += max(-limit, min(limit, wanted_v - self.v_m_s))
        self.w_rad_s = wanted_w if self.v_m_s or wanted_w else 0.0
        mean = (before + self.v_m_s) / 2
        self.heading += self.w_rad_s * seconds
        self.x_m += mean * seconds * math.cos(self.heading)
        self.y_m += mean * seconds * math.sin(self.heading)
        self.way_m += abs(mean) * seconds
