"""Whether delivery goes on, and the sentence where it does not."""

import os
from pathlib import Path

import pytest

from edge_runtime.clock import NS_PER_MS, SystemClock, WallLabel
from edge_runtime.node.line_board import LineBoard, LineRecord, read_line
from edge_runtime.node.way_out import NOT_ENROLLED, WayOut, WayState, judge, look
from edge_runtime.node.workers import WorkerStatus
from edge_runtime.state import StateDirectory

NOW_MS = 1_800_000_000_000
LATER = NOW_MS + 1
NEVER = "the server never answered this device"
SEEN = "2026-11-29T10:00:00.000Z"
RUNS = WorkerStatus("uplink", True, 7, 0, None)


def wall(*, synced: bool = True) -> WallLabel:
    return WallLabel(NOW_MS * NS_PER_MS, synced, "boot")


def line(**fields: object) -> LineRecord:
    return LineRecord.model_validate(
        {"pid": 7, "online": False, "why": "no route", "connected": SEEN, **fields}
    )


@pytest.mark.parametrize(
    ("ends_ms", "said", "uplink", "why"),
    [
        (None, None, None, NOT_ENROLLED),
        (
            LATER,
            None,
            WorkerStatus("uplink", False, None, 0, 1),
            f"the uplink does not run: it ended with 1, and its reason is in the log; {NEVER}",
        ),
        (LATER, line(), RUNS, f"no route; it last answered {SEEN}"),
        (LATER, line(connected=None), RUNS, "no route; the server never answered this device"),
        (LATER, line(renewal="it was revoked"), RUNS, f"no route; it was revoked; it last answered {SEEN}"),
        (NOW_MS - 1, line(), RUNS, f"the device's certificate has expired; it last answered {SEEN}"),
        (
            NOW_MS - 1,
            line(renewal="it was revoked"),
            RUNS,
            f"the device's certificate has expired (it was revoked); it last answered {SEEN}",
        ),
        (
            LATER,
            line(pid=6, online=True, why=None),
            WorkerStatus("uplink", False, None, 3, 2),
            f"the uplink does not run: it ended with 2, and its reason is in the log; it last answered {SEEN}",
        ),
    ],
)
def test_what_is_said(
    ends_ms: int | None, said: LineRecord | None, uplink: WorkerStatus | None, why: str
) -> None:
    found = judge(ends_ms, said, uplink, wall())
    assert found.why == why
    assert found.state is (WayState.NOT_ENROLLED if ends_ms is None else WayState.CUT_OFF)


def test_connected_is_what_the_present_uplink_says() -> None:
    online = line(online=True, why=None)
    assert judge(LATER, online, RUNS, wall()) == WayOut(WayState.CONNECTED, None, SEEN)
    soon = judge(LATER, line(online=True, why=None, renewal="not reachable"), RUNS, wall())
    assert soon == WayOut(WayState.CONNECTED, "not reachable", SEEN)


@pytest.mark.parametrize(
    ("said", "uplink"),
    [
        (None, None),
        (None, WorkerStatus("uplink", True, 7, 0, None)),
        (line(why="not connected yet"), RUNS),
        (line(pid=6, online=True, why=None), WorkerStatus("uplink", True, 7, 0, None)),
    ],
)
def test_before_the_first_attempt_has_an_outcome_nothing_is_cut_off(
    said: LineRecord | None, uplink: WorkerStatus | None
) -> None:
    found = judge(LATER, said, uplink, wall())
    assert (found.state, found.why) == (WayState.CONNECTING, "not connected yet")


def test_a_clock_that_nobody_set_expires_no_certificate() -> None:
    found = judge(NOW_MS - 1, line(), RUNS, wall(synced=False))
    assert found.why == f"no route; it last answered {SEEN}"


def test_a_damaged_identity_is_told_in_its_own_words(tmp_path: Path) -> None:
    state = StateDirectory(tmp_path).ensure()
    (state.identity / "identity.json").write_text("{", encoding="utf-8")
    found = look(state, RUNS, SystemClock())
    assert found.state is WayState.CUT_OFF
    assert str(state.identity) in (found.why or "")


def test_the_line_is_told_across_processes_and_the_last_answer_is_kept(tmp_path: Path) -> None:
    state, clock = StateDirectory(tmp_path).ensure(), SystemClock()
    (tmp_path / "uplink").mkdir()
    assert read_line(state) is None
    board = LineBoard(state, clock)
    board.note(False, "not connected yet", None)
    assert read_line(state) == LineRecord(pid=os.getpid(), online=False, why="not connected yet")
    board.note(True, None, None)
    answered = read_line(state)
    assert answered is not None
    assert answered.connected is not None
    LineBoard(state, clock).note(False, "not connected yet", "x" * 1000)
    again = read_line(state)
    assert again is not None
    assert (again.online, again.connected, again.renewal) == (False, answered.connected, "x" * 400)
    (tmp_path / "uplink" / "line.json").write_text("[]", encoding="utf-8")
    assert read_line(state) is None
