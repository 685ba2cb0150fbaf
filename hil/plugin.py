"""The pytest plugin: `--rig`, the parts of a rig as fixtures, `measure`, and what fails a run besides assertions.

A test that asks for `rig`, or for a part of one, is a test of the plan. It has to measure something. It is told as
absent where the rig's file declares that the part is absent; any other skip is a failure. Afterwards the device
works again, with no fault bit more than before, or the tear-down fails and the rig leaves rotation.
"""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from edge_runtime.clock import SystemClock
from edge_runtime.errors import ConfigError, EdgeRuntimeError
from hil.faults import new_faults
from hil.measurement import Limits
from hil.opening import opened
from hil.parts import PartName
from hil.problems import BadRig, RigError
from hil.report.signing import ENDING, KEY_FILE, own_signer, public_hex, write_report
from hil.rig import Rig
from hil.rig_file import PARTS, RigFile, read_rig, rig_path
from hil.rotation import STATE, refusal, sickness
from hil.session import Session

OUT = Path("out/hil")

SESSION = pytest.StashKey[Session]()
REPORT = pytest.StashKey[list[str]]()


class DeclaredAbsence(pytest.skip.Exception):  # type: ignore[name-defined,misc] # pytest makes it
    """The rig's file says that it has not this part."""


class Measure:
    """Writes a value into the report, and fails the test where it lies outside its limits."""

    def __init__(self, session: Session, test: str) -> None:
        self._session, self._test = session, test

    def __call__(
        self,
        name: str,
        value: float | None,
        unit: str,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> None:
        """Keep it.

        Args:
            name: of the measurement, once a run.
            value: None where it never happened, which meets no limit.
            unit: of value and limits.
            at_most: a limit, included; the rig's file may have another.
            at_least: likewise.
        """
        __tracebackhide__ = True
        limits = Limits(at_least=at_least, at_most=at_most, unit=unit)
        found = self._session.measure(self._test, name, value, limits)
        if not found.met:
            pytest.fail(found.sentence, pytrace=False)


# ---- the run


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run."""
    group = parser.getgroup("hil", "hardware in the loop")
    group.addoption("--rig", default="sim", metavar="NAME|FILE", help="sim, local, or the file of a rig")
    group.addoption("--hil-out", type=Path, default=OUT, metavar="DIR", help="where reports go")
    group.addoption("--hil-state", type=Path, default=STATE, metavar="DIR", help="which rigs are sick; keys")
    group.addoption("--hil-key", type=Path, metavar="FILE", help="Ed25519 key that signs the report")


def pytest_configure(config: pytest.Config) -> None:
    """Read the rig's file, and refuse a rig that is out of rotation.

    Raises:
        pytest.UsageError: the file cannot be used, or the rig is sick.
    """
    config.addinivalue_line(
        "markers",
        "brings(kind, …): fault bits that the test brings about on purpose: throttled, over_current",
    )
    try:
        file = read_rig(rig_path(config.getoption("--rig")))
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None
    state: Path = config.getoption("--hil-state")
    sick = sickness(state, file.name)
    if sick is not None and not config.option.collectonly:
        raise pytest.UsageError(refusal(file.name, sick))
    config.stash[SESSION] = Session(file, state, SystemClock())
    config.stash[REPORT] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Sign the report and write it."""
    config = session.config
    run = config.stash.get(SESSION, None)
    if run is None or not run.outcomes:
        return
    lines = config.stash[REPORT]
    key: Path = config.getoption("--hil-key") or config.getoption("--hil-state") / KEY_FILE
    name = (run.started or "unknown").replace(":", "").replace(".", "_")
    path: Path = config.getoption("--hil-out") / run.file.name / f"{name}{ENDING}"
    chosen = " ".join(f"-{word} {text}" for word, text in _chosen(config) if text)
    try:
        signer = own_signer(key)
        write_report(path, run.report(chosen), signer)
    except EdgeRuntimeError as error:
        lines.append(f"error: {error}")
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        return
    lines.append(f"report: {path}")
    lines.append(f"signed by {public_hex(signer)}")


def _chosen(config: pytest.Config) -> list[tuple[str, str]]:
    return [("k", config.option.keyword), ("m", config.option.markexpr)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Everything that was measured, and what the rig has not."""
    run = config.stash.get(SESSION, None)
    if run is None or not run.outcomes:
        return
    terminalreporter.section(f"rig {run.file.name}", "-")
    width = max((len(one.name) for one in run.measurements), default=0)
    for one in run.measurements:
        mark = "" if one.met else "  OUT OF ITS LIMIT"
        terminalreporter.write_line(f"{one.name:<{width}}  {one.value_text:<14} {one.text}{mark}")
    for outcome in run.outcomes.values():
        if outcome.outcome == "absent":
            terminalreporter.write_line(f"absent: {outcome.test}: {outcome.reason}")
    for text in run.unread:
        terminalreporter.write_line(f"not read: {text}")
    if run.sick:
        terminalreporter.write_line(f"out of rotation: {run.sick}")
    for line in config.stash[REPORT]:
        terminalreporter.write_line(line)


# ---- a test


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Time limits of pytest mean nothing where a rig waits for a board: the rig's own times bound every wait."""
    run = config.stash.get(SESSION, None)
    if run is None or run.file.kind == "sim" or not config.pluginmanager.hasplugin("timeout"):
        return
    for item in items:
        if _is_of_plan(item):
            item.add_marker(pytest.mark.timeout(0))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Judge each phase of a test of the plan, and take it down."""
    report = yield
    run = item.config.stash.get(SESSION, None)
    if run is None or not _is_of_plan(item):
        return report
    test = _short(item)
    error = call.excinfo.value if call.excinfo is not None else None
    if isinstance(error, RigError):
        run.leaves(test, str(error))
    outcome, reason = "passed", ""
    if report.skipped:
        outcome, reason = "absent", str(error)
        if not isinstance(error, DeclaredAbsence):
            outcome = report.outcome = "failed"
            reason = f"was skipped, and rig {run.file.name} does not declare it absent: {error}"
            report.longrepr = f"{item.nodeid} {reason}"
    elif report.failed:
        outcome, reason = "failed", str(error)
    elif report.when == "call" and not run.measured_by(test):
        outcome = report.outcome = "failed"
        reason = "passed without a measurement: a test of the plan measures something"
        report.longrepr = f"{item.nodeid} {reason}"
    run.ended(test, outcome, reason, report.duration)
    if run.sick:
        item.session.shouldstop = f"rig {run.file.name} is sick: {run.sick}"
    return report


def _is_of_plan(item: pytest.Item) -> bool:
    return "rig" in getattr(item, "fixturenames", ())


def _short(item: pytest.Item) -> str:
    return item.nodeid.rpartition("/")[2]


@pytest.fixture(scope="session")
def rig(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """The rig, open and on."""
    run = pytestconfig.stash[SESSION]
    run.started = run.clock.wall().isoformat()
    with opened(run.file, tmp_path_factory.mktemp(f"rig-{run.file.name}")) as found:
        run.rig = found
        _must_work(found, found.file.times.boot, "when the run began")
        run.device = {name: text[:200] for name, text in found.device.facts().items()}
        yield found


@pytest.fixture
def rig_file(pytestconfig: pytest.Config) -> RigFile:
    """The rig's file."""
    return pytestconfig.stash[SESSION].file


@pytest.fixture(autouse=True)
def _unharmed(request: pytest.FixtureRequest) -> Iterator[None]:
    """The device works before a test of the plan and after it, and nothing is wrong with it that was not before."""
    if "rig" not in request.fixturenames:
        yield
        return
    run = request.config.stash[SESSION]
    found: Rig = request.getfixturevalue("rig")
    _must_work(found, found.file.times.settle, "before the test")
    before = run.saw(found.device.faults())
    yield
    brought = {kind for mark in request.node.iter_markers("brings") for kind in mark.args}
    works = found.ready(found.file.times.settle) is not None
    after = run.saw(found.device.faults())
    left = [one.text for one in new_faults(before, after) if one.kind not in brought]
    if not works and after.latch is None:
        left.append(f"the device does not work again: it is {found.device.state() or 'silent'}")
    if left:
        run.leaves(_short(request.node), "; ".join(left))
        pytest.fail("; ".join(left), pytrace=False)


def _must_work(found: Rig, within_s: float, when: str) -> None:
    if found.ready(within_s) is None:
        state = found.device.state() or "silent"
        raise RigError(f"the device does not work {when}: after {within_s:g} s it is {state}")


@pytest.fixture
def measure(request: pytest.FixtureRequest, rig: Rig) -> Measure:
    """`measure(name, value, unit, at_most=…)`."""
    run = request.config.stash[SESSION]
    assert run.rig is rig
    return Measure(run, _short(request.node))


def part_of(rig: Rig, name: PartName) -> object:
    """A part of a rig.

    Raises:
        DeclaredAbsence: its file says why it has none.
        BadRig: it has none, and does not say why.
    """
    if name in rig.parts:
        return rig.parts[name]
    if name in rig.file.absent:
        raise DeclaredAbsence(f"{name}: {rig.file.absent[name]}", _use_item_location=True)
    raise BadRig(f"rig {rig.file.name} has no {name}, and its file does not say under absent why")


def _fixture_of(name: PartName) -> object:
    def part(rig: Rig) -> Iterator[object]:
        found = part_of(rig, name)
        yield found
        mend = _MENDS.get(name)
        if mend is not None:
            mend(found)

    part.__doc__ = f"The rig's {name}; mended after the test."
    return pytest.fixture(name=name)(part)


def _mend(word: str, **values: bool) -> Callable[[object], None]:
    return lambda part: getattr(part, word)(**values)


_MENDS = {
    "power": _mend("on"),
    "recovery_button": _mend("release"),
    "network": _mend("heal"),
    "marker": _mend("show", lit=False),
    "shutter": _mend("cover", shut=False),
}
"""What puts a part right after a test, whatever became of that."""

for _name in PARTS:
    globals()[f"_part_{_name}"] = _fixture_of(_name)
