"""Where people and applications ask how updates stand: a datagram socket, one JSON object there and one back.

{"ask": "status"}
"""

import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.socket_path import DatagramSocket, short_socket_path

_LARGEST_ASK = 1024
_LARGEST_ANSWER = 1 << 17
_MOST_PER_TURN = 8
ASKS = ("status",)


class NoUpdates(EdgeRuntimeError):
    """Nobody answers at the socket of updates."""


class UpdatesSocket:
    """The end of the updates' process.

    Args:
        path: of the socket; what an earlier process left there is replaced.
        answer: to what is asked, one of `ASKS`.

    Raises:
        ConfigError: it cannot be made there, or another process of updates listens at it.
    """

    def __init__(self, path: Path, answer: Callable[[str], dict[str, Any]]) -> None:
        self._answer = answer
        self._socket = DatagramSocket(path, "updates process")
        self._socket.end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST_ANSWER)

    def fileno(self) -> int:
        """To wait on."""
        return self._socket.fileno()

    def serve(self) -> None:
        """Answer what has come, a few at a time."""
        for _ in range(_MOST_PER_TURN):
            try:
                data, sender = self._socket.end.recvfrom(_LARGEST_ASK + 1)
            except OSError:
                return
            if sender:
                with contextlib.suppress(OSError):
                    self._socket.end.sendto(json.dumps(self._told(data)).encode(), sender)

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()

    def _told(self, data: bytes) -> dict[str, Any]:
        asked: object = None
        with contextlib.suppress(ValueError, RecursionError):
            asked = json.loads(data)
        wanted = asked.get("ask") if isinstance(asked, dict) else None
        if wanted not in ASKS:
            return {"refused": f"`ask` must be one of {', '.join(ASKS)}"}
        return self._answer(str(wanted))


def ask(path: Path, wanted: str, wait_s: float = 5.0) -> dict[str, Any]:
    """Ask the updates' process.

    Args:
        path: of its socket.
        wanted: one of `ASKS`.
        wait_s: for the answer.

    Raises:
        NoUpdates: nobody answers there in time, or not in JSON.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as end:
        end.settimeout(wait_s)
        try:
            end.bind("")  # an abstract address of its own, so that it can be answered
            with short_socket_path(path) as name:
                end.sendto(json.dumps({"ask": wanted}).encode(), name)
            found = json.loads(end.recv(_LARGEST_ANSWER))
        except (OSError, ValueError, RecursionError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise NoUpdates(f"updates do not answer at {path}: {why}") from None
    if not isinstance(found, dict):
        raise NoUpdates(f"what answers at {path} is not the updates process")
    return found
