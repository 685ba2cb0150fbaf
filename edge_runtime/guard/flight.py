"""What the guard writes into the flight ring: its changes, its workers' phases, and a summary of each second.

Entries are small JSON objects; what would not fit is cut, and says so. Writing them is a copy in memory.
"""

import json
from collections.abc import Iterable, Mapping

from edge_runtime.guard.conditions import conditions_in
from edge_runtime.guard.memory import Change
from edge_runtime.guard.ring import LARGEST_PAYLOAD, Kind, RingWriter
from edge_runtime.guard.worker import Phase, Worker

SUMMARY_NS = 1_000_000_000
"""How often a summary is written."""

REPEAT_NS = 1_000_000_000

_LONGEST_MODE = 24
_MOST_ACTS = 32


class Flight:
    """Writes what happened into the ring, and each thing once.

    Args:
        ring: where to.
    """

    def __init__(self, ring: RingWriter) -> None:
        self._ring = ring
        self._phases: dict[str, tuple[Phase, int]] = {}
        self._summed_ns: int | None = None
        self._late_worst_ns = 0
        self._acted: dict[bytes, int] = {}

    def changed(self, changes: tuple[Change, ...]) -> None:
        """Changes of state."""
        for change in changes:
            self._ring.append(Kind.CHANGE, change.at_ns, change_payload(change))

    def workers(self, workers: Mapping[str, Worker], now_ns: int) -> None:
        """Workers whose phase is another one than when they were last seen."""
        for name, worker in workers.items():
            seen = (worker.phase, worker.starts)
            if self._phases.get(name) != seen:
                self._phases[name] = seen
                told = {
                    "name": name,
                    "phase": worker.phase.value,
                    "pid": worker.pid,
                    "exit": worker.last_exit,
                }
                self._ring.append(Kind.WORKER, now_ns, _packed(told))

    def acts(self, acts: Iterable[Mapping[str, str]], now_ns: int) -> None:
        """What people asked for, and what was refused.

        The same again is written after a second only: nobody who asks all the time pushes out what happened.
        """
        for act in acts:
            payload = act_payload(act)
            if now_ns - self._acted.get(payload, now_ns - REPEAT_NS) < REPEAT_NS:
                continue
            if len(self._acted) >= _MOST_ACTS:
                self._acted.clear()
            self._acted[payload] = now_ns
            self._ring.append(Kind.ACT, now_ns, payload)

    def turn(self, now_ns: int, late_ns: int, summary: Mapping[str, object]) -> None:
        """One turn of the loop; a summary is written of the first of each second."""
        self._late_worst_ns = max(self._late_worst_ns, late_ns)
        if self._summed_ns is not None and now_ns - self._summed_ns < SUMMARY_NS:
            return
        told = {**summary, "mode": _plain(summary["mode"]), "late_worst_us": self._late_worst_ns // 1_000}
        self._ring.append(Kind.TURN, now_ns, _packed(told))
        self._summed_ns, self._late_worst_ns = now_ns, 0


def change_payload(change: Change) -> bytes:
    """A change as it lies in the ring: as many causes as fit, and how many there are besides."""
    causes = [condition.value for condition in conditions_in(change.causes)]
    for kept in range(len(causes), -1, -1):
        more = [f"+{len(causes) - kept}"] if kept < len(causes) else []
        told = {
            "before": change.before.value,
            "state": change.after.value,
            "causes": causes[:kept] + more,
            "latch": change.latch_id,
        }
        payload = _packed(told)
        if len(payload) <= LARGEST_PAYLOAD:
            break
    return payload


def act_payload(act: Mapping[str, str]) -> bytes:
    """What somebody asked for as it lies in the ring, the longest of its texts cut until it fits."""
    told = dict(act)
    while len(payload := _packed(told)) > LARGEST_PAYLOAD:
        longest = max(told, key=lambda key: len(json.dumps(told[key])))
        told[longest] = told[longest][: len(told[longest]) * 3 // 4]
    return payload


def _packed(told: Mapping[str, object]) -> bytes:
    return json.dumps(told, separators=(",", ":")).encode()


def _plain(name: object) -> str:
    """A mode's name without what JSON would write in more than a byte."""
    return "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\' else "?"
        for letter in str(name)[:_LONGEST_MODE]
    )
