"""The thermal model against physics, against two published curves, and with the governor against without it."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from edge_runtime.health.governor import GovernorSettings
from edge_runtime.health.sustained import shortest_deadline_s
from sim.heat_up import Ambient, Outcome, Work, heat_up, sealed_box
from sim.thermal import (
    STEP_S,
    TOKENS_A_RUN,
    TOKENS_A_SECOND,
    Body,
    Chip,
    Device,
    Throttle,
    floor_phone,
    main,
    runs,
    stepwise_phone,
)

NEVER = Throttle(trip_c=1000.0, release_c=999.0, floor=1.0)


def test_it_settles_where_the_resistances_say() -> None:
    device = Device(Body(4.0, 20.0, 2.0, 5.0), Chip(1000, 1.0, 4.0), NEVER, ambient_c=30.0)
    for _ in range(round(2000 / STEP_S)):
        device.advance(0.5)
    assert device.case_c == pytest.approx(30 + 3.0 * 5.0, abs=0.01)
    assert device.die_c == pytest.approx(30 + 3.0 * 7.0, abs=0.01)


def test_no_heat_is_lost_or_made() -> None:
    """With no way to the air, what went in is what is stored."""
    device = Device(Body(4.0, 20.0, 2.0, 1e12), Chip(1000, 1.0, 4.0), NEVER)
    for _ in range(2000):
        device.advance(1.0)
    stored = 4.0 * (device.die_c - 25) + 20.0 * (device.case_c - 25)
    assert stored == pytest.approx(5.0 * 2000 * STEP_S, rel=1e-6)


def test_power_falls_faster_than_the_clock() -> None:
    chip = Chip(1000, 1.0, 8.0)
    assert chip.watts(1.0, 1.0) == 9.0
    assert chip.watts(0.5, 1.0) < 1.0 + 8.0 * 0.25
    assert chip.watts(1.0, 0.0) == 1.0


def test_the_first_phone_falls_from_40_to_22_6_within_eight_runs_throttled_for_65_percent() -> None:
    device = stepwise_phone()
    first_eight = list(islice(runs(device, TOKENS_A_SECOND, TOKENS_A_RUN), 8))
    assert first_eight[0].rate == pytest.approx(40.0, rel=0.1)
    assert first_eight[-1].rate == pytest.approx(22.6, rel=0.1)
    assert device.throttled_s / device.now_s == pytest.approx(0.65, rel=0.1)
    rates = [round(run.rate, 6) for run in first_eight]
    assert rates == sorted(rates, reverse=True)
    after = list(islice(runs(device, TOKENS_A_SECOND, TOKENS_A_RUN), 12))
    assert after[-1].rate == pytest.approx(22.6, rel=0.1)


def test_a_second_of_rest_gives_nothing_back_and_five_minutes_do() -> None:
    def eighth(rest_s: float) -> float:
        return next(islice(runs(stepwise_phone(), TOKENS_A_SECOND, TOKENS_A_RUN, rest_s), 7, None)).rate

    assert eighth(1.0) == pytest.approx(22.6, rel=0.1)
    assert eighth(1.0) == pytest.approx(eighth(0.0), rel=0.02)
    assert eighth(300.0) > 1.3 * eighth(0.0)


def test_the_second_phone_drops_from_680_to_231_mhz_at_78_3_degrees_after_six_runs() -> None:
    device = floor_phone()
    assert device.mhz == 680
    six = list(islice(runs(device, TOKENS_A_SECOND, TOKENS_A_RUN), 6))
    assert {run.end_mhz for run in six} == {680}
    assert six[-1].end_c == pytest.approx(78.3, rel=0.1)
    hottest = device.die_c
    while device.clock == 1.0:
        device.advance(1.0)
        hottest = max(hottest, device.die_c)
    assert device.now_s == pytest.approx(six[-1].seconds * 6, rel=0.1)
    assert hottest == pytest.approx(78.3, abs=0.5)
    assert device.mhz == pytest.approx(231)
    seventh = next(runs(device, TOKENS_A_SECOND, TOKENS_A_RUN))
    assert seventh.end_mhz == pytest.approx(231, rel=0.1)


def test_a_fan_keeps_the_same_work_below_the_limit() -> None:
    box = sealed_box()
    fan = replace(box.body, fan_k_w=0.8)
    cooled = heat_up(governed=False, device=Device(fan, box.chip, box.throttle))
    assert cooled.throttled_s == 0
    assert cooled.late == 0
    assert fan.to_air_k_w(20.0) == box.body.case_to_air_k_w
    assert fan.to_air_k_w(90.0) == pytest.approx(0.8)


@pytest.fixture(scope="module")
def without() -> Outcome:
    return heat_up(governed=False)


@pytest.fixture(scope="module")
def governed() -> Outcome:
    return heat_up(governed=True)


def test_without_the_governor_the_hardware_throttles_and_events_are_late(without: Outcome) -> None:
    assert without.hottest_c >= 95.0
    assert without.throttled_s > 300
    assert without.late > 1000
    assert without.worst_age_s > Work().deadline_s


def test_with_it_events_keep_their_deadlines_and_the_limit_is_never_reached(governed: Outcome) -> None:
    assert governed.late == 0
    assert governed.throttled_s == 0
    assert governed.hottest_c < 95.0 - GovernorSettings().urgent_margin_c
    assert governed.frames > 0.5 * 30 * 3600
    assert governed.worst_gap_s <= 1 / (30 * 0.25)
    assert governed.changes <= 10


AIRS = {
    "slow": Ambient(-10.0, 55.0, 7200.0),
    "sudden": Ambient(20.0, 60.0, 30.0),
    "hot from the start": Ambient(60.0, 60.0, 1.0),
    "mild": Ambient(25.0, 40.0, 600.0),
}


@pytest.mark.parametrize(
    "air",
    [
        pytest.param(air, id=name, marks=(pytest.mark.trial,) * (name != "sudden"))
        for name, air in AIRS.items()
    ],
)
def test_in_any_air_that_it_can_stand(air: Ambient) -> None:
    outcome = heat_up(governed=True, air=air, seconds=5400)
    assert outcome.late == 0
    assert outcome.throttled_s == 0
    assert outcome.changes <= 24


def test_the_promise_made_at_the_throttled_clock_is_kept_even_without_the_governor(without: Outcome) -> None:
    throttled_hz = 231 / 680 / Work().model_s[0]
    assert without.worst_age_s <= shortest_deadline_s(throttled_hz)
    assert without.worst_age_s > shortest_deadline_s(1 / Work().model_s[0])  # the one made at the peak is not


def test_its_picture_is_the_one_in_the_documentation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = tmp_path / "thermal.svg"
    assert main(["--plot", str(drawn)]) == 0
    assert "680" in capsys.readouterr().out
    kept = Path(__file__).resolve().parents[2] / "docs/img/thermal.svg"
    now, before = curves_of(drawn), curves_of(kept)
    assert len(now) == len(before) == 14
    for new, old in zip(now, before, strict=True):
        assert new == pytest.approx(old, abs=0.5), "run python -m sim.thermal --plot docs/img/thermal.svg"


def curves_of(picture: Path) -> list[list[float]]:
    """The numbers of each curve, in order."""
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    found = (element.get("points", "") for element in root.iter() if element.tag.endswith("polyline"))
    return [[float(number) for number in points.replace(",", " ").split()] for points in found]
