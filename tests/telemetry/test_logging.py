import io
import json
import logging as standard_logging
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import structlog

from edge_runtime.clock import NS_PER_S, WallLabel
from edge_runtime.telemetry import RateLimit, configure_logging, get_logger, register_secret
from edge_runtime.telemetry.redaction import SECRETS


@dataclass
class FakeClock:
    now_ns: int = 0
    synced: bool = True

    def monotonic_ns(self) -> int:
        return self.now_ns

    def boottime_ns(self) -> int:
        return self.now_ns

    def wall(self) -> WallLabel:
        return WallLabel(1_700_000_000_000_000_000 + self.now_ns, self.synced, "boot")


@pytest.fixture
def clock() -> Iterator[FakeClock]:
    root = standard_logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield FakeClock()
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()
    SECRETS.clear()


def test_a_console_line_is_one_line_of_keys(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock)
    get_logger(room="sources").warning(
        "reconnecting", camera="dock", attempt=3, why="no answer", path=[1, "a"]
    )
    assert out.getvalue() == (
        "2023-11-14T22:13:20.000Z warning reconnecting room=sources camera=dock attempt=3"
        ' why="no answer" path=[1, "a"]\n'
    )


def test_a_json_line_is_one_object(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock, log_format="json")
    get_logger().info("started", models={"a": ("x", None, True)}, broken=float("inf"))
    assert json.loads(out.getvalue()) == {
        "event": "started",
        "level": "info",
        "at": "2023-11-14T22:13:20.000Z",
        "models": {"a": ["x", None, True]},
        "broken": float("inf"),
    }


def test_an_unsynced_clock_is_said(clock: FakeClock) -> None:
    clock.synced = False
    out = io.StringIO()
    configure_logging(stream=out, clock=clock)
    get_logger().info("started")
    assert out.getvalue().endswith("started synced=false\n")


def test_lines_below_the_level_are_not_written(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock, level="warning")
    get_logger().info("quiet")
    standard_logging.getLogger("library").info("quiet too")
    assert out.getvalue() == ""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_secret_passes_in_any_field(clock: FakeClock, log_format: str) -> None:
    out = io.StringIO()
    register_secret('quo"te\\d pässword')
    configure_logging(stream=out, clock=clock, log_format=log_format)  # type: ignore[arg-type]

    class Odd:
        def __str__(self) -> str:
            return 'object with quo"te\\d pässword'

    secret = 'quo"te\\d pässword'
    get_logger().error("x " + secret, a=secret, b=[secret], c={"k": secret}, d=Odd(), e="rtsp://u:p@h/1")
    written = out.getvalue()
    assert "ssword" not in written
    assert "u:p" not in written
    assert written.count("***") == 6


def test_a_flood_is_limited_and_counted(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock, limit=RateLimit(burst=2, period_s=10))
    log = get_logger()
    for attempt in range(50):
        log.warning("reconnecting", camera="dock", attempt=attempt)
    log.warning("reconnecting", camera="yard", attempt=0)
    clock.now_ns = 11 * NS_PER_S
    log.warning("reconnecting", camera="dock", attempt=50)
    lines = out.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].endswith("camera=dock attempt=50 suppressed=48")


def test_records_of_the_standard_logging_take_the_same_road(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock, limit=RateLimit(burst=1, period_s=10))
    library = standard_logging.getLogger("libav.h264")
    library.error("error at %s", "0x1")
    library.error("error at %s", "0x2")
    # Straight to our handler: pytest's own one would raise on a record whose format is broken.
    bridge = standard_logging.getLogger().handlers[-1]
    bridge.handle(standard_logging.LogRecord("x", 50, "x.py", 1, "%d broken", ("format",), None))
    lines = out.getvalue().splitlines()
    assert lines[0].endswith("error   error at 0x1 library=libav.h264")
    assert len(lines) == 2
    assert "%d broken" in lines[1]


def test_configuring_twice_writes_once(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=io.StringIO(), clock=clock)
    configure_logging(stream=out, clock=clock)
    standard_logging.getLogger("x").warning("once")
    assert out.getvalue().count("once") == 1


def test_an_exception_is_one_field_without_a_traceback(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock)
    try:
        raise ValueError("bad\nvalue of rtsp://u:p@h")
    except ValueError:
        get_logger().exception("decoding failed", camera="dock")
    get_logger().error("again", exc_info=KeyError("k"))
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert 'error="ValueError: bad\\nvalue of rtsp://***@h [test_an_exception' in lines[0]
    assert "error=\"KeyError: 'k'\"" in lines[1]


def test_control_characters_cannot_break_a_line_or_drive_the_terminal(clock: FakeClock) -> None:
    out = io.StringIO()
    configure_logging(stream=out, clock=clock)
    get_logger().info("a\x1b[31mb", name="c\nd\x1b")
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().count("\n") == 1


def test_a_stream_that_is_gone_does_not_stop_the_caller(clock: FakeClock) -> None:
    out = io.StringIO()
    out.close()
    configure_logging(stream=out, clock=clock)
    get_logger().info("nobody reads this")


def test_lines_go_to_stderr_by_default(clock: FakeClock, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(clock=clock)
    get_logger().info("hello")
    captured = capsys.readouterr()
    assert "hello" in captured.err
    assert captured.out == ""
