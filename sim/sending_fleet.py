"""Thousands of devices in one thread that deliver events to a real server over its real broker.

    fleet = SendingFleet(members, addresses, folder=…, settings=UplinkSettings(fleet=2000))
    with fleet.living():
        fleet.wait_online(300)

Each has its own key, certificate, MQTT session, queue and accounts, and the uplink's own parts between them
(`sim.virtual.sender`). When each makes an event follows from the seed.
"""

import asyncio
import contextlib
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from edge_runtime.clock import NS_PER_S, Clock, SystemClock
from edge_runtime.protocol.ids import uuid7
from edge_runtime.protocol.topics import Channel, Topic
from edge_runtime.uplink.backoff import Ending, Reconnect
from edge_runtime.uplink.budget import ByteBudget
from edge_runtime.uplink.settings import UplinkSettings
from sim.local.load import approved_event
from sim.virtual.members import Member
from sim.virtual.mqtt import LightSession
from sim.virtual.queue import VirtualQueue
from sim.virtual.sender import VirtualSender

_LOOK_S = 0.05
_AT_ONCE = 32
"""Devices that are worked on before sessions get their turn."""

_ARRIVING = 8
"""Devices that make their first session at the same time. A broker that syncs its store makes one after the other,
and whoever looks whether it still answers stands behind them."""

_BOOT_S = (1.0, 5.0)
_TTL_S = 3600.0
_ENDS_S = 30.0

Address = tuple[str, int]
AnswerT = TypeVar("AnswerT")


@dataclass(slots=True)
class _Life:
    """A device, its present session, and what becomes of it."""

    sender: VirtualSender
    member: Member
    address: Address
    rng: random.Random
    session: LightSession | None = None
    event_ns: int = 0
    boots_until_ns: int = 0
    ours: bool = False  # this side ended the session
    known: bool = False  # the broker has its session


@dataclass(slots=True)
class SendingCounts:
    """What happened.

    Attributes:
        sessions: that were made.
        refused: attempts that came to none.
        renewed: sessions that a device gave up because nothing was receipted.
    """

    sessions: int = 0
    refused: int = 0
    renewed: int = 0


@dataclass
class SendingFleet:
    """Devices of one fleet server.

    Attributes:
        members: enrolled devices.
        address: where the device of a number finds its broker; a cable of its region, for one.
        folder: for ids of commands.
        settings: of every uplink; `fleet` spreads their return.
        every_s: seconds between two events of a device, on average.
        capacity: events that the queue of the device of a number holds.
        arrive_s: the devices come within so many seconds.
        seed: of everything that is drawn.
    """

    members: Sequence[Member]
    address: Callable[[int], Address]
    folder: Path
    settings: UplinkSettings
    every_s: float = 20.0
    capacity: Callable[[int], int] = lambda _number: 10_000
    arrive_s: float = 2.0
    seed: int = 1
    clock: Clock = field(default_factory=SystemClock)
    counts: SendingCounts = field(default_factory=SendingCounts, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._budget = ByteBudget(self.folder / "budget.json", None, 0.0, self.clock)
        self._lives = [self._life(number, member) for number, member in enumerate(self.members)]
        self._sending = False
        self._loop = asyncio.new_event_loop()
        self._failed: list[BaseException] = []

    def _life(self, number: int, member: Member) -> _Life:
        rng = random.Random(f"{self.seed}/{member.device}")  # noqa: S311 - a simulation that can be repeated
        queue = VirtualQueue(uuid7(self.clock.wall().unix_ns), self.clock, self.capacity(number))
        sender = VirtualSender(
            member.device,
            queue,
            settings=self.settings,
            budget=self._budget,
            folder=self.folder,
            clock=self.clock,
            rng=rng,
        )
        return _Life(sender, member, self.address(number), rng)

    # -- from other threads ------------------------------------------------------------------------------------

    @property
    def senders(self) -> list[VirtualSender]:
        """All of them."""
        return [life.sender for life in self._lives]

    @property
    def online(self) -> int:
        """Devices with a session."""
        return sum(life.session is not None for life in self._lives)

    def settled(self) -> int:
        """Devices whose queue is empty while the server answers them."""
        return self._ask(lambda: sum(life.sender.settled for life in self._lives))

    @contextlib.contextmanager
    def living(self) -> Iterator["SendingFleet"]:
        """Live in a thread of their own for the length of the block.

        Raises:
            BaseException: what ended that thread, which is a defect.
        """
        stopping = asyncio.Event()
        thread = threading.Thread(target=self._run, args=(stopping,), name="sending-fleet")
        thread.start()
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(stopping.set)
            thread.join(_ENDS_S)
            assert not thread.is_alive(), "the fleet does not end"
            self._loop.close()
        for error in self._failed:
            raise error

    def send(self, *, on: bool) -> None:
        """Begin to make events, or make no more."""
        self._sending = on

    def restart(self, share: float) -> int:
        """Take the power from some, drawn evenly, for a moment; how many."""
        chosen = [life for life in self._lives if life.rng.random() < share]
        for life in chosen:
            self._loop.call_soon_threadsafe(self._restart, life)
        return len(chosen)

    def report(self) -> None:
        """Have all of them say how their ledgers stand."""
        for life in self._lives:
            self._loop.call_soon_threadsafe(self._report, life)

    def _ask(self, question: Callable[[], AnswerT]) -> AnswerT:
        """What the fleet's own thread says: nobody else looks into its devices."""
        answer: Future[AnswerT] = Future()
        self._loop.call_soon_threadsafe(lambda: answer.set_result(question()))
        return answer.result(_ENDS_S)

    # -- the thread --------------------------------------------------------------------------------------------

    def _run(self, stopping: asyncio.Event) -> None:
        try:
            self._loop.run_until_complete(self._live_all(stopping))
        except BaseException as error:  # noqa: BLE001 - told to whoever waits for the thread
            self._failed.append(error)

    async def _live_all(self, stopping: asyncio.Event) -> None:
        arriving = asyncio.Semaphore(_ARRIVING)
        tasks = [asyncio.create_task(self._live(life, arriving)) for life in self._lives]
        turning = asyncio.create_task(self._turn_all())
        ended = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait({ended, turning, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for living in (turning, *tasks):
                if living.done():
                    living.result()  # a defect: neither ends by itself
        finally:
            for task in (*tasks, turning, ended):
                task.cancel()
            await asyncio.gather(*tasks, turning, ended, return_exceptions=True)
            await asyncio.sleep(_LOOK_S)  # aborted connections are closed in a later turn of the loop

    def _restart(self, life: _Life) -> None:
        life.boots_until_ns = self._now() + int(life.rng.uniform(*_BOOT_S) * NS_PER_S)
        if life.session is not None:
            life.session.abort()
        life.sender.restart()

    def _report(self, life: _Life) -> None:
        if life.session is not None:
            life.sender.report()

    async def _turn_all(self) -> None:
        while True:
            now_ns, worked = self._now(), 0
            for life in self._lives:
                if self._sending and now_ns >= max(life.event_ns, life.boots_until_ns):
                    self._make_event(life, now_ns)
                if life.session is not None and now_ns >= life.sender.due_ns:
                    self._work(life)
                    worked += 1
                    if worked % _AT_ONCE == 0:
                        await asyncio.sleep(0)
            await asyncio.sleep(_LOOK_S)

    def _make_event(self, life: _Life, now_ns: int) -> None:
        if life.event_ns:  # the first one is spread over the period, so that they do not begin together
            life.sender.put(approved_event(self.clock, _TTL_S))
            pause_s = life.rng.expovariate(1.0 / self.every_s)
        else:
            pause_s = life.rng.uniform(0.0, self.every_s)
        life.event_ns = now_ns + int(pause_s * NS_PER_S)

    def _work(self, life: _Life) -> None:
        if life.sender.work() and life.session is not None:
            self._renew(life)

    def _renew(self, life: _Life) -> None:
        self.counts.renewed += 1
        life.ours = True
        if life.session is not None:
            life.session.abort()

    # -- sessions ----------------------------------------------------------------------------------------------

    async def _live(self, life: _Life, arriving: asyncio.Semaphore) -> None:
        plan = Reconnect(self.settings.reconnect, life.rng)
        await asyncio.sleep(life.rng.uniform(0, self.arrive_s))
        while True:
            life.ours = False
            since_ns = await self._session(life, contextlib.nullcontext() if life.known else arriving)
            now_ns = self._now()
            lived_s = 0.0 if since_ns is None else (now_ns - since_ns) / NS_PER_S
            ending = Ending.UNREACHABLE if since_ns is None else Ending.OWN if life.ours else Ending.LOST
            wait_s = plan.wait_s(ending, lived_s, now_ns)
            await asyncio.sleep(max(wait_s, (life.boots_until_ns - now_ns) / NS_PER_S))

    async def _session(self, life: _Life, turn: contextlib.AbstractAsyncContextManager[None]) -> int | None:
        """One attempt, in its turn, and the session that comes of it; when that began."""
        sender, since_ns = life.sender, None
        will = (str(Topic(sender.name, Channel.PRESENCE)), sender.next_will().encode())
        try:
            async with turn:
                session = await LightSession.open(
                    life.address, life.member.tls, sender.name, will, f"fleet/v1/{sender.name}/down/#"
                )
        except (OSError, EOFError, asyncio.TimeoutError):
            self.counts.refused += 1
            return None
        try:
            self.counts.sessions += 1
            life.known = True
            since_ns, life.session = self._now(), session
            sender.connected(session)
            while True:
                if sender.heard(await session.next()):
                    self._renew(life)
        except (OSError, EOFError, asyncio.TimeoutError):
            return since_ns
        finally:
            life.session = None
            sender.disconnected()
            session.abort()

    def _now(self) -> int:
        return self.clock.monotonic_ns()
