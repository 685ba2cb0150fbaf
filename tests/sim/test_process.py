"""Whoever starts a road may be killed: what he started ends, and folders of databases go."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from sim.process import Process, RoadError
from tests.rigs.postgres import programs
from tests.rigs.roads import wait_for

_CHILD = "import sys, time; print('ready at last', flush=True); time.sleep(1000)"

_OWNER = f"""
import sys, threading
from pathlib import Path
from sim.process import Process
child = Process((sys.executable, "-c", {_CHILD!r}), Path(sys.argv[1]) / "child.log")
child.start()
print(child.pid, flush=True)
threading.Event().wait()
"""

_POSTGRES_OWNER = """
import threading
from tests.rigs.postgres import postgres_cluster
made = postgres_cluster()
cluster = next(made)
print(cluster.pid, flush=True)
threading.Event().wait()
"""


def killed_owner(text: str, arguments: Sequence[str], see: Callable[[list[str]], None]) -> list[str]:
    """Words that an owner of processes said before it was killed; `see` is called while it lives."""
    with subprocess.Popen(
        [sys.executable, "-c", text, *arguments], stdout=subprocess.PIPE, text=True
    ) as owner:
        try:
            assert owner.stdout is not None
            words = owner.stdout.readline().split()
            see(words)
        finally:
            owner.send_signal(signal.SIGKILL)
            owner.wait()
    return words


def gone(pid: int) -> bool:
    """Whether no such process runs; one that nobody has waited for yet does not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_process_ends_with_who_started_it(tmp_path: Path) -> None:
    def see(words: list[str]) -> None:
        assert not gone(int(words[0]))

    words = killed_owner(_OWNER, [str(tmp_path)], see)
    assert wait_for(lambda: gone(int(words[0])))


def test_a_database_and_its_folder_end_with_who_started_it() -> None:
    if programs() is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    folders: list[Path] = []

    def see(words: list[str]) -> None:
        pid = int(words[0])
        assert not gone(pid)
        folders.append(Path(psutil.Process(pid).cwd()).parent)
        assert folders[0].name.startswith("fleet-pg-")

    words = killed_owner(_POSTGRES_OWNER, [], see)
    assert wait_for(lambda: gone(int(words[0])))
    assert wait_for(lambda: not folders[0].exists())


def test_it_says_what_a_process_said_that_did_not_start(tmp_path: Path) -> None:
    child = Process((sys.executable, "-c", "raise SystemExit('nothing but sand')"), tmp_path / "child.log")
    with pytest.raises(RoadError, match="child did not start: nothing but sand"):
        child.start()


def test_its_environment_can_be_added_to(tmp_path: Path) -> None:
    text = "import os; print('ready', os.environ['ADDED'], flush=True)"
    child = Process((sys.executable, "-c", text), tmp_path / "child.log", {"ADDED": "salt"})
    assert child.start() == "ready salt"
    child.stop()
