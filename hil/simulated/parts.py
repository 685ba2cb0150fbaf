"""The parts of rig `sim`, each a few lines on the simulated bench."""

from edge_runtime.durable import sha256_file
from edge_runtime.faults import injection, orders_file, write_orders
from edge_runtime.updates.store.materialise import read_bundle
from edge_runtime.updates.store.places import Places
from hil.device_parts import Fates, SeenEvent, Standing
from hil.faults import FaultBits
from hil.problems import DeviceError
from hil.simulated.bench import SimulatedBench
from sim.network import Impairment
from sim.simulated.device import SimDevice

_TTL_S = 30 * 86_400.0


class _Part:
    def __init__(self, bench: SimulatedBench) -> None:
        self._bench = bench

    def _on(self) -> SimDevice:
        if self._bench.device is None:
            raise DeviceError("the device is off")
        return self._bench.device


class SimulatedPower(_Part):
    """`Power`."""

    def on(self) -> None:
        """Power comes."""
        self._bench.switch_on()

    def off(self) -> None:
        """Power goes."""
        self._bench.switch_off()


class SimulatedNetwork(_Part):
    """`NetworkLink`."""

    def become(self, impairment: Impairment) -> None:
        """Late and narrow, which is what a simulated link can be."""
        if impairment.loss or impairment.portal or impairment.jitter_s:
            raise DeviceError("the link of rig sim can be late and narrow, and nothing else")
        uplink = self._on().uplink
        uplink.late_ns = round(impairment.delay_s * 1e9)
        uplink.bytes_per_s = impairment.bytes_per_s

    def cut(self) -> None:
        """Nothing gets through."""
        self._bench.linked = False
        if self._bench.device is not None:
            self._bench.device.uplink.cut()
            self._bench.device.uplink.up = False

    def heal(self) -> None:
        """Everything gets through."""
        self._bench.linked = True
        if self._bench.device is not None:
            self._bench.device.uplink.up = True
            self.become(Impairment())


class SimulatedMarker(_Part):
    """`Marker`."""

    def show(self, *, lit: bool) -> None:
        """Show or hide it."""
        self._bench.view.lit = lit


class SimulatedShutter(_Part):
    """`Shutter`."""

    def cover(self, *, shut: bool) -> None:
        """Cover the lens or not."""
        self._bench.view.covered = shut


class SimulatedInjector(_Part):
    """`Injector`, with the device's own orders."""

    def order(self, unit: str, kind: str, seconds: float) -> float:
        """Order it; it begins now."""
        device = self._on()
        order = injection(
            unit,
            kind,
            id="00000001",
            begins_ns=device.clock.now_ns,
            for_s=seconds,
            boot_id=device.clock.boot_id,
            by="hil",
        )
        write_orders(orders_file(device.state), [order])
        return self._bench.now()


class SimulatedProcesses(_Part):
    """`Processes`."""

    def kill(self, name: str) -> None:
        """SIGKILL."""
        if name == "guard":
            self._on().kill_guard()
        elif name == "perception":
            self._on().kill_worker()
        else:
            raise DeviceError(f"a simulated device has no process {name}")

    def restarts(self) -> int:
        """Of perception."""
        return self._on().restarts


class SimulatedEvents(_Part):
    """`Events`."""

    def seen(self) -> list[SeenEvent]:
        """All since the rig was opened."""
        return self._bench.events


class SimulatedQueue(_Part):
    """`Queue`."""

    def load(self, number: int) -> int:
        """Hand events over."""
        device = self._on()
        accepted = device.uplink.submit(number, _TTL_S)
        device.load |= accepted
        return len(accepted)

    def fates(self) -> Fates:
        """How it stands."""
        ledger = self._on().uplink.outbox.status().ledger
        given_up = ledger.expired + ledger.evicted + ledger.rejected + ledger.lost
        return Fates(ledger.accepted, ledger.queued, ledger.delivered, given_up, ledger.balances)

    def at_server(self) -> tuple[int, int]:
        """Of the load."""
        device = self._on()
        rows = device.uplink.server.rows
        there = [rows[key] for key in device.load if key in rows]
        return len(there), sum(count > 1 for count in there)


class SimulatedHeat(_Part):
    """`Heat`."""

    def celsius(self) -> float:
        """Of the die."""
        return self._on().machine.heat.die_c

    def warm(self) -> None:
        """The device of a hot run works and warms by itself."""

    def late_share(self) -> float | None:
        """Since it was made."""
        work = self._on().work
        return work.late / work.frames if work.frames else None


class SimulatedMotion(_Part):
    """`MotionGate`."""

    def passed(self) -> int:
        """Of all boots."""
        motion = self._bench.device.motion if self._bench.device is not None else None
        return self._bench.passed + (0 if motion is None else motion.passed)


class SimulatedRollout(_Part):
    """`Updates`, by the rig's director."""

    def begin(self) -> str:
        """Assign the next release."""
        updates = self._bench.updates
        known = set(updates.director.bad)
        updates.assign(nonfinite=0.0)
        (new,) = set(updates.director.bad) - known
        return new

    def standing(self) -> Standing:
        """How it stands; what runs is whole where the store has every byte of it."""
        self._on()
        updates = self._bench.updates
        assigned = len(updates.director.bad)
        runs = updates.runs or ""
        places = Places(self._bench.updates_root)
        return Standing(
            runs, assigned > updates.kept + updates.taken_back, not runs or _is_whole(places, runs)
        )


def _is_whole(places: Places, release: str) -> bool:
    bundle = read_bundle(places, release)
    if bundle is None or bundle.sha256 != release:
        return False
    return all(sha256_file(places.files(release) / file.path) == file.sha256 for file in bundle.files)


class SimulatedDevice(_Part):
    """`Device`."""

    def state(self) -> str | None:
        """Of its guard; a cart works once it drives at its full speed."""
        device = self._bench.device
        if device is None or device.guarding.away:
            return None
        return device.guarding.state.value

    def arm(self) -> None:
        """It was armed at its start, and is with an acknowledgement."""

    def frames(self) -> int | None:
        """Since it was switched on."""
        return None if self._bench.device is None else self._bench.frames

    def faults(self) -> FaultBits:
        """Latch and throttling; a simulated machine has no other bits."""
        device = self._bench.device
        hot_s = self._bench.throttled_s + (0.0 if device is None else device.machine.heat.throttled_s)
        latch = None if device is None or device.guarding.latch is None else device.guarding.latch.id
        return FaultBits(latch=latch, throttled=int(hot_s))

    def acknowledge(self) -> None:
        """A person's act."""
        self._on().guarding.acknowledge()

    def facts(self) -> dict[str, str]:
        """What it is."""
        return {"board": "simulated", "body": "cart", "clock": "its own"}
