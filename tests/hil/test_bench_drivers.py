"""The drivers of a bench, as far as they can be tried without one: binding, real programs, a real terminal."""

import os
import pty
import stat
import sys
import tty
from pathlib import Path

import pytest

from hil.__main__ import LACKS, main
from hil.bench.binding import bind
from hil.bench.commands import SshShell
from hil.bench.gateway import netem_words
from hil.bench.records import Script, SerialDevice, Ssh, SwitchCommands, Uhubctl
from hil.bench.serial_console import SerialConsole
from hil.bench.switches import CommandSwitch, SwitchedPower, UhubctlPorts
from hil.bench.vendor import ScriptFlasher
from hil.parts import PartName
from hil.problems import DeviceError, RigError
from hil.rig_file import PARTS, read_rig, rig_path
from sim.network import Impairment


def program(folder: Path, name: str, script: str) -> Path:
    """A real program in a folder."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which programs are found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_a_bench_binds_without_hardware() -> None:
    file = read_rig(rig_path("orin-agx"))
    device, found = bind(file, lambda: 0.0)
    assert device is not None
    assert [one.problem for one in found if one.problem] == []
    assert all(one.part is not None for one in found)
    there: set[PartName] = {one.name for one in found}
    assert there | file.absent.keys() == set(PARTS), "every part is bound or declared absent"


def test_check_prints_what_binds_and_what_this_machine_lacks(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "orin-agx"]) == LACKS
    said = capsys.readouterr().out
    assert any(line.split()[:2] == ["console", "bound"] for line in said.splitlines())
    assert "the program board-automation is not installed" in said
    assert "absent: motion: a camera on a bench drives nothing" in said
    for name in ("board-automation", "bench-display", "bench-fleet", "flash-orin-agx", "uhubctl", "ssh"):
        program(programs, name, "exit 0")
    assert main(["check", "orin-agx"]) == 0
    assert "lacks" not in capsys.readouterr().out


def test_a_switch_runs_its_commands_and_a_rig_whose_switch_fails_is_sick(tmp_path: Path) -> None:
    log = tmp_path / "log"
    relay = program(
        tmp_path, "relay", f'echo "$1" >> {log}; [ "$1" != off ] || {{ echo jammed >&2; exit 4; }}'
    )
    commands = SwitchCommands(driver="command", on=(str(relay), "on"), off=(str(relay), "off"), settles=0.01)
    power = SwitchedPower(CommandSwitch(commands))
    power.on()
    with pytest.raises(RigError, match="ended with 4: jammed"):
        power.off()
    assert log.read_text(encoding="ascii").split() == ["on", "off"]
    gone = CommandSwitch(commands.model_copy(update={"on": ("/nowhere/relay",)}))
    assert gone.lacks() == ["/nowhere/relay is no program here"]
    with pytest.raises(RigError, match="cannot be started"):
        gone.turn(on=True)


def test_ports_are_switched_by_the_name_of_what_is_plugged_in(programs: Path, tmp_path: Path) -> None:
    program(programs, "uhubctl", f'echo "$@" >> {tmp_path / "said"}')
    ports = UhubctlPorts(Uhubctl(driver="uhubctl", hub="1-3", ports={"camera": 2}))
    ports.off("camera")
    ports.on("camera")
    said = (tmp_path / "said").read_text(encoding="ascii").splitlines()
    assert said == ["-l 1-3 -p 2 -a off -r 100", "-l 1-3 -p 2 -a on -r 100"]
    with pytest.raises(RigError, match="names no port for mouse; it names camera"):
        ports.off("mouse")


@pytest.mark.parametrize(
    ("impairment", "words"),
    [
        (Impairment(delay_s=0.3), "delay 300ms"),
        (Impairment(delay_s=0.3, jitter_s=0.05, loss=0.02), "delay 300ms 50ms loss 2%"),
        (Impairment(bytes_per_s=30_000), "rate 240000bit"),
    ],
)
def test_an_impairment_in_the_words_of_netem(impairment: Impairment, words: str) -> None:
    assert " ".join(netem_words(impairment)) == words


def test_a_portal_is_nothing_that_netem_has() -> None:
    with pytest.raises(RigError, match="no portal"):
        netem_words(Impairment(portal=True))


def test_a_serial_console_gives_what_came_and_notices_that_it_went_away() -> None:
    near, far = pty.openpty()
    tty.setraw(far)
    console = SerialConsole(SerialDevice(driver="serial", device=os.ttyname(far)))
    assert console.read() == ""
    os.write(near, b"[    0.000000] Booting Linux\r\n\xff")
    said = ""
    while "Linux" not in said:
        said += console.read()
    assert said.startswith("[    0.000000] Booting Linux")
    assert console.read() in ("", "�")
    console.close()
    os.close(far)
    os.close(near)
    with pytest.raises(RigError, match="console /dev/"):
        console.read()


def test_a_vendors_script_is_run_for_a_device_in_recovery_mode(tmp_path: Path) -> None:
    usb, written = tmp_path / "usb", tmp_path / "written"
    flash = program(tmp_path, "flash", f"echo image > {written}")
    flasher = ScriptFlasher(Script(driver="script", command=(str(flash),), usb="0955:7023"), usb)
    assert not flasher.in_recovery()
    (usb / "1-2").mkdir(parents=True)
    for name, text in (("idVendor", "0955\n"), ("idProduct", "7023\n")):
        (usb / "1-2" / name).write_text(text, encoding="ascii")
    assert flasher.in_recovery()
    flasher.flash()
    assert written.exists()
    program(tmp_path, "flash", "echo no board >&2; exit 3")
    with pytest.raises(RigError, match="ended with 3: no board"):
        flasher.flash()


def test_a_shell_tells_a_board_that_is_not_reached_from_a_command_that_fails(programs: Path) -> None:
    shell = SshShell(Ssh(host="orin.bench", user="edge"))
    program(programs, "ssh", 'for last; do :; done; echo "$last" >&2; exit 255')
    with pytest.raises(DeviceError, match=r"orin\.bench is not reached: cat '/a b'"):
        shell.run(["cat", "/a b"])
    program(programs, "ssh", "echo out; echo err >&2; exit 7")
    answer = shell.run(["false"])
    assert (answer.code, answer.out, answer.err) == (7, "out\n", "err\n")
    program(programs, "ssh", "exec sleep 60")
    with pytest.raises(DeviceError, match=r"did not end within 0\.2 s"):
        shell.run(["cat"], within_s=0.2)
    assert SshShell(Ssh(host="a", user="b", key="/nowhere/key")).lacks()[-1] == "there is no key /nowhere/key"


def test_without_labgrid_its_parts_say_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("labgrid", "labgrid.resource", "labgrid.driver", "labgrid.factory"):
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    assert main(["check", "orin-nano"]) == 1
    said = capsys.readouterr().out
    assert said.count("labgrid is not installed") == 4
    assert "pip install labgrid" in said


@pytest.mark.program("labgrid-client")
def test_with_labgrid_every_part_of_its_rig_binds() -> None:
    _, found = bind(read_rig(rig_path("orin-nano")), lambda: 0.0)
    assert [one.problem for one in found if one.problem] == []
