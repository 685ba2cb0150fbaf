"""The check of a package is a process with an end, one at a time, and its verdict is kept."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fleet_server.releases.package_check import PackageChecks, Verdict

DIGEST = "sha256:" + "a" * 64


@contextlib.contextmanager
def folder(path: Path) -> Iterator[Path]:
    yield path


def verdict(checks: PackageChecks, path: Path, within_s: float = 30) -> Verdict:
    deadline = time.monotonic() + within_s
    while (found := checks.ask(DIGEST, lambda: folder(path))) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def program(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "program.py").write_text(text)
    return [sys.executable, str(tmp_path / "program.py")]


def test_a_verdict_is_kept(tmp_path: Path) -> None:
    report = json.dumps({"fit": True, "digest": DIGEST, "problems": []})
    counting = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\nprint({report!r})"
    checks = PackageChecks(30, program(tmp_path, counting))
    assert verdict(checks, tmp_path) == verdict(checks, tmp_path) == Verdict(fit=True)
    assert (tmp_path / "runs").read_text() == "x"


def test_a_check_that_hangs_is_ended_and_may_be_asked_again(tmp_path: Path) -> None:
    text = (
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(600)"
    )
    checks = PackageChecks(0.5, program(tmp_path, text))
    found = verdict(checks, tmp_path)
    assert not found.fit
    assert "not through within" in found.text
    verdict(checks, tmp_path)
    pids = (tmp_path / "pid").read_text().split()
    assert len(pids) == 2, "what may have been the machine's fault is tried again"
    assert not any(psutil.pid_exists(int(pid)) for pid in pids)


def test_it_is_told_nothing_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_DATABASE", "postgresql://fleet:secret@host/fleet")
    text = f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(repr(dict(os.environ)))"
    verdict(PackageChecks(30, program(tmp_path, text)), tmp_path)
    assert "secret" not in (tmp_path / "seen").read_text()
    assert os.environ["FLEET_DATABASE"]


def test_a_folder_that_cannot_be_made_is_a_verdict_too(tmp_path: Path) -> None:
    @contextlib.contextmanager
    def broken() -> Iterator[Path]:
        if tmp_path.exists():
            raise OSError("no space left")
        yield tmp_path

    checks = PackageChecks(30)
    deadline = time.monotonic() + 10
    while (found := checks.ask(DIGEST, broken)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not found.fit
    assert "no space left" in found.text


def test_a_file_of_the_package_is_never_imported(tmp_path: Path) -> None:
    """`python -m` looks for modules in its working directory first, and so does every process that it starts."""
    folder_of_package, trace = tmp_path / "package", tmp_path / "ran"
    folder_of_package.mkdir()
    planted = f"open({str(trace)!r}, 'a').write(__name__ + ' ')\nraise SystemExit(9)"
    for name in (
        "json",
        "os",
        "resource",
        "fleet_server",
        "edge_runtime",
        "onnxruntime",
        "numpy",
        "sitecustomize",
    ):
        (folder_of_package / f"{name}.py").write_text(planted)
    found = verdict(PackageChecks(120), folder_of_package)
    assert not trace.exists(), trace.read_text()
    assert not found.fit
    assert "manifest" in found.text


def test_its_working_directory_is_empty_and_does_not_stay(tmp_path: Path) -> None:
    text = f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write(os.getcwd() + ' ' + repr(os.listdir()))"
    verdict(PackageChecks(30, program(tmp_path, text)), tmp_path)
    place, listed = (tmp_path / "seen").read_text().split(" ", 1)
    assert listed == "[]"
    assert not Path(place).exists()
