"""Locks: of applications, which end with their process however that ends, and of people, which stay."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.updates.process.locks import LOCK, Locks, lock, persons_locks, unlock

_HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_SH)
print("held", flush=True)
time.sleep(60)
"""


@contextmanager
def application(root: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that holds the lock, as `flock -s` does."""
    process = subprocess.Popen([sys.executable, "-c", _HOLDER, str(root / LOCK)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_an_application_that_dies_lets_go(tmp_path: Path) -> None:
    locks = Locks(tmp_path)
    assert locks.why() is None
    with application(tmp_path) as first, application(tmp_path):
        assert locks.why() is not None
        assert not locks.hold()
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert locks.why() is not None, "the other one holds it as well"
    assert locks.why() is None


def test_while_a_release_is_put_in_use_an_application_waits(tmp_path: Path) -> None:
    locks = Locks(tmp_path)
    assert locks.hold()
    assert locks.hold()
    assert locks.why() is None, "its own lock is not in its way"
    tries = ["flock", "-s", "-n", str(tmp_path / LOCK), "true"]
    assert subprocess.run(tries, check=False).returncode == 1
    locks.let_go()
    locks.let_go()
    assert subprocess.run(tries, check=False).returncode == 0


def test_a_persons_lock_stays_until_it_is_removed(tmp_path: Path) -> None:
    lock(tmp_path, "inspection", "people in  the cell", "2026-11-30T07:00:00Z")
    assert Locks(tmp_path).why() == "locked by inspection: people in the cell"
    [found] = persons_locks(tmp_path)
    assert (found.name, found.since) == ("inspection", "2026-11-30T07:00:00Z")
    assert unlock(tmp_path, "inspection")
    assert not unlock(tmp_path, "inspection")
    assert Locks(tmp_path).why() is None


def test_a_lock_that_cannot_be_read_is_one(tmp_path: Path) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "mine").write_text("not JSON")
    assert Locks(tmp_path).why() == "locked by mine: no reason can be read"


@pytest.mark.parametrize(
    ("name", "reason"), [("../x", "r"), ("", "r"), (".hidden", "r"), ("x", " "), ("x", "y" * 201)]
)
def test_names_and_reasons_that_cannot_be_used(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError):
        lock(tmp_path, name, reason, "")
    assert persons_locks(tmp_path) == []


def test_where_nothing_can_be_written_nobody_knows_and_it_is_locked(tmp_path: Path) -> None:
    assert Locks(tmp_path / "gone").why() is not None
