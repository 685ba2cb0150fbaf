"""The writer: bounded, readable after whatever happens, and never in the way of who is recorded."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.config import load_config
from edge_runtime.recording import Part, RecordingError, RecordingWriter, Standing, WhenFull, open_recording
from edge_runtime.recording.folder import LEAST_BYTES, MIB, bytes_in, new_part
from edge_runtime.recording.head import HEAD, Stream
from edge_runtime.recording.pictures import read_picture
from tests.rigs.cameras import wait_until
from tests.rigs.recordings import Field, write_config
from tests.rigs.small_disk import small_disk

TEXT = "x" * 2000


def begin(
    folder: Path, most_bytes: int = MIB, when_full: WhenFull = WhenFull.STOP, **more: Any
) -> RecordingWriter:
    pictures = more.pop("pictures", False)
    config = load_config(write_config(folder.parent / "config"))
    field = Field(config, folder, bytes=most_bytes, when_full=when_full, pictures=pictures)
    folder.mkdir(parents=True)
    return RecordingWriter(folder, field.head(), SystemClock(), **more)


def waited(held: threading.Event, hold: threading.Event) -> dict[str, Any]:
    held.set()
    hold.wait(20)
    return {}


def read(folder: Path) -> tuple[list[Any], Standing]:
    standing = Standing()
    return list(Part.read(folder).records(standing)), standing


def put(writer: RecordingWriter, count: int, first: int = 0, **more: Any) -> None:
    for number in range(first, first + count):
        writer.put("note", partial(dict, number=number, text=TEXT), waits=True, **more)


def test_a_recording_that_was_ended_is_whole(tmp_path: Path) -> None:
    writer = begin(tmp_path / "r")
    put(writer, 50)
    ending = writer.close()
    records, standing = read(tmp_path / "r")
    assert [record.fields["number"] for record in records] == list(range(50))
    assert (ending.why, ending.records, ending.lost) == ("closed", 50, {})
    assert (standing.why, standing.whole, standing.records) == ("closed", True, 50)
    assert writer.close() == ending


def test_one_that_stops_when_it_is_full_keeps_its_beginning_and_says_so(tmp_path: Path) -> None:
    ended: list[Any] = []
    writer = begin(tmp_path / "r", on_end=ended.append)
    put(writer, 1000)
    assert wait_until(lambda: bool(ended), 20)
    writer.close()
    records, standing = read(tmp_path / "r")
    assert 400 < len(records) < 550
    assert [record.fields["number"] for record in records] == list(range(len(records)))
    assert (standing.why, standing.text) == ("full", "its bytes were used up")
    assert ended[0].records == len(records)
    assert bytes_in(tmp_path / "r") - (tmp_path / "r" / HEAD).stat().st_size <= MIB


def test_one_that_drops_its_oldest_keeps_its_end_within_its_bytes(tmp_path: Path) -> None:
    writer = begin(tmp_path / "r", when_full=WhenFull.OLDEST)
    put(writer, 1500)
    writer.close()
    records, standing = read(tmp_path / "r")
    assert records[-1].fields["number"] == 1499
    assert standing.begins == records[0].fields["number"] > 500
    assert (standing.missing, standing.why) == (0, "closed")
    assert bytes_in(tmp_path / "r") - (tmp_path / "r" / HEAD).stat().st_size <= MIB


@pytest.mark.parametrize("when_full", list(WhenFull))
def test_pictures_count_as_bytes_and_come_back_as_they_were(tmp_path: Path, when_full: WhenFull) -> None:
    writer = begin(tmp_path / "r", 4 * MIB, when_full, pictures=True)
    noise = np.random.default_rng(3)
    images = [noise.integers(0, 256, (120, 160, 3), dtype=np.uint8) for _ in range(120)]
    for image in images:
        writer.put("frame", dict, picture=image, waits=True)
    writer.close()
    records, standing = read(tmp_path / "r")
    assert standing.why == ("full" if when_full is WhenFull.STOP else "closed")
    assert bytes_in(tmp_path / "r") - (tmp_path / "r" / HEAD).stat().st_size <= 4 * MIB
    kept = [
        (record.fields["n"], read_picture(tmp_path / "r", record.fields["picture"])) for record in records
    ]
    found = {number: picture for number, picture in kept if picture is not None}
    assert len(found) > 20
    assert (0 in found) is (when_full is WhenFull.STOP)
    for number, picture in found.items():
        assert np.array_equal(picture, images[number])


def test_nothing_is_worked_out_by_who_is_recorded_and_what_memory_does_not_hold_is_counted(
    tmp_path: Path,
) -> None:
    threads: set[int] = set()
    hold, held = threading.Event(), threading.Event()

    def slow() -> dict[str, Any]:
        threads.add(threading.get_ident())
        return waited(held, hold)

    writer = begin(tmp_path / "r", most_waiting=10)
    writer.put("note", slow)
    assert held.wait(20)
    for _ in range(30):
        writer.put("note", dict)
    hold.set()
    ending = writer.close()
    records, standing = read(tmp_path / "r")
    assert threading.get_ident() not in threads
    assert ending.lost == {"records, memory was full": 20}
    assert len(records) == 11
    assert standing.lost == ending.lost
    # what was lost last is seen by the number of the end
    assert standing.missing == 20


def test_pictures_that_memory_does_not_hold_are_counted_and_their_records_stay(tmp_path: Path) -> None:
    hold, held = threading.Event(), threading.Event()
    writer = begin(tmp_path / "r", 8 * MIB, pictures=True, most_pixel_bytes=60_000)
    writer.put("note", lambda: waited(held, hold))
    assert held.wait(20)
    image = np.zeros((100, 100, 3), np.uint8)
    for _ in range(5):
        writer.put("frame", dict, picture=image)
    hold.set()
    assert writer.close().lost == {"pictures, memory was full": 3}
    records, standing = read(tmp_path / "r")
    assert ["picture" in record.fields for record in records] == [False, True, True, False, False, False]
    assert standing.missing == 0


def test_its_time_ends_it(tmp_path: Path) -> None:
    ended: list[Any] = []
    writer = begin(tmp_path / "r", seconds=0.2, on_end=ended.append)
    put(writer, 3)
    assert wait_until(lambda: bool(ended), 20)
    assert ended[0].why == "time"
    put(writer, 3)
    writer.close()
    assert read(tmp_path / "r")[1].records == 3


def test_a_defect_in_what_is_recorded_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    writer = begin(tmp_path / "r")
    put(writer, 2)
    writer.put("note", lambda: {"x": 1 / 0})
    assert wait_until(lambda: writer.ended is not None, 20)
    put(writer, 5)
    assert writer.close().why == "defect"
    records, standing = read(tmp_path / "r")
    assert (len(records), standing.why) == (2, "defect")


_KILLED = """
import sys
import time
from pathlib import Path
from tests.recording.test_writer import begin, put
writer = begin(Path(sys.argv[1]))
put(writer, 20)
while writer._records < 20:
    time.sleep(0.001)
print("written", flush=True)
put(writer, 10_000_000, first=20)
"""


def test_a_process_that_is_killed_leaves_a_recording_that_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    command = [sys.executable, "-c", _KILLED, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.send_signal(signal.SIGKILL)
    records, standing = read(folder)
    assert len(records) >= 20
    assert [record.fields["number"] for record in records] == list(range(len(records)))
    assert standing.why in ("cut", "full")
    if standing.why == "cut":
        assert "its process was killed" in standing.text


def test_a_torn_last_line_is_skipped_and_counted(tmp_path: Path) -> None:
    writer = begin(tmp_path / "r")
    put(writer, 10)
    writer.close()
    file = max((tmp_path / "r").glob("*.flight"))
    os.truncate(file, file.stat().st_size - 700)  # the end, and half of the last record
    records, standing = read(tmp_path / "r")
    assert (len(records), standing.damaged, standing.why) == (9, 1, "cut")


def test_garbage_is_one_sentence(tmp_path: Path) -> None:
    begin(tmp_path / "r").close()
    for file in (tmp_path / "r").glob("*.flight"):
        file.write_bytes(os.urandom(5000))
    with pytest.raises(RecordingError, match=r"nothing in .* can be read"):
        read(tmp_path / "r")


def test_a_full_disk_ends_it_with_a_sentence(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2) as disk:
        writer = begin(disk / "r", 64 * MIB)
        put(writer, 3000)
        ending = writer.close()
        assert ending.why == "disk"
        assert "the disk takes nothing more: No space left on device" in ending.text
        records, standing = read(disk / "r")
        assert len(records) == ending.records > 500
        assert standing.missing == 0


def test_on_a_full_disk_one_that_drops_its_oldest_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2) as disk:
        writer = begin(disk / "r", 4 * MIB, WhenFull.OLDEST)
        put(writer, 3000)
        assert writer.close().why == "closed"
        records, standing = read(disk / "r")
        assert records[-1].fields["number"] == 2999
        assert standing.begins > 0


def test_parts_are_numbered_and_share_the_bytes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    first = new_part(root, Stream.CAMERAS, 3 * MIB, WhenFull.STOP)
    assert (first.folder.name, first.bytes) == ("cameras-000001", 3 * MIB)
    (first.folder / "data").write_bytes(bytes(MIB))
    second = new_part(root, Stream.CAMERAS, 3 * MIB, WhenFull.STOP)
    assert (second.folder.name, second.bytes) == ("cameras-000002", 2 * MIB)
    assert new_part(root, Stream.MONITOR, MIB, WhenFull.STOP).folder.name == "monitor-000001"
    (second.folder / "data").write_bytes(bytes(2 * MIB - LEAST_BYTES // 2))
    with pytest.raises(RecordingError, match="are used up: name a new folder"):
        new_part(root, Stream.CAMERAS, 3 * MIB, WhenFull.STOP)
    third = new_part(root, Stream.CAMERAS, 3 * MIB, WhenFull.OLDEST)
    assert third.folder.name == "cameras-000003"
    assert not first.folder.exists()
    assert third.bytes >= LEAST_BYTES


def test_the_parts_of_a_recording_are_found_cameras_first(tmp_path: Path) -> None:
    for name in ("monitor-000001", "cameras-000002", "cameras-000001"):
        begin(tmp_path / "root" / name).close()
        shutil.rmtree(tmp_path / "root" / "config")
    (tmp_path / "root" / "pictures").mkdir()
    found = [part.folder.name for part in open_recording(tmp_path / "root")]
    assert found[:2] == ["cameras-000001", "cameras-000002"]
