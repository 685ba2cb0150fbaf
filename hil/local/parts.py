"""The parts of rig `local`, each a few lines on the processes."""

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import psutil

from edge_runtime.clock import NS_PER_S, SystemClock
from edge_runtime.errors import EdgeRuntimeError
from hil.device_parts import Fates, MemoryUse, SeenEvent
from hil.faults import FaultBits
from hil.local.bench import LocalBench
from hil.problems import DeviceError, RigError
from sim.local.device_file import MODEL
from sim.local.load import approved_event
from sim.network import Impairment
from sim.process import RoadError
from sim.report.run import machine_facts
from sim.road import ask

T = TypeVar("T")

_TTL_S = 86_400.0
_PORTION = 64


class _Part:
    def __init__(self, bench: LocalBench) -> None:
        self._bench = bench
        self._site = bench.site


def _told(do: Callable[[], T]) -> T:
    """A road's error is the device's here."""
    try:
        return do()
    except RoadError as error:
        raise DeviceError(str(error)) from None


class LocalPower(_Part):
    """`Power`."""

    def on(self) -> None:
        """Power comes."""
        self._bench.switch_on()

    def off(self) -> None:
        """Power goes."""
        self._bench.switch_off()


class LocalNetwork(_Part):
    """`NetworkLink`: the proxy between device and broker."""

    def become(self, impairment: Impairment) -> None:
        """From now on it is like this."""
        self._site.network.become(impairment)

    def cut(self) -> None:
        """Nothing gets through."""
        self._site.network.cut()

    def heal(self) -> None:
        """Everything gets through."""
        self._site.network.become(Impairment())
        self._site.network.heal()


class LocalBytes(_Part):
    """`ByteCounter`: what the proxy carried towards the broker."""

    def sent_bytes(self) -> int:
        """So far."""
        return self._site.network.bytes_up


class LocalMarker(_Part):
    """`Marker` before the virtual camera."""

    def show(self, *, lit: bool) -> None:
        """Show or hide it."""
        self._bench.renderer.lit = lit


class LocalShutter(_Part):
    """`Shutter` before the virtual camera."""

    def cover(self, *, shut: bool) -> None:
        """Cover the lens or not."""
        self._bench.renderer.covered = shut


class LocalInjector(_Part):
    """`Injector` by `edge-runtime fault`."""

    def order(self, unit: str, kind: str, seconds: float) -> float:
        """Order it."""
        return _told(lambda: self._site.device.order(unit, kind, seconds, None)) / NS_PER_S


class LocalProcesses(_Part):
    """`Processes`."""

    def kill(self, name: str) -> None:
        """SIGKILL."""
        if name == "guard":
            self._bench.kill_guard()
        else:
            _told(lambda: self._site.device.signal_worker(name, signal.SIGKILL))

    def restarts(self) -> int:
        """Of all workers."""
        status = self._site.device.status()
        if status is None:
            raise DeviceError("no guard answers")
        return sum(max(0, row["starts"] - 1) for row in status["workers"])


class LocalEvents(_Part):
    """`Events` out of the device's file."""

    def seen(self) -> list[SeenEvent]:
        """All since the rig was opened."""
        return self._bench.events()


class LocalQueue(_Part):
    """`Queue`: events as a gate would make them, and the server's own table."""

    def __init__(self, bench: LocalBench) -> None:
        super().__init__(bench)
        self._load: set[bytes] = set()

    def load(self, number: int) -> int:
        """Hand events over."""
        clock, accepted, left = SystemClock(), set[bytes](), number
        while left > 0:
            portion = min(left, _PORTION)
            left -= portion
            found, _ = self._site.device.put([approved_event(clock, _TTL_S) for _ in range(portion)])
            accepted |= found
        self._load |= accepted
        return len(accepted)

    def fates(self) -> Fates:
        """How it stands."""
        status = self._site.device.outbox()
        if status is None:
            raise DeviceError("the outbox does not answer")
        ledger = status.ledger
        given_up = ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
        return Fates(ledger.accepted, ledger.queued, ledger.delivered, given_up, ledger.balances)

    def at_server(self) -> tuple[int, int]:
        """Of the load."""
        rows = Counter(key for key, _ in self._site.stored() if key in self._load)
        return len(rows), sum(count > 1 for count in rows.values())


class LocalMotion(_Part):
    """`MotionGate`: what the cart's drive got."""

    def passed(self) -> int:
        """So far."""
        cart = self._site.cart
        last = cart.samples[-1:] if cart is not None else []
        return last[0].passed if last else 0


class LocalModels(_Part):
    """`Models` by `edge-runtime model check`, on this machine."""

    def golden(self) -> tuple[bool, str]:
        """Whether the package is fit here."""
        try:
            found = json.loads(ask("edge-runtime", "model", "check", str(MODEL), "--json"))
        except RoadError as error:
            return False, str(error)
        return bool(found["fit"]), "; ".join(one["text"] for one in found["problems"])


class LocalMemory(_Part):
    """`Memory` of the device's processes."""

    def use(self) -> MemoryUse:
        """Now."""
        resident = descriptors = 0
        for process in self._bench.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                resident += process.memory_full_info().pss
                descriptors += process.num_fds()
        if not resident:
            raise DeviceError("nothing of the device runs")
        return MemoryUse(resident, descriptors, psutil.swap_memory().used)


class LocalDevice(_Part):
    """`Device`."""

    def state(self) -> str | None:
        """Of its guard."""
        status = self._site.device.status()
        return None if status is None else str(status["state"])

    def arm(self) -> None:
        """By the guard's command."""
        self._commission()

    def frames(self) -> int | None:
        """Since perception began."""
        return self._site.device.evaluated()

    def faults(self) -> FaultBits:
        """A latch; the machine's own bits say nothing of a device that is a few processes on it."""
        status = self._site.device.status()
        latch = None if status is None or status["latch"] is None else str(status["latch"]["id"])
        return FaultBits(latch=latch)

    def acknowledge(self) -> None:
        """Signed with the rig's own key."""
        self._commission()

    def _commission(self) -> None:
        status = self._site.device.status()
        if status is None:
            raise DeviceError("no guard answers")
        _told(lambda: self._site.device.commission(status))

    def facts(self) -> dict[str, str]:
        """The machine."""
        return {"board": "processes of this machine", **machine_facts()}


def of_rig(do: Callable[[], T]) -> T:
    """What a part of the rig itself gives.

    Raises:
        RigError: it failed.
    """
    try:
        return do()
    except EdgeRuntimeError as error:
        raise RigError(str(error)) from None
