"""`edge-runtime` on a real terminal of 80 columns, typed at by a test."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType

_PATIENCE_S = 60.0


class Terminal:
    """One command on a terminal; a context manager whose end leaves no process.

    Args:
        arguments: of `edge-runtime`.
        lines: of the terminal.

    Attributes:
        process: of the command.
        all: everything that it has shown so far.
    """

    def __init__(self, *arguments: str, lines: int = 24) -> None:
        self._ours, self._its = os.openpty()
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, 80, 0, 0))
        self._before = termios.tcgetattr(self._its)
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "edge_runtime.cli.main", *arguments],
            env={**os.environ, "PYTHONPATH": str(root), "TERM": "xterm"},
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            start_new_session=True,
        )
        self.all = ""
        self._seen = 0

    def until(self, text: str) -> None:
        """Wait until it shows a text that it has not shown before what was last waited for."""
        end = time.monotonic() + _PATIENCE_S
        while (at := self.all.find(text, self._seen)) < 0:
            assert time.monotonic() < end, f"never {text!r} in {self.all[self._seen :][-3000:]!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.all += os.read(self._ours, 65536).decode(errors="replace")
        self._seen = at + len(text)

    def press(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def code(self) -> int:
        """Wait for its end; its exit code."""
        return self.process.wait(_PATIENCE_S)

    @property
    def restored(self) -> bool:
        """Whether the terminal is set as it was at the start."""
        return termios.tcgetattr(self._its) == self._before

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._its)
