"""What the guard costs: at rest and armed, in memory, and from its start to its first evaluation."""

import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.guard.client import NoGuard, ask, launch
from tests.rigs.guard_bodies import PATIENT
from tests.rigs.guarded import GuardProcess, guarded, worker_row

AT_REST_PERCENT, RESIDENT_MB, FIRST_MS = 0.2, 30.0, 150.0
"""What it may cost: of one core while nothing is armed, in memory, and until it has evaluated first.

Held against by trials alone, on a machine that does nothing else, in a process that nothing else is loaded into.
"""

pytestmark = pytest.mark.trial
WATCHED_S = 20.0

SETTLES_S = 12.0
"""Conditions of the start are clear for good after this long: until then it looks more often."""


@pytest.fixture(autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, whose installer compiled the modules: a start does not compile them anew."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.getbasetemp() / "bytecode"))


def processor_s(pid: int) -> float:
    """Time that a process had a processor."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_mb(pid: int) -> float:
    """Memory of a process that is there now."""
    fields = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return next(int(field[1]) / 1024 for field in fields if field[0] == "VmRSS:")


def share(guard: GuardProcess, seconds: float) -> tuple[float, float]:
    """Of one core in percent, and turns of its loop a second, while nobody asks it anything."""
    assert guard.process is not None
    pid, turns = guard.process.pid, guard.status()["turns"]
    began, used = time.monotonic(), processor_s(guard.process.pid)
    time.sleep(seconds)
    took_s = time.monotonic() - began
    return 100 * (processor_s(pid) - used) / took_s, (guard.status()["turns"] - turns) / took_s


def guard_over_two(folder: Path, *, real_time: bool) -> GuardProcess:
    """Over workers that beat at 10 Hz."""
    rows = [worker_row(name, period_ms=100, deadline_ms=1000) for name in ("perception", "outbox")]
    return GuardProcess(folder, PATIENT, rows, real_time=real_time)


@pytest.mark.parametrize("real_time", [False, True])
def test_cost_at_rest_and_armed(tmp_path: Path, real_time: bool) -> None:
    with guarded(guard_over_two(tmp_path, real_time=real_time)) as guard:
        assert guard.process is not None
        guard.reach("STANDBY")
        time.sleep(SETTLES_S)
        rest, rest_turns = share(guard, WATCHED_S)
        guard.ask(ask="arm")
        guard.reach("NOMINAL")
        armed, armed_turns = share(guard, WATCHED_S)
        memory = resident_mb(guard.process.pid)
        print(
            f"\n  at rest {rest:.3f} % of a core, {rest_turns:.1f} turns a second; armed {armed:.2f} %, "
            f"{armed_turns:.0f} turns; resident {memory:.1f} MB"
        )
        assert memory <= RESIDENT_MB
        assert rest <= AT_REST_PERCENT


def first_evaluation_ms(folder: Path) -> float:
    """From the call that starts it to the first answer that says that it has evaluated."""
    folder.mkdir()
    settings = guard_over_two(folder, real_time=True).settings()
    began = time.monotonic()
    process = launch(settings, stderr=subprocess.DEVNULL)
    try:
        while not evaluated(folder):
            time.sleep(0.0005)
        return (time.monotonic() - began) * 1e3
    finally:
        process.kill()
        process.wait()


def evaluated(folder: Path) -> bool:
    """Whether it has."""
    try:
        status: dict[str, Any] = ask(folder / "control", {"ask": "status"})
    except NoGuard:
        return False
    return bool(status["turns"] > 0)


def test_time_from_the_start_to_the_first_evaluation(tmp_path: Path) -> None:
    took_ms = sorted(first_evaluation_ms(tmp_path / str(at)) for at in range(30))
    median = statistics.median(took_ms)
    least, greatest = took_ms[0], took_ms[-1]
    print(
        f"\n  first evaluation after {least:.0f} / {median:.0f} / {greatest:.0f} ms (least, median, greatest)"
    )
    assert median <= FIRST_MS
