"""Room for what is to come: what stays, what goes for it, and when there is none."""

import contextlib
import os
import shutil
from collections.abc import Collection

from edge_runtime.durable import sync_directory
from edge_runtime.protocol.release import Bundle
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store.blobs import Blobs
from edge_runtime.updates.store.materialise import read_bundle, read_fetched_bundle
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.quota import Held, to_evict
from edge_runtime.updates.store.slots import read_slots
from edge_runtime.updates.store.space import free_bytes, megabytes, store_refusal


class Room:
    """What the store takes, and who needs it.

    Args:
        places: of the store.
        blobs: of the store.
        quota_bytes: of blobs and parts together.
        reserve_bytes: of the disk that stay free.
    """

    def __init__(self, places: Places, blobs: Blobs, *, quota_bytes: int, reserve_bytes: int) -> None:
        self._places, self._blobs = places, blobs
        self._quota, self._reserve = quota_bytes, reserve_bytes
        self._assigned: frozenset[str] = frozenset()
        self._wanted: dict[str, frozenset[str]] = {}

    def want(self, sha256: str, bundle: Bundle) -> None:
        """What is here for a release, or comes for it, stays until it is assigned no longer."""
        self._wanted[sha256] = frozenset(file.sha256 for file in bundle.files)

    def use(self, sha256: str) -> None:
        """Note that a release was used: the order of use is that of the folders' times, whatever the clock says."""
        latest = max((one.used for one in self._held()), default=0)
        folder = self._places.release(sha256)
        now = max(latest + 1, folder.stat().st_mtime_ns)
        os.utime(folder, ns=(now, now))

    def require(self, more_bytes: int) -> None:
        """Return where so much more may be written; what nobody needs goes for it, the longest unused first.

        Raises:
            UpdateRefused: there is no room even then; nothing was removed.
        """
        sizes = self._blobs.sizes()
        try:
            parts = sum(path.stat().st_size for path in self._places.parts.iterdir() if path.is_file())
            free = free_bytes(self._places.root)
        except OSError as error:
            raise store_refusal(error) from None
        over = sum(sizes.values()) + parts + more_bytes - self._quota
        short = more_bytes + self._reserve - free
        worst = max(over, short)
        if worst <= 0:
            return
        plan = to_evict(self._held(), sizes, needed=self.needed(), wanted=self._wanted_blobs(), short=worst)
        if plan.freed >= worst:
            self._remove(plan.releases, plan.blobs)
            return
        missing = megabytes(worst - plan.freed)
        if over >= short:
            where = f"in the store's quota of {megabytes(self._quota)}: raise `updates.quota_mb`"
        else:
            where = f"on the disk beside {megabytes(self._reserve)} that stay free: make room there"
        raise UpdateRefused(
            UpdateCode.NO_SPACE,
            f"{megabytes(more_bytes)} are to come, and {missing} are missing {where}",
            again=True,
        )

    def needed(self) -> frozenset[str]:
        """Releases that stay: those that run, that a slot may go back to, and that are assigned."""
        return read_slots(self._places.root).needed() | self._assigned

    def prune(self, keep: Collection[str] = (), *, all_unneeded: bool = False) -> None:
        """Say what is assigned, and clear away downloads of anything else.

        Args:
            keep: bundles' SHA-256 of what is assigned and not yet at its end.
            all_unneeded: remove every release that is not needed, not only when room is.

        Raises:
            UpdateRefused: the disk fails.
        """
        self._assigned = frozenset(keep)
        self._wanted = {sha256: blobs for sha256, blobs in self._wanted.items() if sha256 in self._assigned}
        for sha256 in (
            self._assigned - self._wanted.keys()
        ):  # the process before this one may have fetched a part
            bundle = read_fetched_bundle(self._places, sha256)
            if bundle is not None:
                self.want(sha256, bundle)
        wanted = self._wanted_blobs() | self._assigned
        try:
            for path in self._places.parts.iterdir():
                if path.name.partition(".")[0] not in wanted:
                    path.unlink()
            sizes = self._blobs.sizes()
            held = self._held()
            needed = self.needed() if all_unneeded else {one.sha256 for one in held}
            plan = to_evict(held, sizes, needed=needed, wanted=wanted, short=None)
            self._remove(plan.releases, plan.blobs)
        except OSError as error:
            raise store_refusal(error) from None

    def _held(self) -> list[Held]:
        found = []
        for folder in self._places.releases.iterdir():
            with contextlib.suppress(OSError):
                bundle = read_bundle(self._places, folder.name)
                blobs = frozenset(file.sha256 for file in bundle.files) if bundle else frozenset()
                found.append(Held(folder.name, blobs, folder.stat().st_mtime_ns))
        return found

    def _wanted_blobs(self) -> frozenset[str]:
        return frozenset().union(*self._wanted.values())

    def _remove(self, releases: Collection[str], blobs: Collection[str]) -> None:
        for sha256 in releases:
            shutil.rmtree(self._places.release(sha256), ignore_errors=True)
        for sha256 in blobs:
            self._blobs.remove(sha256)
        sync_directory(self._places.releases)
