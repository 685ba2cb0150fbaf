"""Fixtures that several rooms' tests share, and how tests that did not run are accounted for.

What a machine cannot run or what takes long is deselected by a marker and counted at the end, never skipped.
A skip is allowed on a laptop that lacks a part; in CI (`CI` in the environment) it is a failure.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import structlog

# The same examples in every run, and no wall-clock deadline: a busy machine is not a defect.
hypothesis.settings.register_profile("project", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("project")

REPOSITORY = Path(__file__).resolve().parent.parent

DESELECTED_BY = {
    "gpu": "pytest -m gpu",
    "jetson": "pytest -m jetson",
    "camera": "pytest -m camera",
    "trial": "make trials",
    "soak": "make soak",
    "program": "a machine that has the program",
    "netns": "root on a machine with iproute2, veth and tbf",
}
"""Markers that the default selection leaves out, with the command that runs them."""

_deselected: Counter[str] = Counter()


def in_ci() -> bool:
    """Whether this run must not skip anything."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Counts each deselected test under the first marker that left it out."""
    for item in items:
        marker = next((name for name in DESELECTED_BY if item.get_closest_marker(name)), None)
        if marker:
            _deselected[marker] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A lane (`tests/lanes.py`) tells the process that prints how many tests it left out."""
    told = getattr(session.config, "workeroutput", None)
    if told is not None:
        told["deselected"] = dict(_deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Folders are shared out, not tests."""
    from tests.lanes import ByFolder

    return ByFolder(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each lane collects everything, so that each left out the same."""
    _deselected.update(getattr(node, "workeroutput", {}).get("deselected", {}) if not _deselected else {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many tests did not run here, and what runs them."""
    for marker, command in DESELECTED_BY.items():
        if _deselected[marker]:
            terminalreporter.write_line(f"not run here: {_deselected[marker]} marked {marker} ({command})")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns a skip into a failure in CI, with the reason that was given."""
    report = yield
    if in_ci() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skipped in CI: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself while it is collected."""
    report = yield
    if in_ci() and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skipped in CI: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)


def shared_directory() -> Path | None:
    """The folder of real models, clips and ground truth that lies beside the checkout, or None."""
    candidates = [os.environ.get("EDGE_SHARED"), REPOSITORY.parent / "shared"]
    for candidate in candidates:
        if candidate and (Path(candidate) / "data").is_dir():
            return Path(candidate)
    return None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """`../shared/data`: its absence skips on a laptop and fails in CI."""
    found = shared_directory()
    if found is None:
        pytest.skip("real test data is missing: put it at ../shared or point EDGE_SHARED at it")
    return found / "data"


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that runs in the tests' process sets up logs: for its test alone, not for whoever comes next."""
    root, before = logging.getLogger(), structlog.get_config() if structlog.is_configured() else None
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    if before is None:
        structlog.reset_defaults()  # what counts as set up would write to stdout
    else:
        structlog.configure(**before)


@pytest.fixture(scope="session")
def media(shared_data: Path) -> Path:
    """Real clips."""
    return shared_data / "media"


@pytest.fixture(scope="session")
def onnx_models(shared_data: Path) -> Path:
    """Real models, some with real defects."""
    return shared_data / "models"


@pytest.fixture(scope="session")
def truth(shared_data: Path) -> Path:
    """Ground truth."""
    return shared_data / "truth"


@pytest.fixture(scope="session")
def package_of(onnx_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Imports a real model by its file's stem, once a session, as `edge-runtime model import … --yes` does."""
    from edge_runtime.cli.main import run

    root = tmp_path_factory.mktemp("packages")

    def package(stem: str) -> Path:
        out = root / stem
        if not out.exists():
            code = run(["model", "import", str(onnx_models / f"{stem}.onnx"), "--out", str(out), "--yes"])
            assert code == 0
        return out

    return package


@pytest.fixture(scope="session")
def yolox_package(package_of: Callable[[str], Path]) -> Path:
    """The fast detector that most end-to-end tests use."""
    return package_of("yolox_nano_coco_416")
