"""Taking engines out of use: what is not what was written, and what takes the process down that loads it."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from edge_runtime.engines.errors import EngineDamaged, EngineMismatch, StoreBusy, StoreUnusable
from edge_runtime.engines.failures import Failures
from edge_runtime.engines.folder import StoreFolder, loading_lock
from edge_runtime.engines.quarantine import Quarantine
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.strikes import DEADLY, Kind
from edge_runtime.engines.verify import StoredEngine, load, read_manifest


@dataclass(frozen=True, slots=True)
class Custody:
    """Who puts engines into quarantine, and remembers that they were.

    Args:
        folder: of the store.
        quarantine: where they go.
        failures: where it is remembered.
    """

    folder: StoreFolder
    quarantine: Quarantine
    failures: Failures

    def take_out(self, key: str, reason: str, *, engine_sha256: str | None = None) -> None:
        """Take an engine out of use and remember it.

        Args:
            key: of the recipe.
            reason: a sentence.
            engine_sha256: of the engine that is meant; nothing is done where another lies there by now.

        Raises:
            StoreUnusable: it can be neither moved nor removed.
            StoreBusy: another process holds the store.
        """
        with self.folder.owned(), self.folder.explained():
            if engine_sha256 is not None:
                with contextlib.suppress(EngineDamaged):
                    now = read_manifest(self.folder, key)
                    if now is not None and now.engine_sha256 != engine_sha256:
                        return
            self._take_out_owned(key, reason)

    def look_again(
        self, key: str, recipe: EngineRecipe, error: EngineMismatch | EngineDamaged
    ) -> StoredEngine | None:
        """Another process may have written between two reads; under the lock, what is wrong is wrong.

        Raises:
            EngineMismatch, EngineDamaged: it is out of use now; the text says what follows.
        """
        try:
            with self.folder.owned(), self.folder.explained():
                try:
                    return load(self.folder, key, recipe)
                except (EngineMismatch, EngineDamaged) as still:
                    error = still
                    self._take_out_owned(key, str(error))
        except (StoreUnusable, StoreBusy) as trouble:
            raise _told(error, f"it is not used, but stays where it is, because {trouble}") from None
        raise self._told_with_outlook(key, error) from None

    @contextlib.contextmanager
    def loading(self, key: str) -> Iterator[None]:
        """Load the engine of a key in this block, until it has given its first answers.

        An engine that takes the process down would do so at every start. Each process that ends in the block is
        remembered; after three the engine is taken out of use, unless some of them may still be at it.

        Raises:
            EngineDamaged: on entering, where it was just taken out of use for that.
            StoreUnusable, StoreBusy: on entering, where it would have to be, and cannot be moved.
        """
        deaths = self.failures.deaths(key)
        if deaths >= self.failures.most_deaths(key) and self.folder.in_use(loading_lock(key)) is None:
            who = "a process" if deaths == 1 else f"{deaths} processes"
            error = EngineDamaged(f"engine {key[:12]}: {who} {DEADLY}")
            self.take_out(key, str(error))
            raise self._told_with_outlook(key, error)
        self.failures.note(key, "the process ended while it loaded the engine", Kind.LOADING)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(StoreUnusable, StoreBusy):  # others load it too, or it cannot be shown
                stack.enter_context(self.folder.locked(loading_lock(key), 0, "the engine is being loaded"))
            try:
                yield
            finally:
                self.failures.loaded(key)

    def _told_with_outlook(
        self, key: str, error: EngineMismatch | EngineDamaged
    ) -> EngineMismatch | EngineDamaged:
        why = self.failures.refusal(key)
        return _told(error, "it is built anew" if why is None else f"it is not built again, because {why}")

    def _take_out_owned(self, key: str, reason: str) -> None:
        self.quarantine.take(key, reason)
        self.failures.note_owned(key, reason, Kind.QUARANTINED)


def _told(error: EngineMismatch | EngineDamaged, more: str) -> EngineMismatch | EngineDamaged:
    text = f"{error}: {more}"
    if isinstance(error, EngineMismatch):
        return EngineMismatch(error.field, error.wanted, error.found, text=text, fields=error.fields)
    return EngineDamaged(text)
