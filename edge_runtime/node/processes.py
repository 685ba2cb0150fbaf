"""The process table of a device: what runs beside perception, and what keeps it running.

A row says what to start, when, and how it is restarted. Children are spawned, never forked, and end when this
process dies, however it dies (`edge_runtime.lifeline`), so that a restarted runtime finds no second owner of
anything. A child that dies is started again after a back-off with full jitter; its death never costs a frame.
"""

import contextlib
import os
import random
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.lifeline import told_parent
from edge_runtime.telemetry import get_logger

READY_LINE = b"ready"
"""A child says it on its standard output, on a line of its own or as its first word, once it does its work."""

_POLL_S = 0.2
_TERM_S = 5.0


class ProcessState(str, Enum):
    """Where a row stands."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process beside perception.

    Attributes:
        name: in logs and status.
        module: run as `python -m MODULE ARGUMENTS…`.
        wanted: asked regularly; the process is started once it is true.
        ready_s: it is killed and counted as failed when it is not ready by then.
        backoff_max_s: the longest pause before a restart; the first is a second at most.
        settled_s: after running so long the back-off begins anew.
    """

    name: str
    module: str
    arguments: tuple[str, ...] = ()
    wanted: Callable[[], bool] = lambda: True
    ready_s: float = 15.0
    backoff_max_s: float = 30.0
    settled_s: float = 60.0


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One row as seen from outside.

    Attributes:
        restarts: starts after the first one.
        last_exit: exit code of the last run, negative for a signal; None while there was none.
    """

    name: str
    state: ProcessState
    pid: int | None
    restarts: int
    last_exit: int | None


@dataclass(slots=True)
class _Child:
    row: ProcessRow
    process: "subprocess.Popen[bytes] | None" = None
    state: ProcessState = ProcessState.WAITING
    started_ns: int = 0
    retry_ns: int = 0
    failures: int = 0
    starts: int = 0
    last_exit: int | None = None
    output: bytes = b""
    ready: threading.Event = field(default_factory=threading.Event)


class ProcessTable:
    """Starts the rows in order, each after the one before it is ready, and keeps them running.

    Args:
        rows: in the order in which they depend on each other.
        clock: monotonic time.
        rng: jitter of restarts.
    """

    def __init__(self, rows: Sequence[ProcessRow], clock: Clock, rng: random.Random | None = None) -> None:
        self._children = [_Child(row) for row in rows]
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._log = get_logger()
        self._stop = threading.Event()
        self._selector = selectors.DefaultSelector()
        # All children are spawned from one thread that lives as long as the table: PDEATHSIG watches the thread.
        self._thread = threading.Thread(target=self._supervise, name="process-table", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def wait_ready(self, name: str, timeout_s: float) -> bool:
        """Whether the row has become ready within `timeout_s`."""
        return self._child(name).ready.wait(timeout_s)

    def status(self) -> tuple[ProcessStatus, ...]:
        """Every row as it stands."""
        return tuple(
            ProcessStatus(
                child.row.name,
                child.state,
                child.process.pid if child.process is not None else None,
                max(0, child.starts - 1),
                child.last_exit,
            )
            for child in self._children
        )

    def stop(self, timeout_s: float = 3 * _TERM_S) -> None:
        """End the children, the last started first: SIGTERM, and SIGKILL for who does not obey in time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _child(self, name: str) -> _Child:
        return next(child for child in self._children if child.row.name == name)

    # ---- in the table's thread

    def _supervise(self) -> None:
        try:
            while not self._stop.is_set():
                self._step()
                self._read_outputs(_POLL_S)
        finally:
            for child in reversed(self._children):
                self._end(child)
            self._selector.close()

    def _step(self) -> None:
        now = self._clock.monotonic_ns()
        for child in self._children:
            if child.process is not None:
                self._watch(child, now)
            elif now >= child.retry_ns and child.row.wanted():
                self._spawn(child, now)
            if not child.ready.is_set() and child.row.wanted():
                return  # those that follow depend on it

    def _spawn(self, child: _Child, now: int) -> None:
        command = [sys.executable, "-m", child.row.module, *child.row.arguments]
        try:
            child.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env=told_parent(os.environ),
            )
        except OSError as error:
            self._failed(child, now, f"cannot be started: {error.strerror}")
            return
        child.state, child.started_ns, child.output = ProcessState.STARTING, now, b""
        child.starts += 1
        if child.process.stdout is not None:
            os.set_blocking(child.process.stdout.fileno(), False)
            self._selector.register(child.process.stdout, selectors.EVENT_READ, child)

    def _watch(self, child: _Child, now: int) -> None:
        process = child.process
        if process is None:
            return
        code = process.poll()
        if code is not None:
            self._forget(child)
            child.last_exit = code
            self._failed(child, now, f"ended with {code}")
        elif child.state is ProcessState.STARTING and now - child.started_ns > child.row.ready_s * NS_PER_S:
            self._end(child)
            self._failed(child, now, f"was not ready within {child.row.ready_s:g} s")
        elif child.state is ProcessState.RUNNING and now - child.started_ns > child.row.settled_s * NS_PER_S:
            child.failures = 0

    def _failed(self, child: _Child, now: int, text: str) -> None:
        child.failures += 1
        child.state = ProcessState.BACKING_OFF
        limit = min(child.row.backoff_max_s, 2.0 ** (child.failures - 1))
        child.retry_ns = now + int(self._rng.uniform(0, limit) * NS_PER_S)
        self._log.warning("process failed", process=child.row.name, text=text, failures=child.failures)

    def _read_outputs(self, timeout_s: float) -> None:
        if not self._selector.get_map():
            self._stop.wait(timeout_s)
            return
        for key, _ in self._selector.select(timeout_s):
            child: _Child = key.data
            try:
                data = os.read(key.fd, 4096)
            except OSError:
                data = b""
            if not data:
                with contextlib.suppress(KeyError):
                    self._selector.unregister(key.fileobj)
                continue
            child.output = (child.output + data)[-4096:]
            if child.state is ProcessState.STARTING and _says_ready(child.output):
                child.state = ProcessState.RUNNING
                child.ready.set()
                self._log.info("process ready", process=child.row.name)

    def _end(self, child: _Child) -> None:
        process = child.process
        child.state = ProcessState.STOPPED
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_TERM_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        child.last_exit = process.returncode
        self._forget(child)

    def _forget(self, child: _Child) -> None:
        if child.process is not None and child.process.stdout is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(child.process.stdout)
            child.process.stdout.close()
        child.process = None
        child.ready.clear()


def _says_ready(output: bytes) -> bool:
    return any(line.split()[:1] == [READY_LINE] for line in output.split(b"\n")[:-1])
