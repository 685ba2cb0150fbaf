"""The event log: whole lines, whatever the disk, a crash or a reader does."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigError
from edge_runtime.events import NdjsonSink
from edge_runtime.events import sink as module
from edge_runtime.protocol import EventRecord
from tests.rigs.events import Camera, Seen, rule


def event(number: int = 0) -> EventRecord:
    camera = Camera([rule("occupancy", hold=0)])
    (record,) = camera.see(Seen(20, 50))
    return record.model_copy(update={"id": f"event-{number}"})


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text(encoding="utf-8").splitlines()]


@contextmanager
def limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_one_event_a_line_at_once_and_appended(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events.ndjson"
    sink = NdjsonSink(path)
    assert sink.write(event(1))
    assert ids(path) == ["event-1"]  # before any close
    sink.close()
    again = NdjsonSink(path)
    again.write(event(2))
    assert ids(path) == ["event-1", "event-2"]
    assert (again.written, again.failed, again.healed) == (1, 0, 0)
    assert EventRecord.model_validate_json(path.read_text().splitlines()[0]) == event(1)


@pytest.mark.parametrize("torn", [b'{"v":1,"id":"ev', b"{", b'{"id":"\xc3'])
def test_the_half_line_of_a_crash_is_moved_aside(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "events.ndjson"
    first = NdjsonSink(path)
    first.write(event(1))
    first.close()
    with path.open("ab") as file:
        file.write(torn)
    sink = NdjsonSink(path)
    sink.write(event(2))
    assert sink.healed == 1
    assert ids(path) == ["event-1", "event-2"]
    assert (tmp_path / "events.ndjson.partial").read_bytes() == torn + b"\n"


def test_a_file_that_is_one_half_line(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b'{"v":1')
    sink = NdjsonSink(path)
    sink.write(event(1))
    assert ids(path) == ["event-1"]


def test_a_half_line_longer_than_a_block_is_found(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    path.write_bytes(b'{"id":"event-1"}\n' + b"{" + b"x" * 100_000)
    NdjsonSink(path).close()
    assert path.read_bytes() == b'{"id":"event-1"}\n'


def test_a_full_disk_is_counted_and_takes_the_half_line_back(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    sink = NdjsonSink(path)
    sink.write(event(1))
    with limit(path.stat().st_size + 100):
        assert not sink.write(event(2))
        assert str(sink.trouble) == f"events cannot be written to {path}: File too large"
        assert ids(path) == ["event-1"]
    assert sink.write(event(3))
    assert (sink.written, sink.failed) == (2, 1)
    assert "File too large" in str(sink.trouble)  # what was lost stays reported
    assert ids(path) == ["event-1", "event-3"]


def test_no_space_left() -> None:
    sink = NdjsonSink("/dev/full")
    assert not sink.write(event())
    assert sink.trouble == "events cannot be written to /dev/full: No space left on device"
    sink.close()


def test_a_deleted_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    sink = NdjsonSink(path)
    sink.write(event(1))
    path.unlink()
    sink.write(event(2))
    assert ids(path) == ["event-2"]


def test_a_deleted_folder_is_trouble_until_it_can_be_made(tmp_path: Path) -> None:
    path = tmp_path / "out" / "events.ndjson"
    sink = NdjsonSink(path)
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("in the way")
    assert not sink.write(event(1))
    assert "cannot be opened" in str(sink.trouble)
    path.parent.unlink()
    assert sink.write(event(2))
    assert ids(path) == ["event-2"]


@pytest.mark.parametrize("content", [b"\x00\x00\x00\x18ftypmp42", b"# notes\n", b"\n"])
def test_a_file_that_is_no_event_log_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="is no event log"):
        NdjsonSink(path)
    assert path.read_bytes() == content


def test_one_endless_line_is_no_event_log(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    path.write_bytes(b"{" + b" " * 200_000)
    with pytest.raises(ConfigError, match="its last line is too long"):
        NdjsonSink(path)


def test_what_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be opened: Is a directory"):
        NdjsonSink(tmp_path)


def test_two_writers_are_refused(tmp_path: Path) -> None:
    first = NdjsonSink(tmp_path / "events.ndjson")
    with pytest.raises(ConfigError, match="being written by another process"):
        NdjsonSink(tmp_path / "events.ndjson")
    first.close()


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    sink = NdjsonSink(tmp_path / "events.ndjson")
    sink.close()
    sink.close()


def test_standard_output_whose_reader_went_away_is_counted_not_fatal() -> None:
    program = (
        "import sys, time\n"
        "from tests.events.test_sink import event\n"
        "from edge_runtime.events import NdjsonSink\n"
        "sink = NdjsonSink('-')\n"
        "sink.write(event(1))\n"
        "sys.stdin.readline()\n"
        "sink.write(event(2)); sink.write(event(3))\n"
        "print(sink.written, sink.failed, sink.trouble, file=sys.stderr)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdin is not None
        assert json.loads(child.stdout.readline())["id"] == "event-1"
        child.stdout.close()
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert child.stderr.read().decode().strip() == (
            "1 2 events cannot be written to standard output: Broken pipe"
        )
    assert child.returncode == 0


def test_a_pipe_that_nobody_reads_does_not_stop_the_camera(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO fills up; the events that do not fit are counted, and afterwards lines are whole again."""
    monkeypatch.setattr(module, "WRITE_TIMEOUT_S", 0.01)
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    sink = NdjsonSink(path)
    total = 0
    while sink.failed == 0:
        sink.write(event(total))
        total += 1
    assert sink.trouble is not None
    received = os.read(reader, 1 << 20)
    sink.write(event(999))
    received += os.read(reader, 1 << 20)
    lines = received.split(b"\n")
    whole = [json.loads(line)["id"] for line in lines if line.endswith(b"}")]
    assert whole == [f"event-{number}" for number in range(total - 1)] + ["event-999"]
    assert lines[-1] == b""
    sink.close()
    os.close(reader)


def test_standard_output_that_nobody_reads_is_waited_for_once_and_stays_blocking() -> None:
    """Events larger than a pipe's page, in a program whose parent does not read until it is told to."""
    program = (
        "import os, sys\n"
        "from tests.events.test_sink import event\n"
        "from edge_runtime.events import NdjsonSink, sink as module\n"
        "class Waits:\n"
        "    def __init__(self): self.real = select.poll(); self.register = self.real.register\n"
        "    def poll(self, ms): waits.append(ms); return self.real.poll(ms)\n"
        "import select, types\n"
        "waits = []\n"
        "module.select = types.SimpleNamespace(poll=Waits, POLLOUT=select.POLLOUT)\n"
        "module.WRITE_TIMEOUT_S = 0.05\n"
        "sink = NdjsonSink('-')\n"
        "large = event(1).model_copy(update={'rule': 'r' * 5000})\n"
        "while sink.write(large): pass\n"
        "before = len(waits)\n"
        "for _ in range(500): sink.write(large)\n"
        "assert set(waits[before:]) == {0}, 'waited again for a reader that has stopped'\n"
        "assert os.get_blocking(1)\n"
        "print(sink.written, sink.failed, sink.trouble, file=sys.stderr, flush=True)\n"
        "sys.stdin.readline()\n"
        "assert sink.write(event(2))\n"
        "sink.close()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        written, failed, trouble = child.stderr.readline().decode().split(" ", 2)
        assert int(failed) == 501
        assert (
            trouble.strip() == "events cannot be written to standard output: its reader has stopped reading"
        )
        received = os.read(child.stdout.fileno(), 1 << 20)
        child.stdin.write(b"\n")
        child.stdin.flush()
        received += child.stdout.read()
        *lines, rest = received.split(b"\n")
        whole = [json.loads(line)["id"] for line in lines if line.endswith(b"}")]
        assert whole == ["event-1"] * int(written) + ["event-2"]
        assert rest == b""
    assert child.returncode == 0


def test_half_a_line_that_cannot_be_taken_back_is_ended_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    sink = NdjsonSink(path)
    really_write, left = os.write, [10, 0]

    def breaks_off(fd: int, data: memoryview) -> int:
        """A terminal that takes ten bytes and then fails."""
        if not left:
            return really_write(fd, data)
        size = left.pop(0)
        if size == 0:
            raise OSError(errno.EIO, "Input/output error")
        return really_write(fd, data[:size])

    monkeypatch.setattr(os, "write", breaks_off)
    assert not sink.write(event(1))
    assert sink.write(event(2))
    torn, whole, rest = os.read(reader, 1 << 16).split(b"\n")
    assert (len(torn), json.loads(whole)["id"], rest) == (10, "event-2", b"")
    sink.close()
    os.close(reader)
