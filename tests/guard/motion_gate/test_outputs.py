"""Outputs with real sockets and programs: none waits, each sends its safe value."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.guard.motion_gate.children import Doomed
from edge_runtime.guard.motion_gate.judge import Proposal
from edge_runtime.guard.motion_gate.outputs import DatagramOutput, ExecOutput, command_frame, safe_frame
from edge_runtime.guard.motion_gate.reasons import Reason
from edge_runtime.guard.motion_gate.settings import (
    DatagramStop,
    DescriptorStop,
    FileStop,
    ToDatagrams,
    ToPrograms,
)
from edge_runtime.guard.motion_gate.wiring import is_replaced, listen, output_to, stop_input

MS = 1_000_000
S = 1_000 * MS


def until(what: Callable[[], object], within_s: float = 30.0) -> None:
    """Wait for something that has to come."""
    end = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < end, "did not come"
        time.sleep(0.005)


def test_frames() -> None:
    proposal = Proposal(7, 1_000 * MS, 100 * MS, "drive", {"v": 0.5})
    frame = b'{"seq":7,"action":"drive","values":{"v":0.5},"ttl_us":60000}'
    assert command_frame(proposal, 1_040 * MS) == frame
    assert json.loads(command_frame(proposal, 1_101 * MS))["ttl_us"] == 0
    assert safe_frame({"v": -0.5, "w": 0.0}) == b'{"safe":true,"values":{"v":-0.5,"w":0.0}}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        safe_frame({"v": float("nan")})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_udp(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as drive:
        drive.bind((host, 0))
        drive.settimeout(10)
        output = DatagramOutput((host, drive.getsockname()[1]))
        assert output.command(b"go", 0) is None
        assert drive.recv(99) == b"go"
        assert output.safe(b"stop", 0)
        assert drive.recv(99) == b"stop"
        output.tick(0)
        output.close()


def test_unix_datagrams_with_a_drive_that_comes_and_goes(tmp_path: Path) -> None:
    output = DatagramOutput(tmp_path / "drive")
    assert output.command(b"go", 0) is Reason.OUTPUT
    assert not output.safe(b"stop", 0)
    for _ in range(2):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as drive:
            drive.bind(str(tmp_path / "drive"))
            assert output.safe(b"stop", 0)
            assert drive.recv(99) == b"stop"
        assert output.command(b"go", 0) is Reason.OUTPUT
        (tmp_path / "drive").unlink()
    output.close()


def test_a_drive_that_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as drive:
        drive.bind(str(tmp_path / "drive"))
        output = DatagramOutput(tmp_path / "drive")
        taken = 0
        while output.command(b"go" * 1000, 0) is None:
            taken += 1
        assert taken > 0
        assert not output.safe(b"stop", 0)
        drive.recv(9999)
        assert output.safe(b"stop", 0)
        output.close()


def script(folder: Path, name: str, body: str) -> list[str]:
    path = folder / name
    path.write_text(body)
    return ["/bin/sh", str(path)]


def test_a_program_for_each_command_and_one_for_the_safe_value(tmp_path: Path) -> None:
    go = script(tmp_path, "go", f"cat > {tmp_path}/partial && mv {tmp_path}/partial {tmp_path}/went\n")
    stop = script(tmp_path, "stop", f"cat > {tmp_path}/partly && mv {tmp_path}/partly {tmp_path}/stopped\n")
    output = ExecOutput(go, stop, 10 * S)
    assert output.command(b"forward", 0) is None
    until((tmp_path / "went").exists)
    assert (tmp_path / "went").read_text() == "forward"
    until(lambda: output.command(b"forward", 0) is None)  # the first has ended
    until(lambda: output._running is None or output._running.poll() is not None)
    output.tick(0)
    assert output._running is None
    assert output.safe(b"rest", 0)
    until((tmp_path / "stopped").exists)
    assert (tmp_path / "stopped").read_text() == "rest"
    output.close()
    output.close()


def test_one_program_at_a_time_and_the_safe_value_ends_it(tmp_path: Path) -> None:
    go = script(tmp_path, "go", f"echo $$ > {tmp_path}/pid; sleep 100 & wait\n")
    stop = script(tmp_path, "stop", f"touch {tmp_path}/stopped; sleep 100\n")
    output = ExecOutput(go, stop, 10 * S)
    assert output.command(b"", 0) is None
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    assert output.command(b"", 0) is Reason.BUSY
    leader = int((tmp_path / "pid").read_text())
    assert output.safe(b"", 0)
    until((tmp_path / "stopped").exists)
    until(lambda: not group_lives(leader))
    assert output.command(b"", 0) is Reason.BUSY  # the safe value is being set
    until(lambda: output.command(b"", 11 * S) is None)
    output.safe(b"", 0)
    output._limit_ns = 0
    output.close()


def group_lives(leader: int) -> bool:
    """Whether a process of the group still runs; one that ended and was not reaped does not."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        state, _, group = stat_of(path)
        if group == leader and state != "Z":
            return True
    return False


def stat_of(path: Path) -> tuple[str, int, int]:
    """State, parent and group of a process."""
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return "Z", 0, 0
    return fields[0], int(fields[1]), int(fields[2])


def test_a_program_that_runs_too_long_is_killed(tmp_path: Path) -> None:
    output = ExecOutput(["/bin/sleep", "100"], ["/bin/true"], S)
    assert output.command(b"", 5 * S) is None
    running = output._running
    assert running is not None
    output.tick(6 * S - 1)
    assert output._running is running
    output.tick(6 * S)
    until(lambda: running.poll() is not None)
    assert running.poll() == -9
    until(lambda: output.command(b"", 7 * S) is None)
    output.safe(b"", 0)
    output.close()


def test_what_a_program_says_goes_nowhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    speaks = script(tmp_path, "go", f"echo heard; echo heard >&2; touch {tmp_path}/spoke\n")
    output = ExecOutput(speaks, speaks, 10 * S)
    assert output.command(b"", 0) is None
    until((tmp_path / "spoke").exists)
    output.close()
    assert capfd.readouterr() == ("", "")


def test_a_frame_that_no_pipe_holds_is_not_sent_in_part(tmp_path: Path) -> None:
    output = ExecOutput(["/bin/cat"], ["/bin/cat"], S)
    assert output.command(bytes(1 << 21), 0) is Reason.OUTPUT
    assert not output.safe(bytes(1 << 21), 0)
    output.close()


def test_a_safe_value_gets_its_time_at_the_end_and_no_more(tmp_path: Path) -> None:
    output = ExecOutput(["/bin/true"], ["/bin/sleep", "100"], 50 * MS)
    assert output.safe(b"", 0)
    running = output._running
    assert running is not None
    output.close()
    assert running.poll() == -9


@pytest.mark.parametrize(("program", "fails"), [("exit 3", True), ("exit 0", False), ("kill -9 $$", True)])
def test_a_safe_value_whose_program_fails_has_to_be_sent_again(
    tmp_path: Path, program: str, fails: bool
) -> None:
    output = ExecOutput(["/bin/false"], script(tmp_path, "stop", program), 10 * S)
    assert output.command(b"", 0) is None
    until(lambda: output._running is not None and output._running.poll() is not None)
    assert not output.tick(0)  # a command that fails is the planner's to repeat
    assert output.safe(b"rest", 0)
    until(lambda: output._running is not None and output._running.poll() is not None)
    assert output.tick(0) is fails
    assert not output.tick(0)  # said once
    output.close()


def test_a_safe_value_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    output = ExecOutput(["/bin/true"], ["/bin/sleep", "100"], S)
    assert output.safe(b"", 0)
    assert not output.tick(S - 1)
    assert output.tick(S)
    output.close()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    output = ExecOutput([str(tmp_path / "none")], [str(tmp_path / "none")], S)
    assert output.command(b"", 0) is Reason.OUTPUT
    assert not output.safe(b"", 0)
    output.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_killed_children_are_not_waited_for() -> None:
    doomed = Doomed()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
    doomed.add(child, group=True)
    doomed.wait(30.0)
    assert not doomed
    assert child.returncode == -9
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    doomed.add(ended, group=False)
    assert len(doomed) == 0


def test_a_child_that_ends_while_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    doomed = Doomed()
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)

    def gone(*_: object) -> None:
        raise ProcessLookupError

    monkeypatch.setattr("edge_runtime.guard.motion_gate.children.os.kill", gone)
    doomed.add(child, group=False)
    assert len(doomed) == 1
    doomed.wait(0.01)
    assert len(doomed) == 1
    child.communicate()
    doomed.reap()
    assert len(doomed) == 0


# -- wiring -----------------------------------------------------------------------------------------------


def test_what_the_settings_name_is_made(tmp_path: Path) -> None:
    programs = output_to(ToPrograms(("/bin/sleep", "9"), ("/bin/true",), S))
    assert programs.command(b"", 0) is None
    programs.tick(S - 1)
    assert programs.command(b"", S - 1) is Reason.BUSY
    until(lambda: programs.command(b"", S) is None)
    assert programs.safe(b"", S)
    programs.close()
    output = output_to(ToDatagrams(("127.0.0.1", 9)))
    assert isinstance(output, DatagramOutput)
    output.close()
    reading, writing = os.pipe()
    os.write(writing, b"0")
    (tmp_path / "value").write_text("0")
    inputs = [
        stop_input(FileStop(tmp_path / "value")),
        stop_input(DescriptorStop(reading)),
        stop_input(DatagramStop(tmp_path / "estop", MS)),
    ]
    assert [channel.released(0) for channel in inputs] == [True, True, False]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as button:
        button.sendto(b"0", str(tmp_path / "estop"))
    assert inputs[2].released(0)
    assert not inputs[2].released(2 * MS)
    for channel in inputs:
        channel.close()
    os.close(writing)


def test_a_successor_takes_the_place(tmp_path: Path) -> None:
    path = tmp_path / "motion.sock"
    path.write_text("left over")
    first, mine = listen(path)
    assert not first.getblocking()
    assert path.stat().st_mode & 0o777 == 0o660
    assert not is_replaced(path, mine)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto(b"a", str(path))
        assert first.recv(9) == b"a"
        second, theirs = listen(path)
        to.sendto(b"b", str(path))
        assert second.recv(9) == b"b"
    assert is_replaced(path, mine)
    assert not is_replaced(path, theirs)
    path.unlink()
    assert not is_replaced(path, mine)
    first.close()
    second.close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_can_listen(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        listen(tmp_path / "missing" / "motion.sock")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").touch()
    with pytest.raises(OSError, match=r"directory|not empty"):
        listen(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
