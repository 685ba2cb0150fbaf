"""The configuration while the cameras run: the one in use, a candidate, and the one before.

It is a slot like that of a model, and the same commands exchange it. What takes time, reading and checking, is done
by whoever commands; the evaluator's thread exchanges rules and thresholds between two frames.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_runtime.clock import NS_PER_S, Clock
from edge_runtime.config import LoadedConfig
from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.node.assigned import Assigned, open_configuration, put_policy
from edge_runtime.node.hot_swap.tally import Tally
from edge_runtime.packages import ModelManifest
from edge_runtime.perception.pipeline import Outcome
from edge_runtime.protocol import EventRecord
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.swap import Candidate, CandidateState, GivenUp, Kept, RunningModel, SlotLook
from edge_runtime.protocol.update import CONFIGURATION_SLOT, UpdateCode
from edge_runtime.telemetry import get_logger
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.store.slots import read_slots


@dataclass(frozen=True, slots=True)
class ConfigurationParts:
    """What the slot works with.

    Attributes:
        updates: folder of releases, where the policy lies that all processes follow.
        apply: takes a configuration up between two frames; called by the evaluator.
        manifests: of the models in use, by name.
        dropped: frames of all cameras so far that nobody looked at.
        clock: monotonic time.
    """

    updates: Path
    apply: Callable[[LoadedConfig], None]
    manifests: Callable[[], Mapping[str, ModelManifest]]
    dropped: Callable[[], int]
    clock: Clock


@dataclass(frozen=True, slots=True)
class _Version:
    """A configuration that may be in use.

    Attributes:
        release: bundle's SHA-256; None is the device's own.
    """

    release: str | None
    loaded: LoadedConfig


@dataclass(slots=True)
class _Beside:
    """A candidate; it was checked, or there would be none."""

    version: _Version
    values: Values
    since_ns: int
    activating: bool = False
    code: UpdateCode | None = None
    text: str = ""

    @property
    def state(self) -> CandidateState:
        if self.code is not None:
            return CandidateState.FAILED
        return CandidateState.ACTIVATING if self.activating else CandidateState.LOADED


class ConfigurationSlot:
    """The configuration of a run, exchangeable.

    Commands come from one thread at a time; frames and `turn` from the evaluator's.

    Args:
        assigned: what holds at the start.
        parts: what the slot works with.
    """

    name = CONFIGURATION_SLOT

    def __init__(self, assigned: Assigned, parts: ConfigurationParts) -> None:
        self._own, self._parts = assigned.own, parts
        self._present = _Version(assigned.release, assigned.loaded)
        self._before: _Version | None = None
        self._beside: _Beside | None = None
        self._given_up: GivenUp | None = assigned.given_up
        self._wanted: _Version | None = None
        self._lock = threading.RLock()
        self._tally = Tally(parts.clock.monotonic_ns(), 0)
        self._log = get_logger(slot=self.name)

    # ---- the evaluator's thread

    def took(self, outcome: Outcome, events: Sequence[EventRecord]) -> None:
        """A frame was looked at, and its rules ran."""
        self._tally.took(outcome, events)

    def turn(self) -> None:
        """Between two frames: take up what is wanted."""
        if self._wanted is None:  # as a rule, and without a lock
            return
        with self._lock:
            wanted, self._wanted = self._wanted, None
            try:
                self._parts.apply(wanted.loaded)
            except EdgeRuntimeError as error:
                self._failed(wanted, str(error))
                return
            except Exception as error:  # noqa: BLE001 - whatever it runs into, the cameras look on under what holds
                self._log.exception("a configuration cannot be taken up", release=wanted.release)
                self._failed(wanted, f"{type(error).__name__}: {error}")
                return
            self._taken(wanted)
        self._log.warning("another configuration holds", release=wanted.release, digest=wanted.loaded.digest)

    def _taken(self, wanted: _Version) -> None:
        beside = self._beside
        if beside is not None and beside.version is wanted:
            self._beside, self._before = None, self._present
        else:
            self._before = None  # gone back to
        self._present, self._given_up = wanted, None
        self._tally = Tally(self._parts.clock.monotonic_ns(), self._parts.dropped())

    def _failed(self, wanted: _Version, text: str) -> None:
        beside = self._beside
        if beside is not None and beside.version is wanted:
            beside.code, beside.text = UpdateCode.ACTIVATION, " ".join(text.split())[:300]
        self._log.error("a configuration is not taken up", release=wanted.release, why=text)

    # ---- commands

    def load(self, release: str, folder: Path, values: Values) -> None:
        """Read and check a candidate.

        Raises:
            UpdateRefused: it cannot be used on this device, or an activation is under way.
        """
        with self._lock:
            beside = self._beside
            same = beside is not None and beside.version.release == release and beside.values == values
            if beside is not None and same and beside.code is None:
                return
            self.discard()
            loaded = open_configuration(self._own, folder, values, release, self._parts.manifests())
            since_ns = self._parts.clock.monotonic_ns()
            self._beside = _Beside(_Version(release, loaded), dict(values), since_ns)

    def shadow(self, *, on: bool) -> None:
        """Nothing: rules that run beside others would make events twice.

        Raises:
            UpdateRefused: it is asked for.
        """
        if on:
            raise UpdateRefused(UpdateCode.ACTIVATION, "a configuration does not run beside another one")

    def activate(self, release: str, trackers: TrackerRule) -> None:  # noqa: ARG002 - tracks go on in any case
        """Let the candidate hold from the next frame on.

        Raises:
            UpdateRefused: no such candidate is there, or its policy cannot be put in place.
        """
        with self._lock:
            beside = self._beside
            if beside is None and self._present.release == release:
                return
            if beside is None or beside.version.release != release or beside.code is not None:
                text = f"{release} is no candidate that could hold"
                raise UpdateRefused(UpdateCode.ACTIVATION, text, again=True)
            if not beside.activating:
                self._put_policy(beside.version)
                beside.activating, self._wanted = True, beside.version

    def revert(self, release: str | None, folder: Path | None) -> None:
        """Let the one before hold again; a process that began since reads it anew.

        Args:
            release: to go back to, where the one before is not known here; None is the device's own.
            folder: of its files.

        Raises:
            UpdateRefused: it cannot be used, or its policy cannot be put in place.
        """
        with self._lock:
            before = self._before or self._read(release, folder)
            if (
                before.release == self._present.release
                and before.loaded.digest == self._present.loaded.digest
            ):
                return
            self._put_policy(before)
            self._wanted = before

    def _read(self, release: str | None, folder: Path | None) -> _Version:
        if release is None or folder is None:
            return _Version(None, self._own)
        state = read_slots(self._parts.updates).of(self.name)
        values = state.last_good_values if state.trial else state.values
        loaded = open_configuration(self._own, folder, values, release, self._parts.manifests())
        return _Version(release, loaded)

    def settle(self) -> None:
        """Forget the one before."""
        with self._lock:
            self._before = None

    def discard(self) -> None:
        """Forget the candidate.

        Raises:
            UpdateRefused: it is about to hold.
        """
        with self._lock:
            beside = self._beside
            if beside is not None and beside.state is CandidateState.ACTIVATING:
                raise UpdateRefused(UpdateCode.ACTIVATION, "it is about to be taken up", again=True)
            if beside is not None and beside.code is not None:
                self._put_policy(self._present)
            self._beside = None

    def close(self) -> None:
        """Nothing is open."""

    def look(self) -> SlotLook:
        """How the slot stands; from any thread."""
        with self._lock:
            now_ns, tally, beside, before = (
                self._parts.clock.monotonic_ns(),
                self._tally,
                self._beside,
                self._before,
            )
            return SlotLook(
                slot=self.name,
                running=RunningModel(
                    release=self._present.release,
                    package=self._present.loaded.digest,
                    seconds=(now_ns - tally.begun_ns) / NS_PER_S,
                    frames=tally.frames,
                    unanswered=tally.unanswered,
                    nonfinite=tally.nonfinite,
                    events=tally.events,
                    dropped=max(0, self._parts.dropped() - tally.dropped_before),
                ),
                candidate=None
                if beside is None
                else Candidate(
                    release=str(beside.version.release),
                    package=beside.version.loaded.digest,
                    state=beside.state,
                    code=beside.code,
                    text=beside.text,
                    seconds=(now_ns - beside.since_ns) / NS_PER_S,
                ),
                previous=None
                if before is None
                else Kept(release=before.release, package=before.loaded.digest),
                given_up=self._given_up,
            )

    def _put_policy(self, version: _Version) -> None:
        try:
            put_policy(self._parts.updates, version.loaded)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise UpdateRefused(
                UpdateCode.ACTIVATION, f"its policy cannot be written: {why}", again=True
            ) from None
