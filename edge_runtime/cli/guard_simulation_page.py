"""The page of `edge-runtime guard simulate`, pure: a key for each condition, and 24 lines of 80 columns."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rich.text import Text

from edge_runtime.cli.guard_look import WIDTH, state_style
from edge_runtime.cli.guard_simulation import MS, Simulation, commanded, passed, toggled
from edge_runtime.guard.conditions import BY_BIT, FROM_HISTORY, FROM_LATENESS, Condition
from edge_runtime.guard.explain import waits_for
from edge_runtime.guard.memory import State, Timer
from edge_runtime.guard.severity import Severity

_SHOWN = tuple(condition for condition in BY_BIT if not condition.mask & FROM_HISTORY)
_TOGGLED = tuple(condition for condition in _SHOWN if not condition.mask & FROM_LATENESS)
CONDITION_KEYS: Mapping[str, Condition] = dict(
    zip("abcdefghijklmnopqrstuvwxyz123456789", _TOGGLED, strict=True)
)
_KEY_OF = {condition: key for key, condition in CONDITION_KEYS.items()}

COMMAND_KEYS: Mapping[str, str] = {
    "A": "arm",
    "D": "disarm",
    "K": "ack",
    "R": "reset",
    "C": "clear all",
    "L": "late 50",
    "N": "restart",
    "X": "kill",
    ".": "wait 0.01",
    ">": "wait 1",
}
_STANDSTILL_AFTER = {True: "no", False: "unknown", None: "yes"}
_STANDSTILL = {True: "stands still", False: "MOVES", None: "standstill unknown"}

HELP = (
    "a-z 1-9 condition: holds, not evaluated, clear   A arm  D disarm  K ack  R reset",
    "space pause  . 10 ms  > 1 s  S standstill  C clear  L late  N restart  X kill  Q",
)

_COLUMNS = 3
_MOST_SENTENCES = 4


@dataclass(frozen=True, slots=True)
class Page:
    """What is on the screen.

    Attributes:
        simulation: of the guard.
        runs: whether time passes by itself.
        over: whether the person has seen enough.
    """

    simulation: Simulation
    runs: bool = True
    over: bool = False


def pressed(page: Page, key: str) -> Page:
    """The page after a key; one that means nothing changes nothing."""
    if key in ("Q", "\x03", "\x04"):
        return replace(page, over=True)
    if key == " ":
        return replace(page, runs=not page.runs)
    if key == "S":
        word = _STANDSTILL_AFTER[page.simulation.standstill]
        return replace(page, simulation=commanded(page.simulation, f"standstill {word}"))
    if key in COMMAND_KEYS:
        return replace(page, simulation=commanded(page.simulation, COMMAND_KEYS[key]))
    if key in CONDITION_KEYS:
        return replace(page, simulation=passed(toggled(page.simulation, CONDITION_KEYS[key]), 0))
    return page


def rendered(page: Page) -> list[Text]:
    """The lines of the screen."""
    return [*_head(page), *_grid(page.simulation), *_sentences(page.simulation), *_foot()]


def _head(page: Page) -> list[Text]:
    simulation = page.simulation
    memory, outputs = simulation.memory, simulation.outputs
    time = f"{simulation.now_ns / (1000 * MS):.2f} s" + ("" if page.runs else "  paused")
    title = Text(f"{simulation.profile.name[:56]:<58}{time:>22}", style="bold")
    line = Text.assemble((memory.state.value, state_style(memory.state.value)))
    line.append(f" for {(simulation.now_ns - memory.entered_ns) / (1000 * MS):.1f} s")
    if outputs.permit:
        line.append(f" · may move: mode {memory.mode.name}, limits {outputs.limits}", style="green")
    else:
        line.append(" · nothing may move")
    if memory.healthy_since_ns is not None:
        stopped = memory.state is State.STOPPED
        need_ns = simulation.profile.healthy_ns if stopped else simulation.profile.settle_ns
        well_ns = simulation.now_ns - memory.healthy_since_ns
        line.append(f" · well for {well_ns / (1000 * MS):.1f} of {need_ns / (1000 * MS):g} s")
    line.append(f" · {_STANDSTILL[simulation.standstill]}")
    line.truncate(WIDTH)
    waits = textwrap.wrap(f"waits for {waits_for(memory, simulation.profile)}", WIDTH)[:2]
    return [title, line, *(Text(text) for text in waits), *[Text("")] * (3 - len(waits))]


def _grid(simulation: Simulation) -> list[Text]:
    """The conditions, in columns."""
    timers = {timer.bit: timer for timer in simulation.memory.timers}
    rows = -(-len(_SHOWN) // _COLUMNS)
    lines = []
    for row in range(rows):
        line = Text()
        for condition in _SHOWN[row::rows]:
            line.append_text(_cell(condition, timers.get(condition.bit), simulation))
            line.append(" ")
        line.rstrip()
        lines.append(line)
    return lines


def _cell(condition: Condition, timer: Timer | None, simulation: Simulation) -> Text:
    """26 columns: its key, whether it holds, its name, how much of its budget is used up or that it counts."""
    rule = simulation.profile.rule(condition)
    key, mark, style = _KEY_OF.get(condition, " "), "·", ""
    if rule is None:
        mark, style = "-", "dim"
    elif simulation.tripped & condition.mask:
        mark = "●"
    elif simulation.unknown & condition.mask:
        mark = "?"
    level = ""
    if timer is not None and rule is not None:
        if timer.since_ns is None:
            level, style = f"{100 * timer.level_ns // max(1, rule.trip_ns)}%", "yellow"
        else:
            style = "bold red" if rule.severity >= Severity.SAFE else "bold yellow"
            level = "!!"
            if timer.clear_since_ns is not None:
                left_ns = rule.clear_ns - (simulation.now_ns - timer.clear_since_ns)
                level = f"{-(-max(0, left_ns) // (1000 * MS))}s"
    return Text.assemble((key, "dim"), (f" {mark}{condition.value:<20}{level:>3.3}", style))


def _sentences(simulation: Simulation) -> list[Text]:
    """The newest, the last one at the bottom; always so many lines."""
    lines: list[str] = []
    for at_ms, sentence in simulation.told[-_MOST_SENTENCES:]:
        lines += textwrap.wrap(f"{at_ms / 1000:8.2f}  {sentence}", WIDTH, subsequent_indent=" " * 10)
    lines = lines[-_MOST_SENTENCES:]
    return [*(Text(line) for line in lines), *[Text("")] * (_MOST_SENTENCES - len(lines))]


def _foot() -> list[Text]:
    return [Text(line, style="dim") for line in HELP]
