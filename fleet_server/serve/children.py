"""A child process of the server, kept running: a back-off with jitter between starts, and a bounded end.

The child says `ready` as the first word of a line on its standard output once it does its work. It ends with its
parent, however that ends (`edge_runtime.lifeline`), so that no second one meets it after a restart.
"""

import asyncio
import contextlib
import logging
import random
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.lifeline import told_parent

_log = logging.getLogger("fleet_server.serve")
_LONGEST_LINE = 4096


@dataclass(frozen=True, slots=True)
class ChildRule:
    """How a child is started and ended.

    Attributes:
        ready_s: it is killed when it is not ready by then.
        first_pause_s, longest_pause_s: between starts, doubled each time, with full jitter.
        served_pause_s: bound of the pause when the last run had been ready: one that was killed is missed at once.
        settled_s: after running so long the pause is the first one again.
        stop_s: between SIGTERM and SIGKILL.
    """

    ready_s: float = 30.0
    first_pause_s: float = 0.25
    longest_pause_s: float = 15.0
    served_pause_s: float = 3.0
    settled_s: float = 30.0
    stop_s: float = 8.0


class Child:
    """One process, kept running by `run`.

    Args:
        name: in logs and in `/readyz`.
        command: what to execute.
        environment: all of its environment.
        clock: measures how long it ran.
        rule: how it is started and ended.

    Attributes:
        pid: of the running process; None while there is none.
        ready: whether it has said so.
        restarts: starts after the first one.
        last_exit: exit code of the last run, negative for a signal; None while there was none.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        clock: Clock,
        rule: ChildRule | None = None,
    ) -> None:
        self.name = name
        self._command, self._environment, self._clock = tuple(command), dict(environment), clock
        self._rule = rule or ChildRule()
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = asyncio.Event()
        self.ready = asyncio.Event()
        self.restarts = 0
        self.last_exit: int | None = None

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Keep it running until `stop` or until this task is cancelled."""
        pause_s = self._rule.first_pause_s
        while not self._stopping.is_set():
            began_ns, served = self._clock.monotonic_ns(), False
            try:
                served = await self._run_once()
            except OSError as error:
                _log.error("child cannot be started name=%s error=%s", self.name, error.strerror)
            if self._stopping.is_set():
                return
            ran_s = (self._clock.monotonic_ns() - began_ns) / NS_PER_S
            pause_s = (
                self._rule.first_pause_s
                if ran_s >= self._rule.settled_s
                else min(pause_s * 2, self._rule.served_pause_s if served else self._rule.longest_pause_s)
            )
            self.restarts += 1
            _log.warning(
                "child ended name=%s exit=%s after_s=%.1f restarts=%d",
                self.name,
                self.last_exit,
                ran_s,
                self.restarts,
            )
            await asyncio.sleep(random.uniform(0, pause_s))  # noqa: S311 - jitter

    async def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL where that is not enough."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), self._rule.stop_s)
        except asyncio.TimeoutError:
            _log.warning("child killed name=%s: it did not end within %.0f s", self.name, self._rule.stop_s)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def restart(self) -> None:
        """End it with SIGTERM; it is started again after the usual pause."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self._stopping.set()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _run_once(self) -> bool:
        """One process from its start to its end; whether it had been ready."""
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=told_parent(self._environment),
            limit=_LONGEST_LINE,
        )
        self._process = process
        reader = asyncio.create_task(self._read(process))
        try:
            try:
                await asyncio.wait_for(self._ready_or_gone(process), self._rule.ready_s)
            except asyncio.TimeoutError:
                _log.warning("child killed name=%s: not ready within %.0f s", self.name, self._rule.ready_s)
                process.kill()
            served = self.ready.is_set()
            self.last_exit = await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        finally:
            reader.cancel()
            self._process = None
            self.ready.clear()
        return served

    async def _ready_or_gone(self, process: asyncio.subprocess.Process) -> None:
        ready = asyncio.create_task(self.ready.wait())
        gone = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({ready, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
            gone.cancel()

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Read its standard output to the end, or a full pipe would stop it."""
        stream = process.stdout
        if stream is None:  # pragma: no cover - it was asked for
            return
        while True:
            try:
                line = await stream.readline()
            except ValueError:  # a line that is longer than any that we read
                continue
            if not line:
                return
            if line.split(maxsplit=1)[:1] == [b"ready"]:
                self.ready.set()
