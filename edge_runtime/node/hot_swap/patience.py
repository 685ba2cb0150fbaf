"""How long a candidate may take: counted in processor time that it was given, for it may be given a fiftieth.

Its process is stopped for most of the time while it is opened (`pacing`), and behind the cameras for the rest.
Where those take all processors, two hundredths of one are left to it: what takes hours there says nothing of the
release.
Waiting ends for a candidate that computes for ever, or not at all. How long all of it may take is for
`updates.prepare` and the release's terms to say.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edge_runtime.perception.backends import PROVING_TIMEOUT_S

MOST_USED_S: Final = 600.0
"""Processor time in which any model is opened, proved, and the one in use timed beside it."""

MOST_STILL_S: Final = 600.0
"""Without any processor time: the smallest share of a busy processor is a tick in less."""

STARVED: Final = 10.0
"""So many times as long a run takes at the process's priority where the cameras take all they can get."""

LONGEST_REST_S: Final = 20.0
"""Between two frames of a candidate that computes for its share of the time or less: a detector that takes two
seconds for a frame, and waits for a processor ten times as long, still sees fifty of them in an hour."""

_TICKS_A_SECOND: Final = 100
"""USER_HZ, in which Linux tells every program the time of a process."""


def run_s(share: float, *, on_cpu: bool) -> float:
    """How long one run may take on the clock.

    Args:
        share: of the time that the process is not stopped, above 0, to 1.
        on_cpu: the CPU runs it; a GPU does not know whose process waits.
    """
    return PROVING_TIMEOUT_S * STARVED / share if on_cpu else PROVING_TIMEOUT_S


def rest_s(took_s: float, used_s: float, share: float) -> float:
    """How long a candidate rests after a frame, so that it runs for its share of the time.

    Args:
        took_s: on the clock, waiting for a processor included.
        used_s: of a processor.
        share: above 0, to 1.
    """
    return max(used_s / share - took_s, min(took_s * (1 / share - 1), LONGEST_REST_S), 0.0)


@dataclass(slots=True)
class Patience:
    """With one process that opens a candidate.

    Args:
        most_used_s: processor time that it may use.
        most_still_s: on the clock, without using any.
    """

    most_used_s: float = MOST_USED_S
    most_still_s: float = MOST_STILL_S
    _used_s: float = field(default=-1.0, init=False)
    _moved_s: float = field(default=0.0, init=False)

    def lost(self, used_s: float, now_s: float) -> str | None:
        """Why it is waited for no longer, or None.

        Args:
            used_s: processor time so far.
            now_s: monotonic.
        """
        if used_s > self._used_s:
            self._used_s, self._moved_s = used_s, now_s
        if used_s > self.most_used_s:
            return f"it has computed for {used_s:.0f} s and was not open"
        if now_s - self._moved_s > self.most_still_s:
            return f"it has not computed for {now_s - self._moved_s:.0f} s and was not open"
        return None


def used_s(pid: int) -> float:
    """Processor time of a process and all its threads so far, without that of its children, in seconds.

    Raises:
        OSError: there is no such process.
    """
    fields = (
        Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND
