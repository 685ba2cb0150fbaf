"""One model of the configuration while the cameras run: the one in use, a candidate, and the one before."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from edge_runtime.clock import NS_PER_S
from edge_runtime.config.updates import UpdatesConfig
from edge_runtime.engines.opening import OpenedModel
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.node.hot_swap.agreement import Objects
from edge_runtime.node.hot_swap.fitness import why_not, why_unfit
from edge_runtime.node.hot_swap.parts import Beside, SlotParts, sight_of
from edge_runtime.node.hot_swap.retiring import retire
from edge_runtime.node.hot_swap.tally import Tally
from edge_runtime.node.hot_swap.trial import Trial
from edge_runtime.node.hot_swap.trial_records import TrialRequest
from edge_runtime.node.models import ReadyModel, open_in_place, open_release, retune
from edge_runtime.packages import read_manifest
from edge_runtime.perception.backends.politely import politely
from edge_runtime.perception.pipeline import Evaluated, Outcome
from edge_runtime.protocol import EventRecord
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import (
    Candidate,
    CandidateState,
    GivenUp,
    Kept,
    RunningModel,
    SlotLook,
)
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
        self._first = ready
        self._seat = 0, ready  # number of the lineup, and its model: read together
        self._given_up: GivenUp | None = ready.given_up
        self._lock = threading.RLock()
        self._tally = self._new_tally()
        self._tallies = {0: self._tally}
        self._beside: Beside | None = None
        self._before: ReadyModel | None = None
        self._rule = TrackerRule.RESTART
        self._opening: threading.Thread | None = None
        self._leaving: list[threading.Thread] = []
        self._log = get_logger(model=name)

    @property
    def ready(self) -> ReadyModel:
        """The model in use."""
        return self._seat[1]

    # ---- the evaluator's thread

    def took(self, outcome: Outcome, events: Sequence[EventRecord]) -> None:
        """A frame of one of its cameras was looked at, and its rules ran."""
        tally = self._tallies.get(outcome.lineup)
        if tally is not None:
            tally.took(outcome, events)
        beside = self._beside
        if (
            beside is not None
            and isinstance(outcome, Evaluated)
            and outcome.variant == 0
            and not beside.activating
            and beside.trial.wants()
        ):
            lineup, ready = self._seat
            if outcome.lineup == lineup:
                labels = ready.model.manifest.labels
                beside.trial.offer(outcome.frame, Objects.of(outcome.detections, labels, ready.score))

    def retuned(self) -> None:
        """Another configuration holds from the next frame on: its thresholds are those of the model in use."""
        with self._lock:
            config, (lineup, ready) = self._parts.loaded.config, self._seat
            ready = retune(config, self.name, ready)
            self._seat = lineup, ready
            if self._before is not None:
                self._before = retune(config, self.name, self._before)
            for desk in self._parts.desks:
                desk.expect(lineup, sight_of(ready, tracks_go_on=self._rule is TrackerRule.CONTINUE))

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
            self._exchange(before, self._rule)
            self._retire(bad)
        self._log.warning("a model is taken back", release=bad.release, to=before.release)

    def settle(self) -> None:
        """Free the model that was in use before."""
        with self._lock:
            before, self._before = self._before, None
            if before is not None:
                self._retire(before)

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
        for thread in self._leaving:
            if thread.is_alive():
                thread.join(_JOIN_S)
        with self._lock:
            for ready in (self.ready, self._before):
                if ready is not None and ready.model is not self._first.model:
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
                running=self._running(now_ns),
                candidate=self._candidate(now_ns),
                previous=None
                if before is None
                else Kept(release=before.release, package=before.model.package.digest),
                given_up=self._given_up,
            )

    def _running(self, now_ns: int) -> RunningModel:
        tally, ready, times = self._tally, self.ready, self._parts.lane.recent_times()
        return RunningModel(
            release=ready.release,
            package=ready.model.package.digest,
            seconds=(now_ns - tally.begun_ns) / NS_PER_S,
            frames=tally.frames,
            unanswered=tally.unanswered,
            nonfinite=tally.nonfinite,
            events=tally.events,
            dropped=max(0, self._parts.dropped() - tally.dropped_before),
            window_frames=times.inferences,
            p50_ms=times.p50_ms,
            p95_ms=times.p95_ms,
        )

    def _candidate(self, now_ns: int) -> Candidate | None:
        beside = self._beside
        if beside is None:
            return None
        opened = beside.trial.opened
        said = (None, "") if opened is None else (opened.code, opened.text)
        code, text = said if beside.code is None else (beside.code, beside.text)
        return Candidate(
            release=beside.release,
            package=None if opened is None else opened.package,
            state=beside.state(),
            code=code,
            text=text,
            seconds=(now_ns - beside.since_ns) / NS_PER_S,
            shadow=beside.trial.figures(),
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
            self._rule = trackers
            self._exchange(ready, trackers)
            if stale is not None:
                self._retire(stale)
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
        parts, execution = self._parts, self._first.execution
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
            self._exchange(self._ready_of(opened, release), TrackerRule.RESTART)
            self._retire(bad)
        self._log.warning("a model is taken back", release=bad.release, to=release)

    def _not_activated(self, beside: Beside, text: str) -> None:
        with self._lock:
            beside.code, beside.text = UpdateCode.ACTIVATION, " ".join(text.split())[:300]

    def _open(self, beside: Beside) -> ReadyModel:
        parts, ready = self._parts, self.ready
        with politely():
            opened = open_release(parts.loaded, self.name, beside.folder, ready.execution, parts.engines)
        return self._ready_of(opened, beside.release)

    def _ready_of(self, opened: OpenedModel, release: str | None) -> ReadyModel:
        settings = self._parts.loaded.config.models[self.name]
        score = opened.model.manifest.thresholds.score if settings.score is None else settings.score
        return replace(
            self._first,
            model=opened.model,
            score=score,
            openings=(opened.report,),
            release=release,
            given_up=None,
        )

    def _exchange(self, ready: ReadyModel, trackers: TrackerRule) -> None:
        """The moment itself: a few assignments, and the lane's next batch is for the other model."""
        models = (ready.model, *ready.variants)
        sight = sight_of(ready, tracks_go_on=trackers is TrackerRule.CONTINUE)
        tally = self._new_tally()

        def announce(lineup: int) -> None:
            self._tallies = {**self._tallies, lineup: tally}
            self._seat = lineup, ready
            for desk in self._parts.desks:
                desk.expect(lineup, sight)

        self._parts.lane.exchange(models, announce)
        self._tallies = dict(list(self._tallies.items())[-2:])  # outcomes of the one before may still come
        self._tally = tally
        self._given_up = None

    def _new_tally(self) -> Tally:
        return Tally(self._parts.clock.monotonic_ns(), self._parts.dropped())

    def _drop_candidate(self) -> None:
        beside = self._beside
        if beside is None:
            return
        if beside.state() is CandidateState.ACTIVATING:
            raise UpdateRefused(UpdateCode.ACTIVATION, f"{beside.release} is about to take over", again=True)
        self._beside = None
        beside.trial.end()

    def _retire(self, ready: ReadyModel) -> None:
        """Free a model once no frame needs it; the one that ran first is freed by whoever opened it, too."""
        self._leaving = [thread for thread in self._leaving if thread.is_alive()]
        self._leaving.append(retire(self._parts.lane, ready.model))
