"""Processes that are killed: who notices, what moves meanwhile, and how the device comes back."""

from hil.device_parts import MotionGate, Processes
from hil.plan.reactions import reaction, recovery
from hil.plugin import Measure
from hil.rig import Rig

LOOK_S, WATCH_S = 0.01, 1.5


def test_a_killed_perception_is_noticed(rig: Rig, processes: Processes, measure: Measure) -> None:
    """The guard says so and starts it again."""
    before, began = processes.restarts(), rig.clock.now()
    processes.kill("perception")
    measure("perception_killed_reaction", reaction(rig, began, 20), "s", at_most=10)
    measure("perception_killed_recovery", recovery(rig), "s", at_most=120)
    measure("perception_restarts", float(processes.restarts() - before), "times", at_least=1)


def test_a_killed_guard_moves_nothing(
    rig: Rig, processes: Processes, motion: MotionGate, measure: Measure
) -> None:
    """The permission ends by itself: nothing has to run for the stop to happen."""
    passed = motion.passed()
    moving = rig.until(lambda: motion.passed() > passed, 10)
    measure("commands_pass_before", moving, "s", at_most=10)
    began, last = rig.clock.now(), 0.0
    processes.kill("guard")
    passed = motion.passed()
    while rig.clock.now() - began < WATCH_S:
        rig.clock.wait(LOOK_S)
        if motion.passed() > passed:
            passed, last = motion.passed(), rig.clock.now() - began
    measure("guard_killed_moving", last, "s", at_most=0.1)
    measure("guard_killed_recovery", recovery(rig), "s", at_most=120)


def test_a_killed_guard_is_started_again(rig: Rig, processes: Processes, measure: Measure) -> None:
    """The service manager's part; a body that moves then waits for a person."""
    began = rig.clock.now()
    processes.kill("guard")
    gone = rig.until(lambda: rig.device.state() != "NOMINAL", 10)
    measure("guard_killed_noticed", gone, "s", at_most=10)
    back = recovery(rig)
    measure("guard_back", None if back is None else rig.clock.now() - began, "s", at_most=120)
