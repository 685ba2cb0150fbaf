"""A device that updates itself: real machine, trust, store and files; time, perception and guard in a test's hand.

Perception is a model of a process: it opens at its start what the store names (by the product's own `begin_start`),
counts frames as time goes on, and each release behaves as a test says. It can be killed, and dies of bad releases.
"""

import contextlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from securesystemslib.signer import CryptoSigner

from edge_runtime.clock import NS_PER_S, SystemClock, WallLabel
from edge_runtime.protocol.envelope import read_envelope, record_in
from edge_runtime.protocol.release import ProbationTerms, ShadowTerms, TrackerRule
from edge_runtime.protocol.release_values import Values
from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import REPORT_TYPE, DeviceFacts, StateReport, UpdateCode, UpdateState
from edge_runtime.protocol.update_wire import Desired
from edge_runtime.updates.download import Progress, Want
from edge_runtime.updates.machine import Rules
from edge_runtime.updates.machine.observed import (
    Candidate,
    Device,
    GivenUp,
    InUse,
    Shadowed,
    SlotView,
)
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.process.driver import Driver
from edge_runtime.updates.process.errands import ErrandsAtOnce
from edge_runtime.updates.process.keeping import DiskFiles
from edge_runtime.updates.process.parts import OWN_FILES, Parts
from edge_runtime.updates.store import ReleaseStore, begin_start
from edge_runtime.updates.store.starting import STAYED_S, stayed
from edge_runtime.updates.trust import Trust
from edge_runtime.updates.trust.bootstrap import write_root
from tests.rigs.signed_repository import SignedRelease, SignedRepository
from tests.rigs.trusting_device import DEVICE, FACTS, KEY

SLOT = "detector"
QUICK: dict[str, Any] = {
    "shadow": ShadowTerms(seconds=10, max_seconds=120, min_frames=50),
    "probation": ProbationTerms(seconds=30, max_seconds=300, min_frames=100),
}
"""Terms of releases that are judged within a minute of a test's time."""


class Killed(BaseException):
    """The process was killed here: nothing in it may catch this."""


@dataclass
class TestClock:
    """Time stands still until a test lets it go on."""

    __test__ = False

    boot_ns: int = 1000 * NS_PER_S
    wall_ns: int = field(default_factory=lambda: SystemClock().wall().unix_ns)
    boots: int = 1
    synced: bool = True

    def monotonic_ns(self) -> int:
        return self.boot_ns

    def boottime_ns(self) -> int:
        return self.boot_ns

    def wall(self) -> WallLabel:
        return WallLabel(self.wall_ns, self.synced, f"boot-{self.boots}")

    def reboot(self) -> None:
        self.boots += 1
        self.boot_ns = 20 * NS_PER_S
        self.wall_ns += 40 * NS_PER_S


@dataclass(frozen=True)
class Behaviour:
    """How a release behaves in perception.

    Attributes:
        lives_s: perception ends so long after it came into use.
        load_s: how long opening it beside another takes.
        refuses: why it cannot be opened.
        opens: whether it opens at perception's start.
    """

    fps: float = 10.0
    events_per_frame: float = 0.02
    unanswered: float = 0.0
    nonfinite: float = 0.0
    p95_ms: float = 20.0
    agreement: float = 0.95
    objects_per_frame: float = 2.0
    celsius: float = 50.0
    lives_s: float | None = None
    load_s: float = 2.0
    refuses: tuple[UpdateCode, str] | None = None
    opens: bool = True


GOOD = Behaviour()


@dataclass
class _Model:
    release: str | None
    behaviour: Behaviour
    since_ns: int


@dataclass
class _Beside:
    release: str
    behaviour: Behaviour
    asked_ns: int
    shadow_ns: int | None = None
    shadowed_s: float = 0.0


class ModelledPerception:
    """`Taking`, and the process behind it.

    Attributes:
        behaviours: by release; what is not named is good.
        calls: what was asked for.
        alive: whether it answers.
    """

    def __init__(self, root: Path, clock: TestClock) -> None:
        self._root, self._clock = root, clock
        self.behaviours: dict[str, Behaviour] = {}
        self.calls: list[str] = []
        self.pid = 100
        self.alive = False
        self.restarts_by_itself = True
        self.start()

    def start(self) -> None:
        """A new process, by the guard's hand."""
        self.pid += 1
        self.beside: _Beside | None = None
        self.before: _Model | None = None
        self.given_up: GivenUp | None = None
        found = begin_start(self._root, SLOT, boot=self._clock.wall().boot_id)
        release = found.release
        if found.gave_up is not None:
            self.given_up = GivenUp(found.gave_up, UpdateCode.CRASH_LOOP, found.why)
        self.using = _Model(release, self._behaviour(release), self._clock.boot_ns)
        self.alive = self.using.behaviour.opens
        if not self.alive and self.restarts_by_itself:
            self.start()

    def end_in_order(self) -> None:
        """It is asked to end, and says that its release is not to blame."""
        if self.alive and self.using.release is not None:
            stayed(self._root, SLOT, self.using.release, self._age_s(self.using.since_ns))

    def die(self) -> None:
        """It ends; the guard starts it again with the next second."""
        self.alive = False

    def second(self) -> None:
        """What happens in a second that has passed."""
        if not self.alive:
            if self.restarts_by_itself:
                self.start()
            return
        age_s = int(self._age_s(self.using.since_ns))
        if self.using.release is not None and age_s and age_s % STAYED_S == 0:
            stayed(self._root, SLOT, self.using.release, STAYED_S)
        lives_s = self.using.behaviour.lives_s
        if lives_s is not None and self._age_s(self.using.since_ns) >= lives_s:
            self.die()

    @property
    def runs(self) -> str | None:
        """The release in use."""
        return self.using.release

    # -- the port

    def look(self, slot: str) -> SlotView | None:
        if not self.alive or slot != SLOT:
            return None
        model = self.using
        seconds = self._age_s(model.since_ns)
        how, frames = model.behaviour, int(seconds * model.behaviour.fps)
        in_use = InUse(
            release=model.release,
            package=f"sha256:{model.release or 'c' * 64}",
            process=str(self.pid),
            seconds=seconds,
            frames=frames,
            unanswered=int(frames * how.unanswered),
            nonfinite=int(frames * how.nonfinite),
            events=int(frames * how.events_per_frame),
            latency_p50_ms=how.p95_ms / 2 if frames else None,
            latency_p95_ms=how.p95_ms if frames else None,
            celsius=how.celsius,
        )
        return SlotView(in_use, self._candidate(), self.given_up)

    def load(self, slot: str, release: str, folder: Path, values: Values) -> None:
        self._hear("load")
        assert folder.is_dir(), "perception is shown a folder that is not there"
        if self.beside is None or self.beside.release != release:
            self.beside = _Beside(release, self._behaviour(release), self._clock.boot_ns)

    def shadow(self, slot: str, *, on: bool) -> None:
        self._hear("shadow" if on else "rest")
        beside = self._loaded()
        if on and beside.shadow_ns is None:
            beside.shadow_ns = self._clock.boot_ns
        elif not on and beside.shadow_ns is not None:
            beside.shadowed_s += self._age_s(beside.shadow_ns)
            beside.shadow_ns = None

    def activate(self, slot: str, release: str, trackers: TrackerRule) -> None:
        self._hear("activate")
        beside = self._loaded()
        assert beside.release == release
        self.before = self.using
        self.using = _Model(release, beside.behaviour, self._clock.boot_ns)
        self.beside = None

    def settle(self, slot: str) -> None:
        self._hear("settle")
        self.before = None

    def revert(self, slot: str, release: str | None, folder: Path | None) -> None:
        self._hear("revert")
        assert folder is None or folder.is_dir()
        if self.before is not None:
            self.using, self.before = self.before, None
            self.using.since_ns = self._clock.boot_ns
        elif release != self.using.release:
            # started anew since: what was in use before is not loaded, and is opened
            self.using = _Model(release, self._behaviour(release), self._clock.boot_ns)

    def discard(self, slot: str) -> None:
        self._hear("discard")
        self.beside = None

    # -- within

    def _hear(self, what: str) -> None:
        if not self.alive:
            raise UpdateRefused(UpdateCode.LOAD, "perception does not answer", again=True)
        self.calls.append(what)

    def _loaded(self) -> _Beside:
        if self.beside is None or self._candidate_state(self.beside) is not CandidateState.LOADED:
            raise UpdateRefused(UpdateCode.LOAD, "nothing is loaded beside the one in use", again=True)
        return self.beside

    def _candidate(self) -> Candidate | None:
        beside = self.beside
        if beside is None:
            return None
        how, state = beside.behaviour, self._candidate_state(beside)
        if state is CandidateState.FAILED and how.refuses is not None:
            return Candidate(beside.release, state, *how.refuses)
        seconds = beside.shadowed_s
        if beside.shadow_ns is not None:
            seconds += self._age_s(beside.shadow_ns)
        frames = int(seconds * how.fps)
        objects = int(frames * how.objects_per_frame)
        return Candidate(
            beside.release,
            state,
            shadow=Shadowed(
                seconds=seconds,
                frames=int(frames * (1 - how.unanswered)),
                unanswered=int(frames * how.unanswered),
                nonfinite=int(frames * how.nonfinite),
                running_objects=objects,
                found=int(objects * how.agreement),
                candidate_objects=objects,
                confirmed=int(objects * how.agreement),
                running_ms=self.using.behaviour.p95_ms / 2,
                candidate_ms=how.p95_ms / 2,
                on=beside.shadow_ns is not None,
            ),
        )

    def _candidate_state(self, beside: _Beside) -> CandidateState:
        if self._age_s(beside.asked_ns) < beside.behaviour.load_s:
            return CandidateState.LOADING
        return CandidateState.FAILED if beside.behaviour.refuses is not None else CandidateState.LOADED

    def _behaviour(self, release: str | None) -> Behaviour:
        return GOOD if release is None else self.behaviours.get(release, GOOD)

    def _age_s(self, since_ns: int) -> float:
        return (self._clock.boot_ns - since_ns) / NS_PER_S


@dataclass
class Neighbourhood:
    """`Surroundings`: what guard, locks and heat say."""

    obstacle: tuple[UpdateCode, str] | None = None
    trip_ages_s: tuple[float, ...] = ()
    guard: int = 1
    locked: bool = False
    held: bool = False

    def device(self) -> Device:
        code, text = self.obstacle or (None, "")
        if self.locked:
            code, text = UpdateCode.LOCKED, "an application holds it"
        return Device(code, text, self.trip_ages_s, f"guard-{self.guard}")

    def facts(self) -> DeviceFacts:
        return FACTS

    def hold_still(self) -> bool:
        self.held = not self.locked
        return self.held

    def let_go(self) -> None:
        self.held = False


class Mirror:
    """`Fetching` from a dictionary into the real store, in two pieces each."""

    def __init__(self, store: Callable[[], ReleaseStore]) -> None:
        self._store = store
        self.blobs: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.fails: list[UpdateRefused] = []

    def publish(self, release: SignedRelease) -> None:
        """Its list of files, and the content that `make_release` gave it."""
        self.blobs[release.sha256] = release.bundle
        weights = f"weights of {release.terms.name} {release.terms.counter}".encode()
        [file] = json.loads(release.bundle)["files"]
        self.blobs[file["sha256"]] = weights

    def fetch(
        self,
        wants: Sequence[Want],
        *,
        told: Callable[[Progress], None],
        cancelled: Callable[[], bool],
    ) -> None:
        store, total, done = self._store(), sum(want.length for want in wants), 0
        for want in wants:
            if self.fails:
                raise self.fails.pop(0)
            if want.sha256 not in self.blobs:
                raise UpdateRefused(UpdateCode.DOWNLOAD_NOT_FOUND, f"nobody has {want.sha256[:12]}")
            part = store.places.parts / f"{want.sha256}.part"
            part.write_bytes(self.blobs[want.sha256])
            assert store.take(part, want)
            self.fetched.append(want.sha256)
            done += want.length
            told(Progress(done, total))


@dataclass
class Faults:
    """Kills the process before or after the n-th thing it does to the world; counts them otherwise."""

    kill_at: int | None = None
    done: int = 0
    kill: Callable[[], None] | None = None

    def around(self, act: Callable[[], Any]) -> Any:
        self._maybe()
        found = act()
        self._maybe()
        return found

    def _maybe(self) -> None:
        self.done += 1
        if self.done == self.kill_at:
            self.kill_at = None
            if self.kill is not None:
                self.kill()
            raise Killed


class Faulty:
    """A port whose named calls can be the last ones."""

    def __init__(self, port: Any, faults: Faults, calls: frozenset[str]) -> None:
        self._port, self._faults, self._calls = port, faults, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if name not in self._calls:
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._faults.around(lambda: found(*args, **kwargs))

        return call


class UpdatingDevice:
    """One device, its fleet, and everything that may happen to it.

    Attributes:
        seen: every terminal report that ever lay on the disk, by assignment and number.
        states: of every report, in their order: assignment, state, code.
    """

    def __init__(self, folder: Path, fleet: SignedRepository | None = None, **rules: Any) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.fleet = fleet or SignedRepository()
        write_root(folder, self.fleet.files["1.root.json"])
        self.clock = TestClock()
        self.signer = CryptoSigner.generate_ecdsa()
        self.rules = Rules(DEVICE, **rules)
        self.around = Neighbourhood()
        self.perception = ModelledPerception(folder, self.clock)
        self.store = ReleaseStore(folder, reserve_bytes=0)
        self.mirror = Mirror(lambda: self.store)
        self.faults = Faults()
        self.nonces = (f"{number:032x}" for number in itertools.count(1))
        self.seen: dict[int, set[int]] = {}
        self.states: list[tuple[int, UpdateState | None, UpdateCode | None]] = []
        self.reports: dict[int, StateReport] = {}
        self.settled: tuple[tuple[int, int], ...] = ()
        self.seq = 0
        self.desired: dict[str, bytes] = {}
        self.logged: list[str] = []
        self.driver: Driver | None = None

    # what the fleet does

    def release(self, counter: int, **terms: Any) -> SignedRelease:
        """Sign and publish a release."""
        found = self.fleet.release(counter, **{**QUICK, **terms})
        self.mirror.publish(found)
        return found

    def assign(
        self, release: SignedRelease | None, *, slot: str = SLOT, seq: int | None = None, **fields: Any
    ) -> int:
        """Assign a release, or HOLD; its number."""
        self.seq = self.seq + 1 if seq is None else seq
        self.desired[slot] = self.fleet.assign(DEVICE, KEY, self.seq, release, slot=slot, **fields)
        self.deliver()
        return self.seq

    def deliver(self, *sealed: bytes, settled: Sequence[int] = (), settlement: bytes | None = None) -> None:
        """What the uplink writes when the broker brings it.

        Args:
            sealed: in place of what was assigned.
            settled: assignments whose one report the fleet has now, beside those that it had.
            settlement: in place of what the director signs about them.
        """
        self.settled = (*self.settled, *((seq, number) for seq in settled for number in self.seen[seq]))
        if settlement is None and self.settled:
            settlement = self.fleet.settle(DEVICE, self.settled[-64:])
        desired = Desired(
            device=DEVICE, assignments=sealed or tuple(self.desired.values()), settled=settlement
        )
        DiskFiles(self.folder).write("desired", desired.encode())

    # what happens to the device

    def parts(self) -> Parts:
        """The ports of a new process."""
        self.store = ReleaseStore(self.folder, reserve_bytes=0)
        taking = Faulty(
            self.perception,
            self.faults,
            frozenset({"load", "shadow", "activate", "settle", "revert", "discard"}),
        )
        return Parts(
            device=DEVICE,
            slots=(SLOT,),
            trust=Trust(self.folder, device=DEVICE, key_sha256=KEY, fetch=self.fleet, clock=self.clock),
            fetch=self.mirror,
            store=Faulty(
                self.store, self.faults, frozenset({"keep", "begin_trial", "commit", "revert", "give_up"})
            ),
            taking=lambda _slot: taking,
            around=self.around,
            refreshing=ErrandsAtOnce(),
            errands=ErrandsAtOnce(),
            keeping=Faulty(DiskFiles(self.folder, OWN_FILES), self.faults, frozenset({"write", "remove"})),
            signer=self.signer,
            rules=self.rules,
            clock=self.clock,
            nonce=lambda: next(self.nonces),
            log=lambda text, **_fields: self.logged.append(text),
        )

    def start(self) -> None:
        """A process of updates; the one before is forgotten without having been asked."""
        self.driver = Driver(self.parts())

    def turn(self) -> None:
        """One turn of the loop, and a look at what it left on the disk."""
        if self.driver is None:
            self.start()
        assert self.driver is not None
        self.driver.turn()
        self.look_at_reports()

    def run(self, seconds: int, *, until: Callable[[], bool] | None = None) -> None:
        """Let time go on, a second and a turn at a time."""
        for _ in range(seconds):
            self.turn()
            if until is not None and until():
                return
            self.second()

    def second(self) -> None:
        """A second passes; nobody looks."""
        self.clock.boot_ns += NS_PER_S
        self.clock.wall_ns += NS_PER_S
        self.perception.second()

    def run_to_end(self, seq: int, seconds: int = 900) -> StateReport:
        """Until an assignment has its terminal report; that report."""
        self.run(seconds, until=lambda: seq in self.seen)
        assert seq in self.seen, f"no end in {seconds} s: {self.states[-8:]}"
        [number] = self.seen[seq]
        return self.reports[number]

    def restart(self, how: str) -> None:
        """`process`: updates alone. `service`: the guard and everything under it. `boot`: the machine."""
        self.driver = None
        if how == "boot":
            self.clock.reboot()
        if how in ("service", "boot"):
            self.around.guard += 1
            if how == "service":
                self.perception.end_in_order()
            self.perception.start()

    # what can be seen

    def look_at_reports(self) -> None:
        """As the uplink does, which may read the folder at any time."""
        folder = self.folder / "reports"
        for path in sorted(folder.glob("[0-9]*.*")) if folder.is_dir() else ():
            number = int(path.name[:16])
            if number in self.reports:
                continue
            envelope = read_envelope(path.read_bytes(), REPORT_TYPE)
            envelope.verify([self.signer.public_key], 1)
            report = record_in(envelope, StateReport)
            assert report.report_no == number
            assert report.terminal == path.name.endswith(".terminal")
            self.reports[number] = report
            self.states.append((report.seq, report.state, report.code))
            if report.terminal:
                self.seen.setdefault(report.seq, set()).add(number)

    def states_of(self, seq: int) -> list[UpdateState | None]:
        """The states that were told of an assignment, in their order."""
        return [state for number, state, _ in self.states if number == seq]

    @property
    def slot(self) -> Any:
        """What is written down of the slot."""
        return self.store.slots().of(SLOT)

    @contextlib.contextmanager
    def killed_at(self, point: int) -> Iterator[None]:
        """Within, the process is killed at its n-th act."""
        self.faults = Faults(point)
        with contextlib.suppress(Killed):
            yield
        self.faults = Faults()


def behave(device: UpdatingDevice, release: SignedRelease, **changes: Any) -> None:
    """Let a release behave otherwise than a good one."""
    device.perception.behaviours[release.sha256] = replace(GOOD, **changes)


__all__ = [
    "GOOD",
    "KEY",
    "QUICK",
    "SLOT",
    "Behaviour",
    "Faults",
    "Killed",
    "Mapping",
    "ModelledPerception",
    "Neighbourhood",
    "TestClock",
    "UpdatingDevice",
    "behave",
]
