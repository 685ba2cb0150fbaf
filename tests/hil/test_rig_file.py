"""A rig's file: what is wrong with it is told with its line, and nothing that is missing goes unsaid."""

from pathlib import Path

import pytest

from hil.problems import BadRig
from hil.rig_file import RIGS, read_rig, rig_path

SIM = """\
name = "mine"
kind = "sim"
about = "one"

[board]
name = "simulated"
model = "none"

[absent]
shell = "a simulated device has none"
"""
BENCH = """\
name = "mine"
kind = "bench"
about = "one"

[board]
name = "orin"
jetpack = "6.2"
model = "centerface"

[absent]
recovery_button = "nobody has soldered it yet"
console = "nobody has soldered it yet"
usb = "its camera is a CSI camera"
network = "there is no gateway yet"
byte_counter = "there is no gateway yet"
marker = "there is no display yet"
shutter = "there is no display yet"
vendor_script = "the image is written by hand"
updates = "there is no fleet yet"
injector = "it is a field device"
events = "it keeps no file of them"
queue = "there is no fleet yet"
motion = "it drives nothing"
models = "its package lies nowhere yet"
pictures = "nobody has annotated any"
kernel_log = "its log needs root"

[driver.power]
driver = "command"
on = ["relay", "on"]
off = ["relay", "off"]

[driver.shell]
host = "orin.bench"
user = "edge"

[runtime]
state = "/var/lib/edge-runtime"
"""


def read(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    try:
        read_rig(path)
    except BadRig as error:
        return str(error).replace(f"{folder}/", "")
    return ""


def test_rigs_of_the_project_are_good() -> None:
    rigs = [read_rig(path) for path in sorted(RIGS.glob("*.toml"))]
    assert [(one.name, one.kind) for one in rigs] == [
        ("local", "local"),
        ("orin-agx", "bench"),
        ("orin-nano", "bench"),
        ("sim", "sim"),
    ]


@pytest.mark.parametrize("text", [SIM, BENCH], ids=["sim", "bench"])
def test_a_good_one_is_read(tmp_path: Path, text: str) -> None:
    assert not read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "old", "new", "says"),
    [
        (SIM, "one", "one\nhard", "mine.toml: Illegal character"),
        (
            SIM,
            'kind = "sim"',
            'kind = "shelf"',
            "mine.toml:2: kind: Input should be 'sim', 'local' or 'bench'",
        ),
        (SIM, 'about = "one"\n', "", "mine.toml: about: is missing"),
        (SIM, '"mine"', '"other"', "mine.toml:1: name: is other, and the file is called mine"),
        (SIM, "shell =", "leg =", "mine.toml:10: absent.leg"),
        (
            SIM,
            "a simulated device has none",
            "no",
            "mine.toml:10: absent.shell: String should have at least 10",
        ),
        (
            SIM,
            "[absent]",
            '[driver.shell]\nhost = "a"\nuser = "b"\n[absent]',
            "mine.toml:9: driver.shell: rig sim brings its own shell; drivers are of a bench",
        ),
        (
            SIM,
            "[absent]",
            '[limits]\nboot = { unit = "s" }\n[absent]',
            "mine.toml:10: limits.boot: needs at_least or at_most: what has no limit cannot fail",
        ),
        (
            BENCH,
            'network = "there is no gateway yet"\n',
            "",
            "driver: has no network; give one, or say under absent",
        ),
        (
            BENCH,
            'motion = "it drives nothing"\n',
            "",
            "runtime: gives no means for motion; give them, or say under",
        ),
        (
            BENCH,
            "[driver.shell]",
            '[driver.usb]\ndriver = "uhubctl"\nhub = "1-2"\nports = {camera = 1}\n[driver.shell]',
            "mine.toml:13: absent.usb: has a driver, so it is not absent",
        ),
        (BENCH, 'driver = "command"', 'driver = "magic"', "mine.toml:28: driver.power"),
        (
            BENCH,
            'on = ["relay", "on"]\n',
            'way = "up"\non = ["relay", "on"]\n',
            "mine.toml:30: driver.power.way: is nothing that a rig knows here",
        ),
        (BENCH, 'on = ["relay", "on"]\n', "", "mine.toml:28: driver.power.on: is missing"),
        (
            BENCH,
            '[runtime]\nstate = "/var/lib/edge-runtime"\n',
            "",
            "runtime: is missing: how the runtime on",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, text: str, old: str, new: str, says: str
) -> None:
    assert text.count(old) >= 1
    assert says in read(tmp_path, text.replace(old, new, 1))


def test_a_rig_that_nobody_knows_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(BadRig, match="rigs are local, orin-agx, orin-nano, sim"):
        rig_path("shelf")
