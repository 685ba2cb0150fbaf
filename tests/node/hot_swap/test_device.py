"""A whole device under its guard: a release from its start on, another while it runs, and nobody starts anew."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.status_sources import gather
from edge_runtime.clock import SystemClock
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
from edge_runtime.state import StateDirectory, short_socket_path
from edge_runtime.updates.store.places import Places
from edge_runtime.updates.store.slots import Slots, SlotState, write_slots
from tests.rigs.cameras import wait_until
from tests.rigs.devices import RunningDevice, running_device, write_device
from tests.rigs.swapping import release_of

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
