"""The flight ring: entries come out in order and whole, and what was not taken in time is counted."""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from edge_runtime.guard.block import SharedMemoryError
from edge_runtime.guard.ring import LARGEST_PAYLOAD, VARIABLE, Kind, RingEntry, RingReader, RingWriter

SMALL = 8


@pytest.fixture
def writer() -> Iterator[RingWriter]:
    made = RingWriter(SMALL)
    yield made
    made.close()


def reader_of(writer: RingWriter, after: int | None = None) -> RingReader:
    return RingReader(os.dup(writer.fd), after)


def fill(writer: RingWriter, count: int, first: int = 1) -> None:
    for number in range(first, first + count):
        writer.append(Kind.TURN, number * 10, b"%d" % number)


def test_entries_come_out_as_they_went_in(writer: RingWriter) -> None:
    reader = reader_of(writer)
    assert reader.take(10) == []
    writer.append(Kind.CHANGE, 7, b"")
    writer.append(65535, 8, b"x" * LARGEST_PAYLOAD)
    assert reader.take(1) == [RingEntry(1, Kind.CHANGE, 7, b"")]
    assert reader.take(10) == [RingEntry(2, 65535, 8, b"x" * LARGEST_PAYLOAD)]
    assert (reader.take(10), reader.lost) == ([], 0)
    reader.close()


@pytest.mark.parametrize("beyond", [1, SMALL - 1, SMALL, SMALL + 1, 5 * SMALL])
def test_what_was_overwritten_unread_is_counted(beyond: int, writer: RingWriter) -> None:
    reader = reader_of(writer, after=0)
    fill(writer, SMALL + beyond)
    taken = [entry.sequence for entry in reader.take(1000)]
    assert taken == list(range(beyond + 1, SMALL + beyond + 1))
    assert reader.lost == beyond
    fill(writer, 2)
    assert len(reader.take(1000)) == 2
    assert reader.lost == beyond
    reader.close()


def test_a_reader_goes_on_where_its_predecessor_ended_and_a_new_one_begins_with_the_oldest(
    writer: RingWriter,
) -> None:
    fill(writer, 5)
    follower, new = reader_of(writer, after=3), reader_of(writer)
    assert [entry.sequence for entry in follower.take(10)] == [4, 5]
    fill(writer, 6)
    assert [entry.sequence for entry in new.take(100)] == list(range(4, 12))
    assert (follower.lost, new.lost) == (0, 0), "nobody waited for what was there before it came"
    fill(writer, SMALL + 1)
    new.take(100)
    assert new.lost == 1
    follower.close()
    new.close()


def test_an_entry_that_is_being_written_is_waited_for_and_a_damaged_one_is_passed_over(
    writer: RingWriter,
) -> None:
    reader = reader_of(writer, after=0)
    memory: mmap.mmap = writer._memory
    fill(writer, 1)
    memory[40] ^= 1
    assert (reader.take(10), reader.lost) == ([], 0), "nothing follows it: it may be in the middle of a write"
    fill(writer, 1, first=2)
    assert [entry.sequence for entry in reader.take(10)] == [2]
    assert reader.lost == 1
    reader.close()


def test_nobody_else_can_write_it(writer: RingWriter) -> None:
    with pytest.raises(PermissionError):
        mmap.mmap(writer.fd, SMALL * 256)
    with pytest.raises(PermissionError):
        os.pwrite(writer.fd, b"x", 0)


@pytest.mark.parametrize(("kind", "payload"), [(-1, b""), (1 << 16, b""), (1, b"x" * (LARGEST_PAYLOAD + 1))])
def test_what_does_not_fit_is_refused_and_nothing_is_written(
    kind: int, payload: bytes, writer: RingWriter
) -> None:
    with pytest.raises(ValueError, match="at most 220 bytes"):
        writer.append(kind, 0, payload)
    writer.append(1, 5, b"good")
    reader = reader_of(writer)
    assert [entry.sequence for entry in reader.take(5)] == [1]
    reader.close()


def test_what_is_no_ring_is_refused() -> None:
    with pytest.raises(SharedMemoryError, match="at least 2 slots"):
        RingWriter(1)
    fd = os.memfd_create("other")
    os.ftruncate(fd, 300)
    with pytest.raises(SharedMemoryError, match="no flight ring"):
        RingReader(fd)
    os.close(fd)
    with pytest.raises(SharedMemoryError, match="is not memory that the guard shares"):
        RingReader(fd)
    with pytest.raises(SharedMemoryError, match=f"{VARIABLE} is 'seven'"):
        RingReader.from_environment({VARIABLE: "seven"})
    assert RingReader.from_environment({}) is None


_READER = """
import sys, time
from edge_runtime.guard.ring import RingReader, VARIABLE
import os
reader = RingReader.from_environment()
assert VARIABLE not in os.environ and not os.get_inheritable(reader._fd)
want, sequences, until = int(sys.argv[1]), [], time.monotonic() + 60
while (not sequences or sequences[-1] < want) and time.monotonic() < until:
    for entry in reader.take(64):
        assert entry.payload == b"%d " % entry.sequence * 12, entry
        sequences.append(entry.sequence)
assert sequences == sorted(set(sequences))
print(len(sequences), reader.lost)
"""


def test_another_process_reads_whole_entries_beside_a_writer_that_never_pauses() -> None:
    writer, count = RingWriter(64), 30_000
    fds, variables = writer.handover()
    with subprocess.Popen(
        [sys.executable, "-c", _READER, str(count)],
        pass_fds=fds,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
    ) as process:
        for number in range(1, count + 1):
            writer.append(Kind.TURN, time.monotonic_ns(), b"%d " % number * 12)
            if number % 100 == 0:
                time.sleep(0.0001)
        told, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    taken, lost = (int(word) for word in told.split())
    assert taken > 0
    # It begins with the oldest that is there when it comes; from then on each entry is taken or counted.
    assert taken + lost <= count
    writer.close()
