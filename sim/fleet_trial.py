"""A virtual fleet through partitions, kills and restarts, and the account of both sides afterwards.

What happens when follows from the length of the trial alone: processes are killed in its first half, so that what
runs in the second lives long enough to show whether it grows; parts of the network go away until the end.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.uplink.settings import UplinkSettings
from sim.cable import Cable
from sim.road import Server
from sim.sending_fleet import SendingFleet
from sim.virtual.accounts import FleetAccounts, ServerSide, compare
from sim.virtual.members import Member

REGIONS = 4
_SMALL_EVERY = 10
"""One device of so many has a small queue: what a partition does to it is that it gives events up."""

_SMALL, _LARGE = 2, 10_000
_LOST_POWER = 0.05
_PAUSE_S = 0.2


class FleetError(EdgeRuntimeError):
    """A trial could not be brought to its end; the text says what it waited for."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a trial goes.

    Attributes:
        seconds: for which the fleet delivers.
        every_s: seconds between two events of a device, on average.
        arrive_s: the devices come within so many seconds.
        patience_s: how long it may take until all are there, and until everything is settled.
        restarts_server: whether the whole server is killed and started again once.
        uplink: settings of every device, but for `fleet`.
    """

    seconds: float
    every_s: float = 20.0
    arrive_s: float = 2.0
    patience_s: float = 600.0
    restarts_server: bool = True
    uplink: UplinkSettings = UplinkSettings(report_period_s=10.0)  # noqa: RUF009 - frozen


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial.

    Attributes:
        accounts: both sides.
        log: (seconds, what happened).
        sessions, refused, renewed: as the fleet counts.
        drained_s: from the last event until everything was settled.
    """

    accounts: FleetAccounts
    log: tuple[tuple[float, str], ...]
    sessions: int
    refused: int
    renewed: int
    drained_s: float

    def facts(self) -> dict[str, Any]:
        """For a report."""
        return {
            **self.accounts.facts(),
            "sessions": self.sessions,
            "refused": self.refused,
            "renewed": self.renewed,
            "drained_s": round(self.drained_s, 1),
        }


class FleetTrial:
    """Devices behind cables, and a server that runs.

    Args:
        server: running; it is killed and started again.
        members: enrolled there.
        folder: for what devices keep.
        options: how it goes.
    """

    def __init__(self, server: Server, members: Sequence[Member], folder: Path, options: Options) -> None:
        self._server, self._options = server, options
        self._cables = [Cable(server.broker) for _ in range(REGIONS)]
        self._log: list[tuple[float, str]] = []
        self._zero = 0.0
        self._wait = threading.Event()
        self.fleet = SendingFleet(
            members,
            lambda number: ("127.0.0.1", self._cables[number % REGIONS].port),
            folder,
            options.uplink.model_copy(update={"fleet": len(members)}),
            every_s=options.every_s,
            capacity=lambda number: _LARGE if number % _SMALL_EVERY else _SMALL,
            arrive_s=options.arrive_s,
        )

    @contextlib.contextmanager
    def online(self) -> Iterator["FleetTrial"]:
        """Have all devices come, and end them after the block.

        Raises:
            FleetError: they did not.
        """
        try:
            with self.fleet.living():
                everybody = len(self.fleet.senders)
                self._until(lambda: self.fleet.settled() == everybody, "until all devices are there")
                yield self
        finally:
            for cable in self._cables:
                cable.close()

    def run(self) -> Outcome:
        """Deliver through everything that happens, settle, and compare.

        Raises:
            FleetError: it did not settle.
            RoadError: the server did not come back.
        """
        self._zero = _now()
        self.fleet.send(on=True)
        before = 0.0
        for share, text, act in self._plan():
            # after what came before: a server that takes long to start leaves no fault without its time
            self._wait.wait((share - before) * self._options.seconds)
            before = share
            self._log.append((_now() - self._zero, text))
            act()
        self.fleet.send(on=False)
        ended = _now()
        everybody = len(self.fleet.senders)
        self._until(lambda: self.fleet.settled() == everybody, "until everything is delivered")
        drained_s = _now() - ended
        accounts = self._compared()
        counts = self.fleet.counts
        return Outcome(accounts, tuple(self._log), counts.sessions, counts.refused, counts.renewed, drained_s)

    def _plan(self) -> list[tuple[float, str, Callable[[], object]]]:
        """(share of the time, what happens, how), in order; the last one is the end."""
        cables, power = self._cables, lambda: self.fleet.restart(_LOST_POWER)
        steps: list[tuple[float, str, Callable[[], object]]] = [
            (0.05, "the broker is killed", lambda: self._kill("nats-server")),
            (0.10, "region 0 is cut off", cables[0].cut),
            (0.14, "ingest is killed", lambda: self._kill("fleet_server.ingest")),
            (0.20, "region 0 is back", cables[0].heal),
            (0.25, "the server is killed", self._restart_server),
            (0.30, "region 1 falls silent", cables[1].freeze),
            (0.34, "some devices lose their power", power),
            (0.38, "region 1 is back", cables[1].heal),
            (0.42, "the broker is killed", lambda: self._kill("nats-server")),
            (0.52, "region 2 is cut off", cables[2].cut),
            (0.60, "region 2 is back", cables[2].heal),
            (0.64, "some devices lose their power", power),
            (0.72, "region 3 falls silent", cables[3].freeze),
            (0.80, "region 3 is back", cables[3].heal),
            (0.86, "some devices lose their power", power),
            (1.00, "no more events", lambda: None),
        ]
        return [step for step in steps if self._options.restarts_server or step[2] != self._restart_server]

    def _kill(self, word: str) -> None:
        """SIGKILL; the server starts another."""
        for process in self._server.family(word):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _restart_server(self) -> None:
        """Its head is killed, the rest ends with it, and it starts again where it was."""
        family = self._server.family()
        self._server.process.kill()
        _, left = psutil.wait_procs(family, timeout=60)
        if left:
            raise FleetError(f"outlived their server: {left}")
        self._server.start()

    def _compared(self) -> FleetAccounts:
        """Compare once every device's last ledger has arrived, or nothing changes any more."""
        queues = {sender.name: sender.queue for sender in self.fleet.senders}
        until = _now() + self._options.patience_s
        while True:
            self.fleet.report()
            self._wait.wait(2.0)
            found = compare(queues, ServerSide.read(self._server.database, list(queues)))
            if found.agrees or _now() > until:
                return found

    def _until(self, condition: Callable[[], bool], text: str) -> None:
        until = _now() + self._options.patience_s
        while not condition():
            if _now() > until:
                fleet = self.fleet
                raise FleetError(
                    f"waited {self._options.patience_s:g} s {text}: {fleet.online} are connected, "
                    f"{fleet.settled()} of {len(fleet.senders)} settled, {fleet.counts}"
                )
            self._wait.wait(_PAUSE_S)


def _now() -> float:
    return SystemClock().monotonic_ns() / NS_PER_S
