"""What the guard says: a robot that may be moving, and what it was held for. With a real guard once."""

from pathlib import Path
from typing import Any

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.protocol.update import DeviceFacts, UpdateCode
from edge_runtime.updates.process.locks import Locks
from edge_runtime.updates.process.locks import lock as set_lock
from edge_runtime.updates.process.motion import moves, trip_ages_s
from edge_runtime.updates.process.surroundings import DeviceSurroundings
from tests.rigs.guarded_state import guarded_state


@pytest.mark.parametrize(
    ("status", "may_move", "is_moving"),
    [
        (None, False, False),
        (None, True, True),
        ({"permit": True, "standstill": None}, True, True),
        ({"permit": True, "standstill": False}, True, True),
        ({"permit": True, "standstill": True}, True, False),
        ({"permit": False, "standstill": None}, True, False),
        ({"permit": True, "standstill": None}, False, False),
        ({}, True, True),
    ],
)
def test_who_does_not_say_that_it_stands_may_be_moving(
    status: dict[str, Any] | None, may_move: bool, is_moving: bool
) -> None:
    assert (moves(status, may_move=may_move) is not None) is is_moving


def test_only_what_a_model_may_have_caused_is_held_against_it() -> None:
    changes = [
        {"ago_ms": 4000, "state": "STOPPED", "causes": ["inference_late"]},
        {"ago_ms": 3000, "state": "SAFE", "causes": ["estop"]},
        {"ago_ms": 2000, "state": "NOMINAL", "causes": ["worker_dead"]},
        {"ago_ms": 1000, "state": "SAFE", "causes": ["link_lost", "worker_dead"]},
    ]
    assert trip_ages_s({"changes": changes}) == (4.0, 1.0)
    assert trip_ages_s(None) == ()


def surroundings(root: Path, socket: Path, *, may_move: bool = True) -> DeviceSurroundings:
    return DeviceSurroundings(
        guard_socket=socket,
        guard="boot/1",
        may_move=may_move,
        locks=Locks(root),
        known=DeviceFacts(architecture="aarch64", runtime="1"),
        celsius=lambda: 51.0,
        clock=SystemClock(),
    )


def test_with_a_real_guard_a_body_that_is_armed_says_no(tmp_path: Path) -> None:
    with guarded_state(tmp_path) as (state, guard):
        around = surroundings(tmp_path, state.guard_socket)
        guard.reach("STANDBY")
        assert around.device().obstacle is None
        guard.arm()
        found = around.device()
        assert (found.obstacle, found.celsius) == (UpdateCode.IN_MOTION, 51.0)
        guard.ask(ask="standstill", moves=False)
        assert around.device().obstacle is None
        set_lock(tmp_path, "me", "because", "")
        assert around.device().obstacle is UpdateCode.LOCKED
    gone = surroundings(tmp_path / "x", state.guard_socket)
    (tmp_path / "x").mkdir()
    assert gone.device().obstacle is UpdateCode.IN_MOTION
    still = surroundings(tmp_path / "x", state.guard_socket, may_move=False)
    assert still.device().obstacle is None
