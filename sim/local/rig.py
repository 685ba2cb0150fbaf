"""Runs a scenario on real processes, in real time, and leaves the same kind of trace as the simulated rig."""

import contextlib
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.errors import EdgeRuntimeError
from sim.local.cart import Cart, way_to_stand
from sim.local.certificate import certificates
from sim.local.load import approved_event
from sim.local.site import Site, opened
from sim.local.world import means_of
from sim.scenario.accounts import account, tells_full_disk
from sim.scenario.faults import WORLD, fault_text
from sim.scenario.records import Fault, Protection, Scenario
from sim.scenario.timeline import NeverReady, Timeline
from sim.scenario.trace import Trace, Window

READY_S, SETTLES_S, MUTANT_SETTLES_S = 400.0, 300.0, 20.0
LOOK_S = 0.05
ASK_S = 1.0
NEEDS = (("clock", "steps"), ("device", "reboots"), ("disk", "fills"))
"""Faults for which a device needs something more around it."""

PUT_S = 0.25


def run_local(
    scenario: Scenario,
    folder: Path,
    without: frozenset[Protection] = frozenset(),
    *,
    in_namespace: bool = False,
) -> Trace:
    """Run it to its end.

    Args:
        scenario: what happens.
        folder: for state and logs; empty.
        without: protections that are taken away; then nobody waits long for a queue that need not empty.
        in_namespace: whether the device has a network namespace of its own, and not a proxy on loopback.

    Raises:
        NoNamespace: it was to have one, and this machine permits none.
        NeverReady: the device did not come to work, or its queue did not empty in the end.
        RoadError: a process did not start, or refused.
    """
    needs = {fault.unit for fault in scenario.fault if (fault.unit, fault.kind) in NEEDS}
    needs |= {"namespace"} if in_namespace else set()
    with opened(folder, scenario.device, scenario.world, without=without, needs=needs) as site:
        return _Run(scenario, site).trace()


@dataclass(slots=True)
class _Load:
    """Hands events over steadily, in a thread of its own: an outbox that is busy must not hold the timeline up.

    Attributes:
        acknowledged: keys that the outbox accepted.
        refused: how many it did not accept.
        told_s: so long the outbox said that its disk is full.
        queue: (CLOCK_MONOTONIC seconds, events that wait), as often as it hands over.
    """

    site: Site
    per_s: float
    ttl_s: float
    acknowledged: set[bytes] = field(default_factory=set)
    refused: int = 0
    told_s: float = 0.0
    queue: list[tuple[float, int]] = field(default_factory=list)
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
                accepted, refused = self.site.device.put(
                    [approved_event(clock, self.ttl_s) for _ in range(number)]
                )
                self.acknowledged |= accepted
                self.refused += refused
            status = self.site.device.outbox()
            if status is None:
                continue
            at = self.site.seconds()
            if self.queue and tells_full_disk(status.sentences):
                self.told_s += at - self.queue[-1][0]
            self.queue.append((at, status.ledger.queued))


class _Run:
    def __init__(self, scenario: Scenario, site: Site) -> None:
        self._scenario, self._site = scenario, site
        self._trace = Trace()
        self._timeline = Timeline()
        self._tripped: frozenset[str] = frozenset()
        self._starts: Counter[str] = Counter()
        self._restarts = self._frames = 0
        self._evaluated: int | None = None
        self._zero, self._breaks, self._asked = 0.0, 0, 0.0
        self._orders: list[threading.Thread] = []
        self._troubles: list[str] = []
        spec = scenario.device
        self._load = _Load(site, spec.events_per_minute / 60, spec.event_ttl)

    def trace(self) -> Trace:
        site, scenario = self._site, self._scenario
        self._until_ready()
        self._zero, self._breaks = site.seconds(), site.network.breaks
        self._schedule()
        self._load.start()
        pause = threading.Event()
        try:
            while self._now() < scenario.duration:
                self._timeline.run(self._now())
                self._look()
                pause.wait(LOOK_S)
        finally:
            self._load.end()
            breaks = site.network.breaks
            with contextlib.suppress(EdgeRuntimeError):
                self._timeline.mend()
        self._trace.counts["breaks"] = breaks - self._breaks
        self._settle()
        return self._trace

    def _now(self) -> float:
        return self._site.seconds() - self._zero

    def _until_ready(self) -> None:
        until, pause = self._site.seconds() + READY_S, threading.Event()
        while self._site.seconds() < until:
            status = self._site.device.status()
            if status is not None and self._site.is_ready(status):
                self._starts = Counter({row["name"]: row["starts"] for row in status["workers"]})
                return
            pause.wait(LOOK_S)
        raise NeverReady(
            f"{self._scenario.name}: the device never came to work: {self._site.device.last_words()}"
        )

    def _schedule(self) -> None:
        means = means_of(self._site, self._timeline, self._now)
        for fault in self._scenario.fault:
            ends = self._scenario.duration if fault.lasts is None else fault.at + fault.lasts
            self._trace.windows.append(Window(fault.name, fault_text(fault), fault.at, ends))
            text = f"{fault.name}: {fault_text(fault)}"
            self._timeline.at(fault.at, lambda text=text: self._trace.log.append((self._now(), text)))  # type: ignore[misc]
            if (fault.unit, fault.kind) in WORLD:
                self._timeline.bring_about(fault, means, self._scenario.duration)
            else:
                self._timeline.at(fault.at, lambda fault=fault: self._order(fault))  # type: ignore[misc]

    def _order(self, fault: Fault) -> None:
        """Order it in a thread: a command takes seconds on a busy machine, and the states go on meanwhile."""
        thread = threading.Thread(target=self._ordered, args=(fault,), daemon=True)
        self._orders.append(thread)
        thread.start()

    def _ordered(self, fault: Fault) -> None:
        """A time that counts from this fault counts from when the order says that it began."""
        assert fault.lasts is not None, "an injected fault that does not say how long is refused"
        try:
            begins_ns = self._site.device.order(fault.unit, fault.kind, fault.lasts, fault.amount)
        except EdgeRuntimeError as error:
            self._troubles.append(str(error))
            return
        begins = begins_ns / NS_PER_S - self._zero
        windows = self._trace.windows
        place = next(index for index, one in enumerate(windows) if one.name == fault.name)
        windows[place] = replace(windows[place], begins=begins, ends=begins + fault.lasts)

    def _look(self) -> None:
        status, trace, at = self._site.device.status(), self._trace, self._now()
        if status is None:
            return
        trace.changed(at, status["state"], status["tripped"])
        tripped = frozenset(status["tripped"])
        trace.trips(at, tripped, self._tripped)
        self._tripped = tripped
        starts = Counter({row["name"]: row["starts"] for row in status["workers"]})
        self._restarts += sum((starts - self._starts).values())
        self._starts = starts
        if at - self._asked >= ASK_S:
            self._asked = at
            self._look_at_perception(at)

    def _look_at_perception(self, at: float) -> None:
        """What it counts; it counts from nothing where it was started again."""
        share, evaluated = self._site.device.frame_share(), self._site.device.evaluated()
        if share is not None:
            self._trace.add("share", "share", at, share)
        if evaluated is not None:
            before = evaluated if self._evaluated is None else self._evaluated
            self._frames += evaluated - before if evaluated >= before else evaluated
            self._evaluated = evaluated
        if self._site.spec.battery is not None:
            charge = self._site.around.machine.charge or 0.0
            self._trace.add("charge", "share", at, charge)
            if self._site.cart is not None and self._site.cart.is_permitted:
                self._trace.add("charge_moving", "share", at, charge)

    def _settle(self) -> None:
        """Wait until the queue is empty, and hold both sides against each other."""
        site, trace, pause = self._site, self._trace, threading.Event()
        for thread in self._orders:
            thread.join(SETTLES_S)
        if self._troubles:
            raise NeverReady(self._troubles[0])
        until = site.seconds() + (MUTANT_SETTLES_S if site.without else SETTLES_S)
        status = site.device.outbox()
        while (status is None or status.ledger.queued) and site.seconds() < until:
            pause.wait(LOOK_S * 4)
            status = site.device.outbox()
        if not site.without and (status is None or status.ledger.queued):
            raise NeverReady(f"{self._scenario.name}: the queue did not empty: {status}")
        stored = site.stored()
        if status is not None:
            account(trace, self._load.acknowledged, Counter(key for key, _ in stored), status.ledger)
            trace.counts["held"] = status.gate.get("held", 0)
        for at, waiting in self._load.queue:
            trace.add("queue", "events", at - self._zero, waiting)
        trace.values["duration"] = self._scenario.duration
        trace.counts["injections"] = sum(kind == "fault_injected" for _, kind in stored)
        trace.counts["refused"], trace.values["disk_told"] = self._load.refused, self._load.told_s
        trace.counts["restarts"] = self._restarts
        trace.counts["frames"] = self._frames
        if site.releases is not None:
            left_s = MUTANT_SETTLES_S if site.without else SETTLES_S
            trace.counts["kept"], trace.counts["taken_back"] = site.releases.ends(left_s)
        if site.cart is not None:
            self._body(site.cart)
        trace.counts["renewals"] = certificates(site.server) - 1  # the first is that of its enrolment

    def _body(self, cart: Cart) -> None:
        """Its curves, and the way until it stood."""
        trace, samples = self._trace, cart.samples
        for sample in samples:
            at = sample.at - self._zero
            if 0 <= at <= self._scenario.duration:
                trace.add("speed", "m/s", at, sample.v_m_s)
                trace.add("commands", "passed", at, sample.passed)
        begins = sorted(window.begins + self._zero for window in trace.windows)
        way = way_to_stand(samples, begins)
        if way is not None:
            trace.values["stop"] = way
