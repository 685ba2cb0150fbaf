"""Lets a process run for a share of the time alone, whatever it is at: it is stopped and continued by signals.

A low priority is not enough. Two processors of one core share its units: a process that runs beside a model on the
other one takes from the model whatever its priority is, because nobody waits for a processor.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Final

PERIOD_S: Final = 0.1


@contextlib.contextmanager
def paced(child: "subprocess.Popen[bytes]", share: float, period_s: float = PERIOD_S) -> Iterator[None]:
    """Within the block the child runs for a share of each period; after it the child runs on.

    The child alone is stopped, not what it started. Being killed reaches it also while it is stopped.

    Args:
        child: of this process; it may end at any time.
        share: above 0, to 1; at 1 it is left alone.
        period_s: seconds.

    Raises:
        OSError: the kernel gives no descriptor of the child.
    """
    if share >= 1:
        yield
        return
    descriptor = os.pidfd_open(child.pid)  # its number may be another's by the time a signal is sent
    over = threading.Event()
    thread = threading.Thread(
        target=pulse,
        args=(descriptor, over, share * period_s, (1 - share) * period_s),
        name="paces",
        daemon=True,
    )
    try:
        thread.start()
        yield
    finally:
        over.set()
        if thread.ident is not None:
            thread.join()
        os.close(descriptor)


def pulse(descriptor: int, over: threading.Event, runs_s: float, rests_s: float) -> None:
    """Stop and continue a process until it is over, or the process has gone; it is left running.

    Args:
        descriptor: of the process.
        over: is waited on, for the one time and the other.
        runs_s: seconds from its start, or from when it is continued.
        rests_s: seconds that it is stopped.
    """
    with contextlib.suppress(ProcessLookupError):
        while not over.wait(runs_s):
            signal.pidfd_send_signal(descriptor, signal.SIGSTOP)
            try:
                over.wait(rests_s)
            finally:
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
