"""Making room: engines that nobody needs go, and of each that stays somebody can say why."""

import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from edge_runtime.engines.errors import StoreFull, StoreUnusable
from edge_runtime.engines.folder import StoreFolder, loading_lock
from edge_runtime.engines.holds import Hold, Holds
from edge_runtime.engines.listing import Entry, RecentKeys, entries_in
from edge_runtime.engines.quota import Plan, Stored, to_fit, to_tidy
from edge_runtime.engines.verify import MAX_ENGINE_BYTES
from edge_runtime.engines.writing import mib, remove_engine

_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """An engine that was not removed.

    Attributes:
        entry: what it is.
        why: a sentence without its end.
    """

    entry: Entry
    why: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a clean-up did, or would do.

    Attributes:
        removed: engines that are gone.
        kept: engines that stay, with the reason.
        garbage: names of what killed processes had left.
        freed_bytes: of the engines that are gone.
    """

    removed: tuple[Entry, ...]
    kept: tuple[Kept, ...]
    garbage: tuple[str, ...]
    freed_bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the store takes, bytes.

    Attributes:
        engines: with their manifests; `quota` limits them.
        quota: as configured.
        timing: the timing caches.
        quarantine: what was taken out of use.
        free: left on the disk; None where it cannot be asked.
    """

    engines: int
    quota: int
    timing: int
    quarantine: int
    free: int | None


@dataclass(frozen=True, slots=True)
class Room:
    """What lies in the store, and what of it may go.

    Args:
        folder: of the store.
        holds: who uses what.
        recent: the order of use.
        quota: bytes of all engines and manifests together.
    """

    folder: StoreFolder
    holds: Holds
    recent: RecentKeys
    quota: int

    def entries(self) -> list[Entry]:
        """Every engine, readable or not, the one that was unused for longest first.

        Raises:
            StoreUnusable: the directory cannot be listed.
        """
        return entries_in(self.folder, self.recent.read(), self.holds.all()[0])

    def make(self, key: str, new_bytes: int) -> None:
        """Remove as little as makes room for the engine of a key; the caller holds the store's lock.

        Raises:
            StoreFull: there is no room when all that may go is gone; nothing was removed.
            OSError: an engine cannot be removed.
        """
        if new_bytes > MAX_ENGINE_BYTES:
            raise StoreFull(f"the engine has {mib(new_bytes)}: none above {mib(MAX_ENGINE_BYTES)} is kept")
        plan, where, remedy = self._plan(key, new_bytes)
        if plan.short_bytes:
            raise StoreFull(
                f"the engine has {mib(new_bytes)}, and {mib(plan.short_bytes)} are missing {where}: "
                f"{_reasons(plan.kept)}; {remedy}, "
                "or delete the store while nothing runs: what is needed is built again",
                new_bytes,
            )
        for one in plan.remove:
            remove_engine(self.folder, one)

    def has_room(self, key: str, new_bytes: int) -> bool:
        """Whether an engine of this key would have room, on the disk beside the copy of its build."""
        try:
            return not self._plan(key, new_bytes, scratch=new_bytes)[0].short_bytes
        except StoreUnusable:
            return False

    def _plan(self, key: str, new_bytes: int, scratch: int = 0) -> tuple[Plan, str, str]:
        """What would have to go; and for a sentence: where room is missing, and what helps."""
        entries = {entry.key: entry for entry in self.entries() if entry.key != key}
        limit, where, remedy = self.quota, f"in the store's quota of {mib(self.quota)}", "raise the quota"
        free = self.free()
        left = self.quota if free is None else free - scratch
        on_disk = sum(entry.bytes for entry in entries.values()) + left
        if on_disk < limit:
            limit, where, remedy = on_disk, f"on its disk ({self.folder.path})", "make room there"
        plan = to_fit([_stored(one) for one in entries.values()], self._needed(entries, ()), limit, new_bytes)
        return plan, where, remedy

    def prune(self, assigned: Collection[str], without: Collection[Hold] = (), *, dry_run: bool) -> Pruned:
        """Remove what nobody needs; the caller holds the store's lock.

        Args:
            assigned: keys that must stay beside those that are held.
            without: holds that do not count.
            dry_run: only say what would be removed.

        Raises:
            StoreUnusable: the directory cannot be listed.
            OSError: something cannot be removed.
        """
        garbage = () if dry_run else tuple(self.folder.sweep())
        entries = {entry.key: entry for entry in self.entries()}
        plan = to_tidy([_stored(one) for one in entries.values()], self._needed(entries, assigned, without))
        if not dry_run:
            for key in plan.remove:
                remove_engine(self.folder, key)
        removed = tuple(entries[key] for key in plan.remove)
        kept = tuple(Kept(entries[key], why) for key, why in plan.kept.items())
        return Pruned(removed, kept, garbage, sum(entry.bytes for entry in removed))

    def free(self) -> int | None:
        """Bytes left on the disk; None where it cannot be asked."""
        try:
            return shutil.disk_usage(self.folder.path).free
        except OSError:
            return None

    def _needed(
        self, entries: Mapping[str, Entry], assigned: Collection[str], without: Collection[Hold] = ()
    ) -> dict[str, str]:
        """Why each engine that must stay does."""
        _, doubt = self.holds.all()
        needed = {}
        for key, entry in entries.items():
            if holds := [str(hold) for hold in entry.holds if hold not in without]:
                needed[key] = f"it {' and '.join(holds)}"
            elif doubt is not None:
                needed[key] = doubt
            elif key in assigned:
                needed[key] = "it is assigned"
            elif entry.newer:
                needed[key] = "a newer release wrote it"
            elif holder := self.folder.in_use(key) or self.folder.in_use(loading_lock(key)):
                needed[key] = f"it is being built or opened by {holder}"
        return needed


def _stored(entry: Entry) -> Stored:
    return Stored(entry.key, entry.bytes, entry.used)


def _reasons(kept: Mapping[str, str]) -> str:
    told = [f"{key[:12]} stays, because {why}" for key, why in list(kept.items())[:_MOST_TOLD]]
    if len(kept) > _MOST_TOLD:
        told.append(f"so do {len(kept) - _MOST_TOLD} more")
    return "; ".join(told) or "there is no other engine"
