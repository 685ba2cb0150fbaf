"""Runs a scenario on real processes, in real time, and leaves the same kind of trace as the simulated rig."""

import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.errors import EdgeRuntimeError
from sim.local.load import approved_event
from sim.local.site import Site, opened
from sim.network import Weather
from sim.scenario.faults import WORLD, fault_text
from sim.scenario.records import Fault, Scenario
from sim.scenario.trace import Trace, Window

READY_S, SETTLES_S = 400.0, 300.0
LOOK_S = 0.05
PUT_S = 0.25
RESTARTS_S = 2.0
"""The service manager starts a guard again that was killed."""


class NeverReady(EdgeRuntimeError):
    """The device did not come to work before the faults began, or did not settle after them."""


def run_local(scenario: Scenario, folder: Path) -> Trace:
    """Run it to its end.

    Args:
        scenario: what happens.
        folder: for state and logs; empty.

    Raises:
        NeverReady: the device did not come to work, or its queue did not empty in the end.
        RoadError: a process did not start, or refused.
    """
    with opened(folder, scenario.device, scenario.world) as site:
        return _Run(scenario, site).trace()


@dataclass(slots=True)
class _Action:
    at: float
    do: Callable[[], None]


@dataclass(slots=True)
class _Load:
    """Hands events over steadily, in a thread of its own: an outbox that is busy must not hold the timeline up.

    Attributes:
        acknowledged: keys that the outbox answered for.
    """

    site: Site
    per_s: float
    ttl_s: float
    acknowledged: set[bytes] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """No more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(10)

    def _work(self) -> None:
        clock, due = SystemClock(), 0.0
        while not self._over.wait(PUT_S):
            due += self.per_s * PUT_S
            number, due = min(256, int(due)), due % 1.0
            if number:
                self.acknowledged |= self.site.put([approved_event(clock, self.ttl_s) for _ in range(number)])


class _Run:
    def __init__(self, scenario: Scenario, site: Site) -> None:
        self._scenario, self._site = scenario, site
        self._trace = Trace()
        self._actions: list[_Action] = []
        self._tripped: frozenset[str] = frozenset()
        self._starts: Counter[str] = Counter()
        self._restarts = 0
        self._zero = 0.0
        self._orders: list[threading.Thread] = []
        self._troubles: list[str] = []
        spec = scenario.device
        self._load = _Load(site, spec.events_per_minute / 60, spec.event_ttl)

    def trace(self) -> Trace:
        site, scenario = self._site, self._scenario
        self._until_ready()
        self._zero = site.seconds()
        self._schedule()
        self._load.start()
        pause = threading.Event()
        try:
            while self._now() < scenario.duration:
                for action in [one for one in self._actions if one.at <= self._now()]:
                    self._actions.remove(action)
                    action.do()
                self._look()
                pause.wait(LOOK_S)
        finally:
            self._load.end()
            for action in list(self._actions):
                with contextlib.suppress(EdgeRuntimeError):
                    action.do()
        self._settle()
        return self._trace

    def _now(self) -> float:
        return self._site.seconds() - self._zero

    def _until_ready(self) -> None:
        until, pause = self._site.seconds() + READY_S, threading.Event()
        while self._site.seconds() < until:
            status = self._site.status()
            if status is not None and status["state"] == "NOMINAL":
                self._starts = Counter({row["name"]: row["starts"] for row in status["workers"]})
                return
            pause.wait(LOOK_S)
        raise NeverReady(f"{self._scenario.name}: the device never came to work: {self._site.last_words()}")

    def _schedule(self) -> None:
        for fault in self._scenario.fault:
            ends = self._scenario.duration if fault.lasts is None else fault.at + fault.lasts
            self._trace.windows.append(Window(fault.name, fault_text(fault), fault.at, ends))
            text = f"{fault.name}: {fault_text(fault)}"
            self._at(fault.at, lambda text=text: self._trace.told.append((self._now(), text)))  # type: ignore[misc]
            if (fault.unit, fault.kind) in WORLD:
                self._world(fault, ends)
            else:
                self._at(fault.at, lambda fault=fault: self._order(fault))  # type: ignore[misc]

    def _order(self, fault: Fault) -> None:
        """Order it in a thread: a command takes seconds on a busy machine, and the states go on meanwhile."""
        thread = threading.Thread(target=self._ordered, args=(fault,), daemon=True)
        self._orders.append(thread)
        thread.start()

    def _ordered(self, fault: Fault) -> None:
        """A time that counts from this fault counts from when the order says that it began."""
        try:
            begins_ns = self._site.order(fault.unit, fault.kind, fault.lasts or 1.0, fault.amount)
        except EdgeRuntimeError as error:
            self._troubles.append(str(error))
            return
        begins = begins_ns / NS_PER_S - self._zero
        windows = self._trace.windows
        place = next(index for index, one in enumerate(windows) if one.name == fault.name)
        windows[place] = replace(windows[place], begins=begins, ends=begins + (fault.lasts or 1.0))

    def _at(self, at: float, do: Callable[[], None]) -> None:
        self._actions.append(_Action(at, do))

    def _world(self, fault: Fault, ends: float) -> None:
        site, begins = self._site, fault.at
        standard = WORLD[fault.unit, fault.kind].amount or 0.0
        amount = standard if fault.amount is None else fault.amount
        network, renderer = site.network, site.camera.renderer
        during: dict[tuple[str, str], tuple[Callable[[], object], Callable[[], object]]] = {
            ("lens", "covered"): (
                lambda: setattr(renderer, "covered", True),
                lambda: setattr(renderer, "covered", False),
            ),
            ("lens", "dirty"): (
                lambda: setattr(renderer, "dirt", amount),
                lambda: setattr(renderer, "dirt", self._scenario.world.dirt),
            ),
            ("link", "lost"): (network.cut, network.heal),
            ("link", "frozen"): (network.freeze, network.heal),
            ("link", "slow"): (
                lambda: network.become(Weather(bytes_per_s=amount)),
                lambda: network.become(Weather()),
            ),
            ("link", "late"): (
                lambda: network.become(Weather(delay_s=amount)),
                lambda: network.become(Weather()),
            ),
            ("link", "portal"): (
                lambda: network.become(Weather(portal=True)),
                lambda: network.become(Weather()),
            ),
            ("policy", "missing"): (site.policy.unlink, site.give_policy),
        }
        key = (fault.unit, fault.kind)
        if key in during:
            do, undo = during[key]
            self._at(begins, lambda: _done(do))
            self._at(ends, lambda: _done(undo))
        elif key == ("worker", "hung"):
            self._at(begins, lambda: site.signal_worker("perception", signal.SIGSTOP))
        elif key == ("worker", "killed"):
            self._at(begins, lambda: site.signal_worker("perception", signal.SIGKILL))
        elif key == ("guard", "killed"):
            self._at(begins, site.kill_guard)
            self._at(begins + RESTARTS_S, site.start)
        else:
            again = site.kill_broker if fault.unit == "broker" else network.kick
            at = begins
            while at < ends:
                self._at(at, again)
                at += amount

    def _look(self) -> None:
        status, trace, at = self._site.status(), self._trace, self._now()
        if status is None:
            return
        trace.changed(at, status["state"], status["tripped"])
        tripped = frozenset(status["tripped"])
        trace.trips(at, tripped, self._tripped)
        self._tripped = tripped
        starts = Counter({row["name"]: row["starts"] for row in status["workers"]})
        self._restarts += sum((starts - self._starts).values())
        self._starts = starts

    def _settle(self) -> None:
        """Wait until the queue is empty, and hold both sides against each other."""
        site, trace, pause = self._site, self._trace, threading.Event()
        for thread in self._orders:
            thread.join(SETTLES_S)
        if self._troubles:
            raise NeverReady(self._troubles[0])
        until = site.seconds() + SETTLES_S
        status = site.outbox()
        while status is None or status.ledger.queued:
            if site.seconds() > until:
                raise NeverReady(f"{self._scenario.name}: the queue did not empty: {status}")
            pause.wait(LOOK_S * 4)
            status = site.outbox()
        stored, ledger = site.stored(), status.ledger
        rows = Counter(key for key, _ in stored)
        trace.counts["injections"] = sum(kind == "fault_injected" for _, kind in stored)
        acknowledged = self._load.acknowledged
        given_up = ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
        missing = len(acknowledged - set(rows))
        trace.values["duration"] = self._scenario.duration
        trace.counts["accepted"] = ledger.accepted
        trace.counts["delivered"] = len(rows)
        trace.counts["duplicates"] = sum(count - 1 for count in rows.values())
        trace.counts["expired"] = ledger.expired
        trace.counts["lost"] = max(0, missing - given_up) + (0 if ledger.balances else 1)
        trace.counts["held"] = status.gate.get("held", 0)
        trace.counts["restarts"] = self._restarts


def _done(do: Callable[[], object]) -> None:
    do()
