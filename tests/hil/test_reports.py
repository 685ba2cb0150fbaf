"""Reports: signed, refused where they were changed, compared, and laid out as a matrix with trends."""

import json
from pathlib import Path

import pytest

from hil.__main__ import main
from hil.measurement import Limits, Measurement, judged
from hil.problems import BadReport
from hil.report.compare import compared, differences, matrix, trends
from hil.report.records import RunReport, TestOutcome
from hil.report.signing import own_signer, public_hex, public_key, read_report, write_report

AT_MOST = Limits(at_most=10.0, unit="s")


def report(started: str, *values: Measurement, board: str = "orin", outcome: str = "passed") -> RunReport:
    test = TestOutcome.model_validate(
        {"test": "test_boot.py::test_it_boots", "outcome": outcome, "seconds": 1.0}
    )
    return RunReport(
        rig="orin-1",
        kind="bench",
        board=board,
        jetpack="6.2",
        model="centerface",
        started=started,
        synced=True,
        revision="0.0.0",
        machine={},
        device={},
        healthy=True,
        tests=(test,),
        measurements=values,
    )


def value(name: str, number: float | None, limits: Limits = AT_MOST) -> Measurement:
    return judged(name, "test", number, limits)


@pytest.mark.parametrize(
    ("number", "limits", "met"),
    [
        (10.0, AT_MOST, True),
        (10.1, AT_MOST, False),
        (None, AT_MOST, False),
        (0.0, Limits(at_least=0.0, unit="s"), True),
        (None, Limits(at_least=0.0, unit="s"), False),
        (5.0, Limits(at_least=6.0, at_most=7.0, unit="s"), False),
    ],
)
def test_what_never_happened_meets_no_limit(number: float | None, limits: Limits, met: bool) -> None:
    assert judged("boot", "test", number, limits).met is met


def test_a_value_without_a_limit_is_none() -> None:
    with pytest.raises(ValueError, match="what has no limit cannot fail"):
        Limits(unit="s")


def test_what_was_signed_is_what_is_read(tmp_path: Path) -> None:
    signer, path = own_signer(tmp_path / "keys" / "key.pem"), tmp_path / "one.report.json"
    written = report("2026-11-30T10:00:00.000Z", value("boot", 3.25), value("frame", None))
    write_report(path, written, signer)
    assert own_signer(tmp_path / "keys" / "key.pem").public_key == signer.public_key
    assert read_report(path, [public_key(public_hex(signer))]) == written


def test_a_report_that_was_changed_or_is_a_strangers_is_refused(tmp_path: Path) -> None:
    signer, stranger = own_signer(tmp_path / "key.pem"), own_signer(tmp_path / "stranger.pem")
    path = tmp_path / "one.report.json"
    write_report(path, report("2026-11-30T10:00:00.000Z", value("boot", 30.0)), signer)
    with pytest.raises(BadReport, match="signed by somebody else"):
        read_report(path, [public_key(public_hex(stranger))])
    sealed = json.loads(path.read_bytes())
    other = tmp_path / "other.report.json"
    write_report(other, report("2026-11-30T10:00:00.000Z", value("boot", 3.0)), stranger)
    sealed["payload"] = json.loads(other.read_bytes())["payload"]
    path.write_text(json.dumps(sealed), encoding="utf-8")
    with pytest.raises(BadReport, match="it was changed"):
        read_report(path, [public_key(public_hex(signer))])


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"x" * 70_000])
def test_what_is_no_report_is_refused_in_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "one.report.json"
    path.write_bytes(content)
    with pytest.raises(BadReport, match=r"one\.report\.json: "):
        read_report(path)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (value("boot", 5.0), value("boot", 5.1), "same"),
        (value("boot", 5.0), value("boot", 8.0), "worse"),
        (value("boot", 8.0), value("boot", 5.0), "better"),
        (
            value("boot", 5.0, Limits(at_least=1, unit="s")),
            value("boot", 2.0, Limits(at_least=1, unit="s")),
            "worse",
        ),
        (value("boot", 5.0), value("boot", None), "worse"),
        (value("boot", None), value("boot", 5.0), "better"),
        (value("boot", None), value("boot", None), "same"),
        (value("boot", 5.0), value("boot", 5000.0, Limits(at_most=9000, unit="ms")), "other"),
        (value("boot", 5.0), value("other", 5.0), "gone"),
    ],
)
def test_better_and_worse_follow_the_limits(before: Measurement, after: Measurement, word: str) -> None:
    found = differences(report("1", before), report("2", after))
    assert {one.name: one.word for one in found}["boot"] == word


def test_the_matrix_has_a_line_for_each_board_system_and_model() -> None:
    runs = [
        report("3", value("boot", 12.0)),
        report("1", value("boot", 4.0)),
        report("2", value("boot", 5.0)),
        report("1", value("boot", 4.0), board="nano", outcome="failed"),
    ]
    lines = [line.split() for line in matrix(runs)]
    assert lines[1][:6] == ["nano", "6.2", "centerface", "1", "failed", "1"]
    assert lines[2] == ["orin", "6.2", "centerface", "3", "passed", "1", "boot", "boot"]
    assert "▁▂█" in "\n".join(trends(runs))


def test_the_newest_is_compared_with_the_one_before_it_on_the_same_device() -> None:
    one, two, three = (report(str(number), value("boot", 4.0)) for number in (1, 2, 3))
    other = report("2.5", value("boot", 4.0), board="nano")
    assert compared([three, one]) == (three, one), "two are compared as they are given"
    assert compared([three, one, other, two]) == (two, three)
    assert compared([one]) is None
    assert compared([one, two, report("9", board="nano")]) is None


def test_the_command_line_compares_verifies_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path / "state")]
    assert main([*state, "key"]) == 0
    own = capsys.readouterr().out.strip()
    signer = own_signer(tmp_path / "state" / "key.pem")
    assert own == public_hex(signer)
    for number, boot in (("1", 4.0), ("2", 11.0)):
        path = tmp_path / "runs" / f"{number}.report.json"
        write_report(path, report(f"2026-11-3{number}", value("boot", boot)), signer)
    runs = tmp_path / "runs"
    assert main([*state, "report", str(runs)]) == 0
    said = capsys.readouterr().out
    assert "worse, out of its limit" in said
    assert "at most 10 s" in said
    files = [str(path) for path in sorted(runs.iterdir())]
    assert main([*state, "verify", *files]) == 0
    assert capsys.readouterr().out.count("passed, 1 measurements") == 2
    assert main([*state, "verify", "--key", "00" * 32, files[0]]) == 1
    assert "signed by somebody else" in capsys.readouterr().err
    assert main([*state, "verify", "--key", "zz", files[0]]) == 1
    assert "64 hexadecimal digits" in capsys.readouterr().err
    assert main([*state, "report", str(tmp_path / "state")]) == 1
    assert "there is no report" in capsys.readouterr().err
