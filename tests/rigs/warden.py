"""A process that outlives its owner by a moment: it ends a daemon and deletes its folder once the owner is gone.

    python -m tests.rigs.warden FOLDER PIDFILE

A daemon that runs as another user cannot be told by the kernel to end with us, and a folder has nobody who could
delete it. The warden's standard input is a pipe from its owner; its end, also by kill -9, is the owner's end.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_END_S = 10.0


def watch(folder: Path, pid_file: Path) -> "subprocess.Popen[bytes]":
    """Begin to watch over a daemon of this process; close its standard input and wait for it when done.

    Args:
        folder: deleted at the end.
        pid_file: its first line is the daemon's process id; may come and go.
    """
    command = [sys.executable, "-m", "tests.rigs.warden", str(folder), str(pid_file)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)


def main(folder: Path, pid_file: Path) -> None:
    """Wait for the owner's end, and clear away."""
    sys.stdin.buffer.read()
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int(pid_file.read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
