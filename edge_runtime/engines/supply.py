"""Gets an engine: out of the store where there is a sound one, else by one build for which all others wait."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from edge_runtime.durable import NO_ROOM
from edge_runtime.engines.build import KILLED, Builder, BuiltEngine, NoEngine, build_engine
from edge_runtime.engines.build_process import PLUGIN, ROOM
from edge_runtime.engines.errors import BuildFailed, EngineDamaged, EngineError, EngineMismatch, StoreFull
from edge_runtime.engines.manifest import BuildFacts
from edge_runtime.engines.progress import BuildProgress, OnProgress, show_nothing
from edge_runtime.engines.recipe import EngineRecipe
from edge_runtime.engines.records import remove_whatever, size_of
from edge_runtime.engines.store import EngineStore
from edge_runtime.engines.strikes import Kind
from edge_runtime.engines.verify import StoredEngine
from edge_runtime.errors import BackendError
from edge_runtime.perception.backends.tensorrt import PluginLibrary, PluginRefused

_MARGIN_S: Final = 60.0
"""A build by somebody else is waited for a little longer than it may take."""


class BuildCalledOff(BackendError):
    """Whoever waits for an engine was asked to end; it says nothing about the engine."""


def never_stop() -> bool:
    """Nobody asks for an end."""
    return False


@dataclass
class SupplyReport:
    """What was done to get an engine.

    Attributes:
        built: engines that were built.
        seconds: that building them took.
        found_wrong: why stored engines were taken out of use, a sentence each.
    """

    built: int = 0
    seconds: float = 0.0
    found_wrong: list[str] = field(default_factory=list)

    @property
    def quarantined(self) -> int:
        """How many were taken out of use."""
        return len(self.found_wrong)


@dataclass(frozen=True, slots=True)
class Supply:
    """Where engines come from.

    Attributes:
        store: keeps them.
        budget_s: how long one build may take.
        progress: told how far a build is.
        before_build: called before a build; raises where it must not begin.
        build: builds an engine and waits for it.
        stop: asked while an engine is waited for; True calls it off.
        plugins: libraries of the recipes.
    """

    store: EngineStore
    budget_s: float
    progress: OnProgress = show_nothing
    before_build: Callable[[EngineRecipe], None] = lambda _recipe: None
    build: Builder = build_engine
    stop: Callable[[], bool] = never_stop
    plugins: tuple[PluginLibrary, ...] = ()

    def obtain(self, weights: Path, recipe: EngineRecipe, report: SupplyReport) -> StoredEngine:
        """A sound engine of this recipe.

        Args:
            weights: the ONNX file.
            recipe: of the engine.
            report: is added to.

        Raises:
            BuildRefused: there is none, and building it has failed before.
            BuildFailed: there is none, and the build gives none now.
            BuildCalledOff: `stop` said so.
            EngineError: the store cannot be used.
        """
        stored = self._find(recipe, report)
        if stored is not None:
            return stored
        with self.store.lock(recipe.key, self.budget_s + _MARGIN_S, self._waiting()):
            stored = self._find(recipe, report)  # whoever held the lock may have built it
            return stored if stored is not None else self._build(weights, recipe, report)

    def _find(self, recipe: EngineRecipe, report: SupplyReport) -> StoredEngine | None:
        """What is stored; None where there is nothing, or what there was is in quarantine now."""
        try:
            return self.store.find(recipe)
        except (EngineMismatch, EngineDamaged) as error:
            report.found_wrong.append(str(error))
            return None

    def _build(self, weights: Path, recipe: EngineRecipe, report: SupplyReport) -> StoredEngine:
        """Build; the caller holds the lock of the key."""
        self.before_build(recipe)
        self.store.failures.begin(recipe.key)
        with self._remembered(recipe.key, size_of(weights)), self._scratch(recipe.key) as scratch:
            built = self.build(
                weights,
                recipe,
                scratch=scratch,
                budget_s=self.budget_s,
                timing_cache=self.store.timing.read(recipe.machine) or b"",
                plugins=self.plugins,
                progress=self._tell,
            )
            report.built += 1
            report.seconds += built.seconds
            stored = self.store.add(recipe, built.engine, _facts(built))
        if built.timing_cache:
            self.store.timing.save(recipe.machine, built.timing_cache)
        return stored

    def _waiting(self) -> Callable[[], bool]:
        """Asked while another process builds: each second is told, so that the guard knows that it is no hang."""
        began, most = time.monotonic(), int(self.budget_s + _MARGIN_S)
        self._tell(BuildProgress("wait", 0, most))

        def asked() -> bool:
            self._tell(BuildProgress("wait", int(time.monotonic() - began), most))
            return False

        return asked

    def _tell(self, now: BuildProgress) -> None:
        """Called at least each second: here a build is called off."""
        if self.stop():
            raise BuildCalledOff("the build was called off: the run was asked to end")
        with contextlib.suppress(OSError):  # of a terminal that is gone; it says nothing about the engine
            self.progress(now)

    @contextlib.contextmanager
    def _remembered(self, key: str, weights_bytes: int) -> Iterator[None]:
        """A build that fails is not begun again at each start; one that is called off is.

        Args:
            key: of the recipe.
            weights_bytes: of the ONNX file: an engine that could not be written has about as many at least.
        """
        try:
            yield
        except StoreFull as error:
            self.store.failures.note(key, str(error), Kind.NO_ROOM, error.nbytes)
            raise
        except EngineError as error:
            kind = error.kind if isinstance(error, NoEngine) else ""
            if kind == PLUGIN:  # it costs a moment, and may be right again at the next start
                self.store.failures.called_off(key)
            elif kind == ROOM:
                self.store.failures.note(key, str(error), Kind.NO_ROOM, weights_bytes)
            elif kind != KILLED:  # begun and not ended: that may happen twice before it is given up
                self.store.failures.note(key, str(error))
            raise
        except OSError as error:
            text = f"the engine cannot be built: {error.filename or self.store.folder.path}: {error.strerror}"
            if error.errno in NO_ROOM:
                self.store.failures.note(key, text, Kind.NO_ROOM, weights_bytes)
            else:
                self.store.failures.note(key, text)
            raise BuildFailed(text) from error
        except Exception as error:
            if isinstance(error, BuildCalledOff | PluginRefused):
                self.store.failures.called_off(key)
            else:  # whatever it is, it would come again at each start
                self.store.failures.note(key, f"{type(error).__name__}: {error}")
            raise
        except BaseException:
            self.store.failures.called_off(key)
            raise

    @contextlib.contextmanager
    def _scratch(self, key: str) -> Iterator[Path]:
        """A folder on the store's disk; what a power cut left in it goes when the engine is built anew."""
        folder = self.store.folder.building / key
        remove_whatever(folder)
        folder.mkdir(mode=0o700, parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                folder.parent.rmdir()


def _facts(built: BuiltEngine) -> BuildFacts:
    return BuildFacts(seconds=built.seconds, log=built.log, device_memory_bytes=built.device_memory_bytes)
