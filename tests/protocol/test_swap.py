"""Lines to perception: exact, bounded, and what they add up to."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from edge_runtime.protocol.release import TrackerRule
from edge_runtime.protocol.swap import (
    Activate,
    Discard,
    Load,
    Look,
    Revert,
    Settle,
    Shadow,
    ShadowFigures,
    SwapAnswer,
    SwapRecord,
    line_of,
    read_ask,
)

RELEASE = "a" * 64


@pytest.mark.parametrize(
    "ask",
    [
        Look(),
        Look(slot="m"),
        Load(slot="m", release=RELEASE, package_dir="/var/lib/x/files"),
        Shadow(slot="m", on=True),
        Activate(slot="m", release=RELEASE, trackers=TrackerRule.CONTINUE),
        Revert(slot="m"),
        Settle(slot="m"),
        Discard(slot="m"),
    ],
)
def test_what_is_asked_comes_out_of_its_line(ask: SwapRecord) -> None:
    line = line_of(ask)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert read_ask(line) == ask


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\x00\xff\xfe",
        b"[]",
        b"{}",
        b'{"do": "format"}',
        b'{"do": "look", "slot": "../../etc"}',
        b'{"do": "look", "slot": "m", "more": 1}',
        b'{"do": "load", "slot": "m", "release": "abc", "package_dir": "/x"}',
        json.dumps({"do": "load", "slot": "m", "release": RELEASE, "package_dir": "x/y"}).encode(),
        json.dumps({"do": "load", "slot": "m", "release": RELEASE, "package_dir": "/x\0y"}).encode(),
        json.dumps({"do": "activate", "slot": "m", "release": RELEASE, "trackers": "both"}).encode(),
        b'{"do": "shadow", "slot": "m", "on": "perhaps"}',
        b'{"do": "look", "slot": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_what_asks_for_nothing_there_is_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is pydantic's
        read_ask(line)


@pytest.mark.parametrize(
    ("figures", "agreement"),
    [
        ({}, None),
        ({"running_objects": 10, "found": 8, "candidate_objects": 8, "confirmed": 8}, 0.8),
        ({"running_objects": 10, "found": 10, "candidate_objects": 40, "confirmed": 10}, 0.25),
        ({"running_objects": 10, "found": 0, "candidate_objects": 0, "confirmed": 0}, 0.0),
        ({"running_objects": 0, "found": 0, "candidate_objects": 7, "confirmed": 0}, 0.0),
    ],
)
def test_the_lower_share_is_the_agreement(figures: dict[str, Any], agreement: float | None) -> None:
    assert ShadowFigures(**figures).agreement == agreement


@pytest.mark.parametrize(
    ("running", "candidate", "ratio"),
    [(None, 3.0, None), (2.0, None, None), (0.0, 3.0, None), (2.0, 3.0, 1.5)],
)
def test_times_are_compared_where_both_are_known(
    running: float | None, candidate: float | None, ratio: float | None
) -> None:
    assert ShadowFigures(running_ms=running, candidate_ms=candidate).latency_ratio == ratio


def test_no_figure_is_a_number_that_nobody_measured() -> None:
    with pytest.raises(ValidationError):
        SwapAnswer(ok=True, pid=1, up_s=float("nan"))
