"""Which sealed state reports go up: all on a connect, new ones at once, terminal ones again until settled. Pure.

One message is on its way at a time, so that reports never take the window of events. A report of progress is done
when the broker has it. A terminal one is done when the server has settled it, which shows by its file being gone;
until then it is sent again with growing waits.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S
from edge_runtime.protocol.update_wire import StateReports
from edge_runtime.uplink.update_files import SealedReport

MOST_REPORTS = 16
MOST_BYTES = 48 * 1024
"""Of envelopes in one message, unless a single one is longer: a slow link is not held for many seconds."""

_REFUSED_NS = 30 * NS_PER_S


@dataclass(slots=True)
class _Open:
    report: SealedReport
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
        self._open: dict[int, _Open] = {}
        self._done: set[int] = set()
        self._online = False
        self._flight: tuple[int, tuple[int, ...]] | None = None

    def found(self, reports: Iterable[SealedReport]) -> None:
        """What lies on the disk now."""
        there = {report.number: report for report in reports}
        self._done &= there.keys()
        self._open = {
            number: self._open.get(number) or _Open(report)
            for number, report in there.items()
            if number not in self._done
        }

    def connected(self) -> None:
        """A session began: everything is due."""
        self._online, self._flight = True, None
        for one in self._open.values():
            one.due_ns, one.tries = 0, 0

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
        due = [one for one in self._open.values() if one.due_ns <= now_ns]
        chosen: list[SealedReport] = []
        size = 0
        for one in sorted(due, key=lambda found: (not found.report.terminal, found.report.number)):
            size += len(one.report.sealed)
            full = len(chosen) == MOST_REPORTS or (chosen and size > MOST_BYTES)
            if full or (terminal_only and not one.report.terminal):
                break
            chosen.append(one.report)
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
        for one in (self._open[number] for number in numbers if number in self._open):
            if failed:
                one.due_ns = now_ns + _REFUSED_NS
            elif one.report.terminal:
                one.tries += 1
                one.due_ns = now_ns + self._wait_ns(one.tries)
            else:
                done.append(one.report.number)
        for number in done:
            del self._open[number]
        self._done.update(done)
        return tuple(done)

    def wake_ns(self, *, terminal_only: bool = False) -> int | None:
        """When `message` may have something; None while it cannot."""
        if not self._online or self._flight is not None:
            return None
        waiting = (one for one in self._open.values() if one.report.terminal or not terminal_only)
        return min((one.due_ns for one in waiting), default=None)

    def _wait_ns(self, tries: int) -> int:
        ceiling_s = min(self._cap_s, self._first_s * 2.0 ** min(tries - 1, 32))
        return int(ceiling_s * self._rng.uniform(1.0, 1.25) * NS_PER_S)
