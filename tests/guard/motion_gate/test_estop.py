"""Emergency stop inputs: silence, errors and anything unknown are pressed."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_runtime.guard.motion_gate.estop import (
    DEBOUNCE_NS,
    DatagramInput,
    DescriptorInput,
    EmergencyStop,
    FileInput,
    Input,
    readable,
)
from edge_runtime.guard.motion_gate.judge import Stop

MS = 1_000_000


def is_known(stop: EmergencyStop) -> bool:
    """Asked anew each time: a type checker takes an attribute to stay as it was."""
    return stop.known


@pytest.mark.parametrize(
    ("text", "released"),
    [
        ("0", True),
        ("0\n", True),
        (" 0 \n", True),
        ("1", False),
        ("", False),
        ("00", False),
        ("released", False),
        ("0" * 99, False),
    ],
)
def test_a_file_says_zero(tmp_path: Path, text: str, released: bool) -> None:
    path = tmp_path / "value"
    path.write_text(text)
    channel = FileInput(path)
    assert channel.fileno() is None
    assert channel.released(0) is released
    channel.close()


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "value"
    channel = FileInput(path)
    assert not channel.released(0)  # not there
    path.write_text("0")
    assert channel.released(0)
    path.write_text("1")
    assert not channel.released(0)
    path.write_text("0")
    assert channel.released(0)
    path.unlink()
    assert not channel.released(0)
    (tmp_path / "new").write_text("0")
    (tmp_path / "new").rename(path)
    assert channel.released(0)
    (tmp_path / "new").write_text("1")
    (tmp_path / "new").rename(path)
    assert [channel.released(0) for _ in range(3)] == [False, False, False]
    (tmp_path / "new").write_text("0")
    (tmp_path / "new").rename(path)
    assert [channel.released(0) for _ in range(3)] == [False, True, True]
    channel.close()
    channel.close()


def test_a_pipe_that_nobody_writes_holds_no_look(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "value")
    said: list[bool] = []
    looking = threading.Thread(
        target=lambda: said.append(FileInput(tmp_path / "value").released(0)), daemon=True
    )
    looking.start()
    looking.join(5)
    assert said == [False]


def test_a_directory_is_no_input(tmp_path: Path) -> None:
    channel = FileInput(tmp_path)
    assert not channel.released(0)
    assert not channel.released(0)
    channel.close()


def test_a_pipe_says_what_it_said_last() -> None:
    reading, writing = os.pipe()
    channel = DescriptorInput(reading)
    assert channel.fileno() == reading
    assert not channel.released(0)  # nothing yet
    for said, released in (
        (b"0", True),
        (b"1", False),
        (b"10", True),
        (b"01", False),
        (b"0\n", True),
        (b"\n", True),
    ):
        os.write(writing, said)
        assert channel.released(0) is released, said
        assert channel.released(10**12) is released
    os.close(writing)
    assert not channel.released(0)  # nobody can say it any more
    assert channel.fileno() is None
    assert not channel.released(0)
    channel.close()


def test_a_pipe_that_does_not_stop_talking_is_pressed() -> None:
    reading, writing = os.pipe()
    channel = DescriptorInput(reading)
    os.write(writing, b"0" * 64 * 8)
    assert not channel.released(0)
    assert channel.released(0)
    os.close(writing)
    channel.close()


def test_a_descriptor_that_cannot_be_read_is_pressed() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    channel = DescriptorInput(writing)
    assert not channel.released(0)
    assert channel.fileno() is None
    assert DescriptorInput(9999).fileno() is not None


@pytest.fixture
def said(tmp_path: Path) -> Iterator[tuple[DatagramInput, socket.socket]]:
    (tmp_path / "estop").write_text("left by a predecessor")
    channel = DatagramInput(tmp_path / "estop", 100 * MS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.connect(str(tmp_path / "estop"))
        yield channel, to
    channel.close()


def test_a_socket_has_to_keep_saying_it(said: tuple[DatagramInput, socket.socket]) -> None:
    channel, to = said
    assert channel.fileno() is not None
    assert not channel.released(0)
    to.send(b"0")
    assert channel.released(0)
    assert channel.released(100 * MS)
    assert not channel.released(100 * MS + 1)
    to.send(b"0")
    assert channel.released(150 * MS)
    to.send(b"0")
    to.send(b"1")
    to.send(b"0")
    assert not channel.released(151 * MS)
    assert channel.released(152 * MS)
    to.send(b"stop")
    assert not channel.released(153 * MS)
    assert not channel.released(153 * MS)


def test_a_socket_that_does_not_stop_talking_is_pressed(said: tuple[DatagramInput, socket.socket]) -> None:
    channel, to = said
    to.settimeout(10)
    for _ in range(8):
        to.send(b"0")
    assert not channel.released(0)
    assert channel.released(0)


def test_a_closed_socket_leaves_no_name(tmp_path: Path) -> None:
    channel = DatagramInput(tmp_path / "estop", MS)
    channel.close()
    assert not (tmp_path / "estop").exists()
    assert channel.fileno() is None
    channel.close()


class Said(Input):
    """What a test says."""

    def __init__(self) -> None:
        self.says, self.closed = True, False

    def released(self, now_ns: int) -> bool:
        return self.says

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        self.closed = True


def test_without_channels_nothing_is_pressed() -> None:
    assert EmergencyStop([]).look(0) == Stop(pressed=False)


def test_a_press_counts_at_once_and_a_release_after_its_time() -> None:
    channel = Said()
    stop = EmergencyStop([channel])
    assert stop.look(0) == Stop(pressed=True)
    assert stop.look(DEBOUNCE_NS - 1) == Stop(pressed=True)
    assert stop.look(DEBOUNCE_NS) == Stop(pressed=False)
    channel.says = False
    assert stop.look(DEBOUNCE_NS + 1) == Stop(pressed=True)
    channel.says = True
    assert stop.look(DEBOUNCE_NS + 2) == Stop(pressed=True)
    assert stop.look(2 * DEBOUNCE_NS + 1) == Stop(pressed=True)
    assert stop.look(2 * DEBOUNCE_NS + 2) == Stop(pressed=False)


def test_any_channel_presses_and_different_ones_disagree() -> None:
    first, second = Said(), Said()
    stop = EmergencyStop([first, second], debounce_ns=0)
    assert stop.look(0) == Stop(pressed=False, disagree=False)
    first.says = False
    assert stop.look(1) == Stop(pressed=True, disagree=True)
    second.says = False
    assert stop.look(2) == Stop(pressed=True, disagree=False)
    first.says = True
    assert stop.look(3) == Stop(pressed=True, disagree=True)
    second.says = True
    assert stop.look(4) == Stop(pressed=False, disagree=False)
    stop.close()
    assert first.closed
    assert second.closed


def test_what_no_channel_has_said_yet_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "value"
    stop = EmergencyStop([FileInput(path)])
    assert stop.look(0) == Stop(pressed=True)
    assert not is_known(stop)  # not there: nobody has pressed it, and nothing may move
    path.write_text("0")
    assert stop.look(MS) == Stop(pressed=True)
    assert not is_known(stop)  # released for too short a time to be sure
    assert stop.look(MS + DEBOUNCE_NS) == Stop(pressed=False)
    assert is_known(stop)
    path.unlink()
    assert stop.look(2 * DEBOUNCE_NS) == Stop(pressed=True)
    assert is_known(stop)  # from now on silence is a press
    stop.close()


def test_a_press_is_known_at_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    heard = DatagramInput(tmp_path / "estop", MS)
    stop = EmergencyStop([DescriptorInput(reading), heard])
    os.write(writing, b"1")
    assert stop.look(0).pressed
    assert not is_known(stop)  # the other has not spoken
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as adapter:
        adapter.sendto(b"1", str(tmp_path / "estop"))
    assert stop.look(1).pressed
    assert is_known(stop)
    os.close(writing)
    stop.close()


def test_without_channels_all_is_known() -> None:
    assert EmergencyStop([]).known


def test_descriptors_to_wait_for() -> None:
    reading, writing = os.pipe()
    stop = EmergencyStop([Said(), DescriptorInput(reading)])
    assert stop.filenos() == [reading]
    assert readable([reading], -1.0) == []
    os.write(writing, b"0")
    assert readable([reading], 10.0) == [reading]
    os.close(writing)
    stop.close()


def test_what_a_socket_said_ends_in_time_also_among_the_channels(tmp_path: Path) -> None:
    stop = EmergencyStop([DatagramInput(tmp_path / "estop", 3 * MS)], debounce_ns=2 * MS)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as adapter:
        adapter.sendto(b"0", str(tmp_path / "estop"))
    pressed = [stop.look(at * MS).pressed for at in range(6)]
    assert pressed == [True, True, False, False, True, True]
    stop.close()


def test_a_socket_whose_name_was_taken_away_can_be_closed(tmp_path: Path) -> None:
    channel = DatagramInput(tmp_path / "estop", MS)
    (tmp_path / "estop").unlink()
    channel.close()


def test_a_wait_is_over_when_it_was_to_be() -> None:
    began = time.monotonic()
    assert [readable([], wait_s) for wait_s in (-1.0, 0.0, 0.01)] == [[], [], []]
    assert time.monotonic() - began < 0.9
