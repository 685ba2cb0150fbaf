"""The plugin, on runs of its own: what fails a run besides assertions, and what takes a rig out of rotation."""

from pathlib import Path

import pytest

from hil.__main__ import main
from hil.report.records import RunReport
from hil.report.signing import own_signer, public_hex, public_key, read_report, report_files
from hil.rig_file import RIGS
from hil.simulated.rig import open_simulated

IMPORTED = open_simulated
"""A run in this process forgets what it imported, and NumPy cannot be imported twice: so it is there before."""

pytest_plugins = ["pytester"]

WAITS = "def test_one(rig, measure):\n    rig.clock.wait(1)\n    measure('wait', 1.0, 's', at_most=2)\n"


@pytest.fixture
def runner(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a short plan of its own, and the settings of none."""
    pytester.makeini("[pytest]\nmarkers = trial: long\n")
    return pytester


def run(runner: pytest.Pytester, plan: str, *arguments: str) -> pytest.RunResult:
    runner.makepyfile(test_plan=plan)
    own = ("-p", "hil.plugin", "-p", "no:cacheprovider", "--hil-out", "out", "--hil-state", "state")
    return runner.runpytest_inprocess(*own, *arguments)


def signed(runner: pytest.Pytester) -> RunReport:
    """The newest report, verified by the key that the run made."""
    key = public_key(public_hex(own_signer(runner.path / "state" / "key.pem")))
    return read_report(report_files(runner.path / "out")[-1], [key])


def outcomes(runner: pytest.Pytester) -> dict[str, tuple[str, str]]:
    return {one.test.partition("::")[2]: (one.outcome, one.reason) for one in signed(runner).tests}


def test_a_run_leaves_a_signed_report_with_everything_measured(runner: pytest.Pytester) -> None:
    result = run(runner, WAITS)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*rig sim*", "wait*1 s*at most 2 s*", "report: out/sim/*", "signed by *"])
    report = signed(runner)
    assert report.passed
    assert report.cell == ("simulated", "none", "none")
    assert [(one.name, one.value, one.unit, one.met) for one in report.measurements] == [
        ("wait", 1.0, "s", True)
    ]
    assert report.machine["cores"]
    assert report.device["board"] == "simulated"


TABLE = """
import pytest

def test_out_of_its_limit(rig, measure):
    measure('a', 3.0, 's', at_most=2)

def test_never_happened(rig, measure):
    measure('b', None, 's', at_least=0)

def test_measured_nothing(rig):
    assert rig

def test_measured_twice(rig, measure):
    measure('c', 1.0, 's', at_most=2)
    measure('c', 1.0, 's', at_most=2)

def test_console(rig, measure, console):
    measure('d', 1.0, 's', at_most=2)

def test_skips(rig, measure):
    pytest.skip('today is Sunday')

def test_lacks_a_module(rig, measure):
    pytest.importorskip('nothing_of_that_name')

@pytest.mark.skip(reason='later')
def test_marked(rig, measure):
    pass

def test_no_test_of_the_plan():
    pass
"""


def test_what_fails_a_run_besides_assertions(runner: pytest.Pytester) -> None:
    result = run(runner, TABLE)
    result.assert_outcomes(failed=6, passed=1, skipped=1, errors=1)
    result.stdout.fnmatch_lines(
        ["a *3 s*at most 2 s*OUT OF ITS LIMIT", "b *never*at least 0 s*OUT OF ITS LIMIT"]
    )
    found = outcomes(runner)
    expected = {
        "test_out_of_its_limit": ("failed", "a: 3 s (at most 2 s)"),
        "test_never_happened": ("failed", "b: never (at least 0 s)"),
        "test_measured_nothing": (
            "failed",
            "passed without a measurement: a test of the plan measures something",
        ),
        "test_measured_twice": ("failed", "c was measured before: a name stands for one value of a run"),
        "test_console": ("absent", "console: a simulated device has no serial console"),
    }
    assert {name: found[name] for name in expected} == expected
    for name in ("test_skips", "test_lacks_a_module", "test_marked"):
        assert found[name][0] == "failed"
        assert found[name][1].startswith("was skipped, and rig sim does not declare it absent: ")
    assert "test_no_test_of_the_plan" not in found
    assert not signed(runner).passed


def test_a_rigs_file_has_the_last_word_on_limits_and_has_to_say_what_is_absent(
    runner: pytest.Pytester,
) -> None:
    text = (RIGS / "sim.toml").read_text(encoding="utf-8").replace('name = "sim"', 'name = "mine"')
    text = "\n".join(line for line in text.splitlines() if not line.startswith("console"))
    limits = '[limits]\nwait = { at_most = 0.5, unit = "s" }\n'
    (runner.path / "mine.toml").write_text(f"{text}\n{limits}", encoding="utf-8")
    plan = WAITS + "def test_two(rig, measure, console):\n    measure('line', 1.0, 's', at_most=2)\n"
    assert run(runner, plan, "--rig", "mine.toml").ret == 1
    assert [one.text for one in signed(runner).measurements] == ["at most 0.5 s"]
    assert "has no console, and its file does not say" in outcomes(runner)["test_two"][1]


LATCHES = """
def test_one(rig, measure, processes):
    processes.kill('guard')
    noticed = rig.until(lambda: rig.device.state() == 'SAFE', 20)
    measure('noticed', noticed, 's', at_most=20)

def test_two(rig, measure):
    measure('wait', 1.0, 's', at_most=2)
"""


def test_a_latch_that_is_left_over_takes_the_rig_out_of_rotation(
    runner: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    result = run(runner, LATCHES)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*latch * is left over*", "out of rotation: latch *"])
    report = signed(runner)
    assert not report.healthy
    assert not report.passed
    assert [one.test for one in report.tests] == ["test_plan.py::test_one"], "nothing runs on a sick rig"
    again = run(runner, WAITS)
    assert again.ret == pytest.ExitCode.USAGE_ERROR
    again.stderr.fnmatch_lines(["ERROR: rig sim is out of rotation since *: latch *python -m hil heal sim"])
    assert main(["--state", str(runner.path / "state"), "rigs"]) == 0
    assert "out of rotation: latch" in capsys.readouterr().out
    assert main(["--state", str(runner.path / "state"), "heal", "sim"]) == 0
    assert "rig sim is in rotation again" in capsys.readouterr().out
    assert run(runner, WAITS).ret == 0


def test_a_latch_that_was_acknowledged_is_no_fault(runner: pytest.Pytester) -> None:
    cleared = "\n    from hil.plan.reactions import recovery\n    recovery(rig)\n\ndef test_two"
    run(runner, LATCHES.replace("\n\ndef test_two", cleared)).assert_outcomes(passed=2)


HOT = """
import pytest

@pytest.mark.brings('throttled')
def test_asked_for(rig, measure, power):
    rig.clock.throttled_s += 5
    measure('wait', 1.0, 's', at_most=2)

def test_not_asked_for(rig, measure, power):
    rig.clock.throttled_s += 5
    measure('again', 1.0, 's', at_most=2)
"""


def test_a_new_fault_bit_fails_the_tear_down_unless_the_test_brings_it_about(runner: pytest.Pytester) -> None:
    result = run(runner, HOT)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the hardware slowed itself down: 5 more*"])
    assert outcomes(runner)["test_asked_for"][0] == "passed"
    assert outcomes(runner)["test_not_asked_for"][0] == "failed"
    assert (runner.path / "state" / "sim" / "sick.json").exists()


def test_a_rig_that_does_not_obey_is_sick_and_a_device_that_does_not_answer_is_not(
    runner: pytest.Pytester,
) -> None:
    plan = "from hil.problems import {0}\ndef test_one(rig, measure):\n    raise {0}('the relay is stuck')\n"
    assert run(runner, plan.format("DeviceError")).ret == 1
    assert signed(runner).healthy
    assert run(runner, plan.format("RigError")).ret != 0
    assert run(runner, WAITS).ret == pytest.ExitCode.USAGE_ERROR


def test_parts_are_mended_whatever_became_of_the_test(runner: pytest.Pytester) -> None:
    plan = """
    def test_one(rig, measure, power, network, shutter, marker):
        network.cut()
        shutter.cover(shut=True)
        power.off()
        assert False

    def test_two(rig, measure, events):
        measure('state', float(rig.device.state() == 'NOMINAL'), 'yes', at_least=1)
    """
    run(runner, plan).assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--rig", "shelf"), "ERROR: shelf: there is no such file, and no rig of that name; rigs are local*"),
        (("--rig", "test_plan.py"), "ERROR: test_plan.py: *"),
    ],
)
def test_a_rig_that_cannot_be_used_is_told_in_a_sentence(
    runner: pytest.Pytester, arguments: tuple[str, ...], says: str
) -> None:
    result = run(runner, WAITS, *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])


def test_a_report_that_cannot_be_signed_fails_the_run(runner: pytest.Pytester) -> None:
    key = runner.path / "other.pem"
    key.write_text("no key", encoding="ascii")
    Path.chmod(key, 0o600)
    result = run(runner, WAITS, "--hil-key", str(key))
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["error: *other.pem is no private key in PEM"])
