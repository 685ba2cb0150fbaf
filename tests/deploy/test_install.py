"""`deploy/install.sh` in a scratch root: real wheels, real virtual environments, no service manager."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet_server.init import initialise
from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "deploy/install.sh"


def wheel(folder: Path, version: str, *, broken: bool = False) -> Path:
    """A wheel of the tree as it is, under a version."""
    place = folder / f"edge_fleet_runtime-{version}-py3-none-any.whl"
    files = {
        path.relative_to(REPOSITORY).as_posix(): path.read_bytes()
        for package in ("edge_runtime", "fleet_server")
        for path in sorted((REPOSITORY / package).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    if broken:
        files["fleet_server/cli/main.py"] = b"raise SystemExit(3)\n"
    info = f"edge_fleet_runtime-{version}.dist-info"
    name = f"Metadata-Version: 2.1\nName: edge-fleet-runtime\nVersion: {version}\nProvides-Extra: server\n"
    scripts = (
        "[console_scripts]\nedge-runtime = edge_runtime.cli.main:main\nfleet = fleet_server.cli.main:main\n"
    )
    files[f"{info}/METADATA"] = name.encode()
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{info}/entry_points.txt"] = scripts.encode()
    record = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]).encode() + b"\n"
    with zipfile.ZipFile(place, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path), data)  # the same bytes each time
    return place


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def install(
    *arguments: object, script: Path = SCRIPT, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run the script; pip finds everything but the wheel where these tests have it."""
    given = {
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PYTHON": sys.executable,
        "PYTHONPATH": sysconfig.get_path("purelib"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLEET_", "PIP_"))}
    return subprocess.run(
        ["sh", str(script), *map(str, arguments)],
        env=kept | given | variables,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say server or device first"),
        (["robot"], "say server or device first"),
        (["server", "--dest", "{tmp}"], "say what to install"),
        (["server", "{tmp}", "--dest", "{tmp}"], "neither a wheel nor a checkout"),
        (["server", "{tmp}/x.whl", "--dest", "{tmp}"], "x.whl is no file"),
        (["server", "a", "b"], "one SOURCE"),
        (["server", "--dest", "here", "x"], "begins with /"),
        (["server", "--dest"], "--dest needs a value"),
        (["server", "--fast"], "there is no option --fast"),
        (["device", "--back", "--dest", "{tmp}"], "there is no version before"),
        (["device", "--remove", "--back", "--dest", "{tmp}"], "--remove takes no SOURCE and no --back"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = install(*(part.format(tmp=tmp_path) for part in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_another_python_is_refused(tmp_path: Path) -> None:
    done = install("server", REPOSITORY, "--dest", tmp_path, PYTHON="/bin/false")
    assert done.returncode == 2
    assert "is no Python 3.10 to 3.13" in done.stderr


@pytest.mark.parametrize("role", ["server", "device"])
def test_a_check_says_everything_and_changes_nothing(tmp_path: Path, role: str) -> None:
    done = install(role, REPOSITORY, "--check", "--dest", tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("would run: ") for line in done.stdout.splitlines())
    for word in ("-m venv", "sysusers.d", "tmpfiles.d", ".service", "current -> releases/"):
        assert word in done.stdout
    assert not list(tmp_path.iterdir())


PROGRAMS = {
    "server": ("fleet-server", "fleet", "fleet_server.cli.main"),
    "device": ("edge-runtime", "edge-runtime", "edge_runtime.cli.main"),
}


def made(root: Path, source: Path, role: str = "server") -> str:
    """An environment that is whole already, with the program of these tests: what pip would have made."""
    name, word, module = PROGRAMS[role]
    said = install(role, source, "--check", "--dest", root).stdout
    release = said.rpartition("releases/")[2].strip()
    place = root / "opt" / name / "releases" / release
    (place / "bin").mkdir(parents=True)
    program = place / "bin" / word
    program.write_text(f'#!/bin/sh\ncd {REPOSITORY} && exec {sys.executable} -m {module} "$@"\n')
    program.chmod(0o755)
    (place / ".complete").touch()
    return release


def source_of(folder: Path, version: str) -> Path:
    """What stands for a wheel: `made` has its environment."""
    source = folder / f"edge_fleet_runtime-{version}-py3-none-any.whl"
    source.write_text(version)
    return source


def links(root: Path) -> tuple[str, ...]:
    """The versions that are in force and before."""
    found = [root / "opt/fleet-server" / name for name in ("current", "previous")]
    return tuple(link.readlink().name for link in found if link.is_symlink())


def test_versions_change_by_a_link_over_a_backup_and_back(tmp_path: Path) -> None:
    root, data = tmp_path / "root", tmp_path / "root/var/lib/fleet-server/data"
    sources = []
    for version in ("0.1.0", "0.2.0", "0.3.0"):
        sources.append(tmp_path / f"edge_fleet_runtime-{version}-py3-none-any.whl")
        sources[-1].write_text(version)
    first = made(root, sources[0])
    assert install("server", sources[0], "--dest", root).returncode == 0
    assert links(root) == (first,)
    assert (root / "usr/lib/systemd/system/fleet-server.service").is_file()
    second = made(root, sources[1])
    initialise(data, listen="127.0.0.1:8443")
    done = install("server", sources[1], "--dest", root)
    assert (done.returncode, links(root)) == (0, (second, first)), done.stderr
    assert len(list((root / "var/backups/fleet-server").glob("fleet-*/manifest.json"))) == 1
    for expected in ((first, second), (second, first)):
        assert install("server", "--back", "--dest", root).returncode == 0
        assert links(root) == expected
    assert "is installed" in install("server", sources[1], "--dest", root).stderr
    made(root, sources[2])
    unit = root / "usr/lib/systemd/system/fleet-server.service"
    unit.write_text("of the version before")
    (data / "fleet.db").write_bytes(b"no database")
    done = install("server", sources[2], "--dest", root)
    assert (done.returncode, links(root)) == (1, (second, first))
    assert "nothing was changed" in done.stderr
    assert unit.read_text() == "of the version before"
    assert install("server", sources[2], "--no-backup", "--dest", root).returncode == 0
    names = sorted(path.name.split("-")[0] for path in (root / "opt/fleet-server/releases").iterdir())
    assert names == ["0.2.0", "0.3.0"], "two versions stay"
    (root / "opt/fleet-server/previous/.complete").unlink()
    assert "is not whole" in install("server", "--back", "--dest", root).stderr


@dataclass
class Managed:
    """A machine below a scratch root whose service manager and helpers only write down what they are asked.

    The line that leaves them alone below --dest is taken out of the script.
    """

    root: Path
    script: Path
    log: Path
    path: dict[str, str]

    @classmethod
    def at(cls, folder: Path, refuses: str) -> "Managed":
        """One whose service does not come up in one version."""
        script, log, programs = tree_of_the_script(folder / "tree"), folder / "asked", folder / "bin"
        alone = 'managed() { [ -z "$dest" ]; }'
        assert script.read_text().count(alone) == 1
        script.write_text(script.read_text().replace(alone, "managed() { :; }"))
        programs.mkdir()
        current = folder / "root/opt/fleet-server/current"
        for name in ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "udevadm"):
            program = programs / name
            program.write_text(
                f'#!/bin/sh\necho "{name} $*" >>{log}\n'
                f'[ "$*" != "try-restart fleet-server.service" ] || '
                f"case $(readlink {current}) in *{refuses}*) exit 1 ;; esac\n"
            )
            program.chmod(0o755)
        return cls(folder / "root", script, log, {"PATH": f"{programs}:{os.environ['PATH']}"})

    def install(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        """Run its script."""
        return install(*arguments, "--dest", self.root, script=self.script, **self.path)

    def asked(self) -> list[str]:
        """Of the service manager, since this was asked last."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.write_text("")
        return lines

    @property
    def unit(self) -> Path:
        """The server's unit in its place."""
        return self.root / "usr/lib/systemd/system/fleet-server.service"

    def write_unit(self, version: str) -> None:
        """Have the tree of the script carry the unit of a version."""
        (self.script.parent / "server/fleet-server.service").write_text(f"# of {version}\n")


def test_an_upgrade_that_does_not_come_up_leaves_the_way_back(tmp_path: Path) -> None:
    """Links and units: both are as they were before it."""
    machine = Managed.at(tmp_path, refuses="0.3.0")
    releases: list[str] = []
    refused, restarts = "none", 0
    for version, code in (("0.1.0", 0), ("0.3.0", 1), ("0.2.0", 0), ("0.3.0", 1)):
        shutil.rmtree(machine.root / "opt/fleet-server/releases" / refused, ignore_errors=True)
        source = source_of(tmp_path, version)
        release = made(machine.root, source)
        if code == 0:
            releases.append(release)
        else:
            refused = release
        machine.write_unit(version)
        done = machine.install("server", source)
        assert (done.returncode, "does not come up: going back" in done.stderr) == (code, code == 1), (
            done.stderr
        )
        assert links(machine.root) == tuple(reversed(releases)), "as before the upgrade that failed"
        assert machine.unit.read_text() == f"# of {releases[-1].split('-')[0]}\n"
        asked = machine.asked()
        restarts += asked.count("systemctl try-restart fleet-server.service")
        assert asked.index("systemctl daemon-reload") < asked.index(
            "systemctl try-restart fleet-server.service"
        )
    assert restarts == 6
    assert machine.install("server", "--back").returncode == 0
    assert links(machine.root) == tuple(releases)
    assert machine.unit.read_text() == "# of 0.1.0\n"


def test_units_that_an_older_script_put_there_come_back_as_well(tmp_path: Path) -> None:
    """It kept no copies: what lies there is that version's, and a file that it did not have goes again."""
    machine = Managed.at(tmp_path, refuses="0.3.0")
    first, third = source_of(tmp_path, "0.1.0"), source_of(tmp_path, "0.3.0")
    release = made(machine.root, first)
    made(machine.root, third)
    machine.write_unit("0.1.0")
    assert machine.install("server", first).returncode == 0
    shutil.rmtree(machine.root / "opt/fleet-server/releases" / release / "share/root")
    timer = machine.unit.with_name("fleet-backup.timer")
    timer.unlink()
    machine.write_unit("0.3.0")
    assert machine.install("server", third).returncode == 1
    assert machine.unit.read_text() == "# of 0.1.0\n"
    assert not timer.exists()


def test_a_device_gets_its_rule_for_the_watchdog_and_udev_is_told(tmp_path: Path) -> None:
    machine = Managed.at(tmp_path, refuses="nothing")
    source = source_of(tmp_path, "0.1.0")
    made(machine.root, source, "device")
    rule = machine.root / "usr/lib/udev/rules.d/60-edge-runtime.rules"
    for _ in range(2):
        done = machine.install("device", source)
        assert done.returncode == 0, done.stderr
        assert rule.read_bytes() == (REPOSITORY / "deploy/systemd/udev.rules").read_bytes()
        asked = machine.asked()
        assert "udevadm control --reload" in asked
        assert "systemctl try-restart systemd-journald.service" in asked, (
            "its bounds of the journal hold at once"
        )
    assert asked.index("systemd-sysusers edge-runtime.conf") < asked.index("udevadm control --reload"), (
        "the rule names a group that has to be there"
    )


def test_what_is_removed_leaves_data_and_the_other_program(tmp_path: Path) -> None:
    machine = Managed.at(tmp_path, refuses="nothing")
    source = source_of(tmp_path, "0.1.0")
    for role in ("server", "device"):
        made(machine.root, source, role)
        assert machine.install(role, source).returncode == 0
    kept = machine.root / "var/lib/fleet-server/data/fleet.db"
    kept.parent.mkdir(parents=True)
    kept.write_text("events")
    before = sorted(machine.root.rglob("*"))
    done = machine.install("server", "--remove", "--check")
    assert (done.returncode, sorted(machine.root.rglob("*"))) == (0, before)
    assert all(line.startswith("would run: ") for line in done.stdout.splitlines())
    machine.asked()

    done = machine.install("server", "--remove")
    assert (done.returncode, "are kept" in done.stderr) == (0, True)
    asked = machine.asked()
    assert asked[0] == "systemctl disable --now fleet-server.service", "it is ended before its files go"
    assert asked[-1] == "systemctl daemon-reload"
    left = {path.relative_to(machine.root).as_posix() for path in machine.root.rglob("*") if path.is_file()}
    assert not [path for path in left if "fleet-server" in path and not path.startswith("var/lib/")]
    assert not [path for path in left if "fleet-backup" in path]
    assert kept.read_text() == "events"
    assert "usr/lib/systemd/system/edge-runtime.service" in left
    assert "usr/lib/systemd/journald.conf.d/edge-fleet.conf" in left, "the device needs the bound as well"
    assert "nothing of fleet-server is installed" in machine.install("server", "--remove").stderr

    assert machine.install("device", "--remove").returncode == 0
    left = {path.relative_to(machine.root).as_posix() for path in machine.root.rglob("*") if path.is_file()}
    assert left == {"var/lib/fleet-server/data/fleet.db"}
    release = made(machine.root, source)
    assert (machine.install("server", source).returncode, links(machine.root)) == (0, (release,)), (
        "it can come again"
    )


def tree_of_the_script(tree: Path) -> Path:
    """The script and what it puts in place, without the rest of the checkout."""
    for name in ("server", "systemd"):
        shutil.copytree(REPOSITORY / "deploy" / name, tree / "deploy" / name)
    shutil.copy(REPOSITORY / "requirements.lock", tree)
    return Path(shutil.copy(SCRIPT, tree / "deploy"))


def test_what_is_installed_is_what_the_lock_says(tmp_path: Path) -> None:
    script = tree_of_the_script(tmp_path / "tree")
    source = tmp_path / "edge_fleet_runtime-0.1.0-py3-none-any.whl"
    source.write_text("0.1.0")

    def check() -> tuple[str, str]:
        said = install("server", source, "--check", "--dest", tmp_path / "root", script=script).stdout
        (pip,) = (line for line in said.splitlines() if " pip install " in line)
        return pip.partition("--constraint ")[2].split()[0], said.rpartition("releases/")[2].strip()

    lock, first = check()
    assert Path(lock).samefile(tmp_path / "tree/requirements.lock")
    (tmp_path / "requirements.lock").write_text("alembic==1.20.1\n")
    beside, second = check()
    assert Path(beside).samefile(tmp_path / "requirements.lock")
    assert first != second, "other versions are another release"
    for path in (tmp_path / "requirements.lock", tmp_path / "tree/requirements.lock"):
        path.unlink()
    done = install("server", source, "--dest", tmp_path / "root", script=script)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "requirements.lock is missing" in done.stderr
    assert not (tmp_path / "root").exists()


@pytest.mark.trial
@pytest.mark.timeout(1800)
def test_real_environments_are_made_tried_and_kept(tmp_path: Path) -> None:
    """Installed twice, upgraded, and one whose program does not begin."""
    root = tmp_path / "root"
    base = root / "opt/fleet-server"
    source = wheel(tmp_path, "0.1.0")
    assert install("server", source, "--dest", root).returncode == 0
    (first,) = links(root)
    stamp = (base / "current/.complete").stat().st_mtime_ns
    assert install("server", source, "--dest", root).returncode == 0
    assert (base / "current/.complete").stat().st_mtime_ns == stamp, "repeated, nothing is made anew"
    assert install("server", wheel(tmp_path, "0.2.0"), "--dest", root).returncode == 0
    second, before = links(root)
    assert (second.split("-")[0], before) == ("0.2.0", first)
    done = install("server", wheel(tmp_path, "0.3.0", broken=True), "--dest", root)
    assert done.returncode != 0
    assert links(root) == (second, first), "what does not begin is not put in force"
