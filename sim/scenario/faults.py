"""Faults that a scenario may name, and in which rig each of them can be brought about.

Those of the camera and of health readings are the device's own fault injector (`edge_runtime.faults`), in both rigs
the same code. The others happen to the world around it: processes, link, clock, files.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from edge_runtime.faults import EFFECTS, FaultRefused, effect_of
from sim.scenario.records import Fault

SIM, LOCAL = "sim", "local"


@dataclass(frozen=True, slots=True)
class WorldFault:
    """One fault of the world.

    Attributes:
        text: what happens; `{amount}` stands for the amount.
        rigs: in which it can.
        amount: its default; None where it takes none.
        lasts: whether it has an end; otherwise it happens in a moment.
    """

    text: str
    rigs: tuple[str, ...]
    amount: float | None = None
    lasts: bool = True


WORLD: Mapping[tuple[str, str], WorldFault] = {
    ("air", "warms"): WorldFault("the air around it gets warm, as device.air says", (SIM,)),
    ("battery", "drains"): WorldFault("the battery drains, as device.battery_lasts says", (SIM, LOCAL)),
    ("die", "hot"): WorldFault("the sensor of the die says {amount:g} C", (SIM, LOCAL), 92.0),
    ("lens", "covered"): WorldFault("the lens is covered", (SIM, LOCAL)),
    ("pose", "silent"): WorldFault("the adapter reports no pose and no map any more", (SIM, LOCAL)),
    ("map", "silent"): WorldFault("the adapter reports the same map again and again", (SIM, LOCAL)),
    ("link", "lost"): WorldFault("nothing gets through", (SIM, LOCAL)),
    ("link", "frozen"): WorldFault("nothing gets through, and nobody is told", (SIM, LOCAL)),
    ("link", "flapping"): WorldFault("the connection breaks every {amount:g} s", (SIM, LOCAL), 5.0),
    ("link", "slow"): WorldFault("{amount:g} bytes a second get through", (SIM, LOCAL), 2000.0),
    ("link", "late"): WorldFault("everything takes {amount:g} s longer", (SIM, LOCAL), 1.0),
    ("link", "portal"): WorldFault("something else answers in the server's place", (SIM, LOCAL)),
    ("broker", "restarts"): WorldFault("the broker is killed every {amount:g} s", (SIM, LOCAL), 3.0),
    ("disk", "fills"): WorldFault("the outbox's disk is full", (SIM, LOCAL)),
    ("neighbour", "noisy"): WorldFault(
        "another program takes the processor: perception has one part in {amount:g} of it", (SIM, LOCAL), 30.0
    ),
    ("clock", "steps"): WorldFault("the wall clock steps by {amount:g} s", (SIM, LOCAL), 3600.0, lasts=False),
    ("worker", "hung"): WorldFault("perception hangs", (SIM, LOCAL), lasts=False),
    ("worker", "killed"): WorldFault("perception is killed", (SIM, LOCAL), lasts=False),
    ("guard", "stopped"): WorldFault("the guard's process is stopped", (SIM, LOCAL)),
    ("guard", "killed"): WorldFault("the guard's process is killed", (SIM, LOCAL), lasts=False),
    ("certificate", "expires"): WorldFault(
        "the device is away until an hour after the end of its certificate", (LOCAL,), lasts=False
    ),
    ("policy", "missing"): WorldFault("the policy's file is taken away", (SIM, LOCAL)),
    ("release", "good"): WorldFault("the fleet assigns a release that is as good", (SIM, LOCAL), lasts=False),
    ("release", "bad"): WorldFault(
        "the fleet assigns a release whose frames hold no numbers: a share of {amount:g} of them, in rig sim",
        (SIM, LOCAL),
        1.0,
        lasts=False,
    ),
    ("device", "reboots"): WorldFault(
        "the power goes, and comes back after {amount:g} s", (SIM, LOCAL), 20.0, lasts=False
    ),
}

AGAIN = (("link", "flapping"), ("broker", "restarts"))
"""Faults that come again and again, with the amount as their period."""

LEAST_PERIOD_S = 0.1


_ROAD = ("link", "broker")


def disturbs(one: Fault, other: Fault, duration: float) -> bool:
    """Whether two faults work on the same thing at the same time: the end of one would undo the other."""
    same = (one.unit, one.kind) == (other.unit, other.kind) or (one.unit in _ROAD and other.unit in _ROAD)
    ends = [duration if fault.lasts is None else fault.at + fault.lasts for fault in (one, other)]
    if not all(_lasts(fault) for fault in (one, other)):
        return False
    return same and one.at < ends[1] and other.at < ends[0]


def _lasts(fault: Fault) -> bool:
    found = WORLD.get((fault.unit, fault.kind))
    return found is None or found.lasts


def fault_problem(fault: Fault, rig: str) -> str:
    """Why a rig cannot bring a fault about; empty where it can."""
    words = f"{fault.unit} {fault.kind}"
    found = WORLD.get((fault.unit, fault.kind))
    if found is not None:
        return _world_problem(found, fault, rig, words)
    of_world = [kind for unit, kind in WORLD if unit == fault.unit]
    if of_world and fault.unit not in {unit.value for unit, _ in EFFECTS}:
        return f"{words} is no fault; of {fault.unit} there are {', '.join(of_world)}"
    try:
        effect_of(fault.unit, fault.kind)
    except FaultRefused as error:
        return str(error)
    return "" if fault.lasts is not None else f"{words} needs lasts: how long it is so"


def _world_problem(found: WorldFault, fault: Fault, rig: str, words: str) -> str:
    if rig not in found.rigs:
        return f"{words} cannot be brought about in rig {rig}"
    if found.lasts and fault.lasts is None:
        return f"{words} needs lasts: how long it is so"
    if not found.lasts and fault.lasts is not None:
        return f"{words} happens in a moment, and lasts means nothing"
    if (fault.unit, fault.kind) in AGAIN and fault.amount is not None and fault.amount < LEAST_PERIOD_S:
        return f"{words} comes again after at least {LEAST_PERIOD_S:g} s"
    if found.amount is None and fault.amount is not None:
        return f"{words} takes no amount"
    return ""


def fault_text(fault: Fault) -> str:
    """What happens, in one line."""
    found = WORLD.get((fault.unit, fault.kind))
    if found is not None:
        return found.text.format(amount=found.amount if fault.amount is None else fault.amount)
    effect = effect_of(fault.unit, fault.kind)[2]
    return f"{fault.unit}: {effect.told(effect.amount if fault.amount is None else fault.amount)}"
