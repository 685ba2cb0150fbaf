"""A cart at a real motion gate: a planner that proposes, a drive that takes what passes, and the body it moves.

Commands go as datagrams over the gate's own sockets, and the drive obeys each until its time to live ends. The body
is `sim.robot`, moved on by the machine's clock. One thread does all three, a hundred times a second.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.outputs import command_frame
from edge_runtime.guard.motion_gate.proposals import encode
from edge_runtime.socket_path import short_socket_path
from sim.robot import Robot

LOOK_S = 0.01
PLANNER_NS = 50 * NS_PER_MS
TTL_NS = 400 * NS_PER_MS
"""Longer than on a machine of one's own: a busy one may hold the planner up, and the body would stop for that."""

_OLD_NS = NS_PER_S // 2
_STEP_M_S = 0.02
_CRAWL_M_S = 0.1
_STATUS = b'{"status":true}'


@dataclass(frozen=True, slots=True)
class Sample:
    """How the body did at one moment.

    Attributes:
        at: CLOCK_MONOTONIC, seconds.
        v_m_s: its speed.
        way_m: driven so far.
        passed: commands that the drive has got so far.
        open: whether the motion gate said lately that it is open.
    """

    at: float
    v_m_s: float
    way_m: float
    passed: int
    open: bool


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of the motion gate.

    Attributes:
        gate: socket of the motion gate.
        drive: where the motion gate sends; the drive's socket is made there.
        tables: of limits, in the order in which the lease counts them.
    """

    gate: Path
    drive: Path
    tables: Sequence[str]


class Cart:
    """Planner, drive and body.

    Args:
        ends: of the motion gate.
        robot: the body.
        wish_m_s: what the planner would like to drive.
        clock: of the machine.
        gated: commands pass the motion gate; otherwise they go straight to the drive.

    Attributes:
        samples: since the start.
        is_wanted: somebody wants it to drive; a body that is commissioned has to stand, also without a motion gate.
    """

    def __init__(self, ends: Ends, robot: Robot, wish_m_s: float, clock: Clock, *, gated: bool) -> None:
        self._ends, self._clock = ends, clock
        self._robot, self.wish_m_s, self._gated = robot, wish_m_s, gated
        self._drive = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with short_socket_path(ends.drive) as name:
            self._drive.bind(name)
        self._planner = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._planner.bind("")  # an address of its own, so that the gate can answer
        for end in (self._drive, self._planner):
            end.setblocking(False)  # noqa: FBT003 - the call takes no keyword
        self.samples: list[Sample] = []
        self.is_wanted = False
        self._passed = 0
        self._told: dict[str, Any] = {}
        self._told_ns = self._proposes_ns = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="cart", daemon=True)

    def start(self) -> None:
        """Drive."""
        self._thread.start()

    def close(self) -> None:
        """No more."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)
        self._drive.close()
        self._planner.close()

    @property
    def stands(self) -> bool:
        """Whether no wheel turns, as a sensor at the wheels says it."""
        return self._robot.stands

    @property
    def at_full_speed(self) -> bool:
        """Whether it drives as fast as the planner would like."""
        return self._robot.v_m_s >= self.wish_m_s - 0.01

    @property
    def is_permitted(self) -> bool:
        """Whether it moves, and its motion gate is open."""
        last = self.samples[-1:]
        return bool(last) and last[0].open and last[0].v_m_s != 0.0

    def _work(self) -> None:
        before_ns = self._clock.monotonic_ns()
        while not self._over.wait(LOOK_S):
            now_ns = self._clock.monotonic_ns()
            self._take(now_ns)
            self._robot.advance(now_ns, (now_ns - before_ns) / NS_PER_S)
            before_ns = now_ns
            if now_ns >= self._proposes_ns:
                self._proposes_ns = now_ns + PLANNER_NS
                self._hear(now_ns)
                self._propose(now_ns)
            robot = self._robot
            self.samples.append(
                Sample(now_ns / NS_PER_S, robot.v_m_s, robot.way_m, self._passed, self._open(now_ns))
            )

    def _take(self, now_ns: int) -> None:
        """What came to the drive."""
        with contextlib.suppress(BlockingIOError):
            while True:
                frame = json.loads(self._drive.recv(4096))
                values = frame["values"]
                if frame.get("safe"):
                    self._robot.safe(now_ns)
                    continue
                self._passed += 1
                until_ns = now_ns + frame["ttl_us"] * 1000
                self._robot.command(now_ns, values["v_m_s"], values["w_rad_s"], until_ns)

    def _hear(self, now_ns: int) -> None:
        """What the motion gate answered: a planner has to know its limits."""
        with contextlib.suppress(OSError, ValueError):
            while True:
                self._told, self._told_ns = json.loads(self._planner.recv(65_536)), now_ns

    def _open(self, now_ns: int) -> bool:
        return bool(self._told.get("open")) and now_ns - self._told_ns < _OLD_NS

    def _goal(self, now_ns: int) -> float:
        if not self._gated:
            return self.wish_m_s if self.is_wanted else 0.0
        lease = self._told.get("lease")
        if lease is None or now_ns - self._told_ns >= _OLD_NS:
            return 0.0
        table = self._ends.tables[lease["limits"]]
        return {"full": self.wish_m_s, "crawl": min(self.wish_m_s, _CRAWL_M_S)}.get(table, 0.0)

    def _propose(self, now_ns: int) -> None:
        speed = min(self._goal(now_ns), self._robot.v_m_s + _STEP_M_S)
        proposal = Proposal(now_ns, now_ns, TTL_NS, "drive", {"v_m_s": speed, "w_rad_s": 0.0})
        if self._gated:
            self._send(_STATUS, self._ends.gate)
            self._send(encode(proposal), self._ends.gate)
        else:
            self._send(command_frame(proposal, now_ns), self._ends.drive)

    def _send(self, data: bytes, to: Path) -> None:
        with contextlib.suppress(OSError), short_socket_path(to) as name:
            self._planner.sendto(data, name)


def way_to_stand(samples: Sequence[Sample], begins: Sequence[float]) -> float | None:
    """The way from the first fault at which the body moved until it stood; None where there is none.

    Args:
        samples: in order.
        begins: of the faults, CLOCK_MONOTONIC seconds, in order.
    """
    for at in begins:
        before = [sample for sample in samples if sample.at <= at][-1:]
        if not before or before[0].v_m_s == 0.0:
            continue
        after = (sample for sample in samples if sample.at > at and sample.v_m_s == 0.0)
        return next((sample.way_m - before[0].way_m for sample in after), None)
    return None
