"""JUnit's XML: a test suite for each run, a test case for each expectation."""

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from sim.report.run import Run


def junit(runs: Sequence[Run]) -> str:
    """The document."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{"".join(map(_suite, runs))}</testsuites>\n'
    )


def _suite(run: Run) -> str:
    name = f"{run.rig}.{run.scenario.name}" + "".join(f"-without-{one}" for one in run.without)
    failed = sum(not finding.met for finding in run.findings)
    head = (
        f"  <testsuite name={quoteattr(name)} tests={_number(len(run.findings))} failures={_number(failed)} "
        f"errors={_number(bool(run.broke))} time={quoteattr(f'{run.wall_s:.3f}')}>\n"
    )
    cases = "".join(
        f"    <testcase classname={quoteattr(name)} name={quoteattr(finding.text.split(':')[0])}"
        + (
            "/>\n"
            if finding.met
            else f">\n      <failure message={quoteattr(finding.text)}/>\n    </testcase>\n"
        )
        for finding in run.findings
    )
    broke = f"    <system-err>{escape(run.broke)}</system-err>\n" if run.broke else ""
    return f"{head}{cases}{broke}  </testsuite>\n"


def _number(value: int) -> str:
    return quoteattr(str(int(value)))
