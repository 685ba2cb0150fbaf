"""Tests that did not run are counted by marker, and in CI a skip is a failure."""

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).resolve().parent.parent / "conftest.py"

SUITE = """
import pytest

def test_runs():
    pass

@pytest.mark.gpu
def test_gpu():
    raise AssertionError("must not run")

@pytest.mark.trial
@pytest.mark.parametrize("n", range(3))
def test_long(n):
    raise AssertionError("must not run")

@pytest.mark.xfail(reason="known", strict=True)
def test_known():
    raise AssertionError
"""

SKIPS = """
import pytest

@pytest.fixture
def part():
    pytest.skip("no such fixture part")

def test_skips_itself():
    pytest.skip("no such part")

def test_skipped_by_its_fixture(part):
    pass
"""

SKIP_MODULE = """
import pytest

pytest.skip("no such part", allow_module_level=True)
"""


def run_suite(directory: Path, suite: str, ci: str | None) -> tuple[int, str]:
    (directory / "conftest.py").write_text(CONFTEST.read_text())
    (directory / "test_suite.py").write_text(suite)
    markers = "\n    ".join(["gpu: g", "trial: t"])
    (directory / "pytest.ini").write_text(f"[pytest]\nmarkers =\n    {markers}\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if ci is not None:
        environment["CI"] = ci
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not gpu and not trial", "."],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


def test_deselected_tests_are_counted_by_marker(tmp_path: Path) -> None:
    code, text = run_suite(tmp_path, SUITE, ci="true")
    assert code == 0, text
    assert "1 passed, 4 deselected, 1 xfailed" in text
    assert "not run here: 1 marked gpu (pytest -m gpu)" in text
    assert "not run here: 3 marked trial (make trials)" in text


def test_a_skip_fails_in_ci_and_says_why(tmp_path: Path) -> None:
    code, text = run_suite(tmp_path, SKIPS, ci="true")
    assert code != 0
    assert "2 failed" in text or "1 failed, 1 error" in text
    assert "test_skips_itself skipped in CI: Skipped: no such part" in text
    assert "test_skipped_by_its_fixture skipped in CI: Skipped: no such fixture part" in text


def test_a_module_that_skips_itself_fails_in_ci(tmp_path: Path) -> None:
    code, text = run_suite(tmp_path, SKIP_MODULE, ci="1")
    assert code != 0
    assert "test_suite.py skipped in CI: Skipped: no such part" in text


def test_a_skip_is_allowed_on_a_laptop(tmp_path: Path) -> None:
    code, text = run_suite(tmp_path, SKIPS, ci=None)
    assert code == 0, text
    assert "2 skipped" in text
