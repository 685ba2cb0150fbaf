"""Kills backups and restores with SIGKILL at one point after the other, and looks at what is left.

    python -m tests.fleet_server.backup.killing create DATA FOLDER STEP
    python -m tests.fleet_server.backup.killing restore BACKUP FOLDER STEP

A point is a call that changes a folder or opens a file or a database, as Python's audit events tell. A process of
its own that forks: the children begin at once, and no thread of a test is forked with them.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from fleet_server.backup import backups_in, create, restore, verify

_POINTS = {
    "open",
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "shutil.rmtree",
    "sqlite3.connect",
}


def killed_at(point: int, act: Callable[[], object]) -> bool:
    """Run `act` in a child that is killed at a point; whether it was, or came to its end before."""
    child = os.fork()  # noqa: TID251 - no thread runs here, and a spawned one would import for two seconds
    if child == 0:
        left = point

        def hook(event: str, _arguments: object) -> None:
            nonlocal left
            if event in _POINTS:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        act()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def creating(data: Path, folder: Path, step: int) -> dict[str, int]:
    """Kill backups: each that is listed is whole, and the next one clears away what is left."""
    point = killed = 0
    known: set[Path] = set()
    while True:
        point += step
        was_killed = killed_at(point, lambda: create(data, folder, {}))
        if folder.is_dir():
            for path, manifest in backups_in(folder):
                if path not in known:
                    assert verify(path) == manifest
                    known.add(path)
        if not was_killed:
            break
        killed += 1
    create(data, folder, {}, keep=1)
    left = [path.name for path in folder.iterdir()]
    assert len(left) == 2, left  # the lock and one backup
    return {"points": point, "killed": killed}


def restoring(backup: Path, folder: Path, step: int) -> dict[str, int]:
    """Kill restores: the directory is there and whole, or not there; the next try makes it."""
    point = killed = whole = 0
    while True:
        point += step
        target = folder / f"data-{point}"
        was_killed = killed_at(point, lambda target=target: restore(backup, target, {}, database="file"))  # type: ignore[misc]
        if was_killed:
            killed += 1
            if target.exists():
                whole += 1
            else:
                restore(backup, target, {}, database="file")
        assert (target / "fleet.db").is_file()
        create(target, folder / "of-it", {}, keep=1)
        assert not list(folder.glob(".*.part"))
        if not was_killed:
            return {"points": point, "killed": killed, "whole": whole}


if __name__ == "__main__":
    what = creating if sys.argv[1] == "create" else restoring
    sys.stdout.write(json.dumps(what(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))) + "\n")
