"""The status page: whole beats only, of the right process and boot, written by one thread."""

import fcntl
import os
import signal
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.guard import block as block_module
from edge_runtime.guard import slot as slot_module
from edge_runtime.guard.block import (
    F_SEAL_FUTURE_WRITE,
    LARGEST,
    TRIES,
    Block,
    SharedMemoryError,
    attach,
    block_bytes,
    boot_id,
    padded,
    parse,
    shared_memory,
    unpadded,
)
from edge_runtime.guard.page import VARIABLE, Fault, Page, PageError, Reading, SlotWriter
from edge_runtime.guard.slot import BEAT, MAGIC, NOTHING, SETTLE_NS, STRIDE, beat_block
from tests.rigs.guard import Clock, child, line, obeys, running

MS = 1_000_000
BODY = struct.Struct("<QQQ16s")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def page(clock: Clock) -> Iterator[Page]:
    page = Page(["perception", "uplink"], clock)
    yield page
    page.close()


def writer(page: Page, name: str, clock: Clock) -> SlotWriter:
    """A worker in this process; the guard expects it."""
    slot = page.slot(name)
    slot.prepare()
    found = SlotWriter(os.dup(page.fd), slot.index, clock)
    slot.expect(os.getpid())
    return found


def raw(page: Page, name: str, sequence: int = 1, **fields: int | bytes) -> None:
    """Lay a beat into a slot as no writer of ours would."""
    slot = page.slot(name)
    values: dict[str, int | bytes] = {
        "magic": MAGIC,
        "boot": boot_id(),
        "pid": os.getpid(),
        "nonce": slot._nonce,
        "beat": 1_000_000_000,
        "work": 1,
        "capture": NOTHING,
        "deadline": 2_000_000_000,
        "evaluated": 0,
        "tripped": 0,
        "stage": padded("unit"),
    }
    values |= fields
    memory = attach(page.fd, writable=True)
    beat_block(memory, slot.index).write(sequence, *values.values())
    memory.close()


def test_a_beat_arrives_as_it_was_written(page: Page, clock: Clock) -> None:
    with_slot = writer(page, "uplink", clock)
    with_slot.finished("sent", 900_000_000, 1_200_000_000, 0b1011, 0b10, work_sequence=77)
    beat = page.slot("uplink").read().beat
    assert beat is not None
    assert (beat.sequence, beat.pid, beat.beat_ns, beat.work_sequence) == (1, os.getpid(), 1_000_000_000, 77)
    assert (beat.newest_capture_ns, beat.deadline_ns) == (900_000_000, 1_200_000_000)
    assert (beat.evaluated, beat.tripped, beat.stage) == (0b1011, 0b10, "sent")
    assert page.slot("uplink").read() == Reading(beat, None)
    assert page.slot("perception").read() == Reading(None, Fault.EMPTY)
    with_slot.close()


def test_units_are_counted_and_no_capture_is_no_time(page: Page, clock: Clock) -> None:
    worker = writer(page, "perception", clock)
    for at in range(1, 4):
        worker.finished("frame", None, clock.now_ns + MS, 0, 0)
        beat = page.slot("perception").read().beat
        assert beat is not None
        assert (beat.work_sequence, beat.sequence, beat.newest_capture_ns) == (at, at, None)
    worker.finished("frame", 0, clock.now_ns, (1 << 64) - 1, (1 << 64) - 1, work_sequence=LARGEST)
    beat = page.slot("perception").read().beat
    assert beat is not None
    assert (beat.newest_capture_ns, beat.evaluated, beat.work_sequence) == (0, (1 << 64) - 1, LARGEST)
    worker.close()


def test_the_only_way_to_beat_is_to_have_finished() -> None:
    offered = {name for name in dir(SlotWriter) if not name.startswith("_")}
    assert offered == {"finished", "starting", "close", "from_environment"}


def test_a_sign_of_progress_is_no_beat_and_ends_with_the_first_one(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    told = threading.Thread(target=worker.starting, args=("model loaded",))
    told.start()
    told.join()
    sign = page.slot("uplink").read().beat
    assert sign is not None
    assert (sign.starting, sign.stage, sign.sequence, sign.beat_ns) == (True, "model loaded", 1, clock.now_ns)
    assert (sign.evaluated, sign.tripped, sign.deadline_ns, sign.newest_capture_ns) == (0, 0, 0, None)
    assert sign.expired(clock.now_ns + 1, 10 * MS), "it promises nothing"
    worker.finished("frame", None, clock.now_ns + MS, 1, 0)
    beat = page.slot("uplink").read().beat
    assert beat is not None
    assert (beat.starting, beat.work_sequence, beat.sequence) == (False, 1, 2)
    with pytest.raises(PageError, match="'uplink' has beaten: its start is over"):
        worker.starting("again")
    with pytest.raises(PageError, match=r"lie in \[0, 2\^63\)"):
        worker.finished("frame", None, clock.now_ns, 0, 0, work_sequence=-1)
    worker.close()


@pytest.mark.parametrize(
    ("deadline_ns", "now_ns", "expired"),
    [
        (1_100_000_000, 1_100_000_000, False),
        (1_100_000_000, 1_100_000_001, True),
        (9_000_000_000, 1_200_000_000, False),  # its own word
        (9_000_000_000, 1_200_000_001, True),  # more than it may ask for
        (0, 1_000_000_000, True),
    ],
)
def test_a_beat_expires(page: Page, clock: Clock, deadline_ns: int, now_ns: int, expired: bool) -> None:
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, deadline_ns, 0, 0)
    assert page.slot("uplink").read().expired(now_ns, 200 * MS) is expired
    worker.close()


def test_a_page_that_freezes_expires(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    assert page.slot("uplink").read().expired(clock.now_ns, LARGEST)
    worker.finished("sent", None, clock.now_ns + 50 * MS, 0, 0)
    for _ in range(51):
        assert not page.slot("uplink").read().expired(clock.now_ns, LARGEST)
        page.slot("uplink").challenge()  # a frozen page answers none
        clock.now_ns += MS
    assert page.slot("uplink").read().expired(clock.now_ns, LARGEST)
    worker.close()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({}, None),
        ({"magic": b"EDGEBEAS"}, Fault.FOREIGN),
        ({"boot": bytes(16)}, Fault.FOREIGN),
        ({"pid": 1}, Fault.OTHER_PROCESS),
        ({"nonce": 12345}, Fault.STALE_ECHO),
        ({"beat": 1_000_000_001}, Fault.FUTURE),
        ({"beat": 1_000_000_000}, None),
        ({"stage": b"\xff" * 16}, None),
    ],
)
def test_what_is_no_beat(page: Page, fields: dict[str, Any], fault: Fault | None) -> None:
    page.slot("uplink").expect(os.getpid())
    raw(page, "uplink", **fields)
    reading = page.slot("uplink").read()
    assert reading.fault is fault
    assert (reading.beat is None) is (fault is not None)


def test_a_beat_of_before_is_a_replay_and_the_last_good_one_stays(page: Page, clock: Clock) -> None:
    slot = page.slot("uplink")
    slot.expect(os.getpid())
    raw(page, "uplink", 5, work=5)
    good = slot.read().beat
    assert good is not None
    raw(page, "uplink", 4, work=9)
    assert slot.read() == Reading(good, Fault.REPLAYED)
    raw(page, "uplink", 6, beat=999_999_999)
    assert slot.read() == Reading(good, Fault.REPLAYED)
    raw(page, "uplink", 5, work=9)  # the same number is the same beat
    assert slot.read() == Reading(good, None)
    raw(page, "uplink", 7, work=9)
    reading = slot.read()
    assert reading.fault is None
    assert reading.beat is not None
    assert reading.beat.work_sequence == 9


def test_an_echo_counts_until_the_challenge_changed(page: Page, clock: Clock) -> None:
    slot = page.slot("uplink")
    slot.expect(os.getpid())
    first = slot._nonce
    clock.now_ns += 10 * MS
    slot.challenge()
    raw(page, "uplink", 1, nonce=first, beat=clock.now_ns - 1)
    assert slot.read().fault is None  # written just before
    clock.now_ns += SETTLE_NS
    raw(page, "uplink", 2, nonce=first, beat=clock.now_ns - 1)
    assert slot.read().fault is None
    raw(page, "uplink", 3, nonce=first, beat=clock.now_ns)
    assert slot.read().fault is Fault.STALE_ECHO
    slot.challenge()
    raw(page, "uplink", 4, nonce=first, beat=clock.now_ns - 1)
    assert slot.read().fault is Fault.STALE_ECHO  # two challenges ago


def test_a_worker_answers_the_challenge_of_the_moment(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    for _ in range(5):
        clock.now_ns += 2 * SETTLE_NS
        page.slot("uplink").challenge()
        clock.now_ns += 2 * SETTLE_NS
        worker.finished("sent", None, clock.now_ns, 0, 0)
        assert page.slot("uplink").read().fault is None
    worker.close()


def test_each_challenge_has_a_number_and_is_another(page: Page) -> None:
    memory = attach(page.fd, writable=False)
    seen = []
    for _ in range(4):
        whole = slot_module.challenge_block(memory, page.slot("uplink").index).read()
        assert whole is not None
        seen.append((whole[0], whole[1][3]))
        page.slot("uplink").challenge()
    assert [number for number, _ in seen] == [1, 2, 3, 4]
    assert len({nonce for _, nonce in seen}) == 4
    memory.close()


def test_a_torn_challenge_is_answered_by_the_next_beat(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, clock.now_ns, 0, 0)
    memory = attach(page.fd, writable=True)
    at = page.slot("uplink").index * STRIDE
    before = memory[at : at + 8]
    memory[at : at + 8] = b"\xff" * 8
    worker.finished("sent", None, clock.now_ns, 0, 0)
    reading = page.slot("uplink").read()
    assert reading.fault is None  # with the answer that it knew
    assert reading.beat is not None
    assert reading.beat.sequence == 2
    memory[at : at + 8] = before
    memory.close()
    worker.close()


def test_prepare_forgets_the_predecessor(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, clock.now_ns, 0, 0)
    slot = page.slot("uplink")
    assert slot.read().beat is not None
    slot.prepare()
    assert slot.read() == Reading(None, Fault.OTHER_PROCESS)
    slot.expect(os.getpid())
    assert slot.read() == Reading(None, Fault.STALE_ECHO)  # even of the same process id
    worker.finished("sent", None, clock.now_ns, 0, 0)
    assert slot.read().fault is None
    worker.close()


def test_a_successor_goes_on_counting(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, clock.now_ns, 0, 0)
    worker.close()
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, clock.now_ns, 0, 0)
    beat = page.slot("uplink").read().beat
    assert beat is not None
    assert (beat.sequence, beat.work_sequence) == (2, 1)
    worker.close()


def test_only_the_thread_that_beat_first_may_beat(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, clock.now_ns, 0, 0)
    came: list[str] = []

    def other() -> None:
        try:
            worker.finished("sent", None, clock.now_ns, 0, 0)
        except PageError as error:
            came.append(str(error))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert came == ["the slot 'uplink' belongs to the thread that beat first; only its work counts"]
    worker.finished("sent", None, clock.now_ns, 0, 0)
    worker.close()


def test_a_process_that_is_not_the_owner_may_not_beat(
    page: Page, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = writer(page, "uplink", clock)
    monkeypatch.setattr("edge_runtime.guard.page.os.getpid", lambda: 1)
    with pytest.raises(PageError, match="a fork must not beat"):
        worker.finished("sent", None, clock.now_ns, 0, 0)
    monkeypatch.undo()
    worker.close()


@pytest.mark.parametrize(
    "values",
    [
        {"deadline_ns": -1},
        {"deadline_ns": LARGEST + 1},
        {"newest_capture_ns": -2},
        {"newest_capture_ns": LARGEST + 1},
        {"work_sequence": -1},
        {"work_sequence": LARGEST + 1},
        {"evaluated": -1},
        {"evaluated": 1 << 64},
        {"tripped": -1},
        {"tripped": 1 << 64},
    ],
)
def test_values_out_of_range_are_refused(page: Page, clock: Clock, values: dict[str, int]) -> None:
    worker = writer(page, "uplink", clock)
    told: dict[str, int] = {"newest_capture_ns": 0, "deadline_ns": 0, "evaluated": 0, "tripped": 0} | values
    with pytest.raises(PageError, match=r"lie in|have 64 bits"):
        worker.finished("sent", **told)
    assert page.slot("uplink").read().fault is Fault.EMPTY
    worker.close()


@pytest.mark.parametrize("name", ["", "sixteen letters!", "naïve", "two\nlines"])
def test_names_that_do_not_fit_are_refused(page: Page, clock: Clock, name: str) -> None:
    with pytest.raises(SharedMemoryError, match="1 to 15 printable ASCII characters"):
        padded(name)
    worker = writer(page, "uplink", clock)
    with pytest.raises(SharedMemoryError):
        worker.finished(name, None, 0, 0, 0)
    worker.close()
    with pytest.raises(SharedMemoryError):
        Page([name])


def test_names_come_back() -> None:
    assert unpadded(padded("fifteen letters")) == "fifteen letters"
    assert unpadded(padded("BOX")) == "BOX"
    assert len(padded("a")) == 16


@pytest.mark.parametrize("names", [[], ["a", "a"], [f"w{at}" for at in range(65)]])
def test_a_page_has_1_to_64_different_slots(names: list[str]) -> None:
    with pytest.raises(PageError, match="1 to 64 slots with different names"):
        Page(names)


def test_a_page_of_64_slots_knows_each() -> None:
    page = Page([f"w{at}" for at in range(64)])
    assert page.names[63] == "w63"
    assert page.slot("w63").index == 63
    with pytest.raises(PageError, match="no slot is called 'w64'"):
        page.slot("w64")
    page.close()


def test_a_slot_has_one_writer(page: Page, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    first = SlotWriter(os.dup(page.fd), 1, clock)
    second = os.dup(page.fd)
    with pytest.raises(PageError, match="'uplink' is still held by another process"):
        SlotWriter(second, 1, clock)
    other = SlotWriter(os.dup(page.fd), 0, clock)
    other.close()
    first.close()
    SlotWriter(second, 1, clock).close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before

    def no(*_: object) -> int:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("edge_runtime.guard.page.os.open", no)
    with pytest.raises(PageError, match="'uplink' cannot be locked: No such file or directory"):
        SlotWriter(page.fd, 1, clock)


def test_from_environment(page: Page) -> None:
    handover = page.handover("uplink")
    assert handover.pass_fds == (page.fd,)
    fd = os.dup(page.fd)
    os.set_inheritable(fd, True)
    environment = {VARIABLE: f"{fd}:1", "OTHER": "1"}
    assert handover.environment == {VARIABLE: f"{page.fd}:1"}
    worker = SlotWriter.from_environment(environment)
    assert worker is not None
    assert worker.name == "uplink"
    assert environment == {"OTHER": "1"}
    assert not os.get_inheritable(fd)
    worker.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert SlotWriter.from_environment({}) is None


@pytest.mark.parametrize("told", ["x", "3", "3:", ":1", "-3:1", "3:-1", "3:1:2", "1" * 19 + ":1", "٣:1"])
def test_a_variable_that_is_none_is_refused(told: str) -> None:
    with pytest.raises(SharedMemoryError, match=r"EDGE_GUARD_PAGE|not memory that the guard shares"):
        SlotWriter.from_environment({VARIABLE: told})


def test_descriptors_that_are_no_page_are_refused(page: Page, tmp_path: Path) -> None:
    with pytest.raises(SharedMemoryError, match="descriptor 999 is not memory that the guard shares"):
        SlotWriter.from_environment({VARIABLE: "999:0"})
    for index in (-1, 2):
        with pytest.raises(PageError, match=f"no slot {index}"):
            SlotWriter(page.fd, index)
    blank, memory = shared_memory("blank", STRIDE, future_write=True)
    with pytest.raises(PageError, match="no status page"):
        SlotWriter(blank, 0)
    other = slot_module.challenge_block(memory, 0)
    for magic, boot in ((b"EDGEBEAS", boot_id()), (MAGIC, bytes(16))):
        other.write(1, magic, boot, padded("a"), 0)
        with pytest.raises(PageError, match="no status page"):
            SlotWriter(blank, 0)
    os.close(blank)
    memory.close()


def test_no_shared_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))

    def no(*_: object) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("edge_runtime.guard.block.fcntl.fcntl", no)
    with pytest.raises(SharedMemoryError, match=r"Operation not permitted; Linux 5\.1"):
        shared_memory("x", 64, future_write=False)
    monkeypatch.setattr("edge_runtime.guard.block.os.memfd_create", no)
    with pytest.raises(SharedMemoryError, match=r"Operation not permitted; Linux 5\.1"):
        shared_memory("x", 64, future_write=False)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_nobody_can_change_the_size_of_the_page(page: Page) -> None:
    for size in (0, STRIDE, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(page.fd, size)
    with pytest.raises(PermissionError):
        fcntl.fcntl(page.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)


def test_the_boot_is_the_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    assert boot_id().hex() == text

    monkeypatch.setattr("edge_runtime.guard.block._BOOT_ID", str(tmp_path / "missing"))
    boot_id.cache_clear()
    assert boot_id() == bytes(16)
    boot_id.cache_clear()


def written(sequence: int, values: tuple[int, int, int, bytes]) -> bytes:
    fd, memory = shared_memory("x", block_bytes(BODY), future_write=True)
    Block(memory, 0, BODY).write(sequence, *values)
    copy = memory[:]
    memory.close()
    os.close(fd)
    return copy


words = st.tuples(*[st.integers(0, (1 << 64) - 1)] * 3, st.binary(min_size=16, max_size=16))


@given(st.integers(1, LARGEST), words, words, st.data())
def test_no_mix_of_two_writes_is_taken_for_one(
    sequence: int, old: tuple[int, int, int, bytes], new: tuple[int, int, int, bytes], data: st.DataObject
) -> None:
    first, second = written(sequence, old), written(sequence % LARGEST + 1, new)
    width = data.draw(st.sampled_from([1, 4, 8, 16]))
    picks = data.draw(st.lists(st.booleans(), min_size=len(first) // width, max_size=len(first) // width))
    parts = [(second if pick else first)[at * width : (at + 1) * width] for at, pick in enumerate(picks)]
    mixed = b"".join(parts) + (second if picks[-1] else first)[len(picks) * width :]
    assert parse(mixed, BODY) in (None, parse(first, BODY), parse(second, BODY))
    if mixed not in (first, second):
        whole = parse(mixed, BODY)
        assert whole is None or whole[1] in (old, new)


@given(words, st.integers(0, block_bytes(BODY) * 8 - 1))
def test_one_flipped_bit_is_seen(values: tuple[int, int, int, bytes], bit: int) -> None:
    whole = bytearray(written(3, values))
    whole[bit // 8] ^= 1 << bit % 8
    padding = range(len(whole) - 12, len(whole) - 8)
    assert (parse(bytes(whole), BODY) is None) is (bit // 8 not in padding)


def test_a_torn_block_is_copied_again_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    fd, memory = shared_memory("x", block_bytes(BODY), future_write=True)
    block = Block(memory, 0, BODY)
    assert block.is_blank()
    assert block.read() is None
    block.write(7, 1, 2, 3, b"x" * 16)
    assert not block.is_blank()
    copies: list[bytes] = []

    def torn(copy: bytes, body: struct.Struct) -> object:
        copies.append(copy)
        return parse(copy, body) if len(copies) == TRIES else None

    monkeypatch.setattr(block_module, "parse", torn)
    assert block.read() == (7, (1, 2, 3, b"x" * 16))
    assert len(copies) == TRIES
    copies.clear()
    monkeypatch.setattr(block_module, "parse", lambda copy, body: copies.append(copy))
    assert block.read() is None
    assert len(copies) == TRIES
    os.close(fd)
    memory.close()


def test_a_slot_torn_for_good_is_no_beat_and_the_last_one_expires(page: Page, clock: Clock) -> None:
    worker = writer(page, "uplink", clock)
    worker.finished("sent", None, clock.now_ns + MS, 0, 0)
    good = page.slot("uplink").read().beat
    memory = attach(page.fd, writable=True)
    at = page.slot("uplink").index * STRIDE + 128
    memory[at : at + 8] = struct.pack("<Q", 2)  # as a writer that was stopped right after its first word
    assert page.slot("uplink").read() == Reading(good, Fault.TORN)
    assert page.slot("uplink").read().expired(clock.now_ns + 2 * MS, LARGEST)
    memory.close()
    worker.close()


def test_the_layout_fits_its_stride() -> None:
    assert block_bytes(BEAT) + 128 <= STRIDE
    assert block_bytes(slot_module.CHALLENGE) <= 128


# -- with real processes --------------------------------------------------------------------------------


def read_for(page: Page, wanted: int, trial_s: float) -> int:
    """Read the slot of a process that beats until so many different beats were seen; each must be whole."""
    seen, last, until = 0, -1, time.monotonic() + trial_s
    while seen < wanted and time.monotonic() < until:
        reading = page.slot("busy").read()
        beat = reading.beat
        assert reading.fault in (None, Fault.TORN, Fault.STALE_ECHO, Fault.EMPTY)
        if beat is None or beat.sequence == last:
            continue
        assert beat.newest_capture_ns is not None
        assert obeys(beat.work_sequence, beat.newest_capture_ns, beat.evaluated, beat.tripped)
        last, seen = beat.sequence, seen + 1
        if seen % 64 == 0:
            page.slot("busy").challenge()
    return seen


@pytest.mark.parametrize("wanted", [2_000, pytest.param(20_000, marks=pytest.mark.trial)])
def test_a_reader_beside_a_busy_writer_reads_whole_beats_only(wanted: int) -> None:
    page = Page(["busy"])
    page.slot("busy").prepare()
    with running(child("beat", handover=page.handover("busy"))) as worker:
        page.slot("busy").expect(worker.pid)
        assert line(worker) == "beats"
        assert read_for(page, wanted, 100.0) == wanted
        worker.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, worker.pid, os.WSTOPPED)
        last = page.slot("busy").read().beat
        assert last is not None
        assert page.slot("busy").read().beat == last
        assert last.expired(last.beat_ns + 100 * MS + 10 * MS, LARGEST)
    page.close()


def test_a_slot_has_one_process_until_that_has_ended() -> None:
    page = Page(["one", "two"])
    with (
        running(child("claim", handover=page.handover("one"))) as first,
        running(child("claim", handover=page.handover("two"))) as other,
    ):
        assert line(first) == "claimed"
        assert line(other) == "claimed"
        with running(child("claim", handover=page.handover("one"))) as second:
            assert "'one' is still held by another process" in line(second)
        first.send_signal(signal.SIGSTOP)  # alive, as far as its slot is concerned
        with running(child("claim", handover=page.handover("one"))) as second:
            assert "still held" in line(second)
        first.kill()
        first.wait()
        with running(child("claim", handover=page.handover("one"))) as second:
            assert line(second) == "claimed"
    page.close()


def test_a_copy_counts_with_both_sequences_and_its_checksum_and_not_otherwise() -> None:
    fd, memory = shared_memory("parts", 4096, future_write=True)
    Block(memory, 0, BODY).write(7, 1, 2, 3, b"x" * 16)
    good = memory[: block_bytes(BODY)]
    checked = len(good) - 16
    assert parse(good, BODY) == (7, (1, 2, 3, b"x" * 16))
    other_body = good[:8] + bytes([good[8] ^ 1]) + good[9:]
    assert parse(other_body, BODY) is None
    other_tail = good[:-8] + struct.pack("<Q", 8)
    assert parse(other_tail, BODY) is None
    other_head = struct.pack("<Q", 8) + good[8:checked]
    mended = other_head + struct.pack("<I4xQ", zlib.crc32(other_head), 7)
    assert parse(mended, BODY) is None
    never = struct.pack("<Q", 0) + good[8:checked]
    assert parse(never + struct.pack("<I4xQ", zlib.crc32(never), 0), BODY) is None
    memory.close()
    os.close(fd)


def test_memory_that_others_may_write_can_be_sealed_further_by_nobody() -> None:
    sealed = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    for future_write, seals in ((True, sealed), (False, sealed | F_SEAL_FUTURE_WRITE)):
        fd, memory = shared_memory("seals", 4096, future_write=future_write)
        assert fcntl.fcntl(fd, fcntl.F_GET_SEALS) == seals
        memory.close()
        os.close(fd)
