"""The live view and the summary: what they say, that they stay one screen, that they keep quiet off a terminal."""

import io
import threading
from collections import Counter
from typing import Any

import pytest
from rich.console import Console, RenderableType

from edge_runtime.cli.live import HERTZ, LiveView, Rates, live_screen, live_view
from edge_runtime.cli.summary import bar, by_cause, print_summary, summary_screen
from edge_runtime.gate.tally import Tally
from edge_runtime.node.delivery import DeliverySnapshot
from edge_runtime.node.snapshot import CameraSnapshot, ModelSnapshot, RunSnapshot
from edge_runtime.node.way_out import WayOut, WayState
from edge_runtime.outbox import OutboxStatus
from edge_runtime.perception.pipeline import StageSummary
from edge_runtime.protocol import EventRecord, EventTime


def camera(**fields: Any) -> CameraSnapshot:
    defaults: dict[str, Any] = {
        "state": "running",
        "decoded": 110,
        "evaluated": 100,
        "not_evaluated": {},
        "drops": {},
        "reconnects": 0,
        "tracks": 2,
        "age_ms": 34.4,
        "events": {},
        "late": 0,
        "suppressed": {},
        "refused_too_large": 0,
        "evidence_failed": 0,
        "damaged": 0,
        "last_text": "",
        "nonfinite": 0,
        "error": None,
    }
    return CameraSnapshot(**{**defaults, **fields})


def snapshot(seconds: float = 10.0, **fields: Any) -> RunSnapshot:
    defaults: dict[str, Any] = {
        "cameras": {"dock": camera()},
        "models": {},
        "stages": {
            "age": StageSummary(100, 90_000.0, 900.0, 950.0, 990.0),
            "decode": StageSummary(100, 100.0, 1.0, 2.0, 3.0),
            "infer": StageSummary(100, 300.0, 3.0, 4.0, 5.0),
        },
        "recent": (),
        "interrupted": False,
    }
    return RunSnapshot(seconds=seconds, **{**defaults, **fields})


def event(rule: str = "bay") -> EventRecord:
    at = EventTime(monotonic_ns=0, media_s=1.0, wall="1970-01-01T00:00:00.000Z", synced=False, boot_id="b")
    return EventRecord(
        id="e1",
        revision=1,
        state="started",
        kind="occupancy",
        rule=rule,
        camera="dock",
        epoch=0,
        sequence=0,
        severity="warning",
        data_class="internal",
        started=at,
        at=at,
        deadline_ms=1000.0,
        latency_ms=1.0,
        late=False,
        ttl_s=60.0,
        config="sha256:" + "0" * 64,
    )


def printed(renderable: RenderableType, width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_summary_says_frames_rates_drops_events_and_where_the_time_went() -> None:
    dock = camera(
        drops={"too_old": 7, "replaced": 12},
        not_evaluated={"dark": 3},
        reconnects=1,
        events={"bay": 4, "quiet": 0, "nobody": 1},
    )
    lines = printed(
        summary_screen(snapshot(cameras={"dock": dock}), {"events": "out/e.ndjson"}, ["running on the CPU"])
    )
    text = "\n".join(lines)
    assert lines[0] == "100 frames in 10.0 s, 10.0 frames/s"
    row = next(line for line in lines if line.startswith("dock"))
    assert row.split()[:4] == ["dock", "running", "110", "100"]
    assert "dark 3" in row
    assert "events  bay 4, nobody 1" in lines
    assert "quiet" not in text
    assert "out/e.ndjson" in text
    assert lines[-1] == "running on the CPU"
    infer = next(line for line in lines if line.startswith("infer"))
    assert infer.split()[-5:] == ["75%", "3.00", "4.00", "5.00", "100"], "age is nobody's work"
    assert "█" * 13 in infer
    assert next(line for line in lines if line.startswith("age")).split()[-4:] == [
        "900.00",
        "950.00",
        "990.00",
        "100",
    ]


def delivery(way_out: WayOut, outbox: OutboxStatus | None = None, **decided: int) -> DeliverySnapshot:
    gate = Tally(decided=Counter(decided)).status(0, 0)
    return DeliverySnapshot(way_out.state is not WayState.NOT_ENROLLED, way_out, gate, outbox, (), ())


@pytest.mark.parametrize(
    ("way_out", "said"),
    [
        (WayOut(WayState.CONNECTED), "server  connected"),
        (WayOut(WayState.CONNECTED, "not renewed"), "server  connected; not renewed"),
        (WayOut(WayState.CUT_OFF, "revoked"), "server  CUT OFF: revoked"),
        (WayOut(WayState.NOT_ENROLLED, "not enrolled"), "server  not enrolled"),
        (WayOut(WayState.CONNECTING, "not connected yet"), "server  not connected yet"),
    ],
)
def test_the_summary_says_whether_delivery_is_cut_off_and_what_the_gate_decided(
    way_out: WayOut, said: str
) -> None:
    lines = printed(summary_screen(snapshot(), delivery=delivery(way_out, send=4, keep=2)))
    assert "gate    4 sent, 2 kept, 0 held" in lines
    assert "outbox  does not answer" in lines
    assert said in lines


def test_an_interrupted_run_and_a_failed_camera_are_said() -> None:
    cameras = {"dock": camera(), "gate": camera(state="failed", error="gate: connection refused")}
    lines = printed(summary_screen(snapshot(cameras=cameras, interrupted=True)))
    assert lines[0].endswith("interrupted")
    assert "gate: gate: connection refused" in lines
    assert "events  none" in lines


def test_rules_of_several_cameras_are_told_apart() -> None:
    cameras = {"dock": camera(events={"bay": 2}), "gate": camera(events={"bay": 5})}
    assert "events  gate/bay 5, dock/bay 2" in printed(summary_screen(snapshot(cameras=cameras)))


@pytest.mark.parametrize("width", [80, 200])
def test_many_cameras_and_rules_still_fit_one_screen(width: int) -> None:
    cameras = {
        f"camera{number}": camera(error="lost", events={f"rule{rule}": 1 for rule in range(30)})
        for number in range(40)
    }
    lines = printed(summary_screen(snapshot(cameras=cameras)), width)
    assert len(lines) <= 45
    assert any(line.startswith("33 more") and " 3630 " in line for line in lines)
    assert any("1192 of 1192 more rules" in line for line in [" ".join(" ".join(lines).split())])


def test_a_run_without_any_frame_is_no_error() -> None:
    lines = printed(summary_screen(snapshot(seconds=0.0, cameras={"dock": camera(evaluated=0)}, stages={})))
    assert lines[0] == "0 frames in 0.0 s, 0.0 frames/s"


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "    "), (0.5, "██  "), (1.0, "████"), (0.28, "█▏  "), (7.0, "████")]
)
def test_bars_are_exact_to_an_eighth_of_a_character(share: float, text: str) -> None:
    assert bar(share, 4) == text


def test_causes_are_listed_by_size() -> None:
    assert by_cause({"too_old": 2, "replaced": 9, "none": 0}) == "replaced 9, too old 2"
    assert by_cause({}) == "-"


def test_the_summary_goes_where_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(snapshot())
    out, err = capsys.readouterr()
    assert "100 frames" in out
    assert not err
    print_summary(snapshot(), to_stderr=True)
    out, err = capsys.readouterr()
    assert "100 frames" in err
    assert not out


def test_in_a_pipe_sentences_are_one_line_and_names_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    name, why = "loading-bay-" * 10, "no route to the broker; " * 10
    print_summary(
        snapshot(cameras={name: camera()}), delivery=delivery(WayOut(WayState.CUT_OFF, why)), notes=[why]
    )
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(f"{name}  running") for line in lines)
    assert f"server  CUT OFF: {why.rstrip()}" in [line.rstrip() for line in lines]
    assert why.rstrip() in [line.rstrip() for line in lines]


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = Rates()
    for seconds, frames in [(0.0, 0), (1.0, 10), (2.0, 20), (3.0, 80), (4.0, 140)]:
        rates.add(snapshot(seconds, cameras={"dock": camera(evaluated=frames)}))
    assert rates.per_second() == {"dock": pytest.approx(60.0)}
    first = Rates()
    first.add(snapshot(5.0))
    assert first.per_second() == {"dock": 0.0}


def test_the_live_screen_shows_cameras_and_the_latest_event_first() -> None:
    cameras = {
        "dock": camera(drops={"too_old": 1}),
        "gate": camera(state="failed", not_evaluated={"dark": 5}),
    }
    recent = (event("first"), event("second"))
    lines = printed(live_screen(snapshot(cameras=cameras, recent=recent), {"dock": 29.97}, "yard"), 120)
    assert lines[0] == "yard  10 s  failed: gate"
    dock = next(line for line in lines if line.startswith("dock  ") and "running" in line)
    assert dock.split()[:6] == ["dock", "running", "100", "30.0", "34", "2"]
    assert "too old 1" in dock
    assert any("dark 5" in line for line in lines)
    assert lines[-2:] == ["dock  1.0 s second started", "dock  1.0 s first started"]


def test_the_live_screen_says_while_it_lasts_that_a_model_is_degraded() -> None:
    slow = ModelSnapshot("yolox", "sha256:00", "onnxruntime 1.32", "cpu", "TensorRT is away", "latency", 1, 2)
    lines = printed(live_screen(snapshot(models={"detector": slow}), {}), 120)
    assert lines[1] == "detector is degraded: TensorRT is away"


def test_recordings_have_a_progress_bar_and_live_cameras_none() -> None:
    cameras = {"clip": camera(expected=400), "gate": camera(expected=None), "loop": camera(expected=50)}
    lines = printed(live_screen(snapshot(cameras=cameras), {}), 120)
    clip, gate, loop = (next(line for line in lines if line.startswith(name)) for name in cameras)
    assert clip.endswith("███          25%")
    assert gate.endswith("-")
    assert loop.endswith("100%")
    assert "done" not in "".join(printed(live_screen(snapshot(), {}), 120))


def test_a_hundred_cameras_do_not_flood_the_terminal() -> None:
    cameras = {f"camera{number}": camera() for number in range(100)}
    lines = printed(live_screen(snapshot(cameras=cameras), {}), 120)
    assert len(lines) < 24
    assert any("and 84 more" in line for line in lines)


def test_on_a_terminal_the_view_shows_the_run_and_goes_away() -> None:
    shown = threading.Event()

    def look() -> RunSnapshot:
        shown.set()
        return snapshot()

    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with LiveView(console, look, "yard"):
        assert shown.wait(10)
    assert isinstance(console.file, io.StringIO)
    assert "dock" in console.file.getvalue()
    assert HERTZ <= 8


def test_off_a_terminal_nothing_is_asked_and_nothing_printed() -> None:
    def look() -> RunSnapshot:
        raise AssertionError("must not be called")

    console = Console(file=io.StringIO(), force_terminal=False)
    with LiveView(console, look):
        pass
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == ""


def test_a_quiet_view_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    class Run:
        def snapshot(self) -> RunSnapshot:
            raise AssertionError("must not be called")

    with live_view(Run(), quiet=True):  # type: ignore[arg-type]
        pass
    assert capsys.readouterr() == ("", "")
