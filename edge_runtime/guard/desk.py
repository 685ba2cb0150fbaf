"""What people and adapters ask of the guard: heard, verified where it has to be, and kept for the state machine.

Nothing here decides. A request carries the time at which it was heard, and `machine.step` refuses one that is older
than what it answers.
"""

from collections.abc import Callable, Container

from edge_runtime.guard.acknowledgement import Verification
from edge_runtime.guard.control import ControlSocket, Request
from edge_runtime.guard.memory import Acknowledgement
from edge_runtime.guard.settings import Settings

STANDSTILL_NS = 500_000_000
"""How long a word about standstill is good for."""

ARMING_NS = 1_000_000_000
"""How often a body that arms itself tries to."""


class Desk:
    """The control socket, and what was heard there last.

    Args:
        settings: with the socket's path and the keys of those who may acknowledge.

    Attributes:
        ack: the newest verified acknowledgement.
        arm_ns: when the newest request to arm was heard.
        reset_ns: when somebody at the machine last reset it.

    Raises:
        ConfigError: the socket cannot be made.
    """

    def __init__(self, settings: Settings) -> None:
        self._control = ControlSocket(settings.control)
        self._verification = Verification(settings.device, settings.keys)
        self._arms_itself = settings.arms_itself
        self.ack: Acknowledgement | None = None
        self.arm_ns: int | None = None
        self.reset_ns: int | None = None
        self._asker: str | bytes | None = None
        self._disarm = False
        self._moves: tuple[bool, int] | None = None
        self._acts: list[dict[str, str]] = []

    @property
    def unreadable(self) -> int:
        """Datagrams that were no request."""
        return self._control.unreadable

    @property
    def due_ns(self) -> int | None:
        """When it gives up waiting for a signature to be verified."""
        return self._verification.due_ns

    def filenos(self) -> list[int]:
        """Descriptors to wait for."""
        return [self._control.fileno(), *self._verification.filenos()]

    def listen(self, now_ns: int, status: Callable[[], dict[str, object]], ready: Container[int]) -> None:
        """Hear and answer what has come.

        Args:
            now_ns: the time.
            status: what is answered to who asks for it.
            ready: descriptors of `filenos` that can be read; what came since is heard in the next turn.
        """
        for request in self._control.take() if self._control.fileno() in ready else ():
            answer = status() if request.ask == "status" else self._heard(request, now_ns)
            if answer is not None:
                self._control.tell(request.sender, answer)
        verified = self._verification.poll(now_ns)
        if verified is not None:
            if verified.acknowledgement is not None:
                self.ack = verified.acknowledgement
                said = {"by": verified.by, "note": verified.reason, "latch": self.ack.latch_id}
                self._acts.append({"ask": "acknowledge", **said})
            told = {"verified": verified.acknowledgement is not None, "text": verified.text}
            self._control.tell(self._asker, told)

    def acts(self) -> list[dict[str, str]]:
        """What people asked for since this was last called, to be written down."""
        acts, self._acts = self._acts, []
        return acts

    def arm_by_itself(self, now_ns: int) -> None:
        """Ask for what a body in STANDBY that arms itself wants, now and then."""
        if self._arms_itself and (self.arm_ns is None or now_ns - self.arm_ns >= ARMING_NS):
            self.arm_ns = now_ns

    def disarms(self) -> bool:
        """Whether somebody wants the permission withdrawn; once for each who does."""
        asked, self._disarm = self._disarm, False
        return asked

    def standstill(self, now_ns: int) -> bool | None:
        """Whether an adapter says that nothing moves; None where none said anything lately."""
        if self._moves is None or now_ns - self._moves[1] > STANDSTILL_NS:
            return None
        return not self._moves[0]

    def close(self) -> None:
        """Hear nothing more."""
        self._verification.close()
        self._control.close()

    def _heard(self, request: Request, now_ns: int) -> dict[str, object] | None:
        """Keep a request; the answer to it, or None where that comes later."""
        if request.ask == "acknowledge":
            refused = self._verification.present(request.value, now_ns)
            if refused is not None:
                return {"verified": False, "text": refused}
            self._asker = request.sender
            return None
        if request.ask == "disarm" and self._arms_itself:
            return {"refused": "it arms itself, since nothing here can move"}
        if request.ask != "standstill":
            self._acts.append({"ask": request.ask})
        if request.ask == "arm":
            self.arm_ns = now_ns
        elif request.ask == "disarm":
            self._disarm = True
        elif request.ask == "reset":
            self.reset_ns = now_ns
        else:
            self._moves = (bool(request.value), now_ns)
        return {"heard": request.ask}
