"""What people ask of a guard, and what came of it: acknowledge, arm, disarm, reset."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.guard.client import NoGuard, ask
from edge_runtime.guard.conditions import Condition, mask_of
from edge_runtime.guard.memory import Latch, State
from edge_runtime.guard.requests import strictest
from edge_runtime.guard.severity import Clears

VERIFIED_S = 8.0
"""The guard gives the verification of a signature 5 s."""

_LOOK_S = 0.1


_TOLD = frozenset(
    {
        "arms_itself",
        "changes",
        "device",
        "facts",
        "late_worst_us",
        "latch",
        "lease_ms",
        "limits",
        "mode",
        "not_evaluated",
        "permit",
        "sentences",
        "since_ms",
        "state",
        "tripped",
        "turns",
        "waits",
        "workers",
    }
)
"""What is read of a guard's status."""


class Refused(EdgeRuntimeError):
    """The guard did not do what was asked."""


def asked_status(path: Path, wait_s: float = 2.0) -> dict[str, Any]:
    """The status of the guard at a socket.

    Raises:
        NoGuard: none answers in time, or one of another version, which a device has after an upgrade in place.
    """
    status = ask(path, {"ask": "status"}, wait_s)
    if not status.keys() >= _TOLD:
        raise NoGuard(f"the guard at {path} is of another version than this command; restart the runtime")
    return status


class Guard:
    """A guard as people at its machine reach it.

    Args:
        path: of its socket.
        clock: measures how long is waited.

    Every method raises NoGuard where none answers.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock

    def status(self) -> dict[str, Any]:
        """How it stands."""
        return asked_status(self._path)

    def order(self, word: str) -> dict[str, Any]:
        """Ask for `arm`, `disarm` or `reset`; the status after the turn in which it was answered.

        Raises:
            Refused: it does not take it.
        """
        _require_heard(ask(self._path, {"ask": word}))
        # A turn answers, and then decides: the next question is read in the turn after it.
        return self.status()

    def acknowledge(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Present an acknowledgement; the status after it was decided upon.

        Raises:
            Refused: why, in the guard's words.
        """
        answer = ask(self._path, {"ask": "acknowledge", "record": dict(record)}, VERIFIED_S)
        _require_heard(answer)
        if not answer.get("verified"):
            text = str(answer.get("text", "the acknowledgement is refused"))
            hint = f" under guard.keys.{record['key']}; is it called otherwise there? Then give --name"
            raise Refused(text + (hint if text.endswith("does not know its key") else ""))
        status = self.status()
        if status["latch"] is not None:
            raise Refused(refusal(status, "the acknowledgement is refused") or _holds(status))
        return status

    def recovered(self, wait_s: float) -> dict[str, Any]:
        """The status once it is no longer RECOVERY, or after so long."""
        until_ns = self._clock.monotonic_ns() + round(wait_s * NS_PER_S)
        status = self.status()
        while status["state"] == State.RECOVERY and self._clock.monotonic_ns() < until_ns:
            time.sleep(_LOOK_S)
            status = self.status()
        return status


def refusal(status: Mapping[str, Any], start: str) -> str | None:
    """The guard's sentence about a request that it refused; None where there is none."""
    return next((str(text) for text in status["sentences"] if str(text).startswith(start)), None)


def taken_by(latch: Mapping[str, Any], state: str) -> Clears:
    """What leaving a latch takes, from a guard's status.

    Args:
        latch: as the status has it.
        state: SAFE or LOCKOUT.
    """
    causes = mask_of(condition for condition in _known(latch["causes"]))
    return strictest(Latch(str(latch["id"]), State(state), causes, 0))


def steps_out(status: Mapping[str, Any], option: str = "") -> list[str]:
    """What has to be typed and done to leave the present state for motion, in order.

    Args:
        status: of a guard.
        option: such as ` --state DIR`, put behind each command.
    """
    state, latch = status["state"], status["latch"]
    if latch is None:
        return [] if state != State.STANDBY or status["arms_itself"] else [f"edge-runtime guard arm{option}"]
    steps, takes = [], taken_by(latch, state)
    if takes is Clears.RESET_AND_ACK:
        steps.append(f"edge-runtime guard reset --latch {latch['id']}{option}")
    steps.append(f"edge-runtime guard ack --latch {latch['id']} --key FILE{option}")
    return steps if status["arms_itself"] else [*steps, f"edge-runtime guard arm{option}"]


def waited(milliseconds: int) -> str:
    """How long, for people."""
    seconds = milliseconds * NS_PER_MS / NS_PER_S
    if seconds < 10:
        return f"{seconds:.1f} s"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{seconds:.0f} s"


def _require_heard(answer: Mapping[str, Any]) -> None:
    if "refused" in answer:
        raise Refused(f"the guard refuses: {answer['refused']}")


def _holds(status: Mapping[str, Any]) -> str:
    return f"the acknowledgement was good, but latch {status['latch']['id']} holds now"


def _known(names: list[str]) -> list[Condition]:
    """Those of the names that this version knows."""
    known = {condition.value: condition for condition in Condition}
    return [known[name] for name in names if name in known]
