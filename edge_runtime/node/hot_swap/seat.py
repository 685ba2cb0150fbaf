"""The model that looks: exchanged between two frames, counted from then on, and freed once no frame needs it."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from edge_runtime.clock import NS_PER_S
from edge_runtime.engines.opening import OpenedModel
from edge_runtime.node.hot_swap.parts import SlotParts, sight_of
from edge_runtime.node.hot_swap.retiring import retire
from edge_runtime.node.hot_swap.tally import Tally
from edge_runtime.node.models import ReadyModel, retune
from edge_runtime.perception.pipeline import Outcome
from edge_runtime.protocol import EventRecord
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import GivenUp, RunningModel

_JOIN_S: Final = 60.0


class Seat:
    """Who has it, and what came of that. Whoever changes it holds the slot's lock.

    Args:
        name: of the model in the configuration.
        ready: the model that runs first; it stays its opener's.
        parts: what the slot works with.

    Attributes:
        first: the model that ran first.
        rule: what trackers did at the last exchange.
        given_up: a release that was not opened at the start, until another model is exchanged in.
    """

    def __init__(self, name: str, ready: ReadyModel, parts: SlotParts) -> None:
        self._name, self._parts, self.first = name, parts, ready
        self._taken = 0, ready  # number of the lineup, and its model: read together
        self._tally = self._new_tally()
        self._tallies = {0: self._tally}
        self._leaving: list[threading.Thread] = []
        self.rule = TrackerRule.RESTART
        self.given_up: GivenUp | None = ready.given_up

    @property
    def taken(self) -> tuple[int, ReadyModel]:
        """Number of the lineup, and its model; from any thread."""
        return self._taken

    @property
    def ready(self) -> ReadyModel:
        """The model in use; from any thread."""
        return self._taken[1]

    def took(self, outcome: Outcome, events: Sequence[EventRecord]) -> None:
        """A frame was looked at by whoever had the seat when it was prepared; the evaluator's thread."""
        tally = self._tallies.get(outcome.lineup)
        if tally is not None:
            tally.took(outcome, events)

    def retuned(self) -> None:
        """Another configuration holds: its thresholds are those of the model in use."""
        lineup, ready = self._taken
        ready = retune(self._parts.loaded.config, self._name, ready)
        self._taken = lineup, ready
        for desk in self._parts.desks:
            desk.expect(lineup, sight_of(ready, tracks_go_on=self.rule is TrackerRule.CONTINUE))

    def ready_of(self, opened: OpenedModel, release: str | None) -> ReadyModel:
        """A model that was opened for this seat."""
        settings = self._parts.loaded.config.models[self._name]
        score = opened.model.manifest.thresholds.score if settings.score is None else settings.score
        return replace(
            self.first,
            model=opened.model,
            score=score,
            openings=(opened.report,),
            release=release,
            given_up=None,
        )

    def exchange(self, ready: ReadyModel, trackers: TrackerRule) -> None:
        """The moment itself: a few assignments, and the lane's next batch is for the other model."""
        models = (ready.model, *ready.variants)
        sight = sight_of(ready, tracks_go_on=trackers is TrackerRule.CONTINUE)
        tally = self._new_tally()

        def announce(lineup: int) -> None:
            self._tallies = {**self._tallies, lineup: tally}
            self._taken = lineup, ready
            for desk in self._parts.desks:
                desk.expect(lineup, sight)

        self._parts.lane.exchange(models, announce)
        self._tallies = dict(list(self._tallies.items())[-2:])  # outcomes of the one before may still come
        self._tally, self.rule, self.given_up = tally, trackers, None

    def retire(self, ready: ReadyModel) -> None:
        """Free a model once no frame needs it; the one that ran first is freed by whoever opened it, too."""
        self._leaving = [thread for thread in self._leaving if thread.is_alive()]
        self._leaving.append(retire(self._parts.lane, ready.model))

    def wait_for_leaving(self) -> None:
        """Until what was retired is freed, or for a while."""
        for thread in self._leaving:
            if thread.is_alive():
                thread.join(_JOIN_S)

    def running(self, now_ns: int) -> RunningModel:
        """The model in use and its figures, at a moment of the monotonic clock."""
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

    def _new_tally(self) -> Tally:
        return Tally(self._parts.clock.monotonic_ns(), self._parts.dropped())
