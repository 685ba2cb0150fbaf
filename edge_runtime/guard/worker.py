"""One worker of the guard: its process, its slot, and what can be said about the two."""

import contextlib
import os
import signal
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from edge_runtime.guard.page import Handover
from edge_runtime.guard.settings import Ends, Row
from edge_runtime.guard.slot import Beat, Fault, SlotReader
from edge_runtime.guard.starving import Task, tasks_of
from edge_runtime.lifeline import PARENT, told_parent

if TYPE_CHECKING:
    import subprocess

UNKILLABLE_NS = 2_000_000_000
"""After so long a killed process that is still there counts as unkillable: nothing is ever started beside it."""

_OOM_SCORE_ADJ = 500
"""Of workers: memory is taken from them before it is taken from the guard."""

_STARTING_FAULTS = (Fault.EMPTY, Fault.TORN, Fault.OTHER_PROCESS, Fault.STALE_ECHO)
"""What may lie in a slot until the first beat: nothing, or what a predecessor left."""


class Phase(str, Enum):
    """Where a worker stands."""

    WAITING = "waiting"
    STARTING = "starting"
    WORKING = "working"
    KILLED = "killed"
    UNKILLABLE = "unkillable"
    STOPPING = "stopping"
    ENDED = "ended"


class RunOver(NamedTuple):
    """A worker ended in a way that ends the whole run.

    Attributes:
        code: with what the guard leaves: the worker's exit code, or 128 and the number of the signal.
        clean: its work is done, or it cannot work as it is set up; otherwise it is dead as well.
    """

    code: int
    clean: bool


class Worker:
    """A row of the process table, and its life.

    Args:
        row: what to run.
        slot: where it beats.

    Attributes:
        phase: where it stands.
        starts: of its process, since the guard began.
        last_exit: of its last run; negative for a signal, None while there was none.
        died: it ended unasked and has not beaten again.
        looping: it ended too often, and has not worked for a whole window since. It is still started again.
        over: it ended in a way that ends the whole run; None while it did not.
        beat: the newest good one of the present process that followed finished work.
        progress: the last sign that its start got on; None where there was none.
        fault: what is wrong with its slot now; None where nothing is.
        retry_ns: when it may be started again.
        last_due_ns: when the last beat that was read was to be followed by another; None before the first.
    """

    def __init__(self, row: Row, slot: SlotReader) -> None:
        self.row, self._slot = row, slot
        self.phase = Phase.WAITING
        self.starts = 0
        self.last_exit: int | None = None
        self.died = False
        self.looping = False
        self.over: RunOver | None = None
        self.beat: Beat | None = None
        self.progress: Beat | None = None
        self.fault: Fault | None = None
        self.retry_ns = 0
        self.last_due_ns: int | None = None
        self.started_ns = 0
        self._killed_ns = 0
        self._stop_ns: int | None = None
        self._worked = False
        self._ends_ns: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd: int | None = None
        self._torn = 0
        self._waits = 0

    @property
    def pid(self) -> int | None:
        """Of its process; None where there is none."""
        return None if self._process is None else self._process.pid

    @property
    def pidfd(self) -> int | None:
        """Becomes readable when the process has ended; None where there is none, or the kernel is too old."""
        return self._pidfd

    def start(self, now_ns: int, handover: Handover, environment: Mapping[str, str]) -> bool:
        """Start its process; whether it could be."""
        import subprocess  # noqa: PLC0415 - see loop.Guard._load

        self._slot.prepare()
        self.beat, self.progress, self.fault, self._torn = None, None, None, 0
        told = dict(environment) if self.row.lives_on else told_parent(environment)
        if self.row.lives_on:
            told.pop(PARENT, None)
        self.starts += 1
        self.started_ns = now_ns
        command, fds = self.row.command, handover.pass_fds
        reading: int | None = None
        try:
            if self.row.settings:
                reading = _readable(self.row.settings)
                command, fds = (*command, "--settings-fd", str(reading)), (*fds, reading)
            self._process = subprocess.Popen(  # noqa: S603 - from the compiled configuration
                command,
                stdin=subprocess.DEVNULL,
                # Only those whose end is that of the run write where the run writes.
                stdout=subprocess.DEVNULL if self.row.ends is Ends.NEVER else None,
                pass_fds=fds,
                env={**told, **handover.environment},
                start_new_session=True,
            )
        except OSError:
            self._ended(now_ns, None)
            return False
        finally:
            if reading is not None:
                os.close(reading)
        self._slot.expect(self._process.pid)
        with contextlib.suppress(OSError):  # told by poll as well, only later
            self._pidfd = os.pidfd_open(self._process.pid)
        score = f"/proc/{self._process.pid}/oom_score_adj"
        # a child has the guard's own score, which is the lowest
        with contextlib.suppress(OSError), open(score, "w", encoding="utf-8") as file:
            file.write(f"{_OOM_SCORE_ADJ}\n")
        self.phase = Phase.STARTING
        return True

    def look(self, now_ns: int) -> None:
        """See whether it ended, and read its slot."""
        process = self._process
        if process is None:
            return
        code = process.poll()
        reading = self._slot.read()  # also of one that ended: it may have beaten since the last look
        if reading.beat is not None and not reading.beat.starting:
            self.beat, self._worked = reading.beat, True
            self.last_due_ns = min(self.beat.deadline_ns, self.beat.beat_ns + self.row.longest_ns)
        elif reading.beat is not None:
            self.progress = reading.beat
        if code is not None:
            self._ended(now_ns, code)
            return
        if self.phase is Phase.KILLED and now_ns - self._killed_ns >= UNKILLABLE_NS:
            self.phase = Phase.UNKILLABLE
        self._torn = self._torn + 1 if reading.fault is Fault.TORN else 0
        if self.beat is not None and self.phase is Phase.STARTING:
            self.phase, self.died, self._waits = Phase.WORKING, False, 0
        if self.looping and self.phase is Phase.WORKING and not self._recent_ends(now_ns):
            self.looping = False
        starting = self.beat is None and reading.fault in _STARTING_FAULTS
        # One torn reading is a writer in the middle of a write; a second in the next turn is not.
        self.fault = None if starting or (reading.fault is Fault.TORN and self._torn < 2) else reading.fault

    def challenge(self) -> None:
        """Ask for a new answer: a page that froze, or an old state written down, shows itself."""
        self._slot.challenge()

    @property
    def start_due_ns(self) -> int:
        """By when it has to beat first: each sign of progress gives it the whole time again, up to a bound."""
        since_ns = self.started_ns if self.progress is None else self.progress.beat_ns
        return min(since_ns + self.row.start_ns, self.started_ns + self.row.start_longest_ns)

    def due_ns(self) -> int | None:
        """When something has to have happened; None where nothing is waited for."""
        if self.phase is Phase.STARTING:
            return self.start_due_ns
        if self.phase is Phase.WORKING:
            return self.last_due_ns
        if self.phase is Phase.KILLED:
            return self._killed_ns + UNKILLABLE_NS
        if self.phase is Phase.STOPPING and self._stop_ns is not None:
            return self._stop_ns + self.row.stop_ns
        if self.phase in (Phase.WAITING, Phase.ENDED):
            return self.retry_ns
        return None

    def kill(self, now_ns: int) -> None:
        """Have the kernel end it. Whether and when it does is seen by `look`; nothing waits for it."""
        if self._process is None or self.phase in (Phase.KILLED, Phase.UNKILLABLE):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)
        self.phase, self._killed_ns = Phase.KILLED, now_ns

    def stop(self, now_ns: int) -> bool:
        """Ask it to end, and kill it when it takes too long; whether there is nothing left to wait for."""
        if self._process is None or self.phase is Phase.UNKILLABLE:
            return True
        if self._stop_ns is None:
            self._stop_ns = now_ns
            if self.phase in (Phase.STARTING, Phase.WORKING):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.pid, signal.SIGTERM)
                self.phase = Phase.STOPPING
        elif now_ns - self._stop_ns >= self.row.stop_ns:
            if self.row.lives_on:
                return True  # it is closed without a guard
            self.kill(now_ns)
        return False

    def tasks(self) -> dict[int, Task] | None:
        """Its threads by their ids; None where the kernel does not say."""
        return None if self._process is None else tasks_of(self._process.pid)

    def _recent_ends(self, now_ns: int) -> int:
        """How often it ended within its window."""
        self._ends_ns = [end_ns for end_ns in self._ends_ns if now_ns - end_ns < self.row.window_ns]
        return len(self._ends_ns)

    def _ended(self, now_ns: int, code: int | None) -> None:
        self._process, self.beat, self.progress, self.fault = None, None, None, None
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        self.last_exit = code
        self.phase = Phase.ENDED
        if self._stop_ns is not None:
            return
        self.over = self._over(code)
        self.died = self.over is None or not self.over.clean
        self._ends_ns = [*self._ends_ns[-self.row.restarts - 1 :], now_ns]
        self._waits += 1
        self.looping = self.looping or self._recent_ends(now_ns) > self.row.restarts
        first_ns = max(1, self.row.backoff_ns // 10)
        wait_ns = min(self.row.backoff_ns, first_ns * 2 ** min(self._waits - 1, 20))
        self.retry_ns = now_ns + (self.row.backoff_ns if self.looping else wait_ns)

    def _over(self, code: int | None) -> RunOver | None:
        """Whether this end is that of the whole run; None for `code`: it could not even be started."""
        clean = code == 0 or (code == 2 and not self._worked)
        if self.row.ends is Ends.NEVER or (self.row.ends is Ends.DONE and not clean):
            return None
        if code is None:
            return RunOver(1, clean=False)
        return RunOver(code if code >= 0 else 128 - code, clean)


def _readable(data: bytes) -> int:
    """A descriptor from which these bytes can be read, then its end; they fit a pipe."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(writing, data)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return reading
