"""One screen that fits 80 columns and says what the cable does; lines where there is no terminal."""

import io

import pytest
from rich.console import Console

from deploy.demo.cut import Link
from deploy.demo.screen import Screen, picture
from deploy.demo.watch import Arrival, Queue, View, arrival, read_metrics
from edge_runtime.telemetry.metrics import Metrics

LATE = Arrival(2, 2.8, "head_position leave face", "notice", 9.44, crop="0f" * 32)
PROMPT = Arrival(3, 14.2, "no_driver ended after 9.6 s", "warning", 0.08)


def a_view(link: Link = Link.CONNECTED) -> View:
    return View(
        "cabin-demo",
        "localhost:41829",
        seconds=9.3,
        state="running",
        frames=201,
        total=490,
        queue=Queue(5, 2, 0, 1, 2),
        link=link,
        link_s=2.6,
        arrivals=[LATE, PROMPT],
        bytes_up=14_700,
    )


def drawn(view: View, width: int = 80, height: int = 40) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(picture(view, width, height))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("link", list(Link))
@pytest.mark.parametrize("width", [80, 120])
def test_the_road_is_one_line_for_every_state_of_the_cable(link: Link, width: int) -> None:
    lines = drawn(a_view(link), width)
    assert max(map(len, lines)) <= width
    assert link.value in lines[0]
    assert lines[0].startswith("cabin-demo ")
    assert lines[0].rstrip().endswith("localhost:41829")
    assert "201 of 490 frames" in lines[1]
    assert "queued  5█████" in lines[2]


def test_a_cut_says_for_how_long() -> None:
    assert "CUT for 3 s" in drawn(a_view(Link.CUT))[0]


def test_events_show_when_they_happened_and_how_long_they_took() -> None:
    lines = drawn(a_view())
    (late,) = (line for line in lines if "leave" in line)
    assert "2.8 s" in late
    assert "+ crop" in late
    assert "9.44 s" in late
    assert late.count("▇") > next(line for line in lines if "no_driver" in line).count("▇") == 1


def test_what_is_held_is_said_with_where_to_look_at_it() -> None:
    view = a_view()
    view.hint = "unlabelled, so held: edge-runtime gate list --state out/demo/road/device"
    assert "unlabelled" not in "\n".join(drawn(view))
    view.queue = Queue(0, 0, 4, 0, 0)
    lines = drawn(view)
    assert "held 4" in lines[2]
    assert lines[3].rstrip() == f"held    {view.hint}"


def test_only_the_newest_events_stay_on_a_low_terminal() -> None:
    view = a_view()
    view.arrivals = [Arrival(n, float(n), f"event {n}", "info", 0.1) for n in range(1, 40)]
    text = "\n".join(drawn(view, height=20))
    assert "event 39" in text
    assert "event 31" not in text
    assert len(drawn(view, height=20)) <= 20


def test_without_a_terminal_each_thing_that_happens_is_one_line() -> None:
    out = io.StringIO()
    view = a_view()
    view.arrivals = []
    with Screen(Console(file=out, width=80), view, lambda: None) as screen:
        screen.update()
        screen.update()
        view.link = Link.CUT
        screen.update()
        view.arrivals.append(LATE)
        screen.update()
        screen.update()
    assert out.getvalue().splitlines() == [
        "   9.3 s  camera running",
        "   9.3 s  cable connected, 5 queued",
        "   9.3 s  cable CUT, 5 queued",
        "   9.3 s  event 2.8 s head_position leave face: committed 9.44 s after it happened, with a redacted crop",
    ]


def test_frames_and_state_are_read_from_the_devices_own_metrics() -> None:
    metrics = Metrics()
    assert read_metrics(metrics.expose().decode()) == (0, "starting")
    metrics.frame("cabin", "evaluated")
    metrics.frame("cabin", "evaluated")
    metrics.frame("cabin", "dark")
    metrics.source("cabin", "running", reconnects=0, decoded=3, drops={})
    assert read_metrics(metrics.expose().decode()) == (2, "running")


def test_an_event_that_the_server_cannot_read_is_shown_by_its_columns() -> None:
    stored = {
        "id": 4,
        "received_ms": 1500,
        "at_ms": 1000,
        "severity": "info",
        "rule": "driver_present",
        "state": "started",
        "evidence_sha256": None,
        "event": None,
    }
    assert arrival(stored) == Arrival(4, None, "driver_present started", "info", 0.5)
