"""The short form of the soak: real processes, one that leaks and one that does not, on a clock of the test's."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from sim.soak import Budgets, Line, Watch, figures_of, judge, write_report
from tests.rigs.leaking import STEP_BYTES, STEP_MIB

STEPS, STEP_S = 16, 10.0
LIMITS = {"memory_slope": 60.0, "descriptor_slope": 10.0, "log": 64.0, "starts": 1.0}
BUDGETS = Budgets.model_validate(
    {"warm_up": 0.25, "look_every": 1.0, "runs": {"planted": {"leaks": LIMITS, "sound": LIMITS}}}
)


class Stepped:
    """A process of `tests.rigs.leaking`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def step(self) -> None:
        """One more, done when this returns."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("on\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "on\n"


@contextmanager
def stepped(log: Path, *leaks: str) -> Iterator[Stepped]:
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.rigs.leaking", *leaks],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
        )
        try:
            yield Stepped(process)
        finally:
            process.communicate()


@pytest.fixture(name="lines", scope="module")
def _lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    folder = tmp_path_factory.mktemp("soak")
    logs = {name: folder / f"{name}.log" for name in ("leaks", "sound")}
    with ExitStack() as stack:
        leaks = stack.enter_context(stepped(logs["leaks"], "memory", "descriptors", "log"))
        sound = stack.enter_context(stepped(logs["sound"]))
        watch = Watch(lambda: {"leaks": leaks.process.pid, "sound": sound.process.pid}, logs)
        for number in range(STEPS):
            leaks.step()
            sound.step()
            watch.look(number * STEP_S)
    return judge(figures_of(watch, BUDGETS.warm_up), BUDGETS.of("planted"))


def test_planted_leaks_are_found_with_their_size_and_nothing_else_is(lines: list[Line]) -> None:
    measured = {(line.figure.subject, line.figure.measure): line for line in lines}
    broken = {where for where, line in measured.items() if not line.met}
    assert broken == {("leaks", "memory_slope"), ("leaks", "descriptor_slope"), ("leaks", "log")}
    an_hour = 3600 / STEP_S
    memory = measured["leaks", "memory_slope"].figure.value
    assert memory == pytest.approx(STEP_MIB * an_hour, rel=0.1)
    assert measured["leaks", "descriptor_slope"].figure.value == pytest.approx(an_hour)
    assert measured["leaks", "log"].figure.value == pytest.approx(STEP_BYTES / 1024 * an_hour)
    assert measured["sound", "descriptor_slope"].figure.value == 0.0


def test_the_report_has_every_figure_with_its_unit_and_budget(lines: list[Line], tmp_path: Path) -> None:
    path = write_report(tmp_path / "soak", "planted", lines, {"minutes": 2}, SystemClock())
    record = json.loads((tmp_path / "soak/planted.json").read_text())
    assert (record["met"], record["facts"]) == (False, {"minutes": 2})
    assert len(record["lines"]) == len(lines)
    text = path.read_text()
    assert "## planted: NOT within its budgets" in text
    row = next(line for line in text.splitlines() if line.startswith("| leaks | log | KiB/h |"))
    assert row.endswith("| 64 | it is over its budget |")
    write_report(tmp_path / "soak", "later", lines[:1], {}, SystemClock())
    assert path.read_text().count("\n## ") + 1 == 2, "one table for all runs of the folder"


def test_a_process_that_was_started_again_is_judged_by_its_longest_life(tmp_path: Path) -> None:
    with stepped(tmp_path / "a") as first, stepped(tmp_path / "b", "descriptors") as second:
        pids = [first.process.pid] * 3 + [second.process.pid] * 12
        numbers = iter(pids)
        watch = Watch(lambda: {"worker": next(numbers)})
        for number in range(len(pids)):
            second.step()
            watch.look(number * STEP_S)
    found = {one.measure: one.value for one in figures_of(watch, 0.0)}
    assert found["starts"] == 2
    assert found["descriptor_slope"] == pytest.approx(3600 / STEP_S)


def test_one_that_ended_stops_nobody(tmp_path: Path) -> None:
    with stepped(tmp_path / "a") as one:
        watch = Watch(lambda: {"worker": one.process.pid}, {"worker": tmp_path / "nowhere"})
        watch.look(0.0)
    watch.look(1.0)
    assert len(watch.lives["worker"][-1].samples) <= 1
    assert watch.logs == {"worker": []}
