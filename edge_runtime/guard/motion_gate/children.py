"""Ending child processes without waiting for them: one in an uninterruptible sleep would hold the loop."""

import contextlib
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

ENDS_S = 1.0
"""What killed children get at the end of this process; one that takes longer is left to the kernel."""


class Doomed:
    """Children that were killed and have not ended yet."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []

    def __len__(self) -> int:
        return len(self._children)

    def add(self, child: "subprocess.Popen[bytes]", *, group: bool) -> None:
        """Kill a child, with the group that it leads if so."""
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(child.pid, signal.SIGKILL)
            self._children.append(child)
        self.reap()

    def reap(self) -> None:
        """Take notice of those that have ended."""
        self._children = [child for child in self._children if child.poll() is None]

    def wait(self, longest_s: float) -> None:
        """At the end: wait for each of them, at most so long."""
        import subprocess  # noqa: PLC0415 - whoever has a child has imported it

        for child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(longest_s)
        self.reap()
