"""Killed before and after everything that the process does to the world: always a stated state, and one end.

As Mender's `Killed_in_X`: each act is one point, and whatever is started anew afterwards (the process, all of the
runtime, the machine) comes to the end that the same life had without the kill.
"""

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.protocol.release import ProbationTerms, ShadowTerms
from edge_runtime.protocol.update import LeftAs, UpdateAction, UpdateCode, UpdateState
from edge_runtime.updates.machine import TABLE, Journal
from edge_runtime.updates.process.parts import JOURNAL
from edge_runtime.updates.store import begin_start
from tests.rigs.signed_repository import SignedRelease, SignedRepository
from tests.rigs.updating_device import SLOT, Faults, UpdatingDevice, behave

SHORT: dict[str, Any] = {
    "shadow": ShadowTerms(seconds=2, max_seconds=60, min_frames=10),
    "probation": ProbationTerms(seconds=3, max_seconds=60, min_frames=20),
}
RESTARTS = ("process", "service", "boot")
Life = Callable[[UpdatingDevice], tuple[int, UpdateState, SignedRelease | None]]


def good(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    release = device.release(2, **SHORT)
    return device.assign(release), UpdateState.HEALTHY, release


def fails_in_probation(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    """A NaN in most frames; its shadow run is none, so that it comes into use."""
    release = device.release(2, **{**SHORT, "shadow": ShadowTerms(seconds=0)})
    behave(device, release, nonfinite=0.5)
    return device.assign(release), UpdateState.REVERTED, None


def is_refused(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    release = device.release(2, **SHORT)
    behave(device, release, refuses=(UpdateCode.GOLDEN_VECTORS, "other numbers"))
    return device.assign(release), UpdateState.REFUSED, None


def kills_perception(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    release = device.release(2, **{**SHORT, "probation": ProbationTerms(seconds=10, min_frames=50)})
    behave(device, release, lives_s=4.0)
    return device.assign(release), UpdateState.REVERTED, None


def does_not_open(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    """Perception that was started anew cannot open it and dies, until it gives it up."""
    release = device.release(2, **SHORT)
    behave(device, release, opens=False, lives_s=1.0)
    return device.assign(release), UpdateState.REVERTED, None


def superseded_in_probation(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    first = device.release(2, **{**SHORT, "probation": ProbationTerms(seconds=50, min_frames=50)})
    device.assign(first)
    device.run(60, until=lambda: (1, UpdateState.PROBATION, None) in device.states)
    second = device.release(3, **SHORT)
    return device.assign(second), UpdateState.HEALTHY, second


def rolled_back(device: UpdatingDevice) -> tuple[int, UpdateState, SignedRelease | None]:
    first = device.release(2, **SHORT)
    device.run_to_end(device.assign(first))
    second = device.release(3, rollback_to=(first.sha256,), **SHORT)
    device.run_to_end(device.assign(second))
    return device.assign(first, action=UpdateAction.ROLLBACK), UpdateState.HEALTHY, first


LIVES: tuple[Life, ...] = (
    good,
    fails_in_probation,
    is_refused,
    kills_perception,
    does_not_open,
    superseded_in_probation,
    rolled_back,
)


@pytest.fixture(scope="module")
def fleet() -> SignedRepository:
    """One fleet's keys for all of them: making keys takes longer than a life."""
    return SignedRepository()


def lived(folder: Path, fleet: SignedRepository, life: Life) -> tuple[UpdatingDevice, Any]:
    device = UpdatingDevice(folder, fleet.copy())
    return device, life(device)


def acts(folder: Path, fleet: SignedRepository, life: Life) -> int:
    """How many points there are in a life that nobody interrupts."""
    device, (seq, _, _) = lived(folder, fleet, life)
    device.faults.done = 0
    device.run_to_end(seq, 300)
    device.run(2)
    return device.faults.done


def check_between(device: UpdatingDevice) -> None:
    """After a kill: what is written is of a stated state, and perception would open something whole."""
    data = (device.folder / JOURNAL).read_bytes() if (device.folder / JOURNAL).exists() else None
    journal = Journal() if data is None else Journal.decode(data)
    assert all(work.state in TABLE for work in journal.works)
    state = device.slot
    for release in (state.active, state.last_good):
        assert release is None or device.store.files(release).is_dir()


def check_end(device: UpdatingDevice, seq: int, state: UpdateState, runs: SignedRelease | None) -> None:
    """The end that it has without a kill: one report of each assignment, and the last good release in use."""
    [number] = device.seen[seq]
    report = device.reports[number]
    assert report.state is state
    assert all(len(numbers) == 1 for numbers in device.seen.values())
    wanted = None if runs is None else runs.sha256
    slot = device.slot
    assert (slot.active, slot.trial) == (wanted, False)
    assert device.perception.runs == wanted
    assert report.running.sha256 == wanted
    opened = begin_start(device.folder, SLOT)
    assert (opened.release, opened.gave_up) == (wanted, None)
    if state is UpdateState.HEALTHY:
        assert report.left is LeftAs.UPDATED
    assert device.driver is not None
    assert device.driver.memory.journal.works == ()


def killed_everywhere(
    tmp_path: Path, fleet: SignedRepository, life: Life, hows: Callable[[int], Sequence[str]]
) -> int:
    """Kill a life at each point and start it again in each of `hows(point)`; how many points there were."""
    count = acts(tmp_path / "whole", fleet, life)
    for point in range(1, count + 1):
        for how in hows(point):
            killed_once(tmp_path / f"{point}-{how}", fleet, life, point, how)
    return count


def killed_once(folder: Path, fleet: SignedRepository, life: Life, point: int, how: str) -> None:
    device, (seq, state, runs) = lived(folder, fleet, life)
    with device.killed_at(point):
        device.run(300, until=lambda: seq in device.seen)
        device.run(2)
    device.look_at_reports()
    check_between(device)
    device.restart(how)
    device.run_to_end(seq, 300)
    device.run(3)
    check_end(device, seq, state, runs)


@pytest.mark.parametrize("life", [good, fails_in_probation], ids=lambda life: life.__name__)
def test_killed_at_every_second_point(tmp_path: Path, fleet: SignedRepository, life: Life) -> None:
    """Before or after each act; the three kinds of restart take turns."""
    count = killed_everywhere(
        tmp_path,
        fleet,
        life,
        lambda point: RESTARTS[point // 2 % 3 : point // 2 % 3 + 1] if point % 2 else (),
    )
    assert count >= 30, "acts are no longer counted"


@pytest.mark.parametrize("life", LIVES[2:], ids=lambda life: life.__name__)
def test_killed_at_some_points(tmp_path: Path, fleet: SignedRepository, life: Life) -> None:
    """Every seventh point of the other lives, with each kind of restart in its turn."""
    killed_everywhere(
        tmp_path,
        fleet,
        life,
        lambda point: () if point % 7 else RESTARTS[point // 7 % 3 : point // 7 % 3 + 1],
    )


@pytest.mark.parametrize("life", [good, fails_in_probation], ids=lambda life: life.__name__)
def test_killed_for_real(tmp_path: Path, fleet: SignedRepository, life: Life) -> None:
    """With SIGKILL, in a process of its own: nothing is tidied up by who dies, not even what was half written."""
    count = acts(tmp_path / "whole", fleet, life)
    for point in range(2, count + 1, 8):
        device, (seq, state, runs) = lived(tmp_path / str(point), fleet, life)
        child = os.fork()  # noqa: TID251 - no thread runs here, and the copy is killed at once
        if not child:
            device.faults = Faults(point, kill=lambda: os.kill(os.getpid(), signal.SIGKILL))
            device.run(300)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        device.look_at_reports()
        check_between(device)
        device.restart("boot")
        device.run_to_end(seq, 300)
        device.run(3)
        check_end(device, seq, state, runs)
        assert not list(device.folder.glob(".journal*"))
        assert not list((device.folder / "reports").glob(".*"))


@pytest.mark.trial
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_killed_at_every_point_in_every_way(tmp_path: Path, fleet: SignedRepository, life: Life) -> None:
    killed_everywhere(tmp_path, fleet, life, lambda _point: RESTARTS)
