"""The units of deploy: systemd reads them, their exposure is stated, and they name what an installation has."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet_server.cli.commands import COMMANDS
from tests.conftest import REPOSITORY

DEVICE, SERVER = REPOSITORY / "deploy/systemd", REPOSITORY / "deploy/server"
UNITS = {
    path.name: path
    for folder in (DEVICE, SERVER)
    for path in folder.iterdir()
    if path.suffix in (".service", ".timer")
}
MOST_EXPOSED = {"edge-runtime.service": 2.5, "fleet-server.service": 1.5, "fleet-backup.service": 1.5}
"""What `systemd-analyze security` may say at most, of 10; docs/deployment.md states it."""


def analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is missing: apt-get install systemd")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


class Unit:
    """A unit as a file: repeated keys are joined by a space."""

    def __init__(self, path: Path) -> None:
        lines: dict[str, dict[str, list[str]]] = {}
        section = ""
        for line in path.read_text().splitlines():
            if line.startswith("["):
                section = line.strip("[]")
            elif "=" in line and not line.startswith("#"):
                key, _, value = line.partition("=")
                lines.setdefault(section, {}).setdefault(key, []).append(value)
        self.values = {
            (part, key): " ".join(found) for part, keys in lines.items() for key, found in keys.items()
        }

    def __call__(self, section: str, key: str) -> str:
        return self.values.get((section, key), "")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with systemd's own units and our programs in their places."""
    root = tmp_path_factory.mktemp("root")
    if Path("/usr/lib/systemd/system").is_dir():
        shutil.copytree("/usr/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
    for path in UNITS.values():
        (root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / "etc/systemd/system")
    for program in ("edge-runtime/current/bin/edge-runtime", "fleet-server/current/bin/fleet"):
        place = root / "opt" / program
        place.parent.mkdir(parents=True)
        place.write_text("#!/bin/sh\n")
        place.chmod(0o755)
    return root


@pytest.mark.parametrize("name", UNITS)
def test_systemd_reads_a_unit_without_a_word(machine: Path, name: str) -> None:
    done = analyze("verify", f"--root={machine}", "--man=no", "--generators=no", name)
    ours = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, ours) == (0, [])


def test_a_unit_with_a_slip_is_found(machine: Path) -> None:
    path = machine / "etc/systemd/system/slip.service"
    path.write_text(UNITS["fleet-server.service"].read_text().replace("WatchdogSec=", "WatchdogSecs="))
    done = analyze("verify", f"--root={machine}", "--man=no", "--generators=no", "slip.service")
    path.unlink()
    assert "WatchdogSecs" in done.stderr


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_a_service_is_no_more_exposed_than_is_stated(name: str) -> None:
    done = analyze("security", "--offline=yes", str(UNITS[name]))
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= MOST_EXPOSED[name]
    stated = (REPOSITORY / "docs/deployment.md").read_text()
    if analyze("--version").stdout.startswith("systemd 252 "):  # others count other things
        assert f"| `{name}` | {found[1]} |" in stated


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_a_service_has_a_user_a_class_and_bounds(name: str) -> None:
    unit = Unit(UNITS[name])
    user = unit("Service", "User")
    declared = (UNITS[name].parent / "sysusers.conf").read_text()
    assert re.search(rf"^u {user} - ", declared, re.MULTILINE)
    for key in ("OOMScoreAdjust", "CPUWeight", "IOWeight", "MemoryMax", "TasksMax"):
        assert unit("Service", key), key
    assert unit("Service", "LimitCORE") == "0", "a core would hold keys and pictures"
    assert unit("Service", "UMask") == "0077"
    program = unit("Service", "ExecStart").split()[0]
    assert program.startswith("/opt/")
    assert "/current/bin/" in program


def test_the_device_is_killed_last_and_backups_first() -> None:
    order = ["edge-runtime.service", "fleet-server.service", "fleet-backup.service"]
    scores = [int(Unit(UNITS[name])("Service", "OOMScoreAdjust")) for name in order]
    weights = [int(Unit(UNITS[name])("Service", "CPUWeight")) for name in order]
    assert scores == sorted(scores)
    assert weights == sorted(weights, reverse=True)


def test_services_that_notify_are_watched() -> None:
    for name in ("edge-runtime.service", "fleet-server.service"):
        unit = Unit(UNITS[name])
        assert (unit("Service", "Type"), unit("Service", "NotifyAccess")) == ("notify", "main")
        assert unit("Service", "WatchdogSec")
        assert unit("Service", "Restart") == "always"


def test_the_command_lines_of_units_are_ones_that_the_programs_take() -> None:
    exits = {row.name: row.exits for row in COMMANDS}
    assert "serve" in exits
    words = Unit(UNITS["fleet-backup.service"])("Service", "ExecStart").split()
    assert words[1:3] == ["backup", "create"]
    assert "create" in exits["backup"]
    paths = (SERVER / "tmpfiles.conf").read_text()
    data = Path(words[words.index("--data") + 1])
    for unit in ("fleet-server.service", "fleet-backup.service"):
        assert f"--data {data}" in Unit(UNITS[unit])("Service", "ExecStart")
    assert Unit(UNITS["fleet-backup.service"])("Unit", "ConditionPathExists") == f"{data}/settings.toml"
    # `fleet init` and a restore make it beside its place: the folder above has to be that user's
    for path in (words[3], data.parent):
        assert re.search(rf"^d {path} +0700 fleet-server fleet-server ", paths, re.MULTILINE), path


def test_users_folders_and_the_journal_are_read_by_systemd(tmp_path: Path) -> None:
    users = shutil.which("systemd-sysusers")
    if users is None:
        pytest.skip("systemd-sysusers is missing: apt-get install systemd")
    (tmp_path / "etc").mkdir()
    for folder in (DEVICE, SERVER):
        done = subprocess.run(
            [users, f"--root={tmp_path}", str(folder / "sysusers.conf")],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    made = (tmp_path / "etc/passwd").read_text()
    assert "edge-runtime:" in made
    assert "fleet-server:" in made
    assert "/usr/sbin/nologin" in made or "/sbin/nologin" in made or "/bin/false" in made
    journal = Unit(DEVICE / "journald.conf")
    assert journal("Journal", "SystemMaxUse")
    assert journal("Journal", "RateLimitBurst")


def test_the_rule_for_the_watchdog_names_the_group_of_the_device() -> None:
    """A rule with a group that does not exist is ignored by udev, with a line in its log."""
    rules = [line for line in (DEVICE / "udev.rules").read_text().splitlines() if line and line[0] != "#"]
    groups = set(re.findall(r'GROUP="([^"]+)"', "\n".join(rules)))
    unit = Unit(UNITS["edge-runtime.service"])
    assert groups == {unit("Service", "Group")}
    assert re.search(rf"^u {groups.pop()} - ", (DEVICE / "sysusers.conf").read_text(), re.MULTILINE)
    assert all(re.fullmatch(r'(?:[A-Z]+==?"[^"]*"(?:, )?)+', line) for line in rules), (
        "matches, then one value each"
    )
