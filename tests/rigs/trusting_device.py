"""A device's trust with everything around it: its folder, a clock in the hand of a test, and what it runs."""

import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from edge_runtime.clock import NS_PER_MS, SystemClock, WallLabel
from edge_runtime.protocol.update import DeviceFacts, UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import Admitted, Fetch, RunningRelease, Trust
from edge_runtime.updates.trust.bootstrap import write_root
from edge_runtime.updates.trust.fetch import Get
from tests.rigs.signed_repository import SignedRelease, SignedRepository

DEVICE = "cam-07"
KEY = "7c" * 32
FACTS = DeviceFacts(
    hardware=("jetson-orin-nx", "generic"),
    architecture="aarch64",
    compute_capability="8.7",
    l4t="36.4.0",
    tensorrt="10.3.0",
    runtime="0.9.0",
    memory_mb=16_000,
)
NOTHING = RunningRelease(None, 0, None)


class HandClock:
    """The machine's clock, whose wall time a test may set; the monotonic one is real."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self.set_ms: int | None = None
        self.ahead_ms = 0
        self.synced = True

    def monotonic_ns(self) -> int:
        return self._system.monotonic_ns()

    def boottime_ns(self) -> int:
        return self._system.boottime_ns()

    def wall(self) -> WallLabel:
        label = self._system.wall()
        unix_ns = label.unix_ns if self.set_ms is None else self.set_ms * NS_PER_MS
        return WallLabel(unix_ns + self.ahead_ms * NS_PER_MS, self.synced, label.boot_id)


class TrustingDevice:
    """One device of a fleet, with the fleet's first root.

    Attributes:
        folder: `STATE/updates`.
        road: where its metadata comes from; exchange it for a thief's.
        running: what its slots run.
        last_seq, nonce, denied: as the machine would hand them over.
    """

    def __init__(self, folder: Path, fleet: SignedRepository, *, born_ms: int = 0) -> None:
        self.folder, self.fleet, self.born_ms = folder, fleet, born_ms
        self.road: Fetch = fleet
        self.clock = HandClock()
        self.running: dict[str, RunningRelease] = {"detector": NOTHING, "configuration": NOTHING}
        self.last_seq = 0
        self.nonce: str | None = None
        self.denied: Collection[str] = ()
        self.facts = FACTS
        write_root(folder, fleet.files["1.root.json"])
        self.trust = self.restarted()

    def restarted(self) -> Trust:
        """A new process: nothing but the disk is left."""
        self.trust = Trust(
            self.folder,
            device=DEVICE,
            key_sha256=KEY,
            fetch=self,
            clock=self.clock,
            born_ms=self.born_ms,
        )
        return self.trust

    @contextmanager
    def conversation(self) -> Iterator[Get]:
        with self.road.conversation() as get:
            yield get

    def run(self, release: SignedRelease, slot: str = "detector") -> None:
        """Let a slot run a release."""
        self.running[slot] = RunningRelease(release.sha256, release.terms.counter, release.terms)

    def admit(self, sealed: bytes, **other: Any) -> Admitted:
        """Judge an envelope as the machine would have it judged."""
        given: Mapping[str, Any] = {
            "last_seq": self.last_seq,
            "nonce": self.nonce,
            "running": self.running,
            "facts": self.facts,
            "denied": self.denied,
            **other,
        }
        return self.trust.admit(sealed, **given)

    def assigned(self, release: SignedRelease | None, **other: Any) -> bytes:
        """The fleet's next assignment to this device."""
        given = {"device": DEVICE, "key_sha256": KEY, "seq": self.last_seq + 1, **other}
        return self.fleet.assign(release=release, **given)

    def wipe_metadata(self) -> None:
        """What a power cut, or a person, may do to the cache."""
        shutil.rmtree(self.folder / "metadata")

    def lose_memory(self) -> None:
        """The same for the second copy of versions."""
        (self.folder / "trust-state.json").unlink()

    def stored(self) -> dict[str, bytes]:
        """Each file of metadata, by its path in the folder."""
        folder = self.folder / "metadata"
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*.json"))
            if not path.is_symlink()
        }


def refusal(act: Callable[[], object]) -> UpdateCode | None:
    """The code with which something is refused, or None where it is not."""
    try:
        act()
    except UpdateRefused as refused:
        return refused.code
    return None


def with_facts(**changed: Any) -> DeviceFacts:
    """The facts of the rig's device, some of them others."""
    return FACTS.model_copy(update=changed)


__all__ = ["DEVICE", "FACTS", "KEY", "HandClock", "TrustingDevice", "refusal", "with_facts"]
