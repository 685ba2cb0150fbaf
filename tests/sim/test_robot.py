"""The robot's body, and the trials in which it has to stand in time."""

import pytest

from edge_runtime.clock import NS_PER_S
from sim.robot import Robot
from sim.robot_trials import NOTICED, trial

STEP_S = 0.005


def driven(robot: Robot, seconds: float, from_s: float = 0.0) -> None:
    for step in range(round(seconds / STEP_S)):
        robot.advance(round((from_s + (step + 1) * STEP_S) * NS_PER_S), STEP_S)


def test_it_brakes_as_the_profile_promises() -> None:
    robot = Robot(brake_m_s2=0.5, act_s=0.1)
    robot.command(0, 0.3, 0.0, 10 * NS_PER_S)
    driven(robot, 2.0)
    assert robot.v_m_s == pytest.approx(0.3)
    before = robot.way_m
    robot.safe(2 * NS_PER_S)
    driven(robot, 2.0, 2.0)
    assert robot.stands
    # v t_act + v²/2a; a step of time more or less
    assert robot.way_m - before == pytest.approx(0.3 * 0.1 + 0.3**2 / (2 * 0.5), abs=0.3 * 2 * STEP_S)


def test_it_stops_by_itself_when_the_last_command_has_ended() -> None:
    robot = Robot(brake_m_s2=0.5, act_s=0.1)
    robot.command(0, 0.3, 0.0, NS_PER_S)
    driven(robot, 3.0)
    assert robot.stands


def test_a_turn_on_the_spot_is_no_way() -> None:
    robot = Robot(brake_m_s2=0.5, act_s=0.0)
    robot.command(0, 0.0, 1.0, NS_PER_S)
    driven(robot, 0.5)
    assert not robot.stands
    assert robot.heading == pytest.approx(0.5, abs=0.02)
    assert robot.way_m == 0.0


@pytest.mark.parametrize("number", [0, 9])
def test_it_stands_within_its_free_range(number: int) -> None:
    found = trial(number, 1, guarded=True)
    assert found.within, found


def test_without_the_guard_it_does_not() -> None:
    found = trial(0, 1, guarded=False)
    assert not found.within, found


@pytest.mark.trial
def test_two_hundred_trials() -> None:
    far = [one for number in range(200) if not (one := trial(number, 1, guarded=True)).within]
    assert not far, far


@pytest.mark.trial
@pytest.mark.parametrize("number", range(len(NOTICED)))
def test_without_the_guard_every_fault_goes_too_far(number: int) -> None:
    found = trial(number, 1, guarded=False)
    assert not found.within, found
