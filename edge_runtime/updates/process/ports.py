"""What the driver of updates works with: small seams, so that a device and a simulated one run the same code.

`updates.trust.Trust`, `updates.store.ReleaseStore` and `updates.download.Downloader` are `Trusting`, `Storing` and
`Fetching` as they are.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edge_runtime.protocol.release import Bundle, ReleaseTerms, TrackerRule
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.update import Assignment, DeviceFacts, Settled
from edge_runtime.updates.machine.observed import Device, Errand, SlotView
from edge_runtime.updates.store.slots import Slots, SlotState
from edge_runtime.updates.wants import Want

if TYPE_CHECKING:
    from edge_runtime.updates.download.progress import Progress
    from edge_runtime.updates.trust.admission import Admitted, RunningRelease


class Trusting(Protocol):
    """Judges what comes. Never called from two threads at once."""

    def refresh(self) -> None:
        """Fetch newer metadata; lengthy. Raises: UpdateRefused, and what was verified before stays usable."""
        ...

    def admit(
        self,
        sealed: bytes,
        *,
        last_seq: int,
        nonce: str | None,
        running: "Mapping[str, RunningRelease]",
        facts: DeviceFacts,
        denied: Collection[str],
    ) -> "Admitted":
        """Judge one envelope by what is verified already. Raises: UpdateRefused."""
        ...

    def still_signed(self, assignment: Assignment) -> bool:
        """Whether people still sign for what was admitted, by what is verified. Raises: UpdateRefused: unknown."""
        ...

    def settled(self, sealed: bytes) -> Settled:
        """Which ends the fleet has heard of, by what is verified. Raises: UpdateRefused."""
        ...

    def director(self) -> str:
        """Whose numbers assignments have. Raises: UpdateRefused, where nothing is trusted."""
        ...

    def time_floor_ms(self) -> int:
        """Before this it is not; milliseconds since 1970."""
        ...


class Fetching(Protocol):
    """Brings content; lengthy."""

    def fetch(
        self, wants: Sequence[Want], *, told: "Callable[[Progress], None]", cancelled: Callable[[], bool]
    ) -> None:
        """Bring blobs into the store. Raises: UpdateRefused; DownloadCancelled where it was asked to end."""
        ...


class Storing(Protocol):
    """Keeps content, releases, and what each slot runs."""

    def read(self, sha256: str, length: int) -> bytes | None:
        """A small blob whole and undamaged, or None."""
        ...

    def missing(self, bundle: Bundle) -> Sequence[Want]:
        """The content of a release that has to be fetched."""
        ...

    def check_space(self, bundle: Bundle) -> None:
        """Before the first byte. Raises: UpdateRefused."""
        ...

    def keep(self, bundle: Bundle, terms: ReleaseTerms) -> Path:
        """Put a release together and check what it holds; idempotent. Raises: UpdateRefused."""
        ...

    def bundle(self, sha256: str) -> Bundle | None:
        """A release's list of files; None where it is not kept."""
        ...

    def files(self, sha256: str) -> Path:
        """The folder of a release's files."""
        ...

    def terms(self, sha256: str) -> ReleaseTerms | None:
        """Under which terms a release is kept; None where it is not."""
        ...

    def slots(self) -> Slots:
        """What each slot runs."""
        ...

    def begin_trial(self, slot: str, sha256: str, values: Values | None = None) -> SlotState:
        """From now on perception's starts open this release in the slot, a bounded number of times."""
        ...

    def commit(self, slot: str) -> SlotState:
        """What is on trial becomes what is good; nothing where nothing is on trial."""
        ...

    def revert(self, slot: str) -> SlotState:
        """Back to the last good one; nothing where nothing is on trial."""
        ...

    def give_up(self, slot: str, sha256: str) -> SlotState:
        """Back to the last good one from a release that was accepted; nothing where it is not active."""
        ...

    def prune(self, keep: Collection[str] = ()) -> None:
        """Say what is assigned; downloads of anything else may go."""
        ...


class Taking(Protocol):
    """Who loads and runs the releases of a slot: perception, or what reads configurations. Short calls.

    Each call may be made again: asked for what is so already, it does nothing. A refusal with `again` is one of the
    moment, such as nobody answering.
    """

    def look(self, slot: str) -> SlotView | None:
        """What runs; None where nobody answers, or where there is no such slot."""
        ...

    def load(self, slot: str, release: str, folder: Path, values: Values) -> None:
        """Begin to load a candidate beside what is in use. Raises: UpdateRefused."""
        ...

    def shadow(self, slot: str, *, on: bool) -> None:
        """Let the candidate run on live frames, or let it rest. Raises: UpdateRefused."""
        ...

    def activate(self, slot: str, release: str, trackers: TrackerRule) -> None:
        """Put the candidate in use at the next boundary of frames. Raises: UpdateRefused."""
        ...

    def settle(self, slot: str) -> None:
        """The one in use stays: free the one before. Raises: UpdateRefused."""
        ...

    def revert(self, slot: str, release: str | None, folder: Path | None) -> None:
        """Put the one before in use again; one that is no longer loaded is opened first. Raises: UpdateRefused.

        Args:
            slot: its name.
            release: to go back to; None for what the configuration names.
            folder: of its files; None with `release`.
        """
        ...

    def discard(self, slot: str) -> None:
        """Free the candidate. Raises: UpdateRefused."""
        ...


class Surroundings(Protocol):
    """The rest of the device: guard, locks, heat."""

    def device(self) -> Device:
        """How things stand now, within a bounded time; no answer where one is due is an obstacle."""
        ...

    def facts(self) -> DeviceFacts:
        """What a release must fit."""
        ...

    def hold_still(self) -> bool:
        """Keep locks from being taken while a release is put in use; False where one is held."""
        ...

    def let_go(self) -> None:
        """Locks may be taken again; nothing where they could be."""
        ...


class Told(Protocol):
    """What an errand tells while it goes on."""

    def progress(self, done_bytes: int, of_bytes: int) -> None:
        """Of a download."""
        ...

    def cancelled(self) -> bool:
        """Whether it should end; asked between chunks."""
        ...


class Errands(Protocol):
    """One lengthy thing at a time: on a thread, or at once where time is simulated."""

    def begin(self, about: str, work: Callable[[Told], None]) -> None:
        """Start it, where none is under way. It returns or raises; UpdateRefused says how to go on."""
        ...

    @property
    def about(self) -> str | None:
        """What the one is about that is under way, or over and not yet put away; None where there is none."""
        ...

    def look(self) -> Errand:
        """How far it is."""
        ...

    def cancel(self) -> None:
        """Ask it to end soon."""
        ...

    def put_away(self) -> None:
        """Forget the one that is over."""
        ...


class Keeping(Protocol):
    """Small files below one folder that are whole or absent, named by their path in it."""

    def read(self, name: str) -> bytes | None:
        """A file; None where there is none. Raises: OSError where it is there and cannot be read."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Durable when it returns. Raises: OSError, and the old content stays."""
        ...

    def remove(self, name: str) -> None:
        """Whether it is there or not. Raises: OSError."""
        ...

    def names(self, folder: str) -> Sequence[str]:
        """Names in a folder, sorted; empty where there is no such folder."""
        ...

    def stamp(self, name: str) -> object:
        """Changes when the file does; None where there is none."""
        ...
