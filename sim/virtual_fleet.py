"""A thousand devices in one process: real state machines, trust and reports over a real broker, and no bodies.

    fleet = VirtualFleet(members, broker=("localhost", 8883), server_url=url, package=digest, slots=["m"], folder=…)
    asyncio.run(fleet.run(stop))

Each device has its own key, certificate, MQTT session, verified metadata and journal. They share one mirror of the
metadata, one store of content, and one thread. Who is offline, fails or breaks off follows from the seed.
"""

import asyncio
import contextlib
import random
import ssl
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edge_runtime.clock import NS_PER_MS, NS_PER_S, Clock, SystemClock
from edge_runtime.protocol.delivery import PresenceState
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.updates.download import Origin
from edge_runtime.updates.trust import HttpFetch
from edge_runtime.uplink.backoff import Ending, Reconnect, ReconnectSettings
from edge_runtime.uplink.reports import presence
from edge_runtime.uplink.state_reports import StateReporter
from edge_runtime.uplink.update_files import FoundReports
from sim.virtual.character import Shares, character
from sim.virtual.content import SharedContent
from sim.virtual.device import VirtualDevice
from sim.virtual.members import Member
from sim.virtual.metadata import Mirror
from sim.virtual.mqtt import Acknowledged, LightSession, Message
from sim.virtual.perception import Behave, Behaviour

_LOOK_S = 0.05
_WORKING_S = 0.25
"""Between two turns of a device that works; the real process has a second, and looks by itself when told."""

_FIRST_S, _CAP_S = 30.0, 600.0


@dataclass(slots=True)
class _Life:
    """A device and its present session.

    Attributes:
        sessions: that it has had.
        due_s: of its driver's next turn.
        told: version of the reports that the reporter knows.
    """

    device: VirtualDevice
    reporter: StateReporter
    session: LightSession | None = None
    sessions: int = 0
    due_s: float = 0.0
    told: int = -1


@dataclass(slots=True)
class FleetCounts:
    """What happened.

    Attributes:
        sessions: that were made.
        refused: attempts that came to none.
        turns: of all drivers.
        reports: that the broker has.
    """

    sessions: int = 0
    refused: int = 0
    turns: int = 0
    reports: int = 0


@dataclass
class VirtualFleet:
    """Devices of one fleet server.

    Attributes:
        members: enrolled devices.
        broker: host and port.
        server_url: of the HTTP API.
        folder: for metadata and content; a RAM disk is best, each device has files of its own.
        package: digest of the model that all were set up with.
        slots: names of their models.
        shares: how the fleet is mixed.
        behave: how releases behave, by the SHA-256 of their bundle.
        seed: of everything that is drawn.
        arrive_s: the devices come within so many seconds; a broker that syncs its store takes some tens a second.
    """

    members: Sequence[Member]
    broker: tuple[str, int]
    server_url: str
    folder: Path
    package: str
    slots: Sequence[str] = ("m",)
    shares: Shares = field(default_factory=Shares)
    behave: Behave = lambda _release: Behaviour()
    seed: int = 1
    arrive_s: float = 2.0
    clock: Clock = field(default_factory=SystemClock)
    counts: FleetCounts = field(default_factory=FleetCounts, init=False)

    def __post_init__(self) -> None:
        first = self.members[0]

        def tls() -> ssl.SSLContext:
            return first.tls

        self.mirror = Mirror(HttpFetch(self.server_url, tls, clock=self.clock), self.clock)
        content = SharedContent(
            self.folder / "content", lambda: Origin(self.server_url, first.tls), self.clock
        )
        self._rng = random.Random(self.seed)  # noqa: S311 - a simulation that can be repeated
        self._lives = [self._life(member, content) for member in self.members]

    @property
    def devices(self) -> list[VirtualDevice]:
        """All of them."""
        return [life.device for life in self._lives]

    @property
    def online(self) -> int:
        """Devices with a session."""
        return sum(life.session is not None for life in self._lives)

    def running(self, slot: str) -> Counter[str | None]:
        """How many devices run which release in a slot; None is what they were set up with."""
        return Counter(life.device.slots[slot].runs for life in self._lives)

    async def run(self, stopping: asyncio.Event) -> None:
        """Live until `stopping` is set."""
        tasks = [
            asyncio.create_task(self._live(life)) for life in self._lives if life.device.character.online
        ]
        tasks.append(asyncio.create_task(self._turn_all()))
        ended = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({ended, tasks[-1]}, return_when=asyncio.FIRST_COMPLETED)
            if tasks[-1].done():
                tasks[-1].result()  # a defect: nothing would turn any more
        finally:
            for task in (*tasks, ended):
                task.cancel()
            await asyncio.gather(*tasks, ended, return_exceptions=True)

    def _life(self, member: Member, content: SharedContent) -> _Life:
        rng = random.Random(f"{self.seed}/{member.device}/nonce")  # noqa: S311 - as above
        nonce: Callable[[], str] = lambda: f"{rng.getrandbits(128):032x}"  # noqa: E731 - a port
        device = VirtualDevice(
            member,
            character(self.seed, member.device, self.shares),
            self.folder / "devices" / member.device,
            self.slots,
            self.package,
            content=content,
            fetch=self.mirror,
            behave=self.behave,
            clock=self.clock,
            nonce=nonce,
        )
        return _Life(device, StateReporter(member.device, _FIRST_S, _CAP_S, rng))

    # -- turns -------------------------------------------------------------------------------------------------

    async def _turn_all(self) -> None:
        while True:
            now_s = self._now_s()
            for life in self._lives:
                if now_s >= life.due_s and life.device.character.online:
                    self._turn(life)
                    await asyncio.sleep(0)  # sessions go on between two devices
            await asyncio.sleep(_LOOK_S)

    def _turn(self, life: _Life) -> None:
        self.counts.turns += 1
        wait_s = life.device.driver.turn()
        working = life.device.driver.memory.journal.works or life.device.driver.arrivals.waiting
        life.due_s = self._now_s() + (min(wait_s, _WORKING_S) if working else wait_s)
        self._send(life)

    def _send(self, life: _Life) -> None:
        files = life.device.files
        if files.version != life.told:
            life.told = files.version
            reports = tuple(files.reports())
            terminal = tuple(report.number for report in reports if report.terminal)
            life.reporter.found(FoundReports(reports, terminal))
        if life.session is None:
            return
        message = life.reporter.message(self.clock.monotonic_ns())
        if message is not None:
            payload, numbers = message
            mid = life.session.publish(str(Topic(life.device.name, Channel.STATE)), payload)
            life.reporter.sent(mid, numbers)

    # -- sessions ----------------------------------------------------------------------------------------------

    async def _live(self, life: _Life) -> None:
        rng = random.Random(f"{self.seed}/{life.device.name}/link")  # noqa: S311 - as above
        plan = Reconnect(ReconnectSettings(cap_s=20.0, quarrel_s=5.0, fleet=len(self.members)), rng)
        await asyncio.sleep(rng.uniform(0, self.arrive_s))
        while True:
            before, began_ns = life.sessions, self.clock.monotonic_ns()
            with contextlib.suppress(OSError, EOFError, asyncio.TimeoutError):
                await self._session(life)
            now_ns = self.clock.monotonic_ns()
            lived_s = (now_ns - began_ns) / NS_PER_S if life.sessions > before else 0.0
            await asyncio.sleep(plan.wait_s(Ending.LOST if lived_s else Ending.UNREACHABLE, lived_s, now_ns))

    async def _session(self, life: _Life) -> None:
        device = life.device
        make = presence(device.name, f"virtual-{device.name}")
        number = self.clock.wall().unix_ns // NS_PER_MS
        topic = str(Topic(device.name, Channel.PRESENCE))
        will = (topic, make(number, PresenceState.OFFLINE, "connection_lost").encode())
        try:
            session = await LightSession.open(
                self.broker, device.member.tls, device.name, will, f"fleet/v1/{device.name}/down/#"
            )
        except BaseException:
            self.counts.refused += 1
            raise
        self.counts.sessions += 1
        life.sessions += 1
        try:
            session.publish(topic, make(number, PresenceState.ONLINE, "connected").encode(), retain=True)
            life.session = session
            life.reporter.connected()
            self._send(life)
            await asyncio.wait_for(self._hear(life, session), device.character.stays_s)
        finally:
            life.session = None
            life.reporter.disconnected()
            session.abort()

    async def _hear(self, life: _Life, session: LightSession) -> None:
        desired = str(Topic(life.device.name, Channel.DESIRED))
        while True:
            found = await session.next()
            if isinstance(found, Message) and found.topic == desired:
                life.device.desired(found.payload)
                life.due_s = 0.0
            elif isinstance(found, Acknowledged):
                done = life.reporter.acknowledged(found.mid, self.clock.monotonic_ns(), failed=False)
                self.counts.reports += len(done)
                life.device.broker_has(done)
                self._send(life)

    def _now_s(self) -> float:
        return self.clock.monotonic_ns() / NS_PER_S
