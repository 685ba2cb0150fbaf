"""Reports that the fleet has are let go of, by the director's word alone.

The numbers of assignments are no secret. A broker that could name one would make the end of an assignment
disappear, and the fleet would see a device that is stuck.
"""

from dataclasses import dataclass

from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.machine import Moment
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.memory import Memory
from edge_runtime.updates.process.parts import Parts
from edge_runtime.updates.process.tried import Tried

_NEVER_OURS = frozenset({UpdateCode.BAD_ENVELOPE, UpdateCode.WRONG_DEVICE})
"""Refusals that no newer metadata changes."""


@dataclass(slots=True)
class _Settlement(Tried):
    sealed: bytes


class Settling:
    """What the fleet says it has heard, until it is proven.

    Args:
        parts: of the device.
        memory: with its reports.
    """

    def __init__(self, parts: Parts, memory: Memory) -> None:
        self._parts, self._memory = parts, memory
        self._came: _Settlement | None = None

    def came(self, sealed: bytes | None) -> None:
        """The newest one, as it came with what the fleet desires."""
        known = None if self._came is None else self._came.sealed
        if sealed != known:
            self._came = None if sealed is None else _Settlement(sealed)

    def turn(self, now: Moment, *, fresh: bool = False) -> bool:
        """Let go of what the director says has arrived, where that is known now. Never waits.

        Args:
            now: the time.
            fresh: newer metadata has just been asked for, which may name the director that signed it.

        Returns:
            Whether newer metadata might tell who signed it.

        Raises:
            OSError: a report cannot be removed; the next turn tries again.
        """
        found = self._came
        if found is None or self._parts.refreshing.about is not None or not (fresh or found.is_due(now)):
            return False
        if not self._memory.reports.unsettled:
            self._came = None
            return False
        try:
            settled = self._parts.trust.settled(found.sealed)
        except UpdateRefused as refused:
            if found.code is not refused.code:
                self._parts.log("no report is let go of", code=refused.code.value, why=str(refused))
            if refused.code in _NEVER_OURS:
                self._came = None
                return False
            found.put_off(refused, now, self._parts.device, 0)
            return not fresh
        self._memory.reports.settle(settled.ends)
        self._came = None
        return False
