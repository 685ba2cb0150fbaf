"""What keeps a loop on time: locked memory, SCHED_FIFO, no garbage collector, fine timers, the last to be killed.

Each call does one thing and returns a fact: done, or why not. A container without CAP_SYS_NICE is not an error; it
is slower, and whoever relies on the times has to know. Measured: with SCHED_FIFO a missed beat was seen 64 us late
(median; at worst 0.3 ms), without it up to 44 ms; a collection over 1.2 million objects took 109 ms.
"""

import gc
import os
import resource
from typing import NamedTuple

GUARD_PRIORITY = 50
GATE_PRIORITY = 49
"""SCHED_FIFO priorities in [1, 99]; the kernel's own threads for interrupts sit at 50."""

_PR_SET_TIMERSLACK = 29
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_CAP_IPC_LOCK = 14
_STATUS = "/proc/self/status"


class Fact(NamedTuple):
    """What came of one request to the kernel.

    Attributes:
        name: of the request, such as `sched_fifo`.
        done: whether it holds now.
        text: one sentence: what holds, or why not.
    """

    name: str
    done: bool
    text: str


def come_first(priority: int, oom_score_adj: int) -> tuple[Fact, ...]:
    """Before other processes: the last to be killed, the first to run. It needs no library and no time.

    Args:
        priority: of SCHED_FIFO, in [1, 99].
        oom_score_adj: in [-1000, 1000]; -1000 is never killed for memory.
    """
    return (adjust_oom_score(oom_score_adj), run_in_real_time(priority))


def stay_on_time() -> tuple[Fact, ...]:
    """What takes its time once and keeps the loop on time then: for when everything is loaded."""
    return (freeze_collector(), set_timer_slack(1), lock_memory())


def freeze_collector() -> Fact:
    """Keep the garbage collector out of the loop for good: collect once, freeze what is there, switch it off.

    The loop must then leave no cycles behind; what it makes is freed by reference counts.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    return Fact("gc_off", done=True, text="the garbage collector is off")


def set_timer_slack(slack_ns: int) -> Fact:
    """How much later than asked the kernel may end a sleep of this thread; 50 us by default.

    Args:
        slack_ns: greater than 0. Under SCHED_FIFO there is none anyway.
    """
    failed = _call("prctl", _PR_SET_TIMERSLACK, slack_ns, 0, 0, 0)
    if failed:
        return Fact("timer_slack", done=False, text=f"timers keep their slack: {failed}")
    return Fact("timer_slack", done=True, text=f"timers end within {slack_ns} ns of what was asked")


def adjust_oom_score(score: int, path: str = "/proc/self/oom_score_adj") -> Fact:
    """Say how readily this process is killed when memory runs out; lowering it needs CAP_SYS_RESOURCE.

    Args:
        score: in [-1000, 1000].
        path: of the kernel's file.
    """
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"{score}\n")
    except OSError as error:
        return Fact("oom_score_adj", done=False, text=f"oom_score_adj stays: {error.strerror}")
    return Fact("oom_score_adj", done=True, text=f"oom_score_adj is {score}")


def lock_memory() -> Fact:
    """Keep all of this process in memory, now and later, so that no page has to be fetched when it matters.

    Not tried where a limit holds: later allocations would then fail instead of being swapped.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and not _may_lock():
        text = f"memory can be swapped out: only {soft // 1024} KiB may be locked; allow it (LimitMEMLOCK=infinity)"
        return Fact("memory_locked", done=False, text=text)
    failed = _call("mlockall", _MCL_CURRENT | _MCL_FUTURE)
    if failed:
        return Fact("memory_locked", done=False, text=f"memory can be swapped out: {failed}")
    return Fact("memory_locked", done=True, text="memory is locked")


def run_in_real_time(priority: int) -> Fact:
    """Run this process before all ordinary ones. Its children start as ordinary ones again.

    Args:
        priority: of SCHED_FIFO, in [1, 99].
    """
    try:
        # Without the reset a verifier or a hook that spins would take the processor from everybody.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        text = f"runs as an ordinary process: {why}; allow real time (CAP_SYS_NICE or LimitRTPRIO)"
        return Fact("sched_fifo", done=False, text=text)
    return Fact("sched_fifo", done=True, text=f"runs before ordinary processes (SCHED_FIFO {priority})")


def _may_lock() -> bool:
    try:
        with open(_STATUS, encoding="utf-8") as file:
            status = file.read()
    except OSError:
        return False
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_IPC_LOCK & 1)
    return False


def _call(name: str, *arguments: int) -> str:
    """Call the C library; the kernel's reason where it refuses, empty where it does not."""
    import ctypes  # noqa: PLC0415 - the guard evaluates first (docs/decisions/0278)

    call = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if call is None:
        return f"the C library has no {name}"
    if call(*(ctypes.c_ulong(value) for value in arguments)) == 0:
        return ""
    return os.strerror(ctypes.get_errno())
