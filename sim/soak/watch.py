"""Looks at processes and logs now and then. What it saw is judged elsewhere."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

_MIB = 2**20


class Sample(NamedTuple):
    """One look at one process.

    Attributes:
        at_s: when, by the clock of whoever looks.
        cpu_s: processor time that it has used since it began.
        memory_mib: resident.
        descriptors: open.
    """

    at_s: float
    cpu_s: float
    memory_mib: float
    descriptors: int


@dataclass(slots=True)
class Life:
    """One process from when it was first seen until it ended; one that is started again has another."""

    process: psutil.Process
    samples: list[Sample] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """For how long it was looked at."""
        return self.samples[-1].at_s - self.samples[0].at_s if self.samples else 0.0


class Watch:
    """Everything that is looked at in one run.

    Args:
        find: the processes that run now: their ids by name. It is asked at each look, so that one that was started
            again is found.
        logs: files that grow while the run lasts, by the name of whoever writes them.

    Attributes:
        lives: of each name, in the order in which they were found.
        logs: (seconds, bytes) of each name.
    """

    def __init__(self, find: Callable[[], Mapping[str, int]], logs: Mapping[str, Path] | None = None) -> None:
        self._find, self._files = find, dict(logs or {})
        self.lives: dict[str, list[Life]] = {}
        self.logs: dict[str, list[tuple[float, float]]] = {name: [] for name in self._files}

    def look(self, at_s: float) -> None:
        """Look at all of them; what ends meanwhile is passed over.

        Args:
            at_s: what time it is; never less than before.
        """
        for name, pid in self._find().items():
            with contextlib.suppress(psutil.Error):
                self._look_at(name, pid, at_s)
        for name, path in self._files.items():
            with contextlib.suppress(FileNotFoundError):
                self.logs[name].append((at_s, float(path.stat().st_size)))

    @contextlib.contextmanager
    def looking(self, every_s: float) -> Iterator["Watch"]:
        """Look in a thread of its own until the end of the block, and once more there."""
        over = threading.Event()

        def work() -> None:
            while not over.wait(every_s):
                self.look(time.monotonic())

        thread = threading.Thread(target=work, name="soak-watch", daemon=True)
        self.look(time.monotonic())
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join(30)
            self.look(time.monotonic())

    def _look_at(self, name: str, pid: int, at_s: float) -> None:
        lives = self.lives.setdefault(name, [])
        if not lives or lives[-1].process.pid != pid or not lives[-1].process.is_running():
            lives.append(Life(psutil.Process(pid)))
        process = lives[-1].process
        with process.oneshot():
            used = process.cpu_times()
            sample = Sample(
                at_s, used.user + used.system, process.memory_info().rss / _MIB, process.num_fds()
            )
        lives[-1].samples.append(sample)
