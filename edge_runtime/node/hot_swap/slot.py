"""One model of the configuration while the cameras run: the one in use, a candidate, and the one before."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from edge_runtime.config.updates import UpdatesConfig
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.node.hot_swap.agreement import Objects
from edge_runtime.node.hot_swap.fitness import why_not, why_unfit
from edge_runtime.node.hot_swap.parts import Beside, SlotParts
from edge_runtime.node.hot_swap.seat import Seat
from edge_runtime.node.hot_swap.trial import Trial
from edge_runtime.node.hot_swap.trial_records import TrialRequest
from edge_runtime.node.models import ReadyModel, open_in_place, open_release, retune
from edge_runtime.packages import read_manifest
from edge_runtime.perception.backends.politely import politely
from edge_runtime.perception.pipeline import Evaluated, Outcome
from edge_runtime.protocol import EventRecord
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import CandidateState, Kept, SlotLook
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.telemetry import get_logger
from edge_runtime.updates.problems import UpdateRefused

_JOIN_S: Final = 60.0


class Slot:
    """One model of the configuration, exchangeable.

    Commands come from one thread at a time; frames from the evaluator's. Neither waits for the other longer than a
    few assignments take.

    Args:
        name: of the model in the configuration.
        ready: the model that runs first; it stays its opener's.
        parts: what the slot works with.
    """

    def __init__(self, name: str, ready: ReadyModel, parts: SlotParts) -> None:
        self.name = name
        self._parts = parts
        self._seat = Seat(name, ready, parts)
        self._lock = threading.RLock()
        self._beside: Beside | None = None
        self._before: ReadyModel | None = None
        self._opening: threading.Thread | None = None
        self._log = get_logger(model=name)

    @property
    def ready(self) -> ReadyModel:
        """The model in use."""
        return self._seat.ready

    # ---- the evaluator's thread

    def took(self, outcome: Outcome, events: Sequence[EventRecord]) -> None:
        """A frame of one of its cameras was looked at, and its rules ran."""
        self._seat.took(outcome, events)
        beside = self._beside
        if (
            beside is not None
            and isinstance(outcome, Evaluated)
            and outcome.variant == 0
            and not beside.activating
            and beside.trial.wants()
        ):
            lineup, ready = self._seat.taken
            if outcome.lineup == lineup:
                labels = ready.model.manifest.labels
                beside.trial.offer(outcome.frame, Objects.of(outcome.detections, labels, ready.score))

    def retuned(self) -> None:
        """Another configuration holds from the next frame on: its thresholds are those of the model in use."""
        with self._lock:
            self._seat.retuned()
            if self._before is not None:
                self._before = retune(self._parts.loaded.config, self.name, self._before)

    # ---- commands

    def load(self, release: str, folder: Path) -> None:
        """Begin to open a candidate.

        Raises:
            UpdateRefused: it does not fit the configuration, or an activation is under way.
        """
        with self._lock:
            beside = self._beside
            if beside is not None and beside.release == release and beside.state() != CandidateState.FAILED:
                return
            self._drop_candidate()
            request = self._request(folder)
            trial = Trial(request, self._parts.clock)
            trial.start()  # first: where the system gives no thread there is no candidate that would load for ever
            self._beside = Beside(release, folder, self._parts.clock.monotonic_ns(), trial)
        self._log.info("a candidate is opened", release=release)

    def _request(self, folder: Path) -> TrialRequest:
        loaded, engines = self._parts.loaded, self._parts.engines
        settings = loaded.config.models[self.name]
        try:
            why_unfit(loaded.config, self.name, read_manifest(folder))
        except UpdateRefused:
            raise
        except EdgeRuntimeError as error:
            raise UpdateRefused(why_not(error), str(error)) from error
        return TrialRequest(
            name=self.name,
            package=folder,
            running=self.ready.model.package.directory,
            settings=settings,
            batch=settings.batch,
            engines=loaded.config.engines,
            engine_folder=engines.store.folder.path,
            effective=self.ready.model.backend.facts.effective,
            share=(loaded.config.updates or UpdatesConfig()).trial_share,
        )

    def shadow(self, *, on: bool) -> None:
        """Show the candidate frames, or no more.

        Raises:
            UpdateRefused: there is no loaded candidate.
        """
        with self._lock:
            beside = self._beside
            if not on and (beside is None or beside.activating):
                return
            self._loaded_candidate("shadowed").trial.shadow(on=on)

    def activate(self, release: str, trackers: TrackerRule) -> None:
        """Open the candidate in this process, and let it take over.

        Raises:
            UpdateRefused: no such candidate is loaded.
        """
        with self._lock:
            if self.ready.release == release and self._beside is None:
                return
            beside = self._beside
            if beside is not None and beside.activating and beside.release == release:
                return
            beside = self._loaded_candidate("activated")
            if beside.release != release:
                text = f"the candidate is {beside.release}, not {release}"
                raise UpdateRefused(UpdateCode.ACTIVATION, text, again=True)
            thread = threading.Thread(
                target=self._activate, args=(beside, trackers), name=f"swap-{self.name}"[:15], daemon=True
            )
            thread.start()  # before anything says so; what it changes waits for the lock
            beside.activating, self._opening = True, thread

    def _loaded_candidate(self, wish: str) -> Beside:
        beside = self._beside
        if beside is None or beside.state() is not CandidateState.LOADED:
            state = "not there" if beside is None else beside.state().value
            text = f"the candidate of {self.name} is {state}: it cannot be {wish}"
            raise UpdateRefused(UpdateCode.ACTIVATION, text, again=True)
        return beside

    def revert(self, release: str | None = None, folder: Path | None = None) -> None:
        """Let the model that was in use before take over again, and free the one in use.

        In a process that has not loaded it, it is opened first; asked again meanwhile, nothing changes.

        Args:
            release: to go back to; None for the package of the configuration.
            folder: of its package.
        """
        with self._lock:
            before = self._before
            if before is None:
                self._go_back_to(release, folder)
                return
            bad, self._before = self.ready, None
            self._seat.exchange(before, self._seat.rule)
            self._seat.retire(bad)
        self._log.warning("a model is taken back", release=bad.release, to=before.release)

    def settle(self) -> None:
        """Free the model that was in use before."""
        with self._lock:
            before, self._before = self._before, None
            if before is not None:
                self._seat.retire(before)

    def discard(self) -> None:
        """Free the candidate.

        Raises:
            UpdateRefused: it is about to take over.
        """
        with self._lock:
            self._drop_candidate()

    def close(self) -> None:
        """Free all that the slot has opened; the lane has ended."""
        with self._lock:
            beside, opening = self._beside, self._opening
            self._beside = None
        if beside is not None:
            beside.trial.end()
        if opening is not None:
            opening.join(_JOIN_S)
        self._seat.wait_for_leaving()
        with self._lock:
            for ready in (self.ready, self._before):
                if ready is not None and ready.model is not self._seat.first.model:
                    ready.model.close()
            self._before = None

    # ---- figures

    def look(self) -> SlotLook:
        """How the slot stands; from any thread."""
        with self._lock:
            now_ns = self._parts.clock.monotonic_ns()
            before = self._before
            return SlotLook(
                slot=self.name,
                running=self._seat.running(now_ns),
                candidate=None if self._beside is None else self._beside.told(now_ns),
                previous=None
                if before is None
                else Kept(release=before.release, package=before.model.package.digest),
                given_up=self._seat.given_up,
            )

    # ---- exchange

    def _activate(self, beside: Beside, trackers: TrackerRule) -> None:
        """On a thread of its own."""
        beside.trial.end()  # before: its memory is needed
        try:
            ready = self._open(beside)
        except EdgeRuntimeError as error:
            self._not_activated(beside, str(error))
            return
        except Exception as error:  # noqa: BLE001 - a library that breaks its word must not end this unsaid
            self._log.exception("a candidate cannot be opened", release=beside.release)
            self._not_activated(beside, f"{type(error).__name__}: {error}")
            return
        with self._lock:
            if self._beside is not beside:  # everything ends meanwhile
                ready.model.close()
                return
            self._beside = None
            stale, self._before = self._before, self.ready
            self._seat.exchange(ready, trackers)
            if stale is not None:
                self._seat.retire(stale)
        self._log.warning("another model looks", release=ready.release, package=ready.model.package.digest)

    def _go_back_to(self, release: str | None, folder: Path | None) -> None:
        opening = self._opening is not None and self._opening.is_alive()
        if self.ready.release == release or opening:
            return
        thread = threading.Thread(
            target=self._go_back, args=(release, folder), name=f"back-{self.name}"[:15], daemon=True
        )
        thread.start()
        self._opening = thread

    def _go_back(self, release: str | None, folder: Path | None) -> None:
        """On a thread of its own."""
        parts, execution = self._parts, self._seat.first.execution
        try:
            with politely():
                if release is None or folder is None:
                    opened = open_in_place(parts.loaded, self.name, self.name, execution, parts.engines)
                else:
                    opened = open_release(parts.loaded, self.name, folder, execution, parts.engines)
        except Exception as error:  # noqa: BLE001 - who asked sees that nothing changes, and asks again
            self._log.error("the model to go back to cannot be opened", release=release, why=str(error))
            return
        with self._lock:
            bad = self.ready
            self._seat.exchange(self._seat.ready_of(opened, release), TrackerRule.RESTART)
            self._seat.retire(bad)
        self._log.warning("a model is taken back", release=bad.release, to=release)

    def _not_activated(self, beside: Beside, text: str) -> None:
        with self._lock:
            beside.code, beside.text = UpdateCode.ACTIVATION, " ".join(text.split())[:300]

    def _open(self, beside: Beside) -> ReadyModel:
        parts, ready = self._parts, self.ready
        with politely():
            opened = open_release(parts.loaded, self.name, beside.folder, ready.execution, parts.engines)
        return self._seat.ready_of(opened, beside.release)

    def _drop_candidate(self) -> None:
        beside = self._beside
        if beside is None:
            return
        if beside.state() is CandidateState.ACTIVATING:
            raise UpdateRefused(UpdateCode.ACTIVATION, f"{beside.release} is about to take over", again=True)
        self._beside = None
        beside.trial.end()
