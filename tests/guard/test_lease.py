"""The lease: nobody but its holder can write it, and it ends by itself whatever becomes of the holder."""

import json
import mmap
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.guard.block import SharedMemoryError, boot_id, padded, shared_memory
from edge_runtime.guard.lease import (
    LENGTH_NS,
    LONGEST_NS,
    RENEWAL_NS,
    VARIABLE,
    Lease,
    LeaseReader,
    LeaseWriter,
)
from edge_runtime.guard.page import Handover
from tests.rigs.guard import child, lease_ending, line, running, spread

MS = 1_000_000


@pytest.fixture
def writer() -> Iterator[LeaseWriter]:
    writer = LeaseWriter()
    yield writer
    writer.close()


@pytest.fixture
def reader(writer: LeaseWriter) -> Iterator[LeaseReader]:
    reader = LeaseReader(os.dup(writer.fd))
    yield reader
    reader.close()


def test_it_begins_without_permission(reader: LeaseReader) -> None:
    lease = reader.read()
    assert lease == Lease(sequence=1, state="INIT", limits=0, expires_ns=0, epoch_ns=0)
    assert not reader.valid(0)
    assert not reader.valid()


def test_a_renewal_is_good_for_its_length(writer: LeaseWriter, reader: LeaseReader) -> None:
    writer.renew(1000 * MS, "DEGRADED", 1)
    assert reader.read() == Lease(2, "DEGRADED", 1, 1040 * MS, 1000 * MS)
    assert reader.valid(1040 * MS - 1)
    assert not reader.valid(1040 * MS)
    assert (LENGTH_NS, RENEWAL_NS) == (40 * MS, 10 * MS)


def test_it_is_valid_now_by_the_machines_clock(writer: LeaseWriter, reader: LeaseReader) -> None:
    import time

    writer.renew(time.monotonic_ns() + LONGEST_NS // 2, "NOMINAL", 0)
    assert reader.valid()


def test_the_epoch_lasts_as_long_as_the_permission(writer: LeaseWriter, reader: LeaseReader) -> None:
    def epoch() -> int:
        lease = reader.read()
        assert lease is not None
        return lease.epoch_ns

    writer.renew(1000 * MS, "NOMINAL", 0)
    for now in (1010, 1020, 1059):
        writer.renew(now * MS, "NOMINAL", 0)
        assert epoch() == 1000 * MS
    writer.renew(1099 * MS, "NOMINAL", 0)  # exactly when it ended: there was a gap
    assert epoch() == 1099 * MS
    writer.revoke("STOPPED")
    assert epoch() == 1099 * MS
    assert not reader.valid(1100 * MS)
    writer.renew(1101 * MS, "NOMINAL", 0)
    assert epoch() == 1101 * MS


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60 * MS)), max_size=20))
def test_two_permissions_with_a_gap_never_share_an_epoch(steps: list[tuple[bool, int]]) -> None:
    writer = LeaseWriter()
    reader = LeaseReader(os.dup(writer.fd))
    now, last, gap, epochs = 0, 0, True, [-1]
    for renews, pause in steps:
        now += pause
        gap = gap or now >= last
        if renews:
            writer.renew(now, "NOMINAL", 0)
            lease = reader.read()
            assert lease is not None
            assert lease.valid(now)
            assert (lease.epoch_ns > epochs[-1]) is gap
            assert lease.epoch_ns == (now if gap else epochs[-1])
            epochs.append(lease.epoch_ns)
            last, gap = now + LENGTH_NS, False
        else:
            writer.revoke("SAFE")
            gap = True
            assert not reader.valid(now)
    reader.close()
    writer.close()


def test_a_lease_that_lasts_too_long_is_damaged() -> None:
    assert Lease(1, "NOMINAL", 0, LONGEST_NS + 5, 0).valid(5)
    assert not Lease(1, "NOMINAL", 0, LONGEST_NS + 6, 0).valid(5)


def test_it_is_sealed_from_the_start(writer: LeaseWriter) -> None:
    for way in (lambda: os.pwrite(writer.fd, b"x", 0), lambda: mmap.mmap(writer.fd, 64)):
        with pytest.raises(PermissionError):
            way()
    assert "memfd:edge-lease" in str(Path(f"/proc/self/fd/{writer.fd}").readlink())


@pytest.mark.parametrize("length_ns", [0, -1, LONGEST_NS + 1])
def test_lengths_out_of_range_are_refused(length_ns: int) -> None:
    with pytest.raises(SharedMemoryError, match="more than 0 and at most 1000 ms"):
        LeaseWriter(length_ns)


@pytest.mark.parametrize("length_ns", [1, LONGEST_NS])
def test_lengths_at_the_edge(length_ns: int) -> None:
    writer = LeaseWriter(length_ns)
    reader = LeaseReader(os.dup(writer.fd))
    writer.renew(7, "NOMINAL", 0)
    assert reader.valid(7)
    assert not reader.valid(7 + length_ns)
    reader.close()
    writer.close()


def test_a_torn_write_leaves_the_one_before_until_it_ends(writer: LeaseWriter, reader: LeaseReader) -> None:
    writer.renew(1000 * MS, "NOMINAL", 0)
    assert reader.valid(1001 * MS)
    writer._memory[0:8] = b"\xff" * 8  # stopped after its first word
    assert reader.valid(1039 * MS)
    assert not reader.valid(1040 * MS)
    fresh = LeaseReader(os.dup(writer.fd))
    assert fresh.read() is None
    assert not fresh.valid(1001 * MS)
    fresh.close()


def test_what_is_of_another_boot_or_older_is_passed_over(writer: LeaseWriter, reader: LeaseReader) -> None:
    writer.renew(1000 * MS, "NOMINAL", 0)
    good = reader.read()
    block = writer._block
    magic = b"EDGELEAS"
    for sequence, kind, boot in ((9, magic, bytes(16)), (9, b"EDGELEAT", boot_id()), (1, magic, boot_id())):
        block.write(sequence, kind, boot, padded("NOMINAL"), 0, 0, 5000 * MS, 0)
        assert reader.read() == good
    block.write(2, magic, boot_id(), padded("NOMINAL"), 3, 0, 1005 * MS, 0)
    lease = reader.read()
    assert lease is not None
    assert lease.limits == 3


@pytest.mark.parametrize(
    ("told", "shown"), [("", ""), ("x", "x"), ("-1", "-1"), ("1" * 10, "1" * 10), ("x" * 50, "x" * 40)]
)
def test_without_a_lease_in_the_environment(told: str, shown: str) -> None:
    with pytest.raises(SharedMemoryError) as caught:
        LeaseReader.from_environment({VARIABLE: told} if told else {})
    assert str(caught.value) == f"EDGE_GUARD_LEASE is {shown!r}; the guard sets it to the lease's descriptor"


def test_from_the_environment(writer: LeaseWriter) -> None:
    fds, environment = writer.handover()
    assert fds == (writer.fd,)
    assert environment == {VARIABLE: str(writer.fd)}
    environment = {VARIABLE: str(os.dup(writer.fd)), "OTHER": "1"}
    reader = LeaseReader.from_environment(environment)
    assert environment == {"OTHER": "1"}
    assert reader.read() is not None
    reader.close()


def test_a_descriptor_that_is_no_lease_is_refused() -> None:
    fd, memory = shared_memory("x", 4096, future_write=True)
    with pytest.raises(SharedMemoryError, match="is no lease"):
        LeaseReader(fd)
    os.close(fd)
    memory.close()
    with pytest.raises(SharedMemoryError, match="descriptor 999"):
        LeaseReader(999)


# -- with real processes --------------------------------------------------------------------------------


def test_a_child_with_the_descriptor_cannot_write_it(writer: LeaseWriter, reader: LeaseReader) -> None:
    writer.renew(1000 * MS, "NOMINAL", 0)
    good = reader.read()
    with running(child("meddle", handover=Handover(*writer.handover()))) as meddler:
        came = json.loads(line(meddler))
    assert came == {
        "mmap": "Operation not permitted",
        "mprotect": "Permission denied",
        "write": "Operation not permitted",
        "pwrite": "Operation not permitted",
        "reopened": "Operation not permitted",
        "shrink": "Operation not permitted",
        "grow": "Operation not permitted",
    }
    assert reader.read() == good
    with pytest.raises(PermissionError):
        os.pwrite(writer.fd, b"x", 0)  # nor can the holder, but through its mapping
    writer.renew(1010 * MS, "NOMINAL", 0)
    assert reader.read() != good


@pytest.mark.parametrize("trials", [3, pytest.param(40, marks=pytest.mark.trial)])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_lease_ends_with_its_holder(number: signal.Signals, trials: int) -> None:
    draw = random.Random(4)
    left, seen = [], []
    for _ in range(trials):
        ending = lease_ending(number, draw.uniform(0.0, 0.03))
        # The last renewal was before the fault, or on its way while the signal was sent and delivered.
        assert ending.last_ns < ending.expires_ns <= ending.end_ns
        left.append((ending.expires_ns - ending.fault_ns) / MS)
        seen.append((ending.end_ns - ending.fault_ns) / MS)
        assert left[-1] <= LENGTH_NS / MS + 100, "renewed after the signal"
    print(f"\nlease after {number.name}, {trials} trials, ms: ended {spread(left)}; seen {spread(seen)}")
    assert sorted(left)[len(left) // 2] <= LENGTH_NS / MS
