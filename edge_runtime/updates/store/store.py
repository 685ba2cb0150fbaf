"""The device's releases: what is here, what is missing, what each slot runs, and what goes when room is needed.

Nothing here needs a network. Only one process holds a `ReleaseStore`; others read with `read_slots` and
`begin_start`.
"""

from collections.abc import Collection
from pathlib import Path

from edge_runtime.protocol.release import Bundle, ReleaseTerms
from edge_runtime.protocol.release_content import why_file_refused
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store.blobs import Blobs
from edge_runtime.updates.store.materialise import (
    has_links,
    is_materialised,
    materialise,
    read_bundle,
    read_terms,
)
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.room import Room
from edge_runtime.updates.store.slots import Slots, SlotState, read_slots, write_slots
from edge_runtime.updates.store.space import store_refusal, sweep
from edge_runtime.updates.store.starting import clear_starts, watch_starts
from edge_runtime.updates.wants import Want

DEFAULT_QUOTA_BYTES = 4 << 30
DEFAULT_RESERVE_BYTES = 256 << 20
"""Left free on the disk for the runtime's own state: the queue of events, evidence, logs."""


class ReleaseStore:
    """The folder `STATE/updates`, as far as content, releases and slots go.

    Args:
        root: the folder; made when it is missing. What a killed process left half done is cleared away.
        quota_bytes: of blobs and parts together.
        reserve_bytes: of the disk that stay free.

    Raises:
        OSError: the folder cannot be used.
    """

    def __init__(
        self,
        root: Path,
        *,
        quota_bytes: int = DEFAULT_QUOTA_BYTES,
        reserve_bytes: int = DEFAULT_RESERVE_BYTES,
    ) -> None:
        self.places = Places(root)
        for folder in (root, self.places.blobs, self.places.parts, self.places.releases):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(self.places)
        self._blobs = Blobs(self.places.blobs)
        self._room = Room(self.places, self._blobs, quota_bytes=quota_bytes, reserve_bytes=reserve_bytes)
        self._copies = not has_links(root)

    # ---- content

    def read(self, sha256: str, length: int) -> bytes | None:
        """A small blob whole and undamaged, or None."""
        if not self._blobs.is_whole(sha256, length):
            return None
        try:
            return self._blobs.path(sha256).read_bytes()
        except OSError:
            return None

    def missing(self, bundle: Bundle) -> list[Want]:
        """The content that has to be fetched for a release; a damaged blob is removed and is among it.

        What is here for it already stays until `prune`, so that another release cannot push it out.
        """
        self._room.want(bundle.sha256, bundle)
        found: dict[str, Want] = {}
        for file in bundle.files:
            if file.sha256 not in found and not self._blobs.is_whole(file.sha256, file.bytes):
                self._blobs.remove(file.sha256)
                found[file.sha256] = Want(file.sha256, file.bytes)
        return list(found.values())

    def take(self, part: Path, want: Want) -> bool:
        """Make a file of the same disk a blob, by its name alone; False where its content is another.

        Raises:
            UpdateRefused: the disk fails, or is full.
        """
        try:
            return self._blobs.take(part, want.sha256, want.length)
        except OSError as error:
            raise store_refusal(error) from None

    # ---- releases

    def keep(self, bundle: Bundle, terms: ReleaseTerms) -> Path:
        """Put a release together of its blobs; asked again, its terms become these, and it is mended if need be.

        Args:
            bundle: its list of files; the SHA-256 of its canonical bytes names the release.
            terms: under which it was taken.

        Returns:
            The folder of its files.

        Raises:
            UpdateRefused: content is missing or damaged (fetch what `missing` says), is executable, or does not fit
                on the disk.
        """
        sha256 = bundle.sha256
        self._room.want(sha256, bundle)
        for file in bundle.files:
            if not self._blobs.is_whole(file.sha256, file.bytes):
                raise UpdateRefused(
                    UpdateCode.CONTENT_MISMATCH,
                    f"{file.path} of the release is missing or damaged in the store: it is fetched again",
                    again=True,
                )
            self._refuse_executable(file.path, file.sha256)
        try:
            if not is_materialised(self.places, sha256, bundle) or self.terms(sha256) != terms:
                if self._copies:
                    self.require_space(bundle.total_bytes)
                materialise(self.places, sha256, bundle, terms)
            self._room.use(sha256)
        except OSError as error:
            raise store_refusal(error) from None
        return self.files(sha256)

    def files(self, sha256: str) -> Path:
        """The folder of a release's files, whether it is here or not."""
        return self.places.files(sha256)

    def terms(self, sha256: str) -> ReleaseTerms | None:
        """The terms that are kept with a release; None where it is not here."""
        return read_terms(self.places, sha256)

    def bundle(self, sha256: str) -> Bundle | None:
        """A release's list of files; None where it is not here or is damaged."""
        found = read_bundle(self.places, sha256)
        return found if found is not None and found.sha256 == sha256 else None

    # ---- slots

    def slots(self) -> Slots:
        """What each slot runs."""
        return read_slots(self.places.root)

    def begin_trial(self, slot: str, sha256: str, values: Values | None = None) -> SlotState:
        """From now on a slot opens this release, on trial; durable when it returns.

        Args:
            slot: its name.
            sha256: of a release that is kept.
            values: per-device values of a configuration.

        Raises:
            UpdateRefused: the release is not in the store, or the disk fails.
        """
        state = self.slots().of(slot)
        begun = state.begun(sha256, values or {})
        if state == begun:
            return state
        if self.bundle(sha256) is None:
            raise UpdateRefused(
                UpdateCode.ACTIVATION, f"the release {sha256[:12]}… is not in the store", again=True
            )
        try:
            clear_starts(self.places, slot)
            self._write(slot, begun)
            self._room.use(sha256)
        except OSError as error:
            raise store_refusal(error) from None
        return begun

    def commit(self, slot: str) -> SlotState:
        """What is on trial is good from now on, and watched for a while; nothing where nothing is on trial.

        Raises:
            UpdateRefused: the disk fails; the trial goes on.
        """
        state = self.slots().of(slot)
        if state.trial and state.active is not None:
            try:
                watch_starts(self.places, slot, state.active)
            except OSError as error:
                raise store_refusal(error) from None
        return self._change(slot, state, state.committed())

    def revert(self, slot: str) -> SlotState:
        """Back to what ran before the trial; nothing where nothing is on trial.

        Raises:
            UpdateRefused: the disk fails; perception's own count of starts ends the trial all the same.
        """
        state = self.slots().of(slot)
        return self._change(slot, state, state.reverted())

    def give_up(self, slot: str, sha256: str) -> SlotState:
        """Back to the last good one from an accepted release that does not stay; nothing where it is not in use.

        Raises:
            UpdateRefused: the disk fails; perception's own count of starts keeps it from being opened all the same.
        """
        state = self.slots().of(slot)
        accepted = state.active == sha256 and not state.trial
        return self._change(slot, state, state.given_up() if accepted else state)

    # ---- room

    def require_space(self, more_bytes: int) -> None:
        """Return where so much more may be written; what nobody needs goes for it, the longest unused first.

        Raises:
            UpdateRefused: there is no room even then; nothing was removed.
        """
        self._room.require(more_bytes)

    def check_space(self, bundle: Bundle) -> None:
        """`require_space` for what a release still needs, before its first byte is fetched.

        Raises:
            UpdateRefused: there is no room.
        """
        lacking = self.missing(bundle)
        parts = (self.places.parts / f"{want.sha256}.part" for want in lacking)
        here = sum(path.stat().st_size for path in parts if path.is_file())
        copies = bundle.total_bytes if self._copies else 0
        self.require_space(max(0, sum(want.length for want in lacking) - here) + copies)

    def prune(self, keep: Collection[str] = (), *, all_unneeded: bool = False) -> None:
        """Say what is assigned, and clear away downloads of anything else.

        Args:
            keep: bundles' SHA-256 of what is assigned and not yet at its end.
            all_unneeded: remove every release that is not needed, not only when room is.

        Raises:
            UpdateRefused: the disk fails.
        """
        self._room.prune(keep, all_unneeded=all_unneeded)

    # ---- within

    def _refuse_executable(self, path: str, sha256: str) -> None:
        try:
            with self._blobs.path(sha256).open("rb") as stream:
                found = why_file_refused(path, stream)
        except OSError as error:
            raise store_refusal(error) from None
        if found is not None:
            raise UpdateRefused(
                UpdateCode.EXECUTABLE_CONTENT, f"{path} of the release is refused: it is {found}"
            )

    def _change(self, slot: str, before: SlotState, after: SlotState) -> SlotState:
        if before != after:
            try:
                self._write(slot, after)
            except OSError as error:
                raise store_refusal(error) from None
        return after

    def _write(self, slot: str, state: SlotState) -> None:
        write_slots(self.places, self.slots().with_slot(slot, state))
