"""The scripts for a Jetson, on trees that look like its releases: nothing here has a board to run them on."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edge_runtime.doctor.jetpack import FAMILIES
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "jetson"
SETUP, CHECK = FOLDER / "setup.sh", FOLDER / "check.sh"


def board(tmp_path: Path, l4t: str) -> Path:
    major, _, revision = l4t.partition(".")
    (tmp_path / "board/etc").mkdir(parents=True)
    (tmp_path / "board/etc/nv_tegra_release").write_text(
        f"# R{major} (release), REVISION: {revision}, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
        "TARGET_USERSPACE_LIB_DIR=nvidia\n"
    )
    return tmp_path / "board"


def sh(
    script: Path, *arguments: object, path: Path | None = None, tmp: Path
) -> subprocess.CompletedProcess[str]:
    scratch = tmp / "scratch"
    scratch.mkdir(exist_ok=True)
    before = os.environ["PATH"]
    done = subprocess.run(
        ["sh", str(script), *map(str, arguments)],
        env={**os.environ, "TMPDIR": str(scratch), "PATH": f"{path}:{before}" if path else before},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert not list(scratch.iterdir()), "it left files behind"
    return done


def command(folder: Path, name: str, body: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("script", [SETUP, CHECK])
def test_a_script_parses_and_may_be_run(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script], check=False).returncode == 0
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("script", [SETUP, CHECK])
def test_a_script_says_how_it_is_used(tmp_path: Path, script: Path) -> None:
    done = sh(script, "--help", tmp=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{script.name} [" in done.stdout
    assert "set -eu" not in done.stdout
    assert sh(script, "--bogus", tmp=tmp_path).stderr.count("there is no option --bogus") == 1


@pytest.mark.parametrize("family", [name for name, release in FAMILIES.items() if release.usable])
@pytest.mark.parametrize("library", ["pycuda", "bindings"])
def test_a_dry_run_says_what_it_would_do_and_does_nothing(tmp_path: Path, family: str, library: str) -> None:
    root, venv = board(tmp_path, f"{family}.0"), tmp_path / "deep" / "venv"
    done = sh(SETUP, "--dry-run", "--root", root, "--venv", venv, "--cuda", library, tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    release = FAMILIES[family]
    cuda = release.cuda.replace(".", "-")
    assert f"L4T {family}.0: CUDA {cuda}, Python {release.python}" in done.stderr
    assert all(line.startswith("would run: ") for line in done.stdout.splitlines())
    packages = next(line for line in done.stdout.splitlines() if "apt-get install" in line)
    assert {"python3-libnvinfer", "nvidia-l4t-gstreamer", f"cuda-nvrtc-{cuda}"} <= set(packages.split())
    assert (f"libcurand-dev-{cuda}" in packages) == (library == "pycuda")
    assert f"/usr/bin/python3 -m venv --system-site-packages {venv}" in done.stdout
    assert f"'{REPOSITORY}[jetson]' onnxruntime numpy" in done.stdout
    if library == "pycuda":
        assert "--no-binary pycuda pycuda==2026.1" in done.stdout
        assert "CUDA_ROOT=/usr/local/cuda" in done.stdout
    else:
        wanted = re.search(r"--only-binary :all: cuda-bindings==(\d+)\.", done.stdout)
        assert wanted is not None
        assert wanted[1] == release.cuda.split(".")[0]
    assert f"{CHECK} {venv}" in done.stdout.splitlines()[-1]
    assert not venv.parent.exists()


@pytest.mark.parametrize(
    ("l4t", "words"),
    [
        ("36.3.0", "JetPack 6.0, with TensorRT 8.6: upgrade to JetPack 6.1 or later"),
        ("35.4.1", "JetPack 5 or older: flash JetPack 6.1 or later"),
        ("32.7.1", "JetPack 5 or older"),
        ("41.0.0", "not known to this script"),
    ],
)
def test_a_release_that_does_not_fit_is_refused_before_anything_else(
    tmp_path: Path, l4t: str, words: str
) -> None:
    done = sh(SETUP, "--dry-run", "--root", board(tmp_path, l4t), tmp=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dry-run", "--root", "{tmp}"], "this is no Jetson"),
        ([], "this is no Jetson"),
        (["--root", "{tmp}"], "--root is for --dry-run"),
        (["--cuda", "torch"], "--cuda is pycuda or bindings, not torch"),
        (["--venv"], "--venv needs a value"),
        (["--config", "/etc/edge-runtime/absent"], "is no file that can be read"),
        (["--config", "/etc"], "is no file that can be read"),
        (
            ["--config", "/home/me/site.yaml"],
            "does not see /home/me/site.yaml: put the configuration and what",
        ),
        (["--config", "/etc/../root/site.yaml"], "does not see /root/site.yaml"),
        (["--config", "/tmp/site.yaml"], "does not see /tmp/site.yaml"),
        (["--all"], "there is no option --all"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = sh(SETUP, *(part.format(tmp=tmp_path) for part in arguments), tmp=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_environment_that_sees_apts_packages_is_kept(tmp_path: Path) -> None:
    root, venv = board(tmp_path, "36.4.3"), tmp_path / "venv"
    venv.mkdir()
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = true\n")
    done = sh(SETUP, "--dry-run", "--root", root, "--venv", venv, "--skip-apt", tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"using {venv}" in done.stderr
    assert "-m venv" not in done.stdout
    assert "apt-get" not in done.stdout
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    done = sh(SETUP, "--dry-run", "--root", root, "--venv", venv, "--skip-apt", tmp=tmp_path)
    assert done.returncode == 2
    assert "does not see apt's packages: remove it" in done.stderr


def test_who_is_not_root_uses_sudo_for_apt_and_the_service_alone(tmp_path: Path) -> None:
    root, site = board(tmp_path, "36.4.3"), "/etc/passwd"  # a file that is on each machine, and is not read
    command(tmp_path / "bin", "id", "echo 1000")
    command(tmp_path / "bin", "sudo", "exit 1")
    where = tmp_path / "venv"
    done = sh(
        SETUP,
        *("--dry-run", "--root", root, "--venv", where, "--config", site),
        path=tmp_path / "bin",
        tmp=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    with_sudo = [line for line in done.stdout.splitlines() if line.startswith("would run: sudo ")]
    asked = " ".join(line.split()[3] for line in with_sudo)
    assert asked == "apt-get env install systemd-sysusers install udevadm udevadm install systemctl systemctl"
    assert f"ExecStart={where}/bin/edge-runtime run {site}" in done.stdout
    assert "is enabled" not in done.stderr
    assert f"{CHECK} {where} {site}" in done.stdout.splitlines()[-1]


def test_a_link_to_a_home_directory_is_refused_as_well(tmp_path: Path) -> None:
    link = REPOSITORY / "out" / f"link-{os.getpid()}.yaml"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("/home/me/site.yaml")
    try:
        done = sh(SETUP, "--config", link, tmp=tmp_path)
    finally:
        link.unlink()
    assert done.returncode == 2
    assert "the service does not see" in done.stderr


def test_it_is_a_release_which_current_names(tmp_path: Path) -> None:
    root = board(tmp_path, "36.4.3")
    done = sh(SETUP, "--dry-run", "--skip-apt", "--root", root, "--config", "/etc/passwd", tmp=tmp_path)
    assert done.returncode == 0, done.stderr
    made = re.search(
        r"--system-site-packages (/opt/edge-runtime/(releases/jetson-\S+-[0-9a-f]{12}))$", done.stdout, re.M
    )
    assert made is not None
    assert f"ln -sfn {made[2]} /opt/edge-runtime/.current.new" in done.stdout
    assert "mv -fT /opt/edge-runtime/.current.new /opt/edge-runtime/current" in done.stdout
    assert f"touch {made[1]}/.complete" in done.stdout
    assert "ExecStart=/opt/edge-runtime/current/bin/edge-runtime run /etc/passwd" in done.stdout
    assert done.stdout.splitlines()[-1] == f"would run: {CHECK} /opt/edge-runtime/current /etc/passwd"


def test_opencv_is_the_package_that_apt_knows(tmp_path: Path) -> None:
    root = board(tmp_path, "36.4.3")
    command(tmp_path / "bin", "apt-cache", 'test "$2" = libopencv-python')
    done = sh(SETUP, "--dry-run", "--root", root, path=tmp_path / "bin", tmp=tmp_path)
    assert " libopencv-python " in done.stdout
    command(tmp_path / "bin", "apt-cache", 'test "$2" = python3-opencv')
    done = sh(SETUP, "--dry-run", "--root", root, path=tmp_path / "bin", tmp=tmp_path)
    assert " python3-opencv " in done.stdout


def test_the_check_needs_an_environment(tmp_path: Path) -> None:
    done = sh(CHECK, tmp_path, tmp=tmp_path)
    assert done.returncode == 2
    assert "run setup.sh, or name the environment" in done.stderr


@pytest.mark.parametrize(
    ("doctor", "selftest", "code"), [("0", "0", 0), ("1", "0", 1), ("0", "3", 1), ("1", "1", 1)]
)
def test_the_check_is_well_where_both_parts_are(
    tmp_path: Path, doctor: str, selftest: str, code: int
) -> None:
    command(tmp_path / "venv/bin", "edge-runtime", f'test "$1" != doctor || exit {doctor}')
    command(tmp_path / "venv/bin", "python", f"cat >/dev/null; exit {selftest}")
    done = sh(CHECK, tmp_path / "venv", tmp_path / "site.yaml", tmp=tmp_path)
    assert done.returncode == code
    assert done.stderr.endswith("check: all is well\n" if code == 0 else "check: not well: see above\n")


def test_the_check_refuses_a_configuration_that_is_not_valid(tmp_path: Path) -> None:
    command(tmp_path / "venv/bin", "edge-runtime", 'test "$1" != config')
    done = sh(CHECK, tmp_path / "venv", tmp_path / "site.yaml", tmp=tmp_path)
    assert done.returncode == 2


def test_the_check_says_what_a_machine_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tensorrt.py").write_text("raise ImportError('there is none')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = sh(CHECK, sys.prefix, tmp=tmp_path)
    assert done.returncode == 1
    assert "models can run by" in " ".join(done.stdout.split())
    assert "tensorrt cannot be imported: there is none" in done.stderr


def test_the_container_takes_the_versions_of_the_script() -> None:
    script, recipe = SETUP.read_text(), (FOLDER / "Containerfile").read_text()
    for cuda, version in re.findall(r"cuda=(\d+-\d+) python=\S+ bindings=(\S+)", script):
        if cuda in ("12-6", "13-0"):
            assert f"BINDINGS={version}" in recipe
            assert f"cuda-nvrtc-{cuda}" in recipe
    assert "UNVERIFIED" in recipe
    copied = re.findall(r"^COPY ((?:\S+ )+)/source", recipe, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (REPOSITORY / name).exists(), name


def test_the_pages_name_the_versions_of_the_script() -> None:
    script = SETUP.read_text()
    for page in (FOLDER / "README.md", REPOSITORY / "docs" / "jetson.md"):
        text = page.read_text()
        for version in [
            *re.findall(r"bindings=(\d\S+)", script),
            *re.findall(r"^PYCUDA=(\S+)", script, re.MULTILINE),
        ]:
            assert version in text, (page.name, version)


def test_the_shell_is_a_plain_one() -> None:
    dash = shutil.which("dash")
    if dash is not None:
        for script in (SETUP, CHECK):
            assert subprocess.run([dash, "-n", script], check=False).returncode == 0
    for script in (SETUP, CHECK):
        assert "[[" not in script.read_text()
        assert script.read_text().startswith("#!/bin/sh\n")
