"""What a newcomer types: `make help` lists it, and the set-up says in one sentence what it lacks."""

import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TARGETS = [
    "setup",
    "demo",
    "test",
    "check",
    "bench",
    "trials",
    "soak",
    "docs",
    "format",
    "lint",
    "types",
    "clean",
    "lock",
]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", [(), ("help",)])
def test_help_lists_every_target_with_a_sentence(arguments: tuple[str, ...]) -> None:
    done = make(*arguments)
    assert done.returncode == 0, done.stderr
    described = dict(re.findall(r"^  make (\w+) +(\S.*)$", done.stdout, re.MULTILINE))
    assert set(TARGETS) <= set(described)
    assert all(len(sentence) > 10 for sentence in described.values())


def test_every_phony_target_is_described() -> None:
    text = (REPOSITORY / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert phony
    for target in phony[1].split():
        assert re.search(rf"^{target}:.* ## \S", text, re.MULTILINE), f"{target} has no description"


def test_a_clip_reaches_the_demo_as_it_was_typed(tmp_path: Path) -> None:
    """URLs hold `$`, quotes and spaces; nothing may interpret them on the way."""
    probe = tmp_path / "probe.mk"
    probe.write_text(f"include {REPOSITORY}/Makefile\nprobe:\n\t@printf '%s' \"$$DEMO_CLIP\"\n")
    url = "rtsp://u:p$a'ss w@camera/1?x=$(shell false)&y"
    done = make("-f", str(probe), "probe", f"CLIP={url}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == url


def interpreter(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def setup(tmp_path: Path, python: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(REPOSITORY / "deploy/setup.sh"), str(tmp_path / "venv")],
        env={**os.environ, "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_an_old_python_is_refused_in_one_sentence(tmp_path: Path) -> None:
    old = interpreter(tmp_path / "python", 'case "$1" in --version) echo Python 3.8.18;; *) exit 1;; esac')
    done = setup(tmp_path, old)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.10, 3.11, 3.12 or 3.13, and this machine has Python 3.8.18" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_missing_python_is_refused_in_one_sentence(tmp_path: Path) -> None:
    done = setup(tmp_path, tmp_path / "absent")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"no working {tmp_path / 'absent'}" in done.stderr


def test_a_python_without_ensurepip_and_pip_says_what_to_install(tmp_path: Path) -> None:
    fits = 'case "$*" in *version_info*) exit 0;; *) exit 1;; esac'
    done = setup(tmp_path, interpreter(tmp_path / "python", fits))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "ensurepip is missing" in done.stderr
    assert "apt install python3-venv" in done.stderr
