"""The engine store: engines that were built here, found by what they were built for, and never trusted blindly.

A key names all that decides what an engine is (`recipe`). `find` reads the manifest, compares it with the recipe
field by field, then the engine's size and SHA-256, and only then hands out its bytes. What differs goes into
quarantine with the reason, and is built again at most once; see `failures`.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from edge_runtime import __version__
from edge_runtime.clock import Clock, SystemClock
from edge_runtime.engines.custody import Custody
from edge_runtime.engines.errors import (
    BuildFailed,
    EngineDamaged,
    EngineMismatch,
    StoreBusy,
    StoreUnusable,
)
from edge_runtime.engines.failures import Failures
from edge_runtime.engines.folder import StoreFolder, require_key
from edge_runtime.engines.holds import Hold, Holds, Role
from edge_runtime.engines.listing import Entry, RecentKeys, entry_of
from edge_runtime.engines.manifest import BuildFacts, EngineManifest
from edge_runtime.engines.quarantine import Case, Quarantine
from edge_runtime.engines.quota import DEFAULT_QUOTA_BYTES
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.room import Pruned, Room, Usage
from edge_runtime.engines.timing import TimingCaches
from edge_runtime.engines.verify import StoredEngine, load, read_manifest
from edge_runtime.engines.writing import write_engine


class EngineStore:
    """Engines on disk. Several processes and threads may use one directory.

    Args:
        directory: `StateDirectory.engines`; made when something is first written. It may be a symbolic link.
        quota_bytes: of all engines and manifests together.
        clock: of the device.
        sleep: waits between two tries for a lock, seconds.

    Attributes:
        folder: where all of it lies.
        failures: what went wrong with a key.
        timing: what TensorRT measured in earlier builds.
    """

    def __init__(
        self,
        directory: Path,
        *,
        quota_bytes: int = DEFAULT_QUOTA_BYTES,
        clock: Clock | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock = clock or SystemClock()
        self.folder = StoreFolder(directory, self._clock, sleep)
        self._recent = RecentKeys(self.folder)
        self._holds = Holds(self.folder)
        self._room = Room(self.folder, self._holds, self._recent, quota_bytes)
        self._quarantine = Quarantine(self.folder, self._clock)
        self.failures = Failures(self.folder, self._clock, self._room.has_room)
        self.timing = TimingCaches(self.folder)
        self._custody = Custody(self.folder, self._quarantine, self.failures)

    # Engines

    def find(self, recipe: EngineRecipe) -> StoredEngine | None:
        """The engine that was built for this recipe; None where there is none.

        Raises:
            EngineMismatch: what lies under its name was built for something else; it is in quarantine now.
            EngineDamaged: it is not what was written; it is in quarantine now.
            EngineNewer: a newer release wrote it; it is left as it is.
            StoreUnusable: the directory or the system does not let it be read.
        """
        key = recipe.key
        try:
            stored = load(self.folder, key, recipe)
        except (EngineMismatch, EngineDamaged) as error:
            stored = self._custody.look_again(key, recipe, error)
        if stored is not None and self._recent.read()[-1:] != (key,):
            with contextlib.suppress(StoreUnusable, StoreBusy, OSError), self.folder.owned(wait_s=0):
                self._recent.touch_owned(key)
        return stored

    def add(self, recipe: EngineRecipe, engine: bytes, build: BuildFacts) -> StoredEngine:
        """Keep an engine that was just built; what was unused for longest goes where the quota asks for it.

        Killed at any moment, it leaves the engine that was there before, the new one, or none.

        Raises:
            BuildFailed: the engine is empty.
            StoreFull: the disk or the quota has no room for it; nothing is left behind.
            EngineNewer: a newer release keeps its engine under this key.
            StoreUnusable: the directory cannot be written.
            StoreBusy: another process holds the store.
        """
        if not engine:
            raise BuildFailed("TensorRT gave an engine without a single byte: build it again")
        key, wall = recipe.key, self._clock.wall()
        manifest = EngineManifest(
            recipe=recipe,
            engine_sha256=hashlib.sha256(engine).hexdigest(),
            engine_bytes=len(engine),
            build=build,
            built_at=wall.isoformat(),
            clock_synced=wall.synced,
            release=__version__,
        )
        encoded = manifest.encode()
        with self.folder.owned(), self.folder.explained():
            with contextlib.suppress(EngineDamaged):  # it is replaced; one of a newer release is not
                read_manifest(self.folder, key)
            self.folder.sweep()
            self._room.make(key, len(engine) + len(encoded))
            self._recent.touch_owned(key)
            write_engine(self.folder, key, engine, encoded)
            self.failures.built_owned(key)
        return StoredEngine(engine, manifest)

    def verify(self, key: str) -> StoredEngine | None:
        """Read a stored engine and compare it with its manifest and its name; nothing is moved.

        Raises:
            EngineDamaged, EngineNewer, StoreUnusable: as `find`.
        """
        return load(self.folder, require_key(key))

    def entries(self) -> list[Entry]:
        """Every engine, readable or not, the one that was unused for longest first; engines are not read.

        Raises:
            StoreUnusable: the directory cannot be listed.
        """
        return self._room.entries()

    def inspect(self, key: str) -> Entry | None:
        """What is known of one engine; None where there is none.

        Raises:
            StoreUnusable: the directory or the system does not let it be read.
        """
        return entry_of(self.folder, require_key(key), self._recent.read(), self._holds.all()[0])

    def lock(
        self, key: str, wait_s: float, stop: Callable[[], bool] | None = None
    ) -> contextlib.AbstractContextManager[None]:
        """Build the engine of a key as the only one; whoever had to wait looks for it again with `find`.

        Args:
            key: of the recipe.
            wait_s: wait at most this long; 0 tries once.
            stop: asked while waiting; True gives up.

        Raises:
            StoreBusy: on entering, where another process holds it; the text says which, and since when.
            StoreUnusable: on entering, where the directory cannot be written.
        """
        return self._lock(require_key(key), wait_s, stop)

    def loading(self, key: str) -> contextlib.AbstractContextManager[None]:
        """Load the engine of a key in this block, until it has given its first answers; see `Custody.loading`."""
        return self._custody.loading(require_key(key))

    # Out of use

    def quarantine(self, key: str, reason: str, *, engine_sha256: str | None = None) -> None:
        """Take an engine out of use and remember it: the first time it is built again, the second time it is not.

        Args:
            key: of the recipe.
            reason: a sentence.
            engine_sha256: of the engine that is meant; nothing is done where another lies there by now.

        Raises:
            StoreUnusable: it can be neither moved nor removed.
            StoreBusy: another process holds the store.
        """
        self._custody.take_out(require_key(key), reason, engine_sha256=engine_sha256)

    def quarantined(self) -> tuple[Case, ...]:
        """What lies in quarantine, oldest first."""
        return self._quarantine.cases()

    def empty_quarantine(self) -> int:
        """Remove what lies in quarantine.

        Returns:
            How many cases there were.

        Raises:
            StoreUnusable, StoreBusy: it cannot be removed.
        """
        with self.folder.owned(), self.folder.explained():
            return self._quarantine.empty()

    # Who uses what

    def hold(self, model: str, key: str, role: Role) -> None:
        """Never remove this engine while the model holds it in this role; it may hold one engine in each.

        Raises:
            StoreUnusable, StoreBusy: it cannot be written down.
        """
        self._holds.set(Hold(model=model, key=key, role=role))

    def release(self, model: str, role: Role | None = None) -> None:
        """Let a model's engine go in one role, or in all.

        Raises:
            StoreUnusable, StoreBusy: it cannot be written down.
        """
        self._holds.drop(model, role)

    def keep_only(
        self, models: Collection[str], roles: Collection[Role] = tuple(Role), *, dry_run: bool = False
    ) -> tuple[Hold, ...]:
        """Let the engines of all other models go, because nobody asks for these models any more.

        Args:
            models: names of those that a configuration has.
            roles: in which the others let go.
            dry_run: say what would be let go of, and let nothing go.

        Returns:
            What was let go of; the engines stay until room is wanted, or `prune` is called.

        Raises:
            StoreUnusable, StoreBusy: it cannot be written down.
        """
        return self._holds.keep_only(models, roles, dry_run=dry_run)

    def holds(self) -> tuple[Hold, ...]:
        """Every hold that can be read."""
        return self._holds.all()[0]

    def held(self, model: str, role: Role) -> str | None:
        """The key that a model holds in a role; None where it holds none."""
        return self._holds.of(model, role)

    # Room

    def prune(
        self, assigned: Collection[str] = (), *, without: Collection[Hold] = (), dry_run: bool = False
    ) -> Pruned:
        """Remove the engines that nobody needs.

        Args:
            assigned: keys that must stay beside those that are held.
            without: holds that do not count.
            dry_run: say what would be done, and do nothing.

        Raises:
            StoreUnusable: the directory cannot be read or written.
            StoreBusy: another process holds the store.
        """
        with self.folder.owned(), self.folder.explained():
            pruned = self._room.prune(assigned, without, dry_run=dry_run)
            if pruned.removed and not dry_run:
                self.failures.room_was_made_owned()
            return pruned

    def usage(self) -> Usage:
        """What the store takes on its disk.

        Raises:
            StoreUnusable: the directory cannot be listed.
        """
        return Usage(
            engines=sum(entry.bytes for entry in self.entries()),
            quota=self._room.quota,
            timing=self.timing.bytes(),
            quarantine=sum(case.bytes for case in self.quarantined()),
            free=self._room.free(),
        )

    @contextlib.contextmanager
    def _lock(self, key: str, wait_s: float, stop: Callable[[], bool] | None) -> Iterator[None]:
        self.folder.make()
        with self.folder.locked(key, wait_s, f"engine {key[:12]} is being built", stop):
            yield
