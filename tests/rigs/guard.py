"""A guard's page and lease with real processes at them: workers, holders of the lease, readers.

    python -m tests.rigs.guard beat [COUNT]     beats as fast as it can, or so often; what it writes obeys a rule
    python -m tests.rigs.guard claim            claims the slot and waits
    python -m tests.rigs.guard meddle           tries to write the lease in every way, prints what came of each
    python -m tests.rigs.guard renew SETTINGS   holds a lease, starts a reader of it, and renews until it dies

Every child ends with whoever started it.
"""

import contextlib
import ctypes
import json
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edge_runtime.guard.block import SharedMemoryError
from edge_runtime.guard.lease import RENEWAL_NS, LeaseReader, LeaseWriter
from edge_runtime.guard.page import Handover, SlotWriter
from edge_runtime.lifeline import die_with_parent, told_parent

STARTS_S = 20.0
"""A child that says nothing for so long does not start; generous, the machine may be busy."""


class Clock:
    """Nanoseconds that move only when told."""

    def __init__(self, now_ns: int = 1_000_000_000) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns


def child(role: str, *arguments: str, handover: Handover | None = None) -> "subprocess.Popen[str]":
    """Start one of the roles above."""
    environment = told_parent(os.environ)
    if handover is not None:
        environment |= handover.environment
    return subprocess.Popen(
        [sys.executable, "-m", "tests.rigs.guard", role, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        pass_fds=() if handover is None else handover.pass_fds,
    )


@contextlib.contextmanager
def running(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    """Ends it, whatever state it is in."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def line(process: "subprocess.Popen[str]") -> str:
    """The next line that a child says; empty when it ended."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def obeys(work_sequence: int, capture_ns: int, evaluated: int, tripped: int) -> bool:
    """Whether what was read is what one single beat of `beat` wrote."""
    return (capture_ns, evaluated, tripped) == rule(work_sequence)


def rule(work_sequence: int) -> tuple[int, int, int]:
    """What `beat` writes beside the number of the unit: a mix of two beats breaks it."""
    mixed = work_sequence * 0x9E3779B97F4A7C15 & (1 << 62) - 1
    return mixed, mixed ^ (1 << 62) - 1, mixed & 0xFFFF


def beat(count: int | None) -> None:
    """Beats."""
    slot = SlotWriter.from_environment()
    assert slot is not None
    print("beats", flush=True)
    done = 0
    while count is None or done < count:
        done += 1
        capture_ns, evaluated, tripped = rule(done)
        slot.finished("unit", capture_ns, time.monotonic_ns() + 100_000_000, evaluated, tripped)
    sys.stdin.read()


def claim() -> None:
    """Claims the slot, and says what came of it."""
    try:
        slot = SlotWriter.from_environment()
    except SharedMemoryError as error:
        print(error, flush=True)
        return
    assert slot is not None
    print("claimed", flush=True)
    sys.stdin.read()


def meddle() -> None:
    """Tries to write the lease; prints, as JSON, the error of each way, or `done`."""
    fd = int(os.environ["EDGE_GUARD_LEASE"])
    LeaseReader(fd)
    size = os.fstat(fd).st_size
    readable = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    libc = ctypes.CDLL(None, use_errno=True)

    def protect() -> None:
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        at = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def reopened() -> None:
        os.write(os.open(f"/proc/self/fd/{fd}", os.O_RDWR), b"\0" * size)

    ways: dict[str, Callable[[], object]] = {
        "mmap": lambda: mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE),
        "mprotect": protect,
        "write": lambda: os.write(fd, b"\0" * size),
        "pwrite": lambda: os.pwrite(fd, b"\0", 0),
        "reopened": reopened,
        "shrink": lambda: os.ftruncate(fd, 0),
        "grow": lambda: os.ftruncate(fd, 2 * size),
    }
    came = {}
    for name, way in ways.items():
        came[name] = tried(way)
    readable.close()
    print(json.dumps(came), flush=True)


def tried(way: Callable[[], object]) -> str:
    """What came of it: `done`, or the error."""
    try:
        way()
    except OSError as error:
        return error.strerror or ""
    return "done"


def renew(settings: str) -> None:
    """Holds a lease and renews it until it is killed or stopped.

    Settings, JSON: `command` to start, with the lease handed over and standard streams inherited; `fds` to pass
    besides and `environment` for it. Prints its lease's descriptor, and renews nothing before a line comes in.
    """
    told = json.loads(settings)
    lease = LeaseWriter()
    fds, environment = lease.handover()
    environment = told.get("environment", {}) | environment
    print(lease.fd, flush=True)
    subprocess.Popen(
        told["command"],
        pass_fds=(*fds, *told.get("fds", [])),
        env=os.environ | environment,
        start_new_session=True,
    )
    sys.stdin.readline()
    while True:
        lease.renew(time.monotonic_ns(), "NOMINAL", 0)
        time.sleep(RENEWAL_NS / 1e9)


def watch_lease() -> None:
    """Reads the lease until it ends, then prints when it last held and when it did not, and until when it said."""
    reader = LeaseReader.from_environment()
    print("watching", flush=True)
    until = time.monotonic() + STARTS_S
    while not reader.valid():  # its parent is the one that gets killed: it must end by itself
        if time.monotonic() > until:
            return
        time.sleep(0.001)
    print("valid", flush=True)
    last_ns = time.monotonic_ns()
    while True:
        now_ns = time.monotonic_ns()
        if not reader.valid(now_ns):
            break
        last_ns = now_ns
        time.sleep(0.0005)
    lease = reader.read()
    assert lease is not None
    print(json.dumps({"last_ns": last_ns, "end_ns": now_ns, "expires_ns": lease.expires_ns}), flush=True)


@dataclass(frozen=True, slots=True)
class Ending:
    """How a lease ended, as another process saw it; ns on CLOCK_MONOTONIC."""

    fault_ns: int
    last_ns: int
    end_ns: int
    expires_ns: int


def lease_ending(number: signal.Signals, after_s: float) -> Ending:
    """Let a process renew a lease, send it a signal, and read from another process when the lease ends."""
    told = {"command": [sys.executable, "-m", "tests.rigs.guard", "watch"]}
    with running(child("renew", json.dumps(told))) as holder:
        assert line(holder).isdecimal()
        assert line(holder) == "watching"
        assert holder.stdin is not None
        holder.stdin.write("go\n")
        holder.stdin.flush()
        assert line(holder) == "valid"
        time.sleep(after_s)
        fault_ns = time.monotonic_ns()
        holder.send_signal(number)
        seen = json.loads(line(holder))
    return Ending(fault_ns, **seen)


def main(role: str, *arguments: str) -> None:
    """One of the roles."""
    if role == "watch":
        watch_lease()
        return
    die_with_parent(signal.SIGKILL)
    if role == "beat":
        beat(int(arguments[0]) if arguments else None)
    elif role == "claim":
        claim()
    elif role == "meddle":
        meddle()
    else:
        renew(arguments[0])


def spread(values: list[float]) -> str:
    """Least, median, p99 and greatest."""
    ordered = sorted(values)
    at = min(len(ordered) - 1, round(0.99 * (len(ordered) - 1)))
    middle = ordered[len(ordered) // 2]
    return f"min {ordered[0]:.2f} median {middle:.2f} p99 {ordered[at]:.2f} max {ordered[-1]:.2f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
