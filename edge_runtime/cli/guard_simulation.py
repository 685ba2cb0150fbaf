"""The guard's state machine under a person's hands, pure: a simulation and a command give a simulation.

It is the code that runs on the device (`guard.machine`), with a clock that the person moves in steps of 10 ms.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edge_runtime.cli.guard_explain import condition_named
from edge_runtime.cli.guard_profile import Body
from edge_runtime.errors import ConfigError
from edge_runtime.guard import machine
from edge_runtime.guard.conditions import FROM_HISTORY, FROM_LATENESS, Condition
from edge_runtime.guard.explain import simulation_lines
from edge_runtime.guard.memory import Acknowledgement, Inputs, Memory, Outputs, Record, State
from edge_runtime.guard.profile import EVERYTHING, Profile

MS = 1_000_000
STEP_MS = 10
LONGEST_WAIT_S = 3600.0
MOST_TOLD = 1000

_BOOT = "simulated"
_STANDSTILL: Mapping[str, bool | None] = {"yes": True, "no": False, "unknown": None}


class BadCommand(ConfigError):
    """A command that the simulation does not have, or not with these words."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """A guard at one moment.

    Attributes:
        body: what the guard is told of it.
        now_ns: time since the simulation began.
        memory: of the state machine.
        outputs: of its last step.
        inputs: of its last step.
        tripped: mask of the conditions that hold.
        unknown: mask of those that nobody evaluates.
        standstill: whether nothing moves; None where nobody knows.
        told: what was said, oldest first, each with its time in milliseconds.
        said: how much was ever said; `told` forgets the oldest.
    """

    body: Body
    now_ns: int
    memory: Memory
    outputs: Outputs
    inputs: Inputs
    tripped: int = 0
    unknown: int = 0
    standstill: bool | None = True
    told: tuple[tuple[int, str], ...] = ()
    said: int = 0

    @property
    def profile(self) -> Profile:
        """What the body allows."""
        return self.body.profile

    @property
    def state(self) -> State:
        """Where the machine is."""
        return self.memory.state


def begin(body: Body) -> Simulation:
    """A guard that starts on a body of which nothing is latched."""
    return _started(body, 0, Record(None, (), _BOOT), Simulation)


def passed(simulation: Simulation, milliseconds: int) -> Simulation:
    """The same after so long, at least one step of 10 ms."""
    for _ in range(max(1, milliseconds // STEP_MS)):
        simulation = _stepped(simulation)
    return simulation


def toggled(simulation: Simulation, condition: Condition) -> Simulation:
    """The same with a condition that was clear now holding, one that held not evaluated, and that one clear."""
    mask = condition.mask
    if simulation.tripped & mask:
        return replace(simulation, tripped=simulation.tripped & ~mask, unknown=simulation.unknown | mask)
    if simulation.unknown & mask:
        return replace(simulation, unknown=simulation.unknown & ~mask)
    return replace(simulation, tripped=simulation.tripped | mask)


def commanded(simulation: Simulation, text: str) -> Simulation:
    """The same after one command; see `COMMANDS`.

    Raises:
        BadCommand: there is none such, or it needs other words.
    """
    word, *rest = text.split() or [""]
    known = COMMANDS.get(word.lower())
    if known is None:
        raise BadCommand(f"there is no command {word[:40]!r}; commands are {', '.join(COMMANDS)}")
    return known.act(simulation, rest)


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a person may do.

    Attributes:
        takes: the words after it, as help shows them.
        text: what it does.
        act: does it.
    """

    takes: str
    text: str
    act: Callable[[Simulation, list[str]], Simulation]


def help_lines() -> Iterator[str]:
    """The commands, one a line."""
    for name, command in COMMANDS.items():
        yield f"{f'{name} {command.takes}':<32}{command.text}"


# -- commands ----------------------------------------------------------------------------------------------------


def _trip(simulation: Simulation, words: list[str]) -> Simulation:
    mask = _mask(words, "trip")
    return _stepped(
        replace(simulation, tripped=simulation.tripped | mask, unknown=simulation.unknown & ~mask)
    )


def _unknown(simulation: Simulation, words: list[str]) -> Simulation:
    mask = _mask(words, "unknown")
    return _stepped(
        replace(simulation, tripped=simulation.tripped & ~mask, unknown=simulation.unknown | mask)
    )


def _clear(simulation: Simulation, words: list[str]) -> Simulation:
    mask = EVERYTHING if words == ["all"] else _mask(words, "clear")
    return _stepped(
        replace(simulation, tripped=simulation.tripped & ~mask, unknown=simulation.unknown & ~mask)
    )


def _wait(simulation: Simulation, words: list[str]) -> Simulation:
    return passed(simulation, round(1000 * _number(words, "wait", LONGEST_WAIT_S)))


def _late(simulation: Simulation, words: list[str]) -> Simulation:
    late_ms = round(_number(words, "late", 10_000.0))
    return _stepped(simulation, late_ms, late_ns=late_ms * MS)


def _arm(simulation: Simulation, words: list[str]) -> Simulation:
    _no_words(words, "arm")
    return _stepped(simulation, arm_ns=simulation.now_ns + STEP_MS * MS)


def _disarm(simulation: Simulation, words: list[str]) -> Simulation:
    _no_words(words, "disarm")
    return _stepped(simulation, disarm=True)


def _ack(simulation: Simulation, words: list[str]) -> Simulation:
    latch = simulation.memory.latch
    if len(words) > 1:
        raise BadCommand("ack takes the id of a latch, or nothing for the one that holds")
    named = words[0] if words else "" if latch is None else latch.id
    return _stepped(simulation, ack=Acknowledgement(named, simulation.now_ns + STEP_MS * MS))


def _reset(simulation: Simulation, words: list[str]) -> Simulation:
    _no_words(words, "reset")
    # as the guard does: a reset stays until a newer latch makes it old
    at_ns = simulation.now_ns + STEP_MS * MS
    return _stepped(replace(simulation, inputs=simulation.inputs._replace(reset_ns=at_ns)))


def _standstill(simulation: Simulation, words: list[str]) -> Simulation:
    if len(words) != 1 or words[0] not in _STANDSTILL:
        raise BadCommand(f"standstill takes one of {', '.join(_STANDSTILL)}")
    return _stepped(replace(simulation, standstill=_STANDSTILL[words[0]]))


def _restart(simulation: Simulation, words: list[str]) -> Simulation:
    _no_words(words, "restart")
    memory = simulation.memory
    record = Record(memory.latch, memory.latches_ns, memory.boot_id)
    return _started(simulation.body, simulation.now_ns, record, _as(simulation))


def _kill(simulation: Simulation, words: list[str]) -> Simulation:
    _no_words(words, "kill")
    if not simulation.outputs.permit:
        return _restart(simulation, [])
    # what lies on disk says that motion was permitted: it cannot vouch for the body
    return _started(simulation.body, simulation.now_ns, None, _as(simulation))


COMMANDS: Mapping[str, Command] = {
    "trip": Command("CONDITION...", "these hold from now on", _trip),
    "clear": Command("CONDITION... | all", "these are clear, and evaluated", _clear),
    "unknown": Command("CONDITION...", "nobody evaluates these", _unknown),
    "wait": Command("SECONDS", "let time pass", _wait),
    "late": Command("MILLISECONDS", "the guard itself wakes so late, once", _late),
    "standstill": Command("yes | no | unknown", "whether an independent reading says so", _standstill),
    "arm": Command("", "ask for permission to move", _arm),
    "disarm": Command("", "withdraw it", _disarm),
    "ack": Command("[LATCH]", "acknowledge the latch that holds, or this one", _ack),
    "reset": Command("", "somebody stands at the machine", _reset),
    "restart": Command("", "the guard is asked to end, and starts again", _restart),
    "kill": Command("", "the guard is killed, and starts again", _kill),
}


def summary_lines(simulation: Simulation) -> list[str]:
    """How it stands: the state, what it waits for, and each condition that is not at rest."""
    return simulation_lines(simulation.memory, simulation.inputs, simulation.outputs, simulation.profile)


# -- steps -------------------------------------------------------------------------------------------------------


def _stepped(simulation: Simulation, milliseconds: int = STEP_MS, **requests: Any) -> Simulation:
    """One turn of the guard, so long after the last one."""
    now_ns = simulation.now_ns + max(1, milliseconds) * MS
    if simulation.body.arms_itself and simulation.state is State.STANDBY:
        requests["arm_ns"] = now_ns
    inputs = Inputs(
        evaluated=EVERYTHING & ~simulation.unknown,
        tripped=simulation.tripped,
        standstill=simulation.standstill,
        **{"reset_ns": simulation.inputs.reset_ns, **requests},
    )
    memory, outputs = machine.step(now_ns, simulation.memory, inputs, simulation.profile)
    return _with_told(
        replace(simulation, now_ns=now_ns, memory=memory, outputs=outputs, inputs=inputs), outputs.sentences
    )


def _started(body: Body, now_ns: int, found: Record | None, made: Callable[..., Simulation]) -> Simulation:
    # ids of latches may be known here, but those of two starts must differ, as they do on a device
    nonce = f"simulated {now_ns:020d}".encode()
    memory, outputs = machine.start(now_ns, boot_id=_BOOT, nonce=nonce, found=found, profile=body.profile)
    inputs = Inputs(EVERYTHING, 0)
    simulation = made(body=body, now_ns=now_ns, memory=memory, outputs=outputs, inputs=inputs)
    return _with_told(simulation, outputs.sentences)


def _as(simulation: Simulation) -> Callable[..., Simulation]:
    """What is left of a simulation over a start of its guard: the world, and what was told."""
    return lambda **fields: replace(simulation, **fields)


def _with_told(simulation: Simulation, sentences: tuple[str, ...]) -> Simulation:
    if not sentences:
        return simulation
    fresh = tuple((simulation.now_ns // MS, sentence) for sentence in sentences)
    told = (*simulation.told, *fresh)[-MOST_TOLD:]
    return replace(simulation, told=told, said=simulation.said + len(fresh))


# -- words -------------------------------------------------------------------------------------------------------


def _mask(words: list[str], command: str) -> int:
    if not words:
        raise BadCommand(f"{command} takes names of conditions, such as estop")
    mask = 0
    for word in words:
        condition = condition_named(word)
        if condition.mask & (FROM_HISTORY | FROM_LATENESS):
            how = "late MILLISECONDS" if condition.mask & FROM_LATENESS else "what happened before"
            raise BadCommand(f"{condition.value} is found by the guard itself, from {how}")
        mask |= condition.mask
    return mask


def _number(words: list[str], command: str, most: float) -> float:
    try:
        (word,) = words
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= most:
        raise BadCommand(f"{command} takes one number from 0 to {most:g}")
    return value


def _no_words(words: list[str], command: str) -> None:
    if words:
        raise BadCommand(f"{command} takes nothing else")
