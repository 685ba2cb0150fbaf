"""`guard simulate`: the same state machine under a person's hands: as pure steps, a script, and on a terminal."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.cli.guard_profile import Body, chosen_body
from edge_runtime.cli.guard_simulation import (
    COMMANDS,
    BadCommand,
    Simulation,
    begin,
    commanded,
    help_lines,
    toggled,
)
from edge_runtime.cli.guard_simulation_page import COMMAND_KEYS, CONDITION_KEYS, Page, pressed, rendered
from edge_runtime.cli.guard_simulator import scripted
from edge_runtime.errors import ConfigError
from edge_runtime.guard.conditions import Condition
from edge_runtime.guard.memory import State
from tests.rigs.guard_bodies import CART, profile_of
from tests.rigs.terminal import Terminal

Cli = Callable[..., Any]
KEY_OF = {condition: key for key, condition in CONDITION_KEYS.items()}


CART_BODY = Body(profile_of(), arms_itself=False)


def after(*commands: str, simulation: Simulation | None = None) -> Simulation:
    found = begin(CART_BODY) if simulation is None else simulation
    for command in commands:
        found = commanded(found, command)
    return found


def test_the_way_of_a_body_through_its_states() -> None:
    assert after().state is State.INIT
    armed = after("wait 2", "arm")
    assert armed.state is State.NOMINAL
    assert after("trip source-dark", "wait 1", simulation=armed).state is State.STOPPED
    assert after("unknown source_dark", "wait 1", simulation=armed).state is State.STOPPED
    latched = after("trip estop", simulation=armed)
    assert latched.state is State.SAFE
    for command in ("ack", "clear all", "ack 123", "standstill no", "ack", "standstill unknown", "ack"):
        latched = after(command, simulation=latched)
        assert latched.state is State.SAFE
    refused = [text for _, text in latched.told if "refused" in text]
    assert len(refused) == 4, "each for a reason of its own"
    assert len(set(refused)) == 3
    recovered = after("standstill yes", "ack", "wait 2", simulation=latched)
    assert recovered.state is State.STANDBY
    assert after("arm", simulation=recovered).state is State.NOMINAL
    assert after("disarm", simulation=armed).state is State.STANDBY


def test_a_body_that_cannot_move_arms_itself_and_latches_nothing() -> None:
    still = begin(chosen_body(None, None))
    working = after("wait 20", simulation=still)
    assert working.state is State.NOMINAL
    worse = after("trip worker_dead", "wait 1", simulation=working)
    assert worse.state is State.DEGRADED
    assert after("clear all", "wait 20", simulation=worse).state is State.NOMINAL


def test_a_lockout_needs_a_reset_first() -> None:
    locked = after("wait 2", "arm", "trip crash_loop", "clear crash_loop", "ack")
    assert locked.state is State.LOCKOUT
    assert after("reset", "ack", simulation=locked).state is State.RECOVERY


def test_a_restart_keeps_the_latch_and_a_kill_in_motion_makes_one() -> None:
    latched = after("wait 2", "arm", "trip estop")
    assert latched.memory.latch is not None
    for command in ("restart", "kill"):
        again = after(command, simulation=latched)
        assert again.state is State.SAFE
        assert again.memory.latch is not None
        assert again.memory.latch.id == latched.memory.latch.id
    armed = after("wait 2", "arm")
    assert after("restart", simulation=armed).state is State.INIT
    killed = after("kill", simulation=armed)
    assert killed.memory.latch is not None
    assert killed.memory.latch.causes == Condition.LATCH_UNKNOWN.mask
    assert killed.memory.latch.id != latched.memory.latch.id


def test_a_guard_that_wakes_late_gives_no_permission_in_that_moment() -> None:
    armed = after("wait 2", "arm")
    assert armed.outputs.permit
    late = after("late 50", simulation=armed)
    assert not late.outputs.permit
    assert late.now_ns - armed.now_ns == 50_000_000
    assert after("wait 0.1", simulation=late).outputs.permit
    assert after("late 500", simulation=armed).state is State.STOPPED


def test_a_condition_holds_then_is_not_evaluated_then_is_clear() -> None:
    simulation = begin(CART_BODY)
    mask = Condition.ESTOP.mask
    seen = []
    for _ in range(3):
        simulation = toggled(simulation, Condition.ESTOP)
        seen.append((simulation.tripped & mask > 0, simulation.unknown & mask > 0))
    assert seen == [(True, False), (False, True), (False, False)]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("", "there is no command ''"),
        ("dance", "there is no command 'dance'"),
        ("trip", "trip takes names"),
        ("trip estp", "did you mean estop?"),
        ("trip repeated_trips", "found by the guard itself, from what happened before"),
        ("trip guard_late", "found by the guard itself, from late MILLISECONDS"),
        ("wait", "wait takes one number from 0 to 3600"),
        ("wait 1 2", "wait takes one number"),
        ("wait -1", "wait takes one number"),
        ("wait nan", "wait takes one number"),
        ("wait x", "wait takes one number"),
        ("late 1e9", "late takes one number from 0 to 10000"),
        ("standstill perhaps", "standstill takes one of yes, no, unknown"),
        ("arm now", "arm takes nothing else"),
        ("ack a b", "ack takes the id of a latch"),
    ],
)
def test_what_cannot_be_understood_is_said_in_a_sentence(command: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        after(command)


def test_help_names_every_command() -> None:
    lines = list(help_lines())
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert max(map(len, lines)) <= 80


# -- the page ----------------------------------------------------------------------------------------------------


def shown(page: Page) -> list[str]:
    return [line.plain for line in rendered(page)]


def keys(page: Page, text: str) -> Page:
    for key in text:
        page = pressed(page, key)
    return page


def test_the_page_is_24_lines_of_80_columns_whatever_happens() -> None:
    page = Page(begin(CART_BODY))
    for text in ("", ">>A", "".join(CONDITION_KEYS), ">", "".join(CONDITION_KEYS), "KRKXN SSS"):
        page = keys(page, text)
        lines = shown(page)
        assert len(lines) == 24
        assert max(map(len, lines)) <= 80


def test_every_key_of_a_command_is_a_command_and_none_is_a_condition() -> None:
    assert not set(COMMAND_KEYS) & set(CONDITION_KEYS)
    page = Page(begin(CART_BODY))
    for key in COMMAND_KEYS:
        assert pressed(page, key) != page


def test_keys_trip_conditions_and_the_page_shows_how_they_drain() -> None:
    page = keys(Page(begin(CART_BODY)), ">>A")
    assert shown(page)[1].startswith("NOMINAL for 0.0 s · may move: mode drive, limits full")
    page = keys(page, KEY_OF[Condition.SOURCE_DARK] + "." * 24)
    (line,) = [line for line in shown(page) if "source_dark" in line]
    assert "●source_dark         50%" in line
    page = keys(page, ">")
    assert shown(page)[1].startswith("STOPPED")
    assert "●source_dark          !!" in "\n".join(shown(page))
    page = keys(page, "C.")
    assert "·source_dark          1s" in "\n".join(shown(page))
    assert "well for" not in shown(page)[1]
    page = keys(page, ">>")
    assert "well for 1.0 of 5 s" in shown(page)[1]
    assert any("STOPPED, from NOMINAL" in line for line in shown(page))


def test_pausing_leaving_and_keys_that_mean_nothing() -> None:
    page = Page(begin(CART_BODY))
    assert "paused" in shown(keys(page, " "))[0]
    assert not keys(page, " ").runs
    assert keys(page, "  ").runs
    assert keys(page, "Q").over
    assert keys(page, "\x03").over
    assert keys(page, "é\t0") == page


# -- the command -------------------------------------------------------------------------------------------------


def test_a_script_prints_a_line_for_each_change() -> None:
    script = [
        "# a camera",
        "",
        "wait 2",
        "arm",
        "trip source_dark  # dark",
        "wait 1",
        "expect stopped",
        "show",
    ]
    lines = list(scripted(CART_BODY, script))
    assert lines[:4] == [
        "     0.00 s  INIT: the guard started, and nothing may move until it is armed",
        "     1.01 s  STANDBY, from INIT",
        "     2.01 s  NOMINAL, from STANDBY",
        "     2.51 s  STOPPED, from NOMINAL: a camera's picture is dark or black (source_dark)",
    ]
    assert lines[4] == "state   STOPPED"
    assert list(scripted(CART_BODY, ["quit", "dance"])) == lines[:1]
    assert "expect STATE" in "\n".join(scripted(CART_BODY, ["help"]))


def test_a_script_with_a_mistake_names_its_line() -> None:
    with pytest.raises(BadCommand, match="line 2: there is no condition estp"):
        list(scripted(CART_BODY, ["wait 1", "trip estp"]))
    with pytest.raises(BadCommand, match="line 1: expect takes one of INIT"):
        list(scripted(CART_BODY, ["expect well"]))


@pytest.mark.parametrize(
    ("script", "code", "err"),
    [
        ("wait 2\nexpect STANDBY\n", 0, ""),
        ("expect STANDBY\n", 1, "error: line 1: the state is INIT, not STANDBY\n"),
        ("trip estp\n", 2, "error: line 1: there is no condition estp; did you mean estop?\n"),
    ],
)
def test_the_command_reads_a_script_from_its_input(script: str, code: int, err: str, tmp_path: Path) -> None:
    (tmp_path / "cart.json").write_text(json.dumps(CART))
    command = [sys.executable, "-m", "edge_runtime.cli.main", "guard", "simulate", "--profile", "cart.json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    found = subprocess.run(
        command, cwd=tmp_path, env=environment, input=script, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stderr) == (code, err)


def test_the_page_on_a_real_terminal(tmp_path: Path) -> None:
    profile = tmp_path / "cart.json"
    profile.write_text(json.dumps(CART))
    with Terminal("guard", "simulate", "--profile", str(profile)) as terminal:
        terminal.until("STANDBY, from INIT")
        terminal.press("A")
        terminal.until("NOMINAL, from STANDBY")
        terminal.press("\x1b[A" + KEY_OF[Condition.ESTOP])  # an arrow means nothing
        terminal.until("SAFE, latch")
        terminal.press("Q")
        terminal.until("\x1b[?1049l")  # the screen that was there before is back
        assert terminal.code() == 0
        assert terminal.restored


def test_the_script_in_the_documentation_does_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operating-the-guard.md").read_text()
    script = page.split("```\nwait 2\n")[1].split("```")[0].splitlines()
    assert len(list(scripted(CART_BODY, ["wait 2", *script]))) >= 5
