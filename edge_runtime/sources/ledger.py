"""The book that a source's thread writes and its consumer reads: state, counts, the newest frame's marks."""

import threading
from collections import Counter

from edge_runtime.clock import NS_PER_S
from edge_runtime.sources.frame import Frame
from edge_runtime.sources.mailbox import DropCause
from edge_runtime.sources.reader import ReadCounts, Reader, StreamFacts
from edge_runtime.sources.state import SourceSignal, SourceState, step
from edge_runtime.sources.status import SourceStatus


class Ledger:
    """Guarded by one lock that is never held during a call to anybody else.

    Args:
        now_ns: CLOCK_MONOTONIC.
        open_ns: how long the first frame may take; None where nothing is live.
        silent_ns: how long the next frame may take; None where nothing is live.
    """

    def __init__(self, now_ns: int, open_ns: int | None, silent_ns: int | None) -> None:
        self._open_ns = open_ns
        self._silent_ns = silent_ns
        self._lock = threading.Lock()
        self._state = SourceState.STARTING
        self._error: str | None = None
        self._progress_ns = now_ns
        self._last: Frame | None = None
        self._decoded = self._connections = self._attempts = self._preroll = 0
        self._past = ReadCounts()
        self._reader: Reader | None = None
        self._facts: StreamFacts | None = None
        self._has_frame = False  # of this connection
        self._abandoned = False

    @property
    def state(self) -> SourceState:
        """The state."""
        with self._lock:
            return self._state

    @property
    def progress_ns(self) -> int:
        """CLOCK_MONOTONIC of the newest decoded frame; of the start before the first."""
        with self._lock:
            return self._progress_ns

    def signal(self, signal: SourceSignal, error: str | None = None) -> SourceState | None:
        """Note what happened; the new state if it differs from the old one."""
        with self._lock:
            if self._state.final:
                return None
            before, self._state = self._state, step(self._state, signal)
            if error is not None or signal is SourceSignal.EXHAUSTED:
                self._error = error
            return self._state if self._state is not before else None

    def silence(self, now_ns: int) -> SourceState | None:
        """Note that a deadline has passed, where it has; the new state if it differs."""
        with self._lock:
            limit_ns = self._open_ns if self._state is SourceState.STARTING else self._silent_ns
            watched = self._state in (SourceState.STARTING, SourceState.RUNNING)
            if limit_ns is None or not watched or now_ns - self._progress_ns <= limit_ns:
                return None
        return self.signal(SourceSignal.SILENCE, f"no picture for {limit_ns / NS_PER_S:g} s")

    def started(self, now_ns: int) -> None:
        """The clock of the first frame's deadline begins."""
        with self._lock:
            self._progress_ns = now_ns

    def attempt(self) -> None:
        """Another attempt to open begins."""
        with self._lock:
            self._attempts += 1
            self._has_frame = False

    def opened(self, reader: Reader) -> None:
        """An attempt succeeded."""
        with self._lock:
            self._reader = reader
            self._facts = reader.facts

    def closed(self, reader: Reader) -> None:
        """The connection was torn down; its counts stay."""
        with self._lock:
            self._reader = None
            self._facts = reader.facts
            self._past.drops.update(reader.counts.drops)
            self._past.damaged += reader.counts.damaged

    def decoded(self, now_ns: int, *, preroll: bool) -> SourceState | None:
        """A frame was decoded; the new state if it differs."""
        with self._lock:
            self._progress_ns = now_ns
            self._decoded += 1
            self._preroll += preroll
            if not self._has_frame:
                self._connections += 1
                self._has_frame = True
            before, self._state = self._state, step(self._state, SourceSignal.FRAME)
            if not self._state.final:
                self._error = None
            return self._state if self._state is not before else None

    def delivered(self, frame: Frame) -> None:
        """A frame goes to the mailbox."""
        with self._lock:
            self._last = frame
            if self._reader is not None:
                self._facts = self._reader.facts

    def abandoned(self, *, is_so: bool) -> None:
        """Whether the thread outlives the call that stopped it."""
        with self._lock:
            self._abandoned = is_so

    def status(self, dropped: Counter[str]) -> SourceStatus:
        """The page as it stands, with the mailbox's drops."""
        with self._lock:
            last, reader = self._last, self._reader
            drops = dropped + self._past.drops + Counter({DropCause.PREROLL.value: self._preroll})
            damaged = self._past.damaged
            if reader is not None:
                drops += reader.counts.drops.copy()
                damaged += reader.counts.damaged
            return SourceStatus(
                state=self._state,
                epoch=last.epoch if last else 0,
                sequence=last.sequence if last else 0,
                reconnects=max(self._connections - 1, 0),
                attempts=self._attempts,
                decoded=self._decoded,
                damaged=damaged,
                drops=dict(drops),
                last_capture_ns=last.capture_ns if last else None,
                error=self._error,
                dark=last.dark if last else False,
                frozen=last.frozen if last else False,
                abandoned=self._abandoned,
                stream=self._facts,
            )
