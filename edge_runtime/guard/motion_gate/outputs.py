"""Where commands go: UDP, a Unix datagram, or a program to run; each knows how to send the safe value.

This is the seam for CAN, GPIO and ROS 2: an output takes a frame, never waits, and says whether it took it. A frame
is one JSON object:

    {"seq": 41, "action": "drive", "values": {"v_m_s": 0.4, "w_rad_s": 0.0}, "ttl_us": 93120}
    {"safe": true, "values": {"v_m_s": 0.0, "w_rad_s": 0.0}}

`ttl_us` is what is left of the command's time to live. The drive has to stop by itself when it ends: a gate that is
preempted between its last look at the lease and the send can be that late.
"""

import contextlib
import json
import os
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from edge_runtime.guard.motion_gate.children import ENDS_S, Doomed
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.reasons import Reason

_NS_PER_US = 1_000


class Output(ABC):
    """What carries commands to the actuator."""

    @abstractmethod
    def command(self, frame: bytes, now_ns: int) -> Reason | None:
        """Send a command; why not, if it was not taken."""

    @abstractmethod
    def safe(self, frame: bytes, now_ns: int) -> bool:
        """Send the safe value, before anything that still waits; False if it has to be tried again."""

    @abstractmethod
    def tick(self, now_ns: int) -> bool:
        """Called now and then: whatever takes time is looked after.

        Returns:
            Whether a safe value that had been taken has failed since, and has to be sent again.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""


class DatagramOutput(Output):
    """UDP to an address, or a Unix datagram to a path; both never wait for the receiver.

    Args:
        address: numeric host and port, or the path of a socket that may come later.
    """

    def __init__(self, address: tuple[str, int] | Path) -> None:
        if isinstance(address, Path):
            family, self._address = socket.AF_UNIX, str(address)
        else:
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self._address = address  # type: ignore[assignment]  # what the family wants
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)  # noqa: FBT003 - the call takes no keyword

    def command(self, frame: bytes, now_ns: int) -> Reason | None:  # noqa: ARG002 - it takes no time
        """Sends it now or not at all."""
        return None if self._send(frame) else Reason.OUTPUT

    def safe(self, frame: bytes, now_ns: int) -> bool:  # noqa: ARG002 - it takes no time
        """Sends it now, if the receiver has room."""
        return self._send(frame)

    def tick(self, now_ns: int) -> bool:  # noqa: ARG002 - it takes no time
        """Nothing takes time."""
        return False

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _send(self, frame: bytes) -> bool:
        try:
            return self._socket.sendto(frame, self._address) == len(frame)
        except OSError:
            return False


class ExecOutput(Output):
    """Runs a program for each command, the frame on its standard input, one at a time.

    Args:
        command: program and arguments.
        safe: the same for the safe value; a command that still runs is killed first, with all that it started.
        limit_ns: a program that runs longer is killed.
    """

    def __init__(self, command: Sequence[str], safe: Sequence[str], limit_ns: int) -> None:
        self._command, self._safe, self._limit_ns = tuple(command), tuple(safe), limit_ns
        self._running: subprocess.Popen[bytes] | None = None
        self._is_safe = False  # what runs sets the safe value
        self._doomed = Doomed()
        self._until_ns = 0

    def command(self, frame: bytes, now_ns: int) -> Reason | None:
        """Starts the program, unless one still runs."""
        self.tick(now_ns)
        if self._running is not None or self._doomed:
            return Reason.BUSY
        self._is_safe = False
        return None if self._start(self._command, frame, now_ns) else Reason.OUTPUT

    def safe(self, frame: bytes, now_ns: int) -> bool:
        """Starts the other program, also beside one that does not end even when it is killed."""
        self._kill()
        self._is_safe = True
        return self._start(self._safe, frame, now_ns)

    def tick(self, now_ns: int) -> bool:
        """Takes notice of its end, or ends it; a program that ends with another code than 0 has set nothing."""
        self._doomed.reap()
        if self._running is None:
            return False
        code = self._running.poll()
        if code is not None:
            self._running = None
        elif now_ns >= self._until_ns:
            self._kill()
        else:
            return False
        return self._is_safe and code != 0

    def close(self) -> None:
        """A safe value that is being set gets its time; nothing else runs on."""
        if self._running is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._running.wait(self._limit_ns / 1e9)
            self._kill()
        self._doomed.wait(ENDS_S)

    def _start(self, program: tuple[str, ...], frame: bytes, now_ns: int) -> bool:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(writing, False)
            if os.write(writing, frame) < len(frame):  # a frame of ours is far smaller than a pipe holds
                return False
            self._running = subprocess.Popen(  # noqa: S603 - the program is the configuration's
                program,
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            return False
        finally:
            os.close(reading)
            os.close(writing)
        self._until_ns = now_ns + self._limit_ns
        return True

    def _kill(self) -> None:
        if self._running is not None:
            self._doomed.add(self._running, group=True)
            self._running = None


def command_frame(proposal: Proposal, now_ns: int) -> bytes:
    """A command as the actuator gets it."""
    left_us = (proposal.proposed_ns + proposal.ttl_ns - now_ns) // _NS_PER_US
    return _encoded(
        {
            "seq": proposal.sequence,
            "action": proposal.action,
            "values": dict(proposal.values),
            "ttl_us": max(0, left_us),
        }
    )


def safe_frame(axes: Mapping[str, float]) -> bytes:
    """The safe value of every axis."""
    return _encoded({"safe": True, "values": dict(axes)})


def _encoded(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
