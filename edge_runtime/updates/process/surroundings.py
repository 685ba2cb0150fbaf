"""The rest of the device, as updates go by it: the guard, locks, heat, and what a release must fit."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.guard.client import NoGuard, ask
from edge_runtime.protocol.update import DeviceFacts, UpdateCode
from edge_runtime.updates.machine.observed import Device
from edge_runtime.updates.process.locks import Locks
from edge_runtime.updates.process.motion import moves, trip_ages_s

_ANSWER_S = 0.5
_HEAT_NS = 5 * NS_PER_S


@dataclass(slots=True)
class DeviceSurroundings:
    """`Surroundings` of a device.

    Args:
        guard_socket: where the guard listens.
        guard: changes with each start of the guard, and with it of every process; such as the boot and its pid.
        may_move: whether this body can move.
        locks: of the device.
        known: what a release must fit.
        celsius: of the hottest sensor; None where none is known.
        clock: says when the temperature is read again.
    """

    guard_socket: Path
    guard: str
    may_move: bool
    locks: Locks
    known: DeviceFacts
    celsius: Callable[[], float | None]
    clock: Clock
    _heat: tuple[int, float | None] | None = field(default=None, init=False)

    def device(self) -> Device:
        """How things stand. A lock is told before motion: it is what a person can change."""
        status = self._status()
        code: UpdateCode | None = None
        text = self.locks.why()
        if text is not None:
            code = UpdateCode.LOCKED
        else:
            text = moves(status, may_move=self.may_move)
            code = None if text is None else UpdateCode.IN_MOTION
        return Device(code, text or "", trip_ages_s(status), self.guard, self._celsius())

    def facts(self) -> DeviceFacts:
        """What a release must fit."""
        return self.known

    def hold_still(self) -> bool:
        """Lock applications out while a release is put in use."""
        return self.locks.hold()

    def let_go(self) -> None:
        """Let them in again."""
        self.locks.let_go()

    def _status(self) -> dict[str, Any] | None:
        try:
            return ask(self.guard_socket, {"ask": "status"}, _ANSWER_S)
        except NoGuard:
            return None

    def _celsius(self) -> float | None:
        now_ns = self.clock.monotonic_ns()
        if self._heat is None or now_ns - self._heat[0] >= _HEAT_NS:
            self._heat = now_ns, self.celsius()
        return self._heat[1]
