"""One virtual device: the real driver of updates over ports in memory, and what its uplink would say and hear."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from securesystemslib.signer import CryptoSigner

from edge_runtime import __version__
from edge_runtime.clock import NS_PER_S, Clock, WallLabel
from edge_runtime.protocol.update import DeviceFacts
from edge_runtime.updates.machine import Rules
from edge_runtime.updates.machine.observed import Device, Errand
from edge_runtime.updates.process.driver import Driver
from edge_runtime.updates.process.errands import ErrandsAtOnce, Job
from edge_runtime.updates.process.parts import DESIRED, Parts
from edge_runtime.updates.trust import Fetch, Trust
from edge_runtime.updates.trust.bootstrap import write_root
from edge_runtime.uplink.update_files import SealedReport
from sim.virtual.character import Character
from sim.virtual.content import SharedContent, VirtualStore
from sim.virtual.members import Member
from sim.virtual.perception import Behave, VirtualPerception

HARDWARE = "virtual"
_REPORT = re.compile(r"reports/(\d{16})\.(terminal|progress)")


@dataclass(frozen=True, slots=True)
class BodyClock:
    """A device's clock: the machine's, synchronised, in a boot of its own."""

    clock: Clock
    boot_id: str

    def monotonic_ns(self) -> int:
        """As the machine's."""
        return self.clock.monotonic_ns()

    def boottime_ns(self) -> int:
        """As the machine's."""
        return self.clock.boottime_ns()

    def wall(self) -> WallLabel:
        """The machine's, believed."""
        return WallLabel(self.clock.wall().unix_ns, synced=True, boot_id=self.boot_id)


class MemoryFiles:
    """`Keeping` in memory.

    Attributes:
        version: of the reports; changes when one comes or goes.
    """

    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, int]] = {}
        self._writes = 0
        self.version = 0

    def read(self, name: str) -> bytes | None:
        """A file."""
        found = self._files.get(name)
        return None if found is None else found[0]

    def write(self, name: str, data: bytes) -> None:
        """Keep it."""
        self._writes += 1
        self._files[name] = (data, self._writes)
        self.version += name.startswith("reports/")

    def remove(self, name: str) -> None:
        """Whether it is there or not."""
        if self._files.pop(name, None) is not None:
            self.version += name.startswith("reports/")

    def names(self, folder: str) -> Sequence[str]:
        """Files of a folder, sorted."""
        start = f"{folder}/"
        return sorted(name.removeprefix(start) for name in self._files if name.startswith(start))

    def stamp(self, name: str) -> object:
        """Changes when the file does."""
        found = self._files.get(name)
        return None if found is None else found[1]

    def reports(self) -> list[SealedReport]:
        """Sealed reports, as the uplink reads them from the disk."""
        found = []
        for name, (data, _) in sorted(self._files.items()):
            if match := _REPORT.fullmatch(name):
                found.append(SealedReport(int(match[1]), match[2] == "terminal", data))
        return found


class ErrandsLater:
    """`Errands` whose work is done at once, and told only after a while: a link that takes its time.

    Args:
        clock: monotonic time.
        seconds: that each takes.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._took_ns = clock, int(seconds * NS_PER_S)
        self._inner = ErrandsAtOnce()
        self._due_ns = 0

    def begin(self, about: str, work: Job) -> None:
        """Do it."""
        self._due_ns = self._clock.monotonic_ns() + self._took_ns
        self._inner.begin(about, work)

    @property
    def about(self) -> str | None:
        """What the last one was about."""
        return self._inner.about

    def look(self) -> Errand:
        """What came of it, once that may be known."""
        return self._inner.look() if self._clock.monotonic_ns() >= self._due_ns else Errand()

    def cancel(self) -> None:
        """It is over."""
        self._due_ns = 0

    def put_away(self) -> None:
        """Forget it."""
        self._inner.put_away()


class Around:
    """`Surroundings`: nothing is in the way here."""

    def __init__(self, celsius: float) -> None:
        self._device = Device(celsius=celsius)
        self._facts = DeviceFacts(
            hardware=(HARDWARE, "generic"), architecture="x86_64", runtime=__version__, memory_mb=4096
        )

    def device(self) -> Device:
        """How things stand."""
        return self._device

    def facts(self) -> DeviceFacts:
        """What a release must fit."""
        return self._facts

    def hold_still(self) -> bool:
        """Nobody locks."""
        return True

    def let_go(self) -> None:
        """Nobody waits."""


class VirtualDevice:
    """A device.

    Args:
        member: who it is.
        character: what it is like.
        folder: for its verified metadata; made.
        slots: names of its models, each set up with `package`.
        package: digest of that model.
        content, fetch: shared by all devices.
        behave: how releases behave.
        clock: the machine's.
        nonce: gives 32 hexadecimal digits.

    Attributes:
        slots: perception's, by name.
        driver: the real one.
        log: what it said, the newest last, at most 64 lines.
    """

    def __init__(
        self,
        member: Member,
        character: Character,
        folder: Path,
        slots: Sequence[str],
        package: str,
        *,
        content: SharedContent,
        fetch: Fetch,
        behave: Behave,
        clock: Clock,
        nonce: Callable[[], str],
    ) -> None:
        self.member, self.character = member, character
        self.files = MemoryFiles()
        self.log: list[str] = []
        folder.mkdir(parents=True, exist_ok=True)
        if member.root is not None:
            write_root(folder, member.root.encode())
        body = BodyClock(clock, f"virtual-{member.device}"[:64])
        self.store = VirtualStore(content, character)
        self.slots = {
            slot: VirtualPerception(character, package, self._package_of, behave, body) for slot in slots
        }
        parts = Parts(
            device=member.device,
            slots=tuple(slots),
            trust=Trust(
                folder,
                device=member.device,
                key_sha256=member.key_sha256,
                fetch=fetch,
                clock=body,
                born_ms=member.born_ms,
            ),
            fetch=self.store,
            store=self.store,
            taking=lambda slot: self.slots[slot],
            around=Around(character.celsius),
            refreshing=ErrandsAtOnce(),
            errands=ErrandsLater(body, character.download_s),
            keeping=self.files,
            signer=CryptoSigner(member.key),
            rules=Rules(device=member.device),
            clock=body,
            nonce=nonce,
            log=self._say,
        )
        self.driver = Driver(parts)

    @property
    def name(self) -> str:
        """Its id."""
        return self.member.device

    def desired(self, payload: bytes) -> None:
        """What the uplink would write down; an empty one it would not."""
        if payload and payload != self.files.read(DESIRED):
            self.files.write(DESIRED, payload)

    def broker_has(self, numbers: Sequence[int]) -> None:
        """Progress that the uplink would delete."""
        for number in numbers:
            self.files.remove(f"reports/{number:016d}.progress")

    def _package_of(self, release: str) -> str | None:
        terms = self.store.terms(release)
        return None if terms is None else terms.package

    def _say(self, text: str, **fields: object) -> None:
        self.log.append(" ".join([text, *(f"{name}={value}" for name, value in fields.items())]))
        del self.log[:-64]
