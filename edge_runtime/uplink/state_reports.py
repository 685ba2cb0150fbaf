"""Which sealed state reports go up: all on a connect, new ones at once, terminal ones again until settled. Pure.

One message is on its way at a time, so that reports never take the window of events. A report of progress is done
when the broker has it. A terminal one is done when the server has settled it, which shows by its file being gone;
until then it is sent again with growing waits.

Not all terminal ones are in memory: the waits of all are, and those that are due first are asked for. A server that
settles some of them never, because it lost what it knew or a key was revoked, keeps none of the others from it.
"""

import heapq
import random
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol.update_wire import StateReports
from edge_runtime.uplink.update_files import MOST_HELD, FoundReports, SealedReport

MOST_REPORTS = 16
MOST_BYTES = 48 * 1024
"""Of envelopes in one message, unless a single one is longer: a slow link is not held for many seconds."""

_REFUSED_NS = 30 * NS_PER_S


@dataclass(slots=True)
class _Wait:
    due_ns: int = 0
    tries: int = 0


class StateReporter:
    """What is open, and when each is due.

    Args:
        device: id.
        first_s: a terminal report that was sent and is not settled goes again after so long, doubling each time.
        cap_s: the longest wait between two tries.
        rng: for the jitter.
    """

    def __init__(self, device: str, first_s: float, cap_s: float, rng: random.Random) -> None:
        self._device, self._first_s, self._cap_s, self._rng = device, first_s, cap_s, rng
        self._held: dict[int, SealedReport] = {}
        self._waits: dict[int, _Wait] = {}
        self._done: set[int] = set()
        self._terminal: tuple[int, ...] = ()
        self._online = False
        self._flight: tuple[int, tuple[int, ...]] | None = None

    def found(self, found: FoundReports) -> None:
        """What lies on the disk now."""
        there = {report.number: report for report in found.reports}
        self._done &= there.keys()
        self._held = {number: report for number, report in there.items() if number not in self._done}
        known = self._waits
        self._waits = {number: known.get(number) or _Wait() for number in {*self._held, *found.terminal}}
        self._terminal = found.terminal

    def wanted(self) -> tuple[int, ...]:
        """Terminal reports that should be in memory; empty where all of them are."""
        if len(self._terminal) <= MOST_HELD:
            return ()
        first = heapq.nsmallest(
            MOST_HELD, self._terminal, key=lambda number: (self._waits[number].due_ns, number)
        )
        return tuple(sorted(first))

    def connected(self) -> None:
        """A session began: everything is due."""
        self._online, self._flight = True, None
        for wait in self._waits.values():
            wait.due_ns, wait.tries = 0, 0

    def disconnected(self) -> None:
        """The session is over; what was on its way may not have arrived."""
        self._online, self._flight = False, None

    def message(self, now_ns: int, *, terminal_only: bool = False) -> tuple[bytes, tuple[int, ...]] | None:
        """The next message and the numbers of its reports; None while nothing is due or one is on its way.

        Args:
            now_ns: monotonic time.
            terminal_only: leave progress waiting, because the day's bytes are spent.
        """
        if not self._online or self._flight is not None:
            return None
        due = [report for report in self._held.values() if self._waits[report.number].due_ns <= now_ns]
        chosen: list[SealedReport] = []
        size = 0
        for report in sorted(due, key=lambda one: (not one.terminal, one.number)):
            size += len(report.sealed)
            full = len(chosen) == MOST_REPORTS or (chosen and size > MOST_BYTES)
            if full or (terminal_only and not report.terminal):
                break
            chosen.append(report)
        if not chosen:
            return None
        chosen.sort(key=lambda report: report.number)
        record = StateReports(device=self._device, reports=tuple(report.sealed for report in chosen))
        return record.encode(), tuple(report.number for report in chosen)

    def sent(self, mid: int, numbers: tuple[int, ...]) -> None:
        """The message is with the broker's connection."""
        self._flight = (mid, numbers)

    def acknowledged(self, mid: int, now_ns: int, *, failed: bool) -> tuple[int, ...]:
        """The broker's PUBACK.

        Returns:
            Reports of progress that are done.
        """
        if self._flight is None or self._flight[0] != mid:
            return ()
        numbers, self._flight = self._flight[1], None
        done: list[int] = []
        terminal = set(self._terminal)
        for number in numbers:
            wait = self._waits.get(number)
            if wait is None:
                continue
            if failed:
                wait.due_ns = now_ns + _REFUSED_NS
            elif number in terminal:
                wait.tries += 1
                wait.due_ns = now_ns + self._wait_ns(wait.tries)
            else:
                done.append(number)
        for number in done:
            self._held.pop(number, None)
            del self._waits[number]
        self._done.update(done)
        return tuple(done)

    def wake_ns(self, *, terminal_only: bool = False) -> int | None:
        """When `message` may have something; None while it cannot."""
        if not self._online or self._flight is not None:
            return None
        waiting = (one for one in self._held.values() if one.terminal or not terminal_only)
        return min((self._waits[one.number].due_ns for one in waiting), default=None)

    def _wait_ns(self, tries: int) -> int:
        ceiling_s = min(self._cap_s, self._first_s * 2.0 ** min(tries - 1, 32))
        return int(ceiling_s * self._rng.uniform(1.0, 1.25) * NS_PER_S)
