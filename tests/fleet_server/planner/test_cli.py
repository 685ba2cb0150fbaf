"""`fleet plan` as a person uses it."""

import json
from pathlib import Path

import pytest

from fleet_server.cli.main import run


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["plan", *arguments]) == code
    return capsys.readouterr().out


def test_the_cap_of_unified_memory_is_never_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    machine = ["--total", "192GB", "--vram", "160GB", "--unified"]
    out = told(capsys, "memory", "--parameters", "300B", "--bits", "4", *machine, "--json")
    found = json.loads(out)
    assert (found["terms"][0]["bytes"], found["cap_bytes"], found["fits"]) == (150e9, 160e9, True)
    assert found["needed_bytes"] > 150e9
    assert "352" not in out
    out = told(capsys, "memory", "--parameters", "330B", "--bits", "4", *machine, code=1)
    assert "165.000 GB" in out
    assert "175.312 GB" in out
    assert "it does not fit" in out


def test_terms_assumptions_and_what_was_announced(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--parameters", "7B", "--bits", "4", "--group", "128/32", "--cache", "32/8/128/16/131072"]
    assert run(["plan", "memory", *given, "--total", "24GB", "--announced", "--system", "1GB"]) == 0
    printed = capsys.readouterr()
    assert "17.180 GB" in printed.out
    assert "quantisation metadata" in printed.out
    assert "announced, not measured" in printed.err
    assert "tokens a second need a measurement" in printed.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cache", "32/32/128/16/131072"], "68.719 GB"),
        (["cache", "32/8/128/16/131072/1/4096"], "0.537 GB"),
        (["quantisation", "--size", "7B"], "AWQ INT4"),
        (["throttle", "--peak", "30token/s", "--words", "200"], "13.3 s at a token a word, 17.7 s at 1.33"),
        (["throttle", "--peak", "40token/s", "--sustained", "22.6token/s"], "43.5 % lost"),
        (
            [
                "speculative", "--acceptance", "0.7", "--proposed", "4",
                "--draft-tokenizer", "a", "--target-tokenizer", "a",
            ],
            "2.77 tokens for each check",
        ),
        (
            ["breakeven", "--fixed", "1000usd", "--hosted", "0.02usd/request", "--own", "0.005usd/request"],
            "from 66,667 requests on",
        ),
        (
            [
                "breakeven", "--fixed", "0usd", "--hosted", "1.65usd/krequest", "--own", "0.0017usd/krequest",
                "--requests", "1Mrequest/day", "--local", "0.85",
            ],
            "a day costs 1,650.00 usd hosted, 1.70 usd of your own",
        ),
        (
            ["utilisation", "--edge", "0.35usd/Mtoken", "--full-load", "0.19usd/Mtoken", "--rent", "2usd/h"],
            "below 54.3 % of its time your own costs less",
        ),
        (["latency", "a=40ms", "b=350ms", "c=375ms", "d=100ms", "e=50ms"], "915 ms\nover 500 ms"),
        (["latency", "network=20ms..300ms", "--limit", "100ms"], "over 100 ms at its worst"),
    ],
)  # fmt: skip
def test_what_is_said(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert says in told(capsys, *arguments)
    assert json.loads(told(capsys, *arguments, "--json"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["breakeven", "--fixed", "1000usd", "--hosted", "0.02", "--own", "0usd/request"], "lacks its unit"),
        (
            [
                "breakeven", "--fixed", "1usd", "--hosted", "1usd/request", "--own", "0usd/request",
                "--misses", "quality",
            ],
            "does not meet what is asked of its quality",
        ),
        (
            ["breakeven", "--fixed", "1usd", "--hosted", "1usd/request", "--own", "0usd/request", "--misses", "x"],
            "one of",
        ),
        (["memory", "--parameters", "7", "--bits", "4", "--total", "192"], "lacks its unit"),
        (["cache", "32/8"], "a cache is written"),
        (["latency", "speech"], "is no stage"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(["plan", *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


ANSWERS = """
may_leave = "all"
personal = false
offline = false
latency = "1s"
work = "frontier"
tokens = "5Mtoken/day"
steady = true
staff = true
hosted = "9999usd/month"
"""


def test_placement_names_its_rule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "answers.toml"
    path.write_text(ANSWERS, encoding="utf-8")
    out = told(capsys, "placement", str(path))
    assert "not worth it" in out
    assert "rule: operations double" in out
    for question in ("latency", "data", "volume", "ability"):
        assert question in out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("may_leave", "maybe"), "one of nothing, part, all"),
        (("latency = ", "delay = "), "'delay' is no answer"),
        (("staff = true\n", ""), "staff is missing"),
        (("staff = true", 'staff = "yes"'), "staff is true or false"),
        (('"1s"', '"1"'), "lacks its unit"),
    ],
)
def test_answers_that_cannot_be_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    path = tmp_path / "answers.toml"
    path.write_text(
        ANSWERS.replace('"all"', '"maybe"') if change[0] == "may_leave" else ANSWERS.replace(*change), "utf-8"
    )
    assert run(["plan", "placement", str(path)]) == 2
    assert says in capsys.readouterr().err
