"""The parts of a virtual fleet by themselves: drawn once and for all, counted by the clock, fetched once."""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import CandidateState
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.updates.problems import UpdateRefused
from edge_runtime.updates.trust import FetchFailed
from edge_runtime.updates.trust.fetch import Get
from sim.virtual.character import Character, Fault, Shares, character
from sim.virtual.device import ErrandsLater, MemoryFiles
from sim.virtual.metadata import Mirror
from sim.virtual.perception import Behaviour, VirtualPerception

FIRST, NEXT = "sha256:" + "1" * 64, "2" * 64
PLAIN = Character(
    online=True,
    stays_s=None,
    fault=None,
    download_s=1.0,
    load_s=0.5,
    fps=20.0,
    model_ms=10.0,
    celsius=50.0,
)


class HandClock:
    """Time that only `go` moves."""

    def __init__(self) -> None:
        self.now = 10**12

    def go(self, seconds: float) -> None:
        self.now += int(seconds * NS_PER_S)

    def monotonic_ns(self) -> int:
        return self.now

    def boottime_ns(self) -> int:
        return self.now

    def wall(self) -> WallLabel:
        return WallLabel(self.now, synced=True, boot_id="boot")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def _perception(
    clock: HandClock, behaviour: Behaviour | None = None, fault: Fault | None = None
) -> VirtualPerception:
    like = dataclasses.replace(PLAIN, fault=fault)
    return VirtualPerception(
        like, FIRST, lambda _release: "sha256:" + "9" * 64, lambda _release: behaviour or Behaviour(), clock
    )


def test_a_device_is_the_same_in_every_run_and_another_with_another_seed() -> None:
    shares = Shares(offline=0.2, flapping=0.1, failing=0.1)
    names = [f"v-{number}" for number in range(2000)]
    first = [character(7, name, shares) for name in names]
    assert first == [character(7, name, shares) for name in names]
    assert first != [character(8, name, shares) for name in names]
    assert 0.15 < sum(not one.online for one in first) / 2000 < 0.25
    assert 0.07 < sum(one.fault is not None for one in first) / 2000 < 0.13
    assert {one.fault for one in first} == {None, *Fault}


def test_a_good_release_is_loaded_shadowed_used_and_taken_back(clock: HandClock) -> None:
    perception = _perception(clock)
    clock.go(10)
    assert (perception.look("m").in_use.frames, perception.look("m").in_use.package) == (200, FIRST)
    perception.load("m", NEXT, Path("/nowhere"), {})
    found = perception.look("m").candidate
    assert found is not None
    assert found.loading is CandidateState.LOADING
    clock.go(0.5)
    perception.shadow("m", on=True)
    clock.go(2)
    perception.shadow("m", on=False)
    clock.go(5)
    found = perception.look("m").candidate
    assert found is not None
    assert (found.loading, found.shadow.frames, found.shadow.on) == (CandidateState.LOADED, 40, False)
    assert found.shadow.agreement == 1.0
    perception.activate("m", NEXT, TrackerRule.RESTART)
    clock.go(1)
    in_use = perception.look("m").in_use
    assert (in_use.release, in_use.frames, in_use.nonfinite) == (NEXT, 20, 0)
    perception.revert("m", None, None)
    first = perception.look("m").in_use
    assert (first.release, first.frames) == (None, 0)
    clock.go(1)
    perception.revert("m", None, None)  # once more changes nothing
    assert perception.look("m").in_use.frames == 20


def test_what_is_not_loaded_is_not_put_in_use(clock: HandClock) -> None:
    with pytest.raises(UpdateRefused) as refused:
        _perception(clock).activate("m", NEXT, TrackerRule.RESTART)
    assert (refused.value.code, refused.value.again) == (UpdateCode.ACTIVATION, True)


def test_a_bad_release_shows_in_shadow_and_in_use(clock: HandClock) -> None:
    perception = _perception(clock, Behaviour(agreement=0.25, slowness=2.0, nonfinite=1.5, unanswered=0.5))
    perception.load("m", NEXT, Path("/nowhere"), {})
    clock.go(1)
    perception.shadow("m", on=True)
    clock.go(10)
    found = perception.look("m").candidate
    assert found is not None
    shadow = found.shadow
    assert (shadow.agreement, shadow.unanswered, shadow.nonfinite) == (0.25, 100, 300)
    assert (shadow.running_ms, shadow.candidate_ms) == (10.0, 20.0)
    perception.activate("m", NEXT, TrackerRule.RESTART)
    clock.go(10)
    in_use = perception.look("m").in_use
    assert (in_use.nonfinite, in_use.unanswered, in_use.latency_p95_ms) == (300, 100, 26.0)


def test_a_devices_own_fault_is_there_whatever_the_release(clock: HandClock) -> None:
    for fault in (Fault.SLOW, Fault.CANNOT_LOAD, Fault.CRASHES):
        perception = _perception(clock, fault=fault)
        before = perception.look("m").in_use
        assert (before.latency_p50_ms, before.process) == (10.0, "start-0")
        perception.load("m", NEXT, Path("/nowhere"), {})
        clock.go(1)
        found = perception.look("m").candidate
        assert found is not None
        assert (found.loading is CandidateState.FAILED) == (fault is Fault.CANNOT_LOAD)
        if fault is Fault.CANNOT_LOAD:
            continue
        perception.activate("m", NEXT, TrackerRule.RESTART)
        clock.go(1.5)
        after = perception.look("m").in_use
        assert (after.latency_p50_ms == 30.0) == (fault is Fault.SLOW)
        assert (after.process != before.process) == (fault is Fault.CRASHES)


def test_an_errand_is_told_only_when_its_time_is_over(clock: HandClock) -> None:
    errands, done = ErrandsLater(clock, 2.0), Counter[str]()
    errands.begin("7", lambda _told: done.update(["7"]))
    about = [errands.about]
    assert not errands.look().over
    clock.go(2)
    assert errands.look().over
    errands.put_away()
    assert [*about, errands.about] == ["7", None]
    assert done == {"7": 1}


def test_reports_in_memory_are_found_as_on_the_disk() -> None:
    files = MemoryFiles()
    files.write("journal.json", b"{}")
    assert files.version == 0
    files.write("reports/0000000000000002.terminal", b"two")
    files.write("reports/0000000000000001.progress", b"one")
    assert [(one.number, one.terminal, one.sealed) for one in files.reports()] == [
        (1, False, b"one"),
        (2, True, b"two"),
    ]
    before = files.version
    files.remove("reports/0000000000000001.progress")
    files.remove("reports/0000000000000001.progress")
    assert files.version == before + 1
    assert files.names("reports") == ["0000000000000002.terminal"]
    assert files.stamp("desired") is None


class Source:
    """A server that counts who asks."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    @contextlib.contextmanager
    def conversation(self) -> Iterator[Get]:
        yield self._get

    def _get(self, name: str, _max_bytes: int) -> bytes:
        self.asked[name] += 1
        if name == "2.root.json":
            raise FetchFailed(UpdateCode.METADATA_UNAVAILABLE, "no such file", 404)
        return f"{name} {self.asked[name]}".encode()


def test_a_mirror_asks_once_for_what_never_changes(clock: HandClock) -> None:
    source = Source()
    mirror = Mirror(source, clock)
    with mirror.conversation() as get:
        for _ in range(5):
            assert get("3.models.json", 1000) == b"3.models.json 1"
            assert get("timestamp.json", 1000) == b"timestamp.json 1"
            with pytest.raises(FetchFailed) as failed:
                get("2.root.json", 1000)
            assert failed.value.status == 404
        clock.go(1)
        assert get("3.models.json", 1000) == b"3.models.json 1"
        assert get("timestamp.json", 1000) == b"timestamp.json 2"
        with pytest.raises(FetchFailed):
            get("2.root.json", 1000)
    assert source.asked == {"3.models.json": 1, "timestamp.json": 2, "2.root.json": 2}
