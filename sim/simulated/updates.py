"""A simulated device's updates: what the runtime decides, on its own files, over releases that this rig makes.

The driver, its state machine, the journal, the store of releases and the signed reports are the runtime's, on a
real disk; so is the count of starts by which perception opens what is on trial. Doubles are: trust, which believes
the rig's director (whoever else signs has tests of its own), the download, and perception, which counts by the
clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from securesystemslib.signer import CryptoSigner

from edge_runtime.clock import NS_PER_S, Clock, WallLabel
from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.update import REPORT_TYPE, StateReport, UpdateState
from edge_runtime.updates.download import Progress, Want
from edge_runtime.updates.machine import Rules
from edge_runtime.updates.machine.observed import SlotView
from edge_runtime.updates.process.driver import Driver
from edge_runtime.updates.process.errands import ErrandsAtOnce
from edge_runtime.updates.process.keeping import DiskFiles
from edge_runtime.updates.process.parts import DESIRED, OWN_FILES, Parts
from edge_runtime.updates.store import ReleaseStore, begin_start
from edge_runtime.updates.store.places import Places
from sim.scenario.records import Protection
from sim.simulated.clock import SimClock
from sim.simulated.director import DEVICE, SLOT, Director
from sim.virtual.character import Character
from sim.virtual.device import Around, ErrandsLater
from sim.virtual.perception import Behaviour, VirtualPerception

TURN_NS, UP_NS, DOWNLOAD_S = NS_PER_S, 20 * NS_PER_S, 3.0
"""Between two turns; since the machine's boot when the updates begin; of a download."""
_FIRST = "sha256:" + "1" * 64
_LIKE = Character(
    online=True,
    stays_s=None,
    fault=None,
    download_s=DOWNLOAD_S,
    load_s=2.0,
    fps=10.0,
    model_ms=20.0,
    celsius=50.0,
)


@dataclass(frozen=True, slots=True)
class _Mirror:
    """`Fetching` of what the director has."""

    director: Director
    store: ReleaseStore

    def fetch(
        self, wants: Sequence[Want], *, told: Callable[[Progress], None], cancelled: Callable[[], bool]
    ) -> None:
        """Bring it; how long that takes is the errand's."""
        total = sum(want.length for want in wants)
        for want in wants:
            if cancelled():
                return
            part = self.store.places.parts / f"{want.sha256}.part"
            part.write_bytes(self.director.blobs[want.sha256])
            self.store.take(part, want)
        told(Progress(total, total))


@dataclass(frozen=True, slots=True)
class _BootClock:
    """A device's clock in one boot: what nobody sets begins anew with it."""

    clock: SimClock
    boot_id: str
    begun_ns: int

    def monotonic_ns(self) -> int:
        return self.clock.now_ns - self.begun_ns

    def boottime_ns(self) -> int:
        return self.clock.now_ns - self.begun_ns

    def wall(self) -> WallLabel:
        return replace(self.clock.wall(), boot_id=self.boot_id)


class _Unjudged(VirtualPerception):
    """Perception whose counts nobody is shown."""

    def look(self, slot: str) -> SlotView:
        found = super().look(slot)
        in_use = replace(found.in_use, nonfinite=0, unanswered=0, latency_p50_ms=None, latency_p95_ms=None)
        return replace(found, in_use=in_use)


class SimUpdates:
    """The updates of one device, across reboots.

    Args:
        root: `STATE/updates`.
        clock: of the device.
        without: protections that are taken away.

    Attributes:
        director: who assigns.
        kept, taken_back: ends of assignments, by the device's reports.
        bad_ns: how long a bad release was in use.
    """

    def __init__(self, root: Path, clock: SimClock, without: frozenset[Protection]) -> None:
        self._root, self._clock, self._without = root, clock, without
        self.director = Director(clock)
        self.kept = self.taken_back = self.bad_ns = 0
        self._signer = CryptoSigner.generate_ecdsa()
        self._nonces = self._boots = 0
        self._reports: set[str] = set()
        self._before_ns = self._turned_ns = clock.now_ns
        self._driver: Driver | None = None
        self.boot()

    @property
    def runs(self) -> str | None:
        """The release in use; None for the first model."""
        return self._perception.runs

    def assign(self, nonfinite: float) -> None:
        """A release comes; it is taken with the next turn."""
        DiskFiles(self._root).write(DESIRED, self.director.assign(nonfinite))

    def power_off(self) -> None:
        """The power goes: nothing but the disk is left."""
        self._driver = None
        if "journal" in self._without:
            places = Places(self._root)
            for path in (places.slots, places.slots_copy):
                path.unlink(missing_ok=True)

    def boot(self) -> None:
        """Perception opens what the store names, and the updates go on."""
        self._boots += 1
        body = _BootClock(self._clock, f"boot-{self._boots}", self._clock.now_ns - UP_NS)
        self._store = ReleaseStore(self._root, reserve_bytes=0)
        kind = _Unjudged if "probation" in self._without else VirtualPerception
        self._perception = kind(_LIKE, _FIRST, self._package_of, self._behave, body)
        opened = begin_start(self._root, SLOT, boot=body.boot_id)
        if opened.release is not None:
            self._perception.revert(SLOT, opened.release, opened.files)
        self._driver = Driver(self._parts(self._store, body))

    def step(self) -> None:
        """What is due now."""
        now_ns = self._clock.now_ns
        passed_ns, self._before_ns = now_ns - self._before_ns, now_ns
        if self._driver is None:
            return
        if self.director.bad.get(self.runs or ""):
            self.bad_ns += passed_ns
        if now_ns - self._turned_ns >= TURN_NS:
            self._turned_ns = now_ns
            self._driver.turn()
            self._read_reports()

    def _parts(self, store: ReleaseStore, clock: Clock) -> Parts:
        return Parts(
            device=DEVICE,
            slots=(SLOT,),
            trust=self.director,
            fetch=_Mirror(self.director, store),
            store=store,
            taking=lambda _slot: self._perception,
            around=Around(_LIKE.celsius),
            refreshing=ErrandsAtOnce(),
            errands=ErrandsLater(clock, DOWNLOAD_S),
            keeping=DiskFiles(self._root, OWN_FILES),
            signer=self._signer,
            rules=Rules(device=DEVICE),
            clock=clock,
            nonce=self._nonce,
            log=lambda _text, **_fields: None,
        )

    def _nonce(self) -> str:
        self._nonces += 1
        return f"{self._nonces:032x}"

    def _behave(self, release: str) -> Behaviour:
        return Behaviour(nonfinite=self.director.bad.get(release, 0.0))

    def _package_of(self, release: str) -> str | None:
        terms = self._store.terms(release)
        return None if terms is None else terms.package

    def _read_reports(self) -> None:
        """As the uplink does, which sends each of them once."""
        folder = self._root / "reports"
        for path in sorted(folder.glob("[0-9]*.terminal")) if folder.is_dir() else ():
            if path.name in self._reports:
                continue
            self._reports.add(path.name)
            envelope = read_envelope(path.read_bytes(), REPORT_TYPE)
            envelope.verify([self._signer.public_key], 1)
            report = record_in(envelope, StateReport)
            self.kept += report.state is UpdateState.HEALTHY
            self.taken_back += report.state in (UpdateState.REVERTED, UpdateState.REFUSED)
