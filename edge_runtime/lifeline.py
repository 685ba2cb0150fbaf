"""How processes end: a child with its parent, however that ends, and no crash with its memory in a file."""

import contextlib
import os
import resource
import signal
from collections.abc import Mapping

PARENT = "EDGE_RUNTIME_PARENT"
"""Variable with the parent's process id: it may die before the child can ask who it is."""

_PR_SET_PDEATHSIG = 1


def told_parent(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for a child that ends with this process."""
    return {**environment, PARENT: str(os.getpid())}


def die_with_parent(number: int = signal.SIGKILL, parent: int | None = None) -> None:
    """Called by a child at its start: have the kernel send `number` when the thread that spawned it ends.

    SIGKILL by default: a child that hangs would not hear anything else, and would meet the one that is started
    in its place. Whatever keeps something on a disk survives it, as it survives a power cut.

    Args:
        number: of the signal.
        parent: its process id, where the child was told in another way than by `told_parent`.
    """
    import ctypes  # noqa: PLC0415 - the guard calls this when it has evaluated first (docs/decisions/0278)

    told = os.environ.pop(PARENT, "")  # it is about this process alone, not about its children
    if parent is None:
        parent = int(told) if told.isdecimal() else os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:  # it died before the call
        os.kill(os.getpid(), number)


def signal_name(number: int) -> str:
    """`SIGSEGV` for 11; a real-time signal has its number alone."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def leave_no_core() -> None:
    """Called by a process that holds pictures, events or keys: a crash of it, or of a child, writes no core file.

    The limit is 1 and not 0: a core that the system pipes into a program is written whatever the limit says, but
    for this value (the kernel's `do_coredump`).
    """
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(
            resource.RLIMIT_CORE, (1 if hard == resource.RLIM_INFINITY else min(1, hard), hard)
        )
