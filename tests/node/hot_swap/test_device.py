"""A whole device under its guard: a release from its start on, another while it runs, and nobody starts anew."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.status_sources import gather
from edge_runtime.clock import SystemClock, boot_id
from edge_runtime.config import load_config
from edge_runtime.node.places import exchange_places
from edge_runtime.protocol.swap import (
    MAX_LINE_BYTES,
    Activate,
    CandidateState,
    Load,
    Look,
    SlotLook,
    SwapAnswer,
    SwapRecord,
    line_of,
)
from edge_runtime.protocol.update import UpdateCode
from edge_runtime.state import StateDirectory, short_socket_path
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import Slots, SlotState, write_slots
from edge_runtime.updates.store.starting import MAX_WATCHED_STARTS
from tests.rigs.cameras import wait_until
from tests.rigs.devices import RunningDevice, running_device, write_device
from tests.rigs.swapping import Exchanging, release_of, swap_config

Device = tuple[RunningDevice, Path]
FIRST, SECOND = release_of(1), release_of(2)


def ask(state: StateDirectory, record: SwapRecord) -> SwapAnswer:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(30)
        with short_socket_path(state.perception_socket) as name:
            line.connect(name)
        line.sendall(line_of(record))
        with line.makefile("rb") as reading:
            return SwapAnswer.model_validate_json(reading.readline(MAX_LINE_BYTES))


def slot(state: StateDirectory) -> SlotLook:
    return ask(state, Look(slot="m")).slots[0]


@pytest.fixture
def device(tmp_path: Path, fast_package: Path, other: Callable[..., Path]) -> Iterator[Device]:
    first, second = other(), other()
    # its uplink and its updates' process have nobody to speak to: what they would do is not asked for here
    config = write_device(tmp_path, fast_package, updates={})
    updates = StateDirectory(tmp_path / "state").ensure().updates
    files = Places(updates).files(FIRST)
    files.parent.mkdir(parents=True)
    files.symlink_to(first)
    write_slots(Places(updates), Slots(slots={"m": SlotState(active=FIRST)}))
    with running_device(config) as running:
        running.wait_for_work("perception")
        yield running, second


def test_a_release_looks_from_the_start_and_another_takes_over_while_the_guard_watches(
    device: Device,
) -> None:
    running, second = device
    state = running.state
    assert slot(state).running.release == FIRST
    before = running.worker("perception")
    assert ask(state, Load(slot="m", release=SECOND, package_dir=str(second))).ok

    def loaded() -> bool:
        candidate = slot(state).candidate
        return candidate is not None and candidate.state is not CandidateState.LOADING

    assert wait_until(loaded, 90)
    assert ask(state, Activate(slot="m", release=SECOND)).ok
    assert wait_until(lambda: slot(state).running.release == SECOND, 60)
    assert wait_until(lambda: slot(state).running.frames >= 10, 60)
    after = running.worker("perception")
    assert (after["pid"], after["starts"], after["phase"]) == (before["pid"], 1, "working")
    assert after["fault"] is None

    def told() -> list[str | None]:
        return [model.release for model in gather(state, SystemClock()).models.value or ()]

    assert wait_until(lambda: told() == [SECOND], 30)
    given_up_at_its_next_start(running)


def given_up_at_its_next_start(running: RunningDevice) -> None:
    """It was accepted, and perception has begun with it five times in a row since: the one before looks again."""
    places = Places(running.state.updates)
    places.watched_starts.mkdir()
    (places.watched_starts / "m").write_text(f"{SECOND} {MAX_WATCHED_STARTS} 0\n")
    places.files(SECOND).parent.mkdir(parents=True)
    places.files(SECOND).symlink_to(places.files(FIRST))
    write_slots(places, Slots(slots={"m": SlotState(active=SECOND, last_good=FIRST)}))
    pid = running.worker("perception")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: running.worker("perception").get("pid") not in (None, pid), 60)
    running.wait_for_work("perception")
    found = slot(running.state)
    assert found.running.release == FIRST
    assert found.given_up is not None
    assert (found.given_up.release, found.given_up.code) == (SECOND, UpdateCode.CRASH_LOOP)


def test_an_end_in_order_is_not_held_against_a_release(
    tmp_path: Path, fast_package: Path, other: Callable[..., Path], street: dict[str, Any]
) -> None:
    places = Places(tmp_path / "updates")
    places.files(FIRST).parent.mkdir(parents=True)
    places.files(FIRST).symlink_to(other())
    write_slots(places, Slots(slots={"m": SlotState(active=FIRST)}))
    places.watched_starts.mkdir()
    (places.watched_starts / "m").write_text(f"{FIRST} 3 50\n")
    with Exchanging(swap_config(tmp_path, fast_package, street), tmp_path, updates=places.root) as device:
        assert device.look().running.release == FIRST
        assert (places.watched_starts / "m").read_text() == f"{FIRST} 4 50 {boot_id()}\n"
    release, starts, used, boot = (places.watched_starts / "m").read_text().split()
    assert (release, starts, boot) == (FIRST, "0", boot_id())
    assert 50 <= int(used) < 600


@pytest.mark.parametrize(
    ("section", "places"), [(None, (False, False)), ({}, (True, True)), ({"enabled": False}, (True, False))]
)
def test_what_is_taken_stays_where_updates_are_switched_off(
    tmp_path: Path, fast_package: Path, section: dict[str, Any] | None, places: tuple[bool, bool]
) -> None:
    sections = {} if section is None else {"updates": section}
    config = load_config(write_device(tmp_path, fast_package, **sections))
    found = exchange_places(config, None)
    assert tuple(place is not None for place in found) == places
