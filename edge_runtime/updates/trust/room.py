"""The device's trust: refreshes the metadata it keeps, and admits assignments by what it keeps."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edge_runtime.clock import Clock
from edge_runtime.durable import write_file
from edge_runtime.protocol.release import ReleaseKind, ReleaseTerms
from edge_runtime.protocol.update import (
    DIRECTOR_ROLE,
    Assignment,
    DeviceFacts,
    Settled,
    UpdateAction,
    UpdateCode,
    kind_of,
)
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import admission
from edge_runtime.updates.trust.admission import Admitted, Recipient, RunningRelease
from edge_runtime.updates.trust.bootstrap import METADATA_NAME, read_root, refusal_of
from edge_runtime.updates.trust.cache import MetadataFolder, Stamp
from edge_runtime.updates.trust.chain import (
    Chain,
    KeptMetadata,
    end_ms,
    newest_root,
    verify_chain,
    verify_role,
)
from edge_runtime.updates.trust.fetch import Fetch, FetchFailed
from edge_runtime.updates.trust.listing import Listing
from edge_runtime.updates.trust.memory import Memory, keys_digest
from edge_runtime.updates.trust.moment import JudgedTime
from edge_runtime.updates.trust.refresh import refresh_into

STATE_NAME = "trust-state.json"
_FLOOR_STEP_MS = 600 * 1000
"""How far the floor on the disk may lie behind: each step is a write to flash."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the device trusts at the moment, for people.

    Attributes:
        versions: of root, timestamp, snapshot and the others, by role.
        expires_ms: when the four top-level ones end, milliseconds since 1970.
        time_floor_ms: no time before this is believed.
        trouble: a sentence, where the memory of versions was lost or cannot be kept; else None.
    """

    versions: Mapping[str, int]
    expires_ms: Mapping[str, int]
    time_floor_ms: int
    trouble: str | None


@dataclass(frozen=True, slots=True)
class _Verified:
    """A chain that was verified, with the files it was verified from and their state at that time."""

    stamp: Stamp
    bootstrap_sha256: str
    kept: KeptMetadata
    chain: Chain
    roles: dict[str, Listing] = field(default_factory=dict)

    def role(self, role: str) -> Listing:
        if role not in self.roles:
            self.roles[role] = verify_role(self.chain, self.kept, role)
        return self.roles[role]


class Trust:
    """What one device trusts. Not thread-safe; one object per folder and process.

    Args:
        directory: `STATE/updates`; holds `root.json` (see `bootstrap`), `metadata/` and `trust-state.json`.
        device: the device's id.
        key_sha256: of its public key (SPKI, DER), 64 hexadecimal digits.
        fetch: where newer metadata comes from; None where there is no server, then `refresh` refuses.
        clock: the wall clock, of which nothing is believed before the time floor.
        born_ms: a time that has surely passed, such as the start of the device's certificate; 0 if there is none.
    """

    def __init__(
        self,
        directory: Path,
        *,
        device: str,
        key_sha256: str,
        fetch: Fetch | None,
        clock: Clock,
        born_ms: int = 0,
    ) -> None:
        self._directory, self._device, self._key_sha256 = directory, device, key_sha256
        self._fetch, self._clock, self._born_ms = fetch, clock, born_ms
        self._folder = MetadataFolder(directory / METADATA_NAME)
        self._trouble: str | None = None
        self._memory = self._written = self._remembered()
        self._verified: _Verified | None = None

    def refresh(self) -> None:
        """Fetch newer metadata, verify all of it, and put it in the place of what was kept, or change nothing.

        Roots alone are kept when the rest is refused: they may have taken keys away from a thief.

        Raises:
            UpdateRefused: METADATA_UNAVAILABLE, METADATA_EXPIRED, METADATA_ROLLBACK, METADATA_INVALID, CLOCK,
                DOWNLOAD_TOO_SLOW, DOWNLOAD_DEADLINE or NO_SPACE. What was kept is still there, and `admit` works
                by it.
        """
        if self._fetch is None:
            raise UpdateRefused(
                UpdateCode.METADATA_UNAVAILABLE, "this device has no fleet server to refresh from", again=True
            )
        bootstrap = read_root(self._directory)
        try:
            with self._folder.locked():
                self._refresh(self._fetch, bootstrap)
        except FetchFailed as error:
            raise UpdateRefused(error.code, str(error), again=True) from None
        except BlockingIOError:
            raise UpdateRefused(
                UpdateCode.METADATA_UNAVAILABLE, "another process of this device is refreshing", again=True
            ) from None
        except OSError as error:
            raise refusal_of(error, "metadata cannot be written down") from None

    def admit(
        self,
        sealed: bytes,
        *,
        last_seq: int,
        nonce: str | None,
        running: Mapping[str, RunningRelease],
        facts: DeviceFacts,
        denied: Collection[str],
    ) -> Admitted:
        """Judge one envelope by the metadata that is kept; no network.

        Holding still is always safe: `HOLD` needs the director's signature, and no metadata that is fresh.

        Args:
            sealed: the envelope, as it came.
            last_seq: only a larger sequence is news; 0 when `director` has changed since. Sequences grow over all
                slots of a device: use `peek` to bring several in order first, or keep the last one of each slot.
            nonce: the one of this device's newest report; None where it sent none.
            running: what each slot runs; a slot that is not named is refused.
            facts: what a release must fit.
            denied: SHA-256 of bundles that failed here and may not be tried with this assignment.

        Raises:
            UpdateRefused: with any code of the first two groups of `UpdateCode`, or NO_MEMORY; `again` where time
                or a refresh may change it.
        """
        verified = self._trusted()
        chain = verified.chain
        assignment = admission.unsealed(sealed, chain.targets)
        recipient = Recipient(
            device=self._device,
            key_sha256=self._key_sha256,
            last_seq=last_seq,
            facts=facts,
            running=running,
            denied=denied,
            lines=self._memory.lines,
        )
        admission.refuse_stranger(assignment, recipient)
        moment, proof_ms = self._moment(), admission.proved_ms(assignment, nonce)
        moment.refuse_unset()
        self._note_running(running)
        if assignment.action is UpdateAction.HOLD:
            admission.refuse_run_out(assignment, moment, proof_ms)
            return Admitted(assignment, None)
        admission.refuse_behind(assignment, chain)
        role_name = kind_of(assignment.slot).role
        role = verified.role(role_name)
        # before the assignment's own end: a clock that is wrong comes right, and then it is as good as ever
        moment.refuse_ended({**chain.ends_ms(), role_name: end_ms(role.signed)}, proof_ms)
        admission.refuse_run_out(assignment, moment, proof_ms)
        terms = admission.terms_of(assignment, chain.targets, role)
        self._follow(assignment.slot, role)
        recipient = replace(recipient, lines=self._memory.lines)
        back = admission.refuse_unpermitted(assignment, terms, recipient, moment.judged_ms(proof_ms))
        return Admitted(assignment, terms, back)

    def still_signed(self, assignment: Assignment) -> bool:
        """Whether people still sign for the release of an assignment that was admitted; no network.

        What is kept may have expired: time alone takes nothing back that was admitted.

        Args:
            assignment: that names a release.

        Raises:
            UpdateRefused: nobody can tell, because nothing is trusted now.
        """
        verified = self._trusted()
        role = verified.role(kind_of(assignment.slot).role)
        try:
            admission.terms_of(assignment, verified.chain.targets, role)
        except UpdateRefused:
            return False
        return True

    def settled(self, sealed: bytes) -> Settled:
        """Ends of assignments whose reports the fleet has, by the director's word; no network, at any time.

        Raises:
            UpdateRefused: BAD_ENVELOPE, DIRECTOR_SIGNATURE or WRONG_DEVICE; or nothing is trusted now.
        """
        return admission.unsealed_settlement(sealed, self._trusted().chain.targets, self._device)

    def time_floor_ms(self) -> int:
        """Milliseconds since 1970 before which no time is believed; 0 where nothing is known."""
        return max(self._memory.floor_ms, self._born_ms)

    def director(self) -> str:
        """A digest of the keys that sign assignments. Other keys begin to count sequences anew.

        A thief of the director's key can spend all sequences of a device with one envelope. Whoever takes the key
        from him gives the device another director, and what the old one signed is worth nothing from then on.

        Raises:
            UpdateRefused: as `standing`.
        """
        return keys_digest(self._trusted().chain.targets.get_delegated_role(DIRECTOR_ROLE))

    def standing(self) -> Standing:
        """What is trusted at the moment.

        Raises:
            UpdateRefused: nothing is: METADATA_UNAVAILABLE, METADATA_INVALID or METADATA_ROLLBACK.
        """
        chain = self._trusted().chain
        return Standing(chain.versions(), chain.ends_ms(), self.time_floor_ms(), self._trouble)

    def _refresh(self, fetch: Fetch, bootstrap: bytes) -> None:
        memory = self._memory.under(_sha256(bootstrap))
        anchor, _ = self._anchor(memory, bootstrap)
        moment = self._moment()
        try:
            with fetch.conversation() as get, self._folder.staged() as stage:
                refresh_into(stage, anchor, get, moment)
                kept = stage.kept(anchor, 0)
                chain = verify_chain(kept)
                memory.refuse_older(chain)
                moment.refuse_unset()
                moment.refuse_ended(chain.ends_ms())
                listed = [kind.role for kind in ReleaseKind if chain.lists(kind.role)]
                roles = {role: verify_role(chain, kept, role) for role in listed}
        except UpdateRefused:
            root, data = newest_root(self._folder.kept(anchor, 0))
            if root.version > memory.root_version:
                self._remember(memory.with_root(root, _sha256(data)))
            raise
        self._remember(memory.after(chain).with_floor(moment.judged_ms()))
        self._verified = _Verified(self._folder.stamp(), _sha256(bootstrap), kept, chain, roles)

    def _trusted(self) -> _Verified:
        """The chain in the folder, verified when a file has changed, and not older than what is remembered."""
        bootstrap = read_root(self._directory)
        digest, stamp = _sha256(bootstrap), self._folder.stamp()
        memory = self._memory.under(digest)
        found = self._verified
        if found is None or (found.stamp, found.bootstrap_sha256) != (stamp, digest):
            kept = self._folder.kept(*self._anchor(memory, bootstrap))
            found = _Verified(stamp, digest, kept, verify_chain(kept))
            self._verified = found
        memory.refuse_older(found.chain)
        self._remember(memory.after(found.chain))
        return found

    def _anchor(self, memory: Memory, bootstrap: bytes) -> tuple[bytes, int]:
        """The root to begin at, and its version: the newest that was reached, or else the bootstrap root (0)."""
        if memory.root_sha256 is not None:
            data = self._folder.root(memory.root_version)
            if data is not None and _sha256(data) == memory.root_sha256:
                return data, memory.root_version
        return bootstrap, 0

    def _moment(self) -> JudgedTime:
        return JudgedTime.of(self._clock.wall(), self.time_floor_ms())

    def _note_running(self, running: Mapping[str, RunningRelease]) -> None:
        memory = self._memory
        for slot, release in running.items():
            if release.terms is not None:
                memory = memory.with_line(slot, release.terms)
        self._remember(memory)

    def _follow(self, slot: str, role: Listing) -> None:
        """People may have signed other terms for what runs: what those no longer permit is not permitted."""

        def now(path: str) -> ReleaseTerms | None:
            return admission.terms_now(path, role)

        self._remember(self._memory.following(slot, kind_of(slot), now))

    def _remembered(self) -> Memory:
        try:
            found = Memory.from_bytes((self._directory / STATE_NAME).read_bytes())
        except FileNotFoundError:
            if not self._folder.path.exists():
                return Memory()
            found = None
        except OSError:
            found = None
        if found is None:
            self._trouble = (
                f"{STATE_NAME} was lost or damaged: what was trusted is known from the metadata alone"
            )
        return found or Memory()

    def _remember(self, memory: Memory) -> None:
        """Keep a memory, and write it down if more than a little time has changed in it."""
        self._memory = memory
        later_ms = memory.floor_ms - self._written.floor_ms
        same = memory == self._written.model_copy(update={"floor_ms": memory.floor_ms})
        if same and later_ms < _FLOOR_STEP_MS:
            return
        try:
            write_file(self._directory / STATE_NAME, memory.to_bytes(), 0o600)
        except OSError as error:
            self._trouble = (
                f"{STATE_NAME} cannot be written ({error.strerror}): a restart forgets what is newest"
            )
        else:
            self._written = memory


def peek(sealed: bytes) -> Assignment:
    """The assignment in an envelope, NOT verified: to bring several in the order of their sequences, nothing else.

    Raises:
        UpdateRefused: BAD_ENVELOPE.
    """
    return admission.unsealed(sealed, None)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
