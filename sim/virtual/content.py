"""Releases of virtual devices: content is fetched and kept once for all, what each slot runs is each one's own.

The shared part is the real store with the real downloader over HTTPS. A device's own part keeps the store's rules
for slots, and in memory which content it has "downloaded".
"""

import random
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.protocol.release import Bundle, ReleaseTerms
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.download import Downloader, DownloadRules, Origin, Progress
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store import ReleaseStore
from edge_runtime.updates.store.slots import Slots, SlotState
from edge_runtime.updates.wants import Want
from sim.virtual.character import Character, Fault


class _FreeLink:
    """A budget for a link that costs nothing by the byte."""

    def claim(self, count: int) -> bool:  # noqa: ARG002 - the protocol's
        """Always."""
        return True


class SharedContent:
    """What the fleet has fetched.

    Args:
        folder: of the store.
        origin: the fleet server, as one of the devices.
        clock: monotonic time.
    """

    def __init__(self, folder: Path, origin: Callable[[], Origin], clock: Clock) -> None:
        self.store = ReleaseStore(folder, reserve_bytes=0)
        self._lock = threading.Lock()
        self._downloader = Downloader(
            self.store.places.parts,
            self.store,
            origin=origin,
            rules=DownloadRules(deadline_s=60.0, metered_bytes=None),
            budget=_FreeLink(),
            metered=lambda: False,
            clock=clock,
            rng=random.Random(1),  # noqa: S311 - jitter
        )

    def bring(self, wants: Sequence[Want], cancelled: Callable[[], bool]) -> None:
        """Have this content here, from the fleet server where nobody has fetched it yet.

        Raises:
            UpdateRefused, DownloadCancelled: as the downloader.
        """
        with self._lock:
            lacking = [want for want in wants if self.store.read(want.sha256, want.length) is None]
            if lacking:
                self._downloader.fetch(lacking, told=lambda _progress: None, cancelled=cancelled)


class VirtualStore:
    """One device's releases; `Storing` and `Fetching` as the driver knows them.

    Args:
        shared: by all devices.
        character: of the device.
    """

    def __init__(self, shared: SharedContent, character: Character) -> None:
        self._shared, self._character = shared, character
        self._here: set[str] = set()
        self._kept: dict[str, tuple[Bundle, ReleaseTerms]] = {}
        self._slots = Slots()
        self.fetched_bytes = 0

    def fetch(
        self,
        wants: Sequence[Want],
        *,
        told: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        """Bring content."""
        self._shared.bring(wants, cancelled)
        self._here |= {want.sha256 for want in wants}
        total = sum(want.length for want in wants)
        self.fetched_bytes += total
        told(Progress(total, total))

    def read(self, sha256: str, length: int) -> bytes | None:
        """A small blob."""
        return self._shared.store.read(sha256, length) if sha256 in self._here else None

    def missing(self, bundle: Bundle) -> list[Want]:
        """What this device lacks, each content once."""
        wants = {file.sha256: Want(file.sha256, file.bytes) for file in bundle.files}
        return [want for sha256, want in wants.items() if sha256 not in self._here]

    def check_space(self, _bundle: Bundle) -> None:
        """Before the first byte."""
        if self._character.fault is Fault.FULL_DISK:
            raise UpdateRefused(UpdateCode.NO_SPACE, "the disk is full")

    def keep(self, bundle: Bundle, terms: ReleaseTerms) -> Path:
        """Put a release together, by the real store."""
        folder = self._shared.store.keep(bundle, terms)
        self._kept[folder.parent.name] = (bundle, terms)
        return folder

    def bundle(self, sha256: str) -> Bundle | None:
        """A release's list of files."""
        found = self._kept.get(sha256)
        return None if found is None else found[0]

    def files(self, sha256: str) -> Path:
        """The folder of a release's files."""
        return self._shared.store.files(sha256)

    def terms(self, sha256: str) -> ReleaseTerms | None:
        """Under which terms a release is kept."""
        found = self._kept.get(sha256)
        return None if found is None else found[1]

    def slots(self) -> Slots:
        """What each slot runs."""
        return self._slots

    def begin_trial(self, slot: str, sha256: str, values: Values | None = None) -> SlotState:
        """A release on trial."""
        if sha256 not in self._kept:
            raise UpdateRefused(UpdateCode.ACTIVATION, "the release is not in the store", again=True)
        return self._change(slot, self._slots.of(slot).begun(sha256, values or {}))

    def commit(self, slot: str) -> SlotState:
        """What is on trial is good."""
        return self._change(slot, self._slots.of(slot).committed())

    def revert(self, slot: str) -> SlotState:
        """Back to the last good one."""
        return self._change(slot, self._slots.of(slot).reverted())

    def give_up(self, slot: str, sha256: str) -> SlotState:
        """Back from what was accepted."""
        state = self._slots.of(slot)
        return self._change(slot, state.given_up() if state.active == sha256 else state)

    def prune(self, keep: Collection[str] = ()) -> None:
        """Nothing is short here."""

    def _change(self, slot: str, state: SlotState) -> SlotState:
        self._slots = self._slots.with_slot(slot, state)
        return state
