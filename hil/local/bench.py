"""A device of real processes that can be switched off and on, and the time around it."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import yaml

from edge_runtime.durable import write_file
from hil.device_parts import SeenEvent
from hil.event_file import events_in
from hil.marked import MarkedRenderer
from hil.problems import DeviceError, RigError
from hil.rig import Pace
from sim.local.site import Site
from sim.process import RoadError
from sim.scenario.records import DeviceSpec, World
from sim.scenario.timeline import SERVICE_RESTARTS_S

_EVENTS = "events.ndjson"
_GONE_S = 10.0
_LOOK_S = 0.05


class LocalBench:
    """One device with its plug; also the rig's clock.

    Args:
        folder: for everything that it leaves; empty.
        spec: of the device.
        stack: ends what is started.

    Attributes:
        site: around the device.
        renderer: what the camera is pointed at.
    """

    def __init__(self, folder: Path, spec: DeviceSpec, stack: contextlib.ExitStack) -> None:
        world = World(people=0, vehicles=0)
        self.site = Site(folder, spec, world)
        self.site.build(stack)
        self.renderer = MarkedRenderer(world)
        self.site.camera.renderer = self.renderer
        self._events = folder / _EVENTS
        self._have_events(folder / "device.yaml")
        self._on = False
        self._restart_at: float | None = None

    def _have_events(self, path: Path) -> None:
        """The device appends its events to a file, too."""
        given: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        given["events"] = {**given.get("events", {}), "file": str(self._events)}
        write_file(path, yaml.safe_dump(given, sort_keys=False).encode())

    def switch_on(self) -> None:
        """The device starts, where it is not on."""
        if not self._on:
            self._on = True
            self.site.device.start()

    def commission(self, within_s: float) -> None:
        """Wait until it works for the first time; a person looks at it, signs and arms it.

        Raises:
            RigError: it did not come to work.
        """
        until = self.now() + within_s
        while self.now() < until:
            status = self.site.device.status()
            if status is not None and self.site.is_ready(status):
                return
            self.wait(_LOOK_S)
        raise RigError(f"the device never came to work: {self.site.device.last_words()}")

    def switch_off(self) -> None:
        """Every process of the device ends at once."""
        if not self._on:
            return
        self._on, self._restart_at = False, None
        processes = self.processes()
        for process in processes:  # none of them may notice that another one is gone
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        with contextlib.suppress(RoadError):  # it is dead, and has to be reaped
            self.site.device.kill_guard()
        psutil.wait_procs(processes, _GONE_S)

    def processes(self) -> list[psutil.Process]:
        """The guard first, and all that it started; none where it does not answer."""
        rows = (self.site.device.status() or {}).get("workers", ())
        workers: list[psutil.Process] = []
        for row in rows:
            with contextlib.suppress(psutil.NoSuchProcess):
                workers += [psutil.Process(row["pid"])] if row["pid"] else []
        found: dict[int, psutil.Process] = {}
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                guard = worker.parent()
                family = [] if guard is None else [guard, *guard.children(recursive=True)]
                found |= {one.pid: one for one in [*family, worker]}
        return list(found.values())

    def kill_guard(self) -> None:
        """SIGKILL; as a service manager would, this rig starts it again after two seconds.

        Raises:
            DeviceError: it does not run.
        """
        try:
            self.site.device.kill_guard()
        except RoadError as error:
            raise DeviceError(str(error)) from None
        self._restart_at = self.now() + SERVICE_RESTARTS_S

    def events(self) -> list[SeenEvent]:
        """All since the rig was opened."""
        if not self._events.exists():
            return []
        return events_in(self._events.read_text(encoding="utf-8", errors="replace"))

    # ---- time

    @property
    def look_s(self) -> float:
        """Often: a look is a question over a socket."""
        return _LOOK_S

    def now(self) -> float:
        """CLOCK_MONOTONIC."""
        return self.site.seconds()

    def wait(self, seconds: float) -> None:
        """Wait, and start a guard again that was killed."""
        until = self.now() + seconds
        while True:
            if self._restart_at is not None and self.now() >= self._restart_at:
                self._restart_at = None
                self.site.device.start()
            left = until - self.now()
            if left <= 0:
                return
            due = left if self._restart_at is None else min(left, max(0.0, self._restart_at - self.now()))
            time.sleep(due)

    @contextlib.contextmanager
    def long_run(self, pace: Pace) -> Iterator[None]:  # noqa: ARG002 - it is the same device
        """Hours take hours here."""
        yield
