"""Where people and adapters speak to the guard: a datagram socket on this machine.

One JSON object a datagram. Who may write to the socket may ask and arm; only a signed acknowledgement leaves a
latched state. What cannot be read is answered in one sentence, and counted.

    {"ask": "status"}
    {"ask": "arm"}  {"ask": "disarm"}  {"ask": "reset"}
    {"ask": "acknowledge", "record": {"text": …, "key": …, "signature": …}}
    {"ask": "standstill", "moves": false}     from an adapter with a sensor of its own; good for half a second
"""

import contextlib
import json
from typing import NamedTuple

from edge_runtime.guard.strict_json import strict_json
from edge_runtime.socket_path import DatagramSocket

LARGEST_DATAGRAM = 4096
LARGEST_ANSWER = 1 << 16
MOST_PER_TURN = 8
ASKS = ("status", "arm", "disarm", "reset", "acknowledge", "standstill")


class Request(NamedTuple):
    """One request that could be read.

    Attributes:
        ask: one of `ASKS`.
        value: `record` or `moves`; None where the request has none.
        sender: where an answer goes; None where nobody waits for one.
    """

    ask: str
    value: object
    sender: str | bytes | None


class ControlSocket:
    """The guard's end.

    Args:
        path: of the socket; one that a dead guard left there is replaced.

    Attributes:
        unreadable: datagrams that were no request.

    Raises:
        ConfigError: it cannot be made there, or another guard listens at it.
    """

    def __init__(self, path: str) -> None:
        self.unreadable = 0
        self._socket = DatagramSocket(path, "guard")

    def fileno(self) -> int:
        """To wait on."""
        return self._socket.fileno()

    def take(self) -> list[Request]:
        """Requests that have come, a few at a time; what is no request is answered here."""
        found: list[Request] = []
        for _ in range(MOST_PER_TURN):
            try:
                data, sender = self._socket.end.recvfrom(LARGEST_DATAGRAM + 1)
            except OSError:
                break
            request = _request(data, sender or None)
            if isinstance(request, str):
                self.unreadable += 1
                self.tell(sender or None, {"refused": request})
            else:
                found.append(request)
        return found

    def tell(self, sender: str | bytes | None, answer: dict[str, object]) -> None:
        """Answer, if whoever asked can be reached at once."""
        if sender is not None:
            with contextlib.suppress(OSError):
                self._socket.end.sendto(json.dumps(answer).encode(), sender)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


def _request(data: bytes, sender: str | bytes | None) -> "Request | str":
    """A request, or a sentence that says why it is none."""
    if len(data) > LARGEST_DATAGRAM:
        return f"longer than {LARGEST_DATAGRAM} bytes"
    try:
        value = strict_json(data)
    except ValueError:
        return "not JSON"
    if not isinstance(value, dict) or value.get("ask") not in ASKS:
        return f"`ask` must be one of {', '.join(ASKS)}"
    ask, rest = str(value["ask"]), {key: item for key, item in value.items() if key != "ask"}
    wanted = {"acknowledge": "record", "standstill": "moves"}.get(ask)
    if set(rest) != ({wanted} if wanted else set()):
        return f"{ask} takes " + (f"`{wanted}`" if wanted else "nothing else")
    if ask == "standstill" and not isinstance(rest["moves"], bool):
        return "`moves` must be true or false"
    return Request(ask, rest.get(wanted) if wanted else None, sender)
