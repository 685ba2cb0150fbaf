"""The picture of docs/health.md: two devices that throttle, a camera that gets hot with and without governor."""

from collections.abc import Iterable
from itertools import islice

from sim.chart import Line, Panel, picture
from sim.heat_up import Outcome, Work, heat_up
from sim.thermal import (
    TOKENS_A_RUN,
    TOKENS_A_SECOND,
    Device,
    Run,
    Sample,
    floor_phone,
    runs,
    stepwise_phone,
)

RED, BLUE, GREEN, GREY = "#b3261e", "#1f5fa8", "#2b7a3d", "#777"
_RUNS = 10
_THIN = 10


def draw() -> str:
    """The SVG."""
    with_governor, without = heat_up(governed=True), heat_up(governed=False)
    limit = 95.0
    deadline_ms = Work().deadline_s * 1000
    hour = 60.0
    return picture(
        [
            _phone("A phone that slows down step by step: 40 to 22.6 tokens/s", stepwise_phone()),
            _phone("A phone that drops to a floor: 680 to 231 MHz at 78.3 °C", floor_phone()),
            Panel(
                "A camera in a sealed box, the air warms from 25 to 55 °C",
                "minutes",
                "die, °C",
                [
                    Line("without governor", _curve(without, "die_c"), RED),
                    Line("with governor", _curve(with_governor, "die_c"), BLUE),
                    Line("hardware limit", [(0, limit), (hour, limit)], GREY, dashed=True),
                ],
                low=20,
                high=100,
            ),
            Panel(
                "Age of the oldest frame in each second",
                "minutes",
                "capture to event, ms",
                [
                    Line("without governor", _ages(without), RED),
                    Line("with governor", _ages(with_governor), BLUE),
                    Line("deadline", [(0, deadline_ms), (hour, deadline_ms)], GREY, dashed=True),
                ],
                low=0,
                high=140,
            ),
            Panel(
                "Frames that are looked at, and the clock that the hardware leaves",
                "minutes",
                "share, %",
                [
                    Line("clock without governor", _percent(without, "clock"), RED),
                    Line("frames with governor", _percent(with_governor, "frame_share"), BLUE),
                ],
                low=0,
                high=100,
            ),
        ]
    )


def _phone(title: str, device: Device) -> Panel:
    trace: list[Sample] = []
    full = device.chip.full_mhz
    done = list(islice(runs(device, TOKENS_A_SECOND, TOKENS_A_RUN, trace=trace), _RUNS))
    return Panel(
        title,
        "seconds; the marks of the rate are the ends of the runs",
        "°C, tokens/s, %",
        [
            Line("die, °C", [(sample.seconds, sample.die_c) for sample in trace], RED),
            Line("tokens/s", list(_steps(done)), GREEN),
            Line("clock, %", [(sample.seconds, 100 * sample.mhz / full) for sample in trace], BLUE),
        ],
        low=0,
        high=100,
    )


def _steps(done: Iterable[Run]) -> Iterable[tuple[float, float]]:
    began = 0.0
    for run in done:
        yield began, run.rate
        began += run.seconds
        yield began, run.rate


def _curve(outcome: Outcome, name: str) -> list[tuple[float, float]]:
    return [(moment.seconds / 60, getattr(moment, name)) for moment in outcome.moments[::_THIN]]


def _percent(outcome: Outcome, name: str) -> list[tuple[float, float]]:
    return [(minutes, 100 * share) for minutes, share in _curve(outcome, name)]


def _ages(outcome: Outcome) -> list[tuple[float, float]]:
    """Worst of each ten seconds: thinning must not hide a late frame."""
    ages = [moment.worst_age_s * 1000 for moment in outcome.moments]
    return [(start / 60, max(ages[start : start + _THIN])) for start in range(_THIN, len(ages), _THIN)]
