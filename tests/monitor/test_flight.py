"""The recorder's files: whole after any kill, bounded, readable when damaged, and a full disk stops nobody."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.clock import SystemClock
from edge_runtime.monitor.flight import (
    LARGEST_LINE,
    LEAST_SEGMENTS,
    SEGMENTS,
    Damage,
    FlightRecord,
    FlightWriter,
    decode_line,
    encode_record,
    read_flight,
    segments,
)
from edge_runtime.monitor.recall import MOST_EVENTS, recall
from edge_runtime.monitor.recorder import Recorder
from tests.rigs.small_disk import fill_up, small_disk

BYTES = 256 * 1024


def record(number: int = 1, kind: str = "turn", **fields: Any) -> FlightRecord:
    return FlightRecord(kind, number, 1_790_000_000_000 + number, True, "a-boot", {"n": number, **fields})


def written(folder: Path) -> tuple[list[int], Damage]:
    damage = Damage()
    return [found.fields["n"] for found in read_flight(folder, damage)], damage


_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip
_HEAD = ("kind", "at_ns", "wall_ms", "synced", "boot")


@given(
    st.builds(
        FlightRecord,
        st.text(min_size=1),
        st.integers(),
        st.integers(),
        st.booleans(),
        st.text(),
        st.dictionaries(st.text().filter(lambda name: name not in _HEAD), _JSON, max_size=4),
    )
)
def test_a_line_says_what_went_in_and_any_cut_or_flipped_bit_shows(found: FlightRecord) -> None:
    line = encode_record(found)
    assert line.count(b"\n") == 1
    assert decode_line(line[:-1]) == found
    rng = random.Random(len(line))
    assert decode_line(line[: rng.randrange(len(line) - 1)]) is None
    at = rng.randrange(len(line) - 1)
    flipped = bytes([line[at] ^ 1 << rng.randrange(8)])
    damaged = line[:at] + flipped + line[at + 1 : -1]
    assert decode_line(damaged) in (None, found)  # the checksum may be written in capitals


@given(st.binary(max_size=100))
def test_no_bytes_break_a_reader(data: bytes) -> None:
    assert decode_line(data) is None


def test_a_record_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="kind turn"):
        encode_record(record(text="x" * LARGEST_LINE))


def test_records_come_back_in_their_order_over_many_runs(tmp_path: Path) -> None:
    folder = tmp_path / "flight"
    for run in range(5):
        writer = FlightWriter(folder, BYTES)
        lines = [encode_record(record(run * 10 + number)) for number in range(10)]
        assert writer.append(lines) == 10
        writer.close()
    assert written(folder) == (list(range(50)), Damage())
    assert len(segments(folder)) == 1
    assert (folder.stat().st_mode & 0o777, segments(folder)[0].stat().st_mode & 0o777) == (0o700, 0o600)


def test_the_oldest_make_room_and_the_bound_holds(tmp_path: Path) -> None:
    writer = FlightWriter(tmp_path / "flight", BYTES)
    for number in range(6000):
        assert writer.append([encode_record(record(number))]) == 1
        if number % 500 == 0:
            assert sum(path.stat().st_size for path in segments(tmp_path / "flight")) <= BYTES
    numbers, damage = written(tmp_path / "flight")
    assert damage == Damage()
    assert numbers == list(range(numbers[0], 6000))
    assert numbers[0] > 0
    assert len(segments(tmp_path / "flight")) == SEGMENTS
    assert sum(path.stat().st_size for path in segments(tmp_path / "flight")) > BYTES * 0.8


@pytest.mark.parametrize("cut", [2, 5, 9, 10, 40])
def test_a_torn_tail_is_skipped_and_counted_and_the_next_run_goes_on(cut: int, tmp_path: Path) -> None:
    writer = FlightWriter(tmp_path, BYTES)
    writer.append([encode_record(record(1)), encode_record(record(2))])
    writer.close()
    (path,) = segments(tmp_path)
    os.truncate(path, path.stat().st_size - cut)
    assert written(tmp_path) == ([1], Damage(lines=1))
    FlightWriter(tmp_path, BYTES).append([encode_record(record(3))])
    assert written(tmp_path) == ([1, 3], Damage(lines=1))


def test_a_last_line_that_lacks_its_break_alone_is_whole(tmp_path: Path) -> None:
    writer = FlightWriter(tmp_path, BYTES)
    writer.append([encode_record(record(1)), encode_record(record(2))])
    writer.close()
    (path,) = segments(tmp_path)
    os.truncate(path, path.stat().st_size - 1)
    assert written(tmp_path) == ([1, 2], Damage())
    FlightWriter(tmp_path, BYTES).append([encode_record(record(3))])
    assert written(tmp_path) == ([1, 2, 3], Damage())


def test_damage_anywhere_costs_the_lines_that_it_hit(tmp_path: Path) -> None:
    writer = FlightWriter(tmp_path, BYTES)
    writer.append([encode_record(record(number)) for number in range(100)])
    (path,) = segments(tmp_path)
    data = bytearray(path.read_bytes())
    data[2000:2100] = bytes(100)
    path.write_bytes(data)
    numbers, damage = written(tmp_path)
    assert len(numbers) >= 96
    assert 1 <= damage.lines <= 3
    path.with_name("000000000000.flight").write_bytes(os.urandom(100_000))
    (tmp_path / "000000000002.flight").mkdir()
    (tmp_path / "notes.txt").write_text("not ours", encoding="utf-8")
    numbers, damage = written(tmp_path)
    assert len(numbers) >= 96
    assert damage.files == []
    writer.close()
    again = FlightWriter(tmp_path, BYTES)
    last = 1000
    while not (tmp_path / "000000000003.flight").exists():
        assert again.append([encode_record(record(last))]) == 1
        last += 1
    assert written(tmp_path)[0][-1] == last - 1


def test_a_folder_that_cannot_be_listed_is_damage_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "flight").touch()  # also root cannot list a file
    with pytest.raises(NotADirectoryError):
        segments(tmp_path / "flight")
    damage = Damage()
    assert list(read_flight(tmp_path / "flight", damage)) == []
    assert damage.files == ["flight: Not a directory"]


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert written(tmp_path / "absent") == ([], Damage())


def test_on_a_full_disk_the_oldest_make_room_before_their_time_and_then_records_are_lost(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        folder = disk / "flight"
        writer = FlightWriter(folder, BYTES)
        for number in range(6000):
            writer.append([encode_record(record(number))])
        filler = fill_up(disk)
        last = 6000
        while writer.append([encode_record(record(last))]) == 1:
            last += 1
            fill_up_again(disk)
        assert writer.error == "No space left on device"
        assert len(segments(folder)) == LEAST_SEGMENTS
        numbers, damage = written(folder)
        assert numbers[-1] == last - 1
        filler.unlink()
        assert writer.append([encode_record(record(last))]) == 1
        writer.close()
        numbers, damage = written(folder)
        assert numbers[-2:] == [last - 1, last]
        assert damage == Damage()


def fill_up_again(disk: Path) -> None:
    with (disk / "more").open("ab", buffering=0) as file:
        for block in (4096, 512):
            with contextlib.suppress(OSError):
                while file.write(bytes(block)):
                    pass


def test_a_recorder_counts_what_a_full_disk_takes_and_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        filler = fill_up(disk)
        recorder = Recorder(disk / "flight", BYTES, 5, SystemClock())
        ticket = recorder.append([record(1), record(2)], urgent=True)
        wait(lambda: recorder.done >= ticket)
        assert (recorder.lost, recorder.failing) == (2, "No space left on device")
        filler.unlink()
        ticket = recorder.append([record(3)])
        wait(lambda: recorder.done >= ticket)
        assert (recorder.lost, recorder.failing) == (2, "")
        assert not recorder.close()
        assert written(disk / "flight") == ([3], Damage())


def test_a_recorder_writes_all_that_waits_when_it_is_closed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "flight", BYTES, 3600, SystemClock())
    for number in range(500):
        recorder.append([record(number)])
    assert recorder.close()
    assert written(tmp_path / "flight")[0] == list(range(500))


def test_what_finds_no_room_while_the_disk_stalls_is_counted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "000000000001.flight")  # a file that never takes anything, as a disk that stalls
    reader = os.open(tmp_path / "000000000001.flight", os.O_RDONLY | os.O_NONBLOCK)
    recorder = Recorder(tmp_path, BYTES, 3600, SystemClock(), most_waiting=10)
    began = time.monotonic()
    for number in range(2000):
        recorder.append([record(number, text="x" * 1000)])
    assert time.monotonic() - began < 5
    assert recorder.lost > 1000
    os.close(reader)


WRITER = """
import sys
from pathlib import Path
from edge_runtime.clock import SystemClock
from edge_runtime.monitor.flight import FlightRecord
from edge_runtime.monitor.recorder import Recorder
recorder = Recorder(Path(sys.argv[1]), 1 << 20, 1, SystemClock())
number = int(sys.argv[2])
while True:
    ticket = recorder.append([FlightRecord("turn", number, number, True, "b", {"n": number})])
    number += 1
    while recorder.done < ticket:
        pass
    print(number, flush=True)
"""


def test_kill_9_at_any_time_loses_nothing_that_was_done(tmp_path: Path) -> None:
    rng, first = random.Random(7), 0
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "flight"), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        done = first + 1
        for line in process.stdout:
            if line.endswith("\n"):
                done = int(line)
        process.stdout.close()
        process.wait()
        numbers, damage = written(tmp_path / "flight")
        assert damage == Damage()
        assert numbers[: done - 1] == list(range(done - 1))
        first = numbers[-1] + 1
    assert written(tmp_path / "flight")[0] == list(range(first))


def test_a_new_run_recalls_how_far_it_came_and_what_it_did_not_hand_over(tmp_path: Path) -> None:
    def change(number: int, ring: str = "r1") -> FlightRecord:
        return record(number, "change", ring=ring, sequence=number, event=f"e{number}")

    writer = FlightWriter(tmp_path, BYTES)
    assert recall(tmp_path, "r1").after is None
    story = [
        change(1),
        change(2),
        record(0, "handed"),
        change(3),
        record(4, ring="r1", sequence=4),
        change(9, "r0"),
    ]
    writer.append([encode_record(one) for one in story])
    found = recall(tmp_path, "r1")
    assert (found.after, found.given_up) == (4, 0)
    assert [one.fields["event"] for one in found.unhanded] == ["e3", "e9"]
    assert recall(tmp_path, "r2").after is None
    assert recall(tmp_path, None).after is None
    writer.append([encode_record(change(number)) for number in range(10, 10 + MOST_EVENTS)])
    found = recall(tmp_path, "r1")
    assert (len(found.unhanded), found.given_up) == (MOST_EVENTS, 2)
    assert found.unhanded[-1].fields["event"] == f"e{9 + MOST_EVENTS}"


def wait(condition: Any, within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "never"
        time.sleep(0.005)


def test_an_event_that_was_not_handed_over_is_recalled_as_far_back_as_the_recorder_reaches(
    tmp_path: Path,
) -> None:
    writer = FlightWriter(tmp_path, BYTES)
    writer.append([encode_record(record(1, "change", event="first"))])
    while len(segments(tmp_path)) < SEGMENTS:
        writer.append([encode_record(record(2, text="m" * 1000))])
    writer.close()
    found = recall(tmp_path, None)
    assert [change.fields["event"] for change in found.unhanded] == ["first"]
    assert found.given_up == 0


@pytest.mark.parametrize("number", ["1e999", "-1e999", "[]", '"now"'])
def test_a_record_with_an_absurd_time_is_damage(tmp_path: Path, number: str) -> None:
    text = f'{{"kind":"turn","at_ns":{number},"wall_ms":1,"synced":true,"boot":"b"}}'.encode()
    assert decode_line(f"{zlib.crc32(text):08x} ".encode() + text) is None
