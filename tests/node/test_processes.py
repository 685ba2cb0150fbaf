"""The process table with real processes and real signals."""

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.node import processes
from edge_runtime.node.processes import ProcessRow, ProcessState, ProcessTable

PATIENCE_S = 20.0

GOOD = """
    import signal, sys, time
    from edge_runtime.lifeline import die_with_parent
    die_with_parent()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture(name="module")
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    """Writes a module that `python -m` finds."""
    root = str(Path(processes.__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{root}")

    def write(name: str, code: str) -> str:
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        return name

    return write


@pytest.fixture(name="table")
def _table() -> Iterator[Callable[..., ProcessTable]]:
    made: list[ProcessTable] = []

    def build(*rows: ProcessRow) -> ProcessTable:
        table = ProcessTable(rows, SystemClock(), random.Random(1))
        made.append(table)
        table.start()
        return table

    yield build
    for table in made:
        table.stop()


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def test_a_killed_process_is_started_again(
    module: Callable[..., str], table: Callable[..., ProcessTable]
) -> None:
    running = table(ProcessRow("one", module("good_one", GOOD)))
    assert running.wait_ready("one", PATIENCE_S)
    (first,) = running.status()
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: running.status()[0].restarts == 1 and running.status()[0].state is ProcessState.RUNNING)
    (again,) = running.status()
    assert again.pid != first.pid
    assert again.last_exit == -signal.SIGKILL


def test_what_depends_on_another_starts_after_it(
    module: Callable[..., str], table: Callable[..., ProcessTable], tmp_path: Path
) -> None:
    log = tmp_path / "order"
    code = GOOD.replace(
        'print("ready", flush=True)',
        f'open({str(log)!r}, "a").write(__file__[-4]); print("ready", flush=True)',
    )
    running = table(ProcessRow("a", module("row_a", code)), ProcessRow("b", module("row_b", code)))
    assert running.wait_ready("b", PATIENCE_S)
    assert log.read_text() == "ab"


def test_a_row_that_is_not_wanted_waits_and_holds_up_nobody(
    module: Callable[..., str], table: Callable[..., ProcessTable]
) -> None:
    wanted = False
    name = module("good_two", GOOD)
    running = table(ProcessRow("later", name, wanted=lambda: wanted), ProcessRow("now", name))
    assert running.wait_ready("now", PATIENCE_S)
    assert running.status()[0].state is ProcessState.WAITING
    wanted = True
    assert running.wait_ready("later", PATIENCE_S)


def test_one_that_is_never_ready_is_killed_and_tried_again(
    module: Callable[..., str], table: Callable[..., ProcessTable]
) -> None:
    silent = module("silent", "import time\nprint('not yet', flush=True)\ntime.sleep(600)\n")
    running = table(ProcessRow("mute", silent, ready_s=0.5))
    until(lambda: running.status()[0].restarts >= 1)
    assert not running.wait_ready("mute", 0)


def test_one_that_ignores_sigterm_is_killed(
    module: Callable[..., str], table: Callable[..., ProcessTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_TERM_S", 0.3)
    stubborn = GOOD.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")
    running = table(ProcessRow("stubborn", module("stubborn", stubborn)))
    assert running.wait_ready("stubborn", PATIENCE_S)
    (status,) = running.status()
    running.stop()
    assert status.pid is not None
    assert not psutil.pid_exists(status.pid)
    assert running.status()[0].last_exit == -signal.SIGKILL


def test_children_die_with_a_killed_parent(module: Callable[..., str], tmp_path: Path) -> None:
    name = module("orphan", GOOD)
    parent = module(
        "parent",
        f"""
        import time
        from edge_runtime.clock import SystemClock
        from edge_runtime.node.processes import ProcessRow, ProcessTable
        table = ProcessTable([ProcessRow("c", {name!r})], SystemClock())
        table.start()
        assert table.wait_ready("c", 20)
        print(table.status()[0].pid, flush=True)
        time.sleep(600)
        """,
    )
    with subprocess.Popen([sys.executable, "-m", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
